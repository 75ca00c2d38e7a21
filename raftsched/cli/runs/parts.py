"""Requests that a node answers part by part: it does a bounded part for each, and says where to go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from raftsched.cli.terminal.progress import Progress


def go_through(
    what: str,
    requests: Iterable[dict[str, Any]],
    ask: Callable[[dict[str, Any]], Any],
    field: str,
    done: str,
    *,
    dry_run: bool,
) -> None:
    """Sends each request until its last part is answered. `field`: the number in an answer of those that it is `done`
    to. Ends the command with 4 when some were refused."""
    matched = count = 0
    refused: list[Any] = []
    line = Progress(what)
    try:
        for request in requests:
            cursor: str | None = None
            while True:
                answer = ask({**request, "cursor": cursor} if cursor else request)
                matched += answer["matched"]
                count += answer[field]
                refused += answer["refused"]
                line.at(matched)
                before, cursor = cursor, answer["next"]
                if not cursor or cursor == before:
                    break
    finally:  # what was done is told, whatever came after it
        line.end()
        click.echo(f"would be {done}: {matched}" if dry_run else f"{done}: {count}")
        for one in refused:
            click.echo(f"raftsched: {one['id']}: {one['detail']}", err=True)
    if refused:
        sys.exit(4)
