"""Lines of documents that call raftsched: whether there is such a command, with such options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile

import click
from click.testing import CliRunner

from raftsched.cli.main import cli

_COMMANDS = "|".join(cli.list_commands(click.Context(cli)))
# A word before may be `raftsched` as well: the name of a container, or of a namespace.
_CALL = re.compile(rf"(?:^|(?<=[\s/;(]))raftsched(?::local)? ((?:{_COMMANDS})\b[^\n|>#;&]*)", re.MULTILINE)
_FENCE = re.compile(r"^```(?:sh|bash)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@cache
def _help(command: tuple[str, ...]) -> str | None:
    result = CliRunner().invoke(cli, [*command, "--help"])
    return result.output if result.exit_code == 0 else None


def unknown_in(line: str) -> list[str]:
    """Returns what raftsched does not know of a line: its command, or some of its options."""
    words = line.split()
    named = tuple(takewhile(lambda word: re.fullmatch(r"[a-z][a-z-]*", word) is not None, words[:3]))
    while named and _help(named) is None:
        named = named[:-1]  # the last one is an argument
    text = _help(named) if named else None
    if text is None or "COMMAND [ARGS]" in text.partition("\n")[0]:
        return [line]
    options = [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2]
    return [option for option in options if not re.search(rf"(?<!\S){re.escape(option)}(?![\w-])", text)]


def calls(page: str) -> Iterator[str]:
    """The calls in the blocks of a page for a shell, without the name of the program."""
    for block in _FENCE.findall(page):
        yield from (found.strip() for found in _CALL.findall(re.sub(r"\\\n\s*", "", block)))
