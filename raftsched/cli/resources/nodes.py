"""`raftsched nodes`: the members as they run jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Group
from raftsched.cli.remote import format_option, remote
from raftsched.cli.resources.resource import Resource, Whole, each_command, get_command, identified, listing, tell
from raftsched.cli.terminal.output import print_rows
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell
from raftsched.errors import Exit
from raftsched.surface.plain import nodes as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_NODES = Resource(addresses.LIST, names.NODE)
_LOOK_S = 0.5


def labels_text(labels: Any) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _slots(node: Mapping[str, Any]) -> str:
    return f"{cell(node.get('running'))}/{cell(node.get('slots'))}" if node.get("runs", True) else "votes only"


_COLUMNS = [
    Column("ID", lambda n: n["id"], "name", 1),
    Column("ROLE", lambda n: n.get("role"), "state", 3),
    Column("ALIVE", lambda n: n.get("alive"), "state", 2),
    Column("DRAINED", lambda n: n["drained"], "state", 5),
    Column("RUNNING", _slots, "number", 4),
    Column("LABELS", lambda n: labels_text(n["labels"]), "text", 8),
    Column("HANDLERS", lambda n: ",".join(n["handlers"]), "text", 9),
    Column("HEARTBEAT", lambda n: n.get("last_heartbeat_at"), "time", 6),
    Column("VERSION", lambda n: n.get("version"), "state", 10),
    Column("TROUBLE", lambda n: n.get("trouble"), "text", 7),
]


@click.group(cls=Group)
def nodes() -> None:
    """The nodes as they run jobs: what runs where, and what may. Membership is changed with 'cluster members'."""


@nodes.command("list")
@listing()
def list_(client: Client, fmt: str, **given: Any) -> None:
    """List the nodes, how many of their slots are taken, their labels, and the handlers that they have.

    \b
      raftsched nodes list
    """
    print_rows(fmt, Whole(client.get(_NODES.path)["items"], given), _COLUMNS, identified, "no nodes")


def _shown(node: Mapping[str, Any]) -> dict[str, Any]:
    session = node["session"]
    state = session and f"{session['id']}, {'open' if session['open'] else 'over'}, since {session['opened_at']}"
    words = {
        "labels": labels_text(node["labels"]),
        "own_labels": labels_text(node["own_labels"]),
        "handlers": ",".join(node["handlers"]),
        "session": state,
    }
    return {**node, **words}


get_command(
    nodes,
    _NODES,
    "NODE",
    """Show a node: also what it was started with (own_slots, own_labels), where something else was said since.

    \b
      raftsched nodes get n2
    """,
    _shown,
    identified,
)


@nodes.command()
@click.argument("node", metavar="NODE")
@click.option("--wait", is_flag=True, help="Until nothing runs there any more.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(0.1), default=600, show_default=True, help="Of --wait."
)
@remote
def drain(client: Client, node: str, wait: bool, timeout: float) -> None:
    """Give a node no new runs, for example before you work on its machine. Its active runs go on to their end.

    It stays drained, also after a restart, until 'nodes undrain'.

    \b
      raftsched nodes drain n2 --wait
    """
    found = client.post(f"{_NODES.path_of(node)}/drain")
    if not wait:
        click.echo(f"drained: {node}, {_still(found)}")
        return
    from raftsched.client.errors import ClientError
    from raftsched.system.clock import SystemClock

    clock = SystemClock()
    until = clock.monotonic() + timeout
    told = ""
    while found["running"]:
        text = f"{node} is drained, {_still(found)}"
        if text != told:
            click.echo(text)
            told = text
        if clock.monotonic() >= until:
            raise Failure(f"{text} after {timeout:g} s", Exit.TIMEOUT)
        time.sleep(_LOOK_S)
        try:
            found = client.get(_NODES.path_of(node))
        except ClientError as error:
            if error.status != 503 and error.code != "unreachable":
                raise
    click.echo(f"drained: {node}, nothing runs there")


def _still(node: Any) -> str:
    count = node["running"]
    return f"{count} {'run' if count == 1 else 'runs'} still under way" if count else "nothing runs there"


def _undrain(client: Client, name: str) -> None:
    client.post(f"{_NODES.path_of(name)}/undrain")
    click.echo(f"undrained: {name}")


each_command(
    nodes,
    "undrain",
    "NODE",
    """Give nodes work again.

    \b
      raftsched nodes undrain n2
    """,
    _undrain,
)


@nodes.command()
@click.argument("node", metavar="NODE")
@click.argument("changes", metavar="KEY=VALUE|KEY-...", nargs=-1)
@click.option("--reset", is_flag=True, help="Back to the labels that the node is started with.")
@format_option
@remote
def label(client: Client, node: str, changes: tuple[str, ...], reset: bool, fmt: str) -> None:
    """Add, change and take out (KEY-) labels of a node; jobs with placement labels run where all of them are.

    From then on the labels that were said here hold, whatever --label the node is started with, until --reset.

    \b
      raftsched nodes label n2 disk=ssd zone-
      raftsched nodes label n2 --reset
    """
    if reset == bool(changes):
        raise click.UsageError("say which labels, such as disk=ssd or disk-, or --reset alone")
    labels = None if reset else _label_changes(changes)
    found = client.request("PATCH", _NODES.path_of(node), body={"labels": labels}, repeatable=True).json()
    tell(fmt, found, f"{node}: {labels_text(found['labels']) or 'no labels'}", identified)


@nodes.command()
@click.argument("node", metavar="NODE")
@click.argument("count", metavar="[COUNT]", type=click.IntRange(1, 10_000), required=False)
@click.option("--reset", is_flag=True, help="Back to the --slots that the node is started with.")
@format_option
@remote
def slots(client: Client, node: str, count: int | None, reset: bool, fmt: str) -> None:
    """Say how many runs a node takes at one time. Where more are under way, nothing new comes until fewer are.

    \b
      raftsched nodes slots n2 16
      raftsched nodes slots n2 --reset
    """
    if reset == (count is not None):
        raise click.UsageError("say how many, or --reset")
    found = client.request("PATCH", _NODES.path_of(node), body={"slots": count}, repeatable=True).json()
    tell(fmt, found, f"{node}: {found['slots']} slots", identified)


def _label_changes(changes: Sequence[str]) -> dict[str, str | None]:
    """Raises a usage error."""
    found: dict[str, str | None] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals and change.endswith("-"):
            key = change[:-1]
        elif not equals:
            raise click.UsageError(f"{change!r} is not a label; write KEY=VALUE to set one, KEY- to take it out")
        if not key:
            raise click.UsageError(f"{change!r} names no label; write KEY=VALUE or KEY-")
        if key in found:
            raise click.UsageError(f"the label {key!r} is given twice; give it once")
        found[key] = value if equals else None
    return found
