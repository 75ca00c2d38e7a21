"""`raftsched version`: the same as `raftsched --version`, where people look for it."""

from __future__ import annotations

import click

from raftsched.cli.lazy import Command
from raftsched.version import described


@click.command(cls=Command)
def version() -> None:
    """Show the version of this program, and the commit that it was built of, where that is known.

    \b
      raftsched version
    """
    click.echo(f"raftsched {described()}")
