"""`raftsched backup list`."""

from __future__ import annotations

from typing import Any

import click

from raftsched.cli.backup.place import endpoint_option, place_argument, repository
from raftsched.cli.remote import format_option
from raftsched.cli.terminal.output import Column, print_rows
from raftsched.quantities import size_text

_COLUMNS: list[Column] = [
    ("CLUSTER", lambda s: s["cluster"][:8]),
    ("FROM ENTRY", lambda s: s["first"]),
    ("FROM", lambda s: s["from"]),
    ("TO ENTRY", lambda s: s["last"]),
    ("TO", lambda s: s["to"]),
    ("FULL", lambda s: len(s["full"])),
    ("SEGMENTS", lambda s: s["segments"]),
    ("SIZE", lambda s: size_text(s["size"])),
]


@click.command("list")
@place_argument
@endpoint_option
@format_option
def list_points(place: str, endpoint: str | None, fmt: str) -> None:
    """Show which points in time PLACE can restore. Between two lines of one cluster nothing is kept.

    FULL and SEGMENTS are how many files the points are made of. Names alone are read; 'raftsched backup verify' looks
    into them.

    \b
      raftsched backup list /mnt/backups
      raftsched backup list s3://vault/raftsched -o json | jq '.items[-1].to'
    """
    from raftsched.backups.repository import time_text

    rows: list[dict[str, Any]] = []
    with repository(place, endpoint) as found:
        for cluster, points in sorted(found.clusters().items()):
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
    print_rows(fmt, rows, _COLUMNS, lambda s: f"{s['cluster']}:{s['first']}-{s['last']}", empty)
