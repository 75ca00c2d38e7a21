"""`raftsched audit`: who asked for what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.output import Column, cell, print_rows
from raftsched.cli.remote import check_namespace
from raftsched.cli.resource import listing, rows

if TYPE_CHECKING:
    from raftsched.client.http import Client


def _about(record: Mapping[str, Any]) -> str:
    """The job by its name, or the address."""
    if record["job"]:
        text = f"{record['namespace']}/{record['job']}"
    else:
        text = record["resource"] or record["subject"] or "-"
    return text if record["count"] == 1 else f"{text} and {record['count'] - 1} more"


_COLUMNS: list[Column] = [
    ("AT", lambda r: r["at"]),
    ("INDEX", lambda r: r["index"]),
    ("ACTOR", lambda r: r["actor"]),
    ("OPERATION", lambda r: r["operation"]),
    ("ABOUT", _about),
    ("FROM", lambda r: r["remote"]),
]


@click.command()
@click.option("--actor", metavar="NAME", help="By whose token: its name or id; anonymous: nobody who showed one.")
@click.option("--resource", metavar="WHAT", help="Such as queues, tokens, an address, or the id of a job.")
@click.option("--operation", metavar="ID", help="Such as queues_put, as /openapi.json names them.")
@click.option("--namespace", "-N", metavar="NS", help="In this namespace.")
@click.option("--kind", type=click.Choice(["change", "work"]), help="Only changes, or only work that was handed in.")
@click.option("--from", "from_", metavar="TIME", help="From this time on, such as 2030-01-31T00:00:00Z.")
@click.option("--to", metavar="TIME", help="Before this time.")
@listing()
def audit(client: Client, fmt: str, from_: str | None, namespace: str | None, **given: Any) -> None:
    """List who asked for what, and it was done; the newest first.

    Jobs that are created and runs that are asked for are in it when they came with a token; many at one moment are one
    line.

    \b
      raftsched audit
      raftsched audit --actor web-ci --from 2030-01-31T00:00:00Z
      raftsched audit --resource queues
    """
    query = {name: given.pop(name) for name in ("actor", "resource", "operation", "kind", "to")}
    query |= {"from": from_, "namespace": check_namespace(namespace) if namespace else None}
    print_rows(
        fmt, rows(client, "/v1/audit", given, query), _COLUMNS, lambda r: cell(r["index"]), "nothing was asked for"
    )
