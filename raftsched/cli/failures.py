"""Ends a command with an error: one line for the user, and an exit code."""

from __future__ import annotations

from typing import Any

import click

from raftsched.errors import Exit, RaftschedError


class Failure(click.ClickException):
    """An error that ends the command: one line on stderr (more for several wrong fields), and this exit code."""

    def __init__(self, message: str, code: int = Exit.ERROR) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]

    def show(self, file: Any = None) -> None:
        click.echo(f"raftsched: {self.message}", err=True)


def failure(error: RaftschedError) -> Failure:
    """Returns the failure that a user sees of an error."""
    from raftsched.client.errors import ClientError
    from raftsched.errors import KINDS

    if isinstance(error, ClientError):
        lines = [
            error.detail,
            *(f"  {e.pointer or '/'}: {e.detail}" for e in error.errors if len(error.errors) > 1),
        ]
        if error.status == 401 and error.code != "locked":
            lines.append("say who asks: RAFTSCHED_TOKEN, --token, or a context that has one (contexts set, login)")
        return Failure("\n".join(lines), error.exit)
    kind = KINDS.get(error.code)
    return Failure(error.detail, kind.exit if kind is not None else Exit.ERROR)
