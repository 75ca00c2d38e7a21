"""Printing: JSON for programs, aligned columns into pipes and files, a table that fits onto a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from raftsched.cli.terminal.table import Column, Look

TOKEN = "raftsched.token"  # the key of what --token said in the context of a command  # nosec B105
TOKEN_OF_CONTEXT = "raftsched.token.context"  # what --context has, for its own servers  # nosec B105
TRUST = "raftsched.trust"  # what --ca-file and its like said, beside a command's own
TRUST_OF_CONTEXT = "raftsched.trust.context"
FORMAT = "raftsched.format"  # in the context of a command: what -o said, where a command knows it as another format
FORMATS = {"table": "table", "wide": "table", "json": "json", "jsonl": "json", "yaml": "json", "name": "name"}

_WITHOUT_STYLES = ("dumb", "unknown")  # as TERM


def said_format() -> str:
    """Returns what -o said of the command that runs: "wide", "jsonl", "yaml"; else empty."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.meta.get(FORMAT, "")


def print_json(value: Any) -> None:
    """Prints JSON, YAML where `-o yaml` was given, and an object a line where `-o jsonl` was."""
    said = said_format()
    if said == "yaml":
        from raftsched.importers.yaml_text import yaml_text

        click.echo(yaml_text(value).rstrip("\n"))
    elif said == "jsonl":
        listed = value.get("items") if isinstance(value, Mapping) else value
        for one in listed if isinstance(listed, list) else [value]:
            click.echo(json.dumps(one, ensure_ascii=False))
    else:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_for_programs(fmt: str, value: Any, *names: str) -> bool:
    """Prints JSON, or the names, where -o asks for it; False: it is people who read."""
    if fmt == "json":
        print_json(value)
    elif fmt == "name":
        for name in names:
            click.echo(name)
    return fmt in ("json", "name")


def print_rows(
    fmt: str,
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[Column],
    name: Callable[[Mapping[str, Any]], str],
    empty: str,
) -> None:
    """Prints a list as -o asks for it, while it comes. `empty` goes to stderr when there is nothing, so that pipes stay
    clean; so does what a list that was cut has to say of it (`Listed.cut`)."""
    if fmt == "name":
        for row in rows:
            click.echo(name(row))
    elif fmt == "json":
        _print_items(rows)
    else:
        coming = iter(rows)
        first = next(coming, None)
        if first is None:
            notice(empty)
        else:
            print_table(columns, chain((first,), coming))
    cut = getattr(rows, "cut", None)
    if cut is not None and (said := cut(fmt)):
        notice(said)


def _print_items(rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints a list for programs. JSON is written as it comes, so that a long list is never held as a whole."""
    said = said_format()
    if said == "jsonl":
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif said == "yaml":
        print_json({"items": list(rows), "next": getattr(rows, "next", None)})
    else:
        comma = ""
        click.echo('{\n  "items": [', nl=False)
        for row in rows:
            lines = json.dumps(row, indent=2, ensure_ascii=False).replace("\n", "\n    ")
            click.echo(f"{comma}\n    {lines}", nl=False)
            comma = ","
        end = "\n  ]" if comma else "]"
        click.echo(f'{end},\n  "next": {json.dumps(getattr(rows, "next", None))}\n}}')


def print_table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints a table for people: one that fits onto a terminal; whole with `-o wide`, and elsewhere."""
    from raftsched.cli.terminal import table

    print_lines(table.table_lines(columns, rows, look()))


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines that may have colours, which click takes out of what goes into a pipe."""
    for line in lines:
        click.echo(line, color=True)


def print_prose(text: str) -> None:
    """Prints sentences, on a terminal in its width, cut between words."""
    from raftsched.cli.terminal.table import fold

    room = width()
    for line in text.split("\n"):
        for piece in [line] if room is None else fold(line, room):
            click.echo(piece)


def look() -> Look:
    """Returns how a table is to be shown here. NO_COLOR takes the colours out (no-color.org), CLICOLOR=0 does too;
    FORCE_COLOR and CLICOLOR_FORCE bring them into a pipe (force-color.org, bixense.com/clicolors)."""
    from raftsched.cli.terminal.table import Look

    terminal = sys.stdout.isatty()
    forced = bool(os.environ.get("FORCE_COLOR")) or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    without = bool(os.environ.get("NO_COLOR")) or (os.environ.get("CLICOLOR") == "0" and not forced)
    bold = (terminal and os.environ.get("TERM") not in _WITHOUT_STYLES) or (forced and not without)
    return Look(width(), now_ms(), bold, bold and not without)


def width() -> int | None:
    """Returns the columns that what is printed may take; None: as many as it needs."""
    if not sys.stdout.isatty() or said_format() == "wide":
        return None
    import shutil

    return shutil.get_terminal_size().columns


def now_ms() -> int | None:
    """Returns the time by which times are told ("3 min ago"); None: they are told as they are."""
    if not sys.stdout.isatty() or said_format() == "wide":
        return None
    from raftsched.system.clock import SystemClock

    return SystemClock().wall_ms()


def notice(text: str) -> None:
    """Tells something beside what is printed, on stderr; in the picture of --watch below it."""
    click.echo(text, err=not getattr(sys.stdout, "takes_notices", False))


def print_fields(fields: Mapping[str, Any]) -> None:
    """Prints a thing, a line for each of its fields. On a terminal times and durations are told in words, too."""
    from raftsched.cli.terminal.values import cell

    width, now = max(len(name) for name in fields), now_ms()
    for name, value in fields.items():
        click.echo(f"{name.ljust(width)}  {cell(value)}{_words(name, value, now)}".rstrip())


def _words(name: str, value: Any, now: int | None) -> str:
    if now is None or not value:
        return ""
    from raftsched.cli.terminal.values import text_of, when_text

    if name.endswith(("_at", "_since", "_until")) and isinstance(value, str):
        words = when_text(value, now)
        return "" if words == value else f" ({words})"
    if name.endswith("_ms") and isinstance(value, int | float) and abs(value) >= 1_000:
        return f" ({text_of(value, 'duration')})"
    if name.endswith("_bytes") and isinstance(value, int) and value >= 1_000:
        return f" ({text_of(value, 'size')})"
    return ""
