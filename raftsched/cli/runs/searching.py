"""`raftsched runs grep`: what was found in output, as it comes."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.terminal.output import print_json
from raftsched.cli.terminal.values import shown
from raftsched.errors import Exit
from raftsched.quantities import parse_duration
from raftsched.surface.plain import output
from raftsched.system.clock import SystemClock

if TYPE_CHECKING:
    from raftsched.client.http import Client


def ago(text: str) -> str:
    """Returns the time that was so long ago (RFC 3339). Raises a usage error."""
    try:
        ms = parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"--since {text!r} {error}") from None
    at = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC) - timedelta(milliseconds=ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def search(client: Client, query: dict[str, Any], limit: int, fmt: str) -> None:
    """Prints what holds the text, of so many attempts at most; the exit code says whether all was read."""
    found: list[dict[str, Any]] = []
    silent: dict[str, list[Any]] = {}
    cursor: str | None = None
    while len(found) < limit:
        part = client.get(output.SEARCH, {**query, "limit": limit - len(found), "cursor": cursor})
        for item in part["items"]:
            found.append(item)
            _print(item, fmt)
        for one in part["silent"]:
            before = silent.get(one["node"], [0, ""])
            silent[one["node"]] = [before[0] + one["outputs"], one["detail"]]
        cursor = part["next"]
        if cursor is None:
            break
    if fmt == "json":
        print_json(found)
    elif cursor is not None:
        click.echo(f"--limit {limit} is reached; there may be more", err=True)
    for node, (outputs, detail) in sorted(silent.items()):
        click.echo(f"{outputs} outputs on {node} were not searched: {detail}", err=True)
    if silent or not found:
        sys.exit(Exit.UNAVAILABLE if silent else Exit.ERROR)


def _print(item: dict[str, Any], fmt: str) -> None:
    if fmt == "json":
        return
    if fmt == "name":
        click.echo(item["instance_id"])
        return
    place = f"{item['instance_id']} {item['attempt']}"
    for line in item["lines"]:
        click.echo(f"{place}:{line['line']}: {shown(line['text'])}")
    if item["more"]:
        click.echo(f"{place}: more lines hold it")
