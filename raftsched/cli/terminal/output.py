"""Printing: JSON for programs, aligned columns into pipes and files, a table in colours only onto a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

Column = tuple[str, Callable[[Mapping[str, Any]], Any]]

TOKEN = "raftsched.token"  # the key of what --token said in the context of a command  # nosec B105
TOKEN_OF_CONTEXT = "raftsched.token.context"  # what --context has, for its own servers  # nosec B105
TRUST = "raftsched.trust"  # what --ca-file and its like said, beside a command's own
TRUST_OF_CONTEXT = "raftsched.trust.context"
YAML = "raftsched.yaml"  # in the context of a command: what is printed for programs is YAML


def cell(value: Any) -> str:
    """Returns the text of a value in a table: "-" for nothing, always one line."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else " " for c in text)


def shown(text: str) -> str:
    """Text of programs and of other people, in its lines, without commands for the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def print_json(value: Any) -> None:
    """Prints JSON, or YAML where `-o yaml` was given."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(YAML):
        from raftsched.importers.yaml_text import yaml_text

        click.echo(yaml_text(value).rstrip("\n"))
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
    """`empty` goes to stderr when there is nothing, so that pipes stay clean."""
    if fmt == "name":
        for row in rows:
            click.echo(name(row))
        return
    found = list(rows)
    if fmt == "json":
        print_json({"items": found})
    elif not found:
        click.echo(empty, err=True)
    else:
        print_table([title for title, _ in columns], [[cell(get(row)) for _, get in columns] for row in found])


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    rows = [[shown(text) for text in row] for row in rows]
    if sys.stdout.isatty():
        import shutil

        from raftsched.cli.terminal.table import table_lines

        for line in table_lines(titles, rows, shutil.get_terminal_size().columns):
            click.echo(line)
        return
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]
    for row in [titles, *rows]:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def print_fields(fields: Mapping[str, Any]) -> None:
    """Prints a thing, a line for each of its fields."""
    width = max(len(name) for name in fields)
    for name, value in fields.items():
        click.echo(f"{name.ljust(width)}  {cell(value)}".rstrip())
