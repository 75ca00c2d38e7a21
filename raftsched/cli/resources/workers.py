"""`raftsched workers`: machines that work without voting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.lazy import Group
from raftsched.cli.resources.nodes import labels_text
from raftsched.cli.resources.resource import Resource, listing, named, rows, viewing
from raftsched.cli.terminal.output import print_fields, print_for_programs, print_rows, print_table
from raftsched.cli.terminal.table import Column
from raftsched.surface.plain import workers as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_WORKERS = Resource(addresses.LIST, names.WORKER)


def _served(found: Sequence[str] | None) -> str:
    return "all" if found is None else ",".join(found)


_COLUMNS = [
    Column("NAME", lambda w: w["name"], "name", 1),
    Column("RUNNING", lambda w: f"{w['running']}/{w['slots']}", "number", 2),
    Column("QUEUES", lambda w: _served(w["queues"]), "text", 5),
    Column("NAMESPACES", lambda w: _served(w["namespaces"]), "text", 6),
    Column("LABELS", lambda w: labels_text(w["labels"]), "text", 8),
    Column("HANDLERS", lambda w: ",".join(w["handlers"]), "text", 9),
    Column("HEARTBEAT", lambda w: w.get("last_heartbeat_at"), "time", 3),
    Column("QUIET SINCE", lambda w: w.get("quiet_since"), "time", 4),
    Column("VERSION", lambda w: w.get("version"), "state", 10),
    Column("TROUBLE", lambda w: w.get("trouble"), "text", 7),
]


_RUNS = [
    Column("ID", lambda r: r["id"], "id", 1),
    Column("TOKEN", lambda r: r["token"], "number", 3),
    Column("STARTED", lambda r: r["started_at"], "time", 2),
]


@click.group(cls=Group)
def workers() -> None:
    """Remote workers: machines that run jobs and take no part in the quorum. 'nodes' are those that do."""


@workers.command("list")
@listing()
def list_(client: Client, fmt: str, **given: Any) -> None:
    """List the workers that have a session, how many of their slots are taken, and what they serve.

    \b
      raftsched workers list
    """
    print_rows(fmt, rows(client, _WORKERS.path, given), _COLUMNS, named, "no remote workers")


@workers.command()
@click.argument("worker", metavar="WORKER")
@viewing
def get(client: Client, worker: str, fmt: str) -> None:
    """Show a worker and what it runs.

    \b
      raftsched workers get gpu-1
    """
    found: dict[str, Any] = client.get(_WORKERS.path_of(worker))
    if print_for_programs(fmt, found, found["name"]):
        return
    print_fields(_shown(found))
    if found["runs"]:
        click.echo()
        print_table(_RUNS, found["runs"])


def _shown(worker: Mapping[str, Any]) -> dict[str, Any]:
    words = {
        "labels": labels_text(worker["labels"]),
        "queues": _served(worker["queues"]),
        "namespaces": _served(worker["namespaces"]),
        "handlers": ",".join(worker["handlers"]),
    }
    return {k: v for k, v in {**worker, **words}.items() if k not in ("runs", "runs_left_out")}
