"""`raftsched workers`: machines that work without voting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.resources.nodes import labels_text
from raftsched.cli.resources.resource import Resource, listing, named, rows, viewing
from raftsched.cli.terminal.output import Column, print_fields, print_for_programs, print_rows, print_table
from raftsched.surface.plain import workers as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_WORKERS = Resource(addresses.LIST, names.WORKER)


def _served(found: Sequence[str] | None) -> str:
    return "all" if found is None else ",".join(found)


_COLUMNS: list[Column] = [
    ("NAME", lambda w: w["name"]),
    ("RUNNING", lambda w: f"{w['running']}/{w['slots']}"),
    ("QUEUES", lambda w: _served(w["queues"])),
    ("NAMESPACES", lambda w: _served(w["namespaces"])),
    ("LABELS", lambda w: labels_text(w["labels"])),
    ("HANDLERS", lambda w: ",".join(w["handlers"])),
    ("HEARTBEAT", lambda w: w.get("last_heartbeat_at")),
    ("QUIET SINCE", lambda w: w.get("quiet_since")),
    ("VERSION", lambda w: w.get("version")),
    ("TROUBLE", lambda w: w.get("trouble")),
]


@click.group()
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
        names_of = ("id", "token", "started_at")
        lines = [["-" if run[name] is None else str(run[name]) for name in names_of] for run in found["runs"]]
        print_table([name.upper().replace("_", " ") for name in names_of], lines)


def _shown(worker: Mapping[str, Any]) -> dict[str, Any]:
    words = {
        "labels": labels_text(worker["labels"]),
        "queues": _served(worker["queues"]),
        "namespaces": _served(worker["namespaces"]),
        "handlers": ",".join(worker["handlers"]),
    }
    return {k: v for k, v in {**worker, **words}.items() if k not in ("runs", "runs_left_out")}
