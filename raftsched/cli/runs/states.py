"""The option --state of lists: one state or several, repeated or separated by commas, in any case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def state_option(known: Sequence[str], words: str = "In one of these states; may be repeated.") -> Callable[[_F], _F]:
    """Gives the command `state`: the states as the API takes them, "A,B", or None when none was named."""

    def joined(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
        states = [state.strip().upper() for some in given for state in some.split(",")]
        for state in states:
            if state not in known:
                raise click.BadParameter(f"{state!r} is no state; use one or more of {', '.join(known)}")
        return ",".join(dict.fromkeys(states)) or None

    def completions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.upper().rpartition(",")
        return [before + comma + state for state in known if state.startswith(last)]

    return click.option(
        "--state", metavar="STATE[,STATE]", multiple=True, callback=joined, shell_complete=completions, help=words
    )
