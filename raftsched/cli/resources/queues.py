"""`raftsched queues`: queues with limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.lazy import Group
from raftsched.cli.remote import format_option, remote
from raftsched.cli.resources.resource import (
    Resource,
    delete_command,
    each_command,
    get_command,
    list_command,
    put_or_patch,
    tell,
)
from raftsched.cli.terminal.table import Column
from raftsched.surface.plain import queues as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_QUEUES = Resource(addresses.LIST, names.QUEUE)
_RATE = re.compile(r"([0-9]{1,9})/(.+)", re.ASCII)
_NONE = "none"


def _limits(queue: Any) -> str:
    """Such as "3 at one time, 10/1m"."""
    found = []
    if queue.get("max_running") is not None:
        found.append(f"{queue['max_running']} at one time")
    if queue.get("rate"):
        found.append(f"{queue['rate']['count']}/{queue['rate']['per']}")
    return ", ".join(found)


def _waiting(queue: Any) -> str:
    return f"{queue['waiting']}{'' if queue['waiting_exact'] else '+'}"


_COLUMNS = [
    Column("NAME", lambda q: q["name"], "name", 1),
    Column("LIMITS", _limits, "text", 5),
    Column("PAUSED", lambda q: q["paused"], "state", 6),
    Column("RUNNING", lambda q: q["running"], "number", 3),
    Column("WAITING", _waiting, "number", 4),
    Column("SHUT", lambda q: q.get("shut"), "state", 2),
]


@click.group(cls=Group)
def queues() -> None:
    """Queues with limits: so many runs at one time, so many starts in a period, or none while it is paused.

    A job names its queue ("default" when it names none). Any name will do; a queue that has no limits needs no
    entry here.
    """


list_command(
    queues,
    _QUEUES,
    _COLUMNS,
    "no queue has limits",
    """List the queues that have limits.

    WAITING counts runs that could start but for the limits and for free slots; 100+ are more than that. SHUT says
    why nothing more may start now: paused, full, or rate.

    \b
      raftsched queues list
    """,
)


def _shown(queue: Mapping[str, Any]) -> dict[str, Any]:
    rate = queue["rate"] and f"{queue['rate']['count']}/{queue['rate']['per']}"
    shown = {**queue, "rate": rate, "waiting": _waiting(queue)}
    del shown["waiting_exact"]
    return shown


get_command(
    queues,
    _QUEUES,
    "QUEUE",
    """Show a queue: its limits, what runs and what waits in it.

    \b
      raftsched queues get reports
    """,
    _shown,
)


@queues.command("set")
@click.argument("queue", metavar="QUEUE")
@click.option("--max-running", metavar="N", help="So many runs at one time; 'none' for no such limit.")
@click.option("--rate", metavar="COUNT/PERIOD", help="So many starts in each period, such as 10/1m; or 'none'.")
@format_option
@remote
def set_(client: Client, queue: str, max_running: str | None, rate: str | None, fmt: str) -> None:
    """Give a queue limits, or change those that are named.

    Active runs go on; the limits hold for runs that start from now on.

    \b
      raftsched queues set reports --max-running 3
      raftsched queues set mails --rate 100/1m --max-running none
    """
    change: dict[str, Any] = {}
    if max_running is not None:
        change["max_running"] = None if max_running == _NONE else _whole("--max-running", max_running)
    if rate is not None:
        change["rate"] = None if rate == _NONE else read_rate(rate)
    if not change:
        raise click.UsageError("say what to set: --max-running N, --rate COUNT/PERIOD, or 'none' for one of them")
    found = put_or_patch(client, _QUEUES, queue, change)
    tell(fmt, found, f"{found['name']}: {_limits(found) or 'no limits'}{', paused' if found['paused'] else ''}")


def _pause(client: Client, name: str) -> None:
    put_or_patch(client, _QUEUES, name, {"paused": True})
    click.echo(f"paused: {name}")


each_command(
    queues,
    "pause",
    "QUEUE",
    """Start no more runs of these queues; active runs go on, and due ones wait.

    \b
      raftsched queues pause reports mails
    """,
    _pause,
)


def _resume(client: Client, name: str) -> None:
    client.request("PATCH", _QUEUES.path_of(name), body={"paused": False}, repeatable=True)
    click.echo(f"resumed: {name}")


each_command(
    queues,
    "resume",
    "QUEUE",
    """Start the runs that wait in these queues.

    \b
      raftsched queues resume reports
    """,
    _resume,
)


delete_command(
    queues,
    _QUEUES,
    "QUEUE",
    """Remove the limits of these queues; their waiting runs go on without.

    \b
      raftsched queues delete reports
    """,
    "without limits",
)


def _whole(option: str, text: str) -> int:
    """Raises a usage error."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise click.UsageError(f"{option} {text!r} is not a number; write a whole number, or 'none'")
    return int(text)


def read_rate(text: str, option: str = "--rate", none: str = ", or 'none'") -> dict[str, Any]:
    """Parses COUNT/PERIOD. Raises a usage error."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise click.UsageError(f"{option} {text!r} is not a rate; write a count and a period such as 10/1m{none}")
    period = match[2]
    return {"count": int(match[1]), "per": period if period[0].isdigit() or period[0] == "P" else f"1{period}"}
