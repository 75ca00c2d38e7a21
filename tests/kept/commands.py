"""`--help` of every command, as text of a fixed width."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

WIDTH = 100
NAME = "raftsched"
ROOT = Path(__file__).parents[2]


def text() -> str:
    """Returns all of it. It is made by a process of its own: click keeps how --help was first called in this one."""
    done = subprocess.run([sys.executable, "-m", __name__], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    """Yields those of a command and of what is below it, in the order in which it lists them."""
    made = command.make_context(name, [], parent, resilient_parsing=True, terminal_width=WIDTH)
    with made:
        yield f"$ {made.command_path} --help\n{command.get_help(made)}"
        if isinstance(command, click.Group):
            for below in command.list_commands(made):
                found = command.get_command(made, below)
                assert found is not None, f"{made.command_path} lists {below}"
                yield from _helps(found, below, made)


if __name__ == "__main__":
    from raftsched.cli.main import cli

    print("\n\n".join(_helps(cli, NAME, None)))
