"""`raftsched jobs minutes`: what runs came to over the last day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.lazy import Command
from raftsched.cli.resources.resource import viewing
from raftsched.cli.terminal.output import print_json, print_rows
from raftsched.cli.terminal.table import Column
from raftsched.surface.plain import enums, statistics

if TYPE_CHECKING:
    from raftsched.client.http import Client

STEPS = {"1m": 60, "5m": 300, "15m": 900, "1h": 3_600}  # in seconds
_COUNTS = ("started", "restarted", "succeeded", "failed", "killed", "skipped", "late", "late_max_ms")
_COLUMNS = [
    Column("FROM", lambda row: row["from"], "id", 1),
    Column("STARTED", lambda row: row["started"], "number", 4),
    Column("RESTARTED", lambda row: row["restarted"], "number", 8),
    Column("SUCCEEDED", lambda row: row["succeeded"], "number", 2),
    Column("FAILED", lambda row: row["failed"], "number", 3),
    Column("KILLED", lambda row: row["killed"], "number", 9),
    Column("SKIPPED", lambda row: row["skipped"], "number", 7),
    Column("LATE", lambda row: row["late"], "number", 5),
    Column("LATEST", lambda row: row["late_max_ms"], "duration", 6),
]


@click.command(cls=Command)
@click.option(
    "--step",
    type=click.Choice(enums.STEP_NAME),
    default="1h",
    show_default=True,
    help="The length of a step: one line each.",
)
@click.option("--namespace", "-N", metavar="NS", help="Of this namespace.  [default: of all]")
@click.option("--from", "start", metavar="TIME", help="From this time on.  [default: 24 hours before the end]")
@click.option("--to", "end", metavar="TIME", help="Up to this time.  [default: now]")
@viewing
def minutes(client: Client, fmt: str, step: str, namespace: str | None, start: str | None, end: str | None) -> None:
    """Count the runs of the last day. Lines without runs are left out.

    STARTED are runs, by their first attempt that started, RESTARTED later starts; FAILED those that failed or timed
    out for good; LATE are first starts more than a second after their due time, LATEST is how late the latest was.

    \b
      raftsched jobs minutes
      raftsched jobs minutes --namespace billing --step 5m
    """
    found = client.get(statistics.MINUTES, {"step": step, "namespace": namespace, "from": start, "to": end})
    if fmt == "json":
        print_json(found)
    else:
        print_rows(fmt, _rows(found), _COLUMNS, lambda row: str(row["from"]), "nothing ran")


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each step in which something happened."""
    first, step = datetime.fromisoformat(found["from"]), timedelta(seconds=STEPS[found["step"]])
    rows = []
    for i, counts in enumerate(zip(*(found[name] for name in _COUNTS), strict=True)):
        if any(counts):
            at = (first + i * step).isoformat().replace("+00:00", "Z")
            rows.append({"from": at, **dict(zip(_COUNTS, counts, strict=True))})
    return rows
