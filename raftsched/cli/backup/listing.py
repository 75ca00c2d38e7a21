"""`raftsched backup list`."""

from __future__ import annotations

from typing import Any

import click

from raftsched.cli.backup.place import (
    endpoint_option,
    place_argument,
    repository,
    stranded_json,
    tell_stranded,
)
from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option
from raftsched.cli.terminal.output import print_json, print_rows
from raftsched.cli.terminal.table import Column

_COLUMNS = [
    Column("CLUSTER", lambda s: s["cluster"][:8], "id", 1),
    Column("FROM ENTRY", lambda s: s["first"], "number", 5),
    Column("FROM", lambda s: s["from"], "time", 3),
    Column("TO ENTRY", lambda s: s["last"], "number", 6),
    Column("TO", lambda s: s["to"], "time", 2),
    Column("FULL", lambda s: len(s["full"]), "number", 7),
    Column("SEGMENTS", lambda s: s["segments"], "number", 8),
    Column("SIZE", lambda s: s["size"], "size", 4),
]


@click.command("list", cls=Command)
@place_argument
@endpoint_option
@format_option
def list_points(place: str, endpoint: str | None, fmt: str) -> None:
    """Show which points in time PLACE can restore. Between two lines of one cluster there is none.

    FULL and SEGMENTS are how many files the points are made of. Names alone are read; 'raftsched backup verify' looks
    into them. Entries of the log that are kept and that nothing leads to, since what is before them is missing, are
    named on stderr ("stranded" with -o json): a copy of what is missing brings them back.

    \b
      raftsched backup list /mnt/backups
      raftsched backup list s3://vault/raftsched -o json | jq '.items[-1].to'
    """
    from raftsched.backups.repository import time_text

    rows: list[dict[str, Any]] = []
    stranded: list[dict[str, Any]] = []
    with repository(place, endpoint) as found:
        clusters = sorted(found.clusters().items())
        for cluster, points in clusters:
            stranded += [{"cluster": cluster, **one} for one in stranded_json(points)]
            for stretch in points.stretches():
                full = [one for one in points.fulls if stretch.first <= one.index <= stretch.last]
                log = [one for one in points.segments if stretch.first < one.last <= stretch.last]
                rows.append(
                    {
                        "cluster": cluster,
                        "first": stretch.first,
                        "from": time_text(stretch.from_ms),
                        "last": stretch.last,
                        "to": time_text(stretch.to_ms),
                        "full": [{"index": one.index, "time": time_text(one.at_ms), "key": one.key} for one in full],
                        "segments": len(log),
                        "size": sum(one.size for one in full) + sum(one.size for one in log),
                    }
                )
        empty = f"{found.where} holds no backups"
    if fmt == "json":
        print_json({"items": rows, "stranded": stranded})
    else:
        print_rows(fmt, rows, _COLUMNS, lambda s: f"{s['cluster']}:{s['first']}-{s['last']}", empty)
    for cluster, points in clusters:
        tell_stranded(cluster, points)
