"""`raftsched cluster members`: who belongs to the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.cluster.views import each_view, lost_in
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Listing
from raftsched.cli.remote import options, remote
from raftsched.cli.resources.resource import viewing
from raftsched.cli.terminal.output import print_for_programs, print_table
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell
from raftsched.client.wire import at
from raftsched.errors import Exit
from raftsched.lost_majority import ELSE, lost_majority
from raftsched.surface.plain import cluster as addresses

if TYPE_CHECKING:
    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client

_LOOK_S = 0.5
_SAY_S = 2.0  # how often progress is told at most
_SAY_AGAIN_S = 15.0  # and how often what is the same as before
_COLUMNS = [
    Column("ID", lambda m: m["id"], "name", 1),
    Column("VOTES", lambda m: m.get("voter"), "state", 3),
    Column("RAFT", lambda m: m.get("raft"), "text", 4),
    Column("HTTP", lambda m: m.get("http"), "text", 5),
    Column("ALIVE", lambda m: m.get("alive"), "state", 2),
    Column("LAG", lambda m: m.get("lag"), "number", 6),
]


@click.group(cls=Listing, short_help="List, add, replace, remove members.")
def members() -> None:
    """List, add, replace and remove members of the cluster, one change at a time.

    A new member is sent everything first, and votes by itself as soon as it has caught up. An odd number of voting
    members is best: three keep working when one is lost, five when two are.

    \b
    To grow: start the new node with an empty data directory, --join, and addresses of some members; then add it.
      raftsched node --id n4 --data /var/lib/raftsched --http 10.0.0.4:7401 --raft 10.0.0.4:7501 \\
        --cluster-key-file KEY --join --peers n1=10.0.0.1:7501,n2=10.0.0.2:7501,n3=10.0.0.3:7501
      raftsched cluster members add n4 --wait

    \b
    When the disk of n3 is lost or damaged, and the others are well: empty its data directory, start it as always.
      rm -r /var/lib/raftsched/*       (on n3, while it is stopped)
      raftsched cluster members replace n3 --wait

    \b
    To shrink: remove it, then stop it. When it leads, leadership is handed over first.
      raftsched cluster members remove n4
    """


@members.command("list")
@viewing
def list_(client: Client, fmt: str) -> None:
    """List the members, and the nodes that ask to be let in.

    LAG is how many committed entries of the log a member is known to lack; '-' where that is not known.

    \b
      raftsched cluster members
      raftsched cluster members list -o json | jq -r '.waiting[].id'
    """
    answer = client.get(addresses.MEMBERS)
    if not print_for_programs(fmt, answer, *(member["id"] for member in answer["items"])):
        print_table(_COLUMNS, answer["items"])
        tell_moved(answer["items"])
        tell_waiting(answer["waiting"], [] if not answer["waiting"] else each_view(client))


def tell_moved(nodes: list[dict[str, Any]]) -> None:
    """Prints the members that are elsewhere than the members have them."""
    for node in nodes:
        if node.get("raft_announced"):
            click.echo(f"\n{node['id']} says that its Raft port is at {node['raft_announced']}; the members have")
            click.echo(f"  {node['raft']}. The leader takes that over once it is connected with it. Where it does not,")
            click.echo("  'raftsched doctor --only moved' says what may be wrong")


def tell_waiting(waiting: list[dict[str, Any]], views: list[dict[str, Any]]) -> None:
    """Prints the nodes that ask to join, and the command that lets each of them in; where a majority is lost, what to
    do instead. `views`: of nodes, on the cluster."""
    lost = lost_majority(views)
    if lost is not None:
        click.echo(f"\n{lost.says[0].upper()}{lost.says[1:]}.")
        for line in lost.steps():
            click.echo(line)
        return
    if waiting:
        click.echo("\nwaiting to be let in:")
    for node in waiting:
        if node["why"] == "disk-went-back":
            what = "a member whose disk went back to an earlier state, or that runs twice on copies of it"
            click.echo(
                f"  {cell(node['id'])}  {cell(node['raft'])}  store {node['store'][:8]}  {what}: stop it, start it"
            )
            click.echo(f"    with an empty data directory, then: raftsched cluster members replace {node['id']}")
            click.echo(f"    That needs a majority of the members. {ELSE}")
            continue
        new = node["why"] == "new"
        what = "a new node" if new else "a new disk of a member"
        command = f"raftsched cluster members {'add' if new else 'replace'} {node['id']}"
        click.echo(f"  {cell(node['id'])}  {cell(node['raft'])}  store {node['store'][:8]}  {what}: {command}")


_letting_in = options(
    click.argument("node", metavar="NODE"),
    click.option("--wait", is_flag=True, help="Until it votes; shows how far it is."),
    click.option(
        "--timeout", metavar="SECONDS", type=click.FloatRange(0.1), default=600, show_default=True, help="Of --wait."
    ),
    click.option("--store", metavar="HEX", help="Only with this disk, as 'members list -o json' names it."),
    remote,
)


@members.command()
@_letting_in
def add(client: Client, node: str, wait: bool, timeout: float, store: str | None) -> None:
    """Let a new node in.

    It must run and ask for it: started with an empty data directory, --join, and --peers naming members. It gets
    everything first, without a vote, and votes by itself as soon as it has caught up. With --wait it may also be
    started after this command.

    \b
      raftsched cluster members add n4 --wait
    """
    _let_in(client, node, {"id": _node_id(node), **_pinned(store)}, wait, timeout)


@members.command()
@_letting_in
def replace(client: Client, node: str, wait: bool, timeout: float, store: str | None) -> None:
    """Replace the lost disk of a member by a new one.

    Stop the node, empty its data directory (or mount a new disk), start it with its old flags; it does not vote then,
    and waits. This command makes the new disk the member's: it gets everything first, and votes by itself as soon as it
    has caught up. What the old disk holds is never used again. All that needs a majority of the members with their
    disks: where that is lost, empty nothing, and see 'raftsched cluster status'.

    \b
      raftsched cluster members replace n3 --wait
    """
    _let_in(client, node, {"id": _node_id(node), "replace": True, **_pinned(store)}, wait, timeout)


@members.command()
@click.argument("node", metavar="NODE")
@remote
def remove(client: Client, node: str) -> None:
    """Take a member out. When it leads, leadership goes to another one first.

    What it runs is lost, and run again by others once its lease has run out; drain it first, and nothing is. Stop the
    node afterwards. The outputs of what it ran go with it.

    \b
      raftsched nodes drain n4 --wait
      raftsched cluster members remove n4
    """
    with _or_why(client):
        client.request("DELETE", at(addresses.REMOVE_MEMBER, id=_node_id(node)))
    click.echo(f"{node} is no member any more; stop it now")


def _node_id(text: str) -> str:
    """Raises a usage error."""
    if not names.NODE.allows(text):
        raise click.UsageError(f"{text!r} is not a node id; it has {names.NODE.rule}, like n4")
    return text


def _pinned(store: str | None) -> dict[str, str]:
    if store is None:
        return {}
    if not names.STORE.allows(store):
        raise click.UsageError(f"--store {store!r} is not a disk; it has {names.STORE.rule}")
    return {"store": store}


def _let_in(client: Client, node: str, body: dict[str, Any], wait: bool, timeout: float) -> None:
    if not wait:
        with _or_why(client):
            member = client.post(addresses.ADD_MEMBER, body)
        click.echo(f"{node} votes" if member["voter"] else f"{node} is let in; it catches up, and votes by itself then")
        return
    from raftsched.client.errors import ClientError
    from raftsched.system.clock import SystemClock

    clock = SystemClock()
    until = clock.monotonic() + timeout
    told, told_at = "", float("-inf")
    asked = False
    while True:
        try:
            if not asked:
                client.post(addresses.ADD_MEMBER, body)
                asked = True
            text = _progress(client, node)
            if text is None:
                click.echo(f"{node} votes")
                return
        except ClientError as error:
            if not _passes(error):
                raise
            if error.code == "no-leader":
                _require_majority(client)
            text = error.detail
        now = clock.monotonic()
        if now - told_at >= (_SAY_AGAIN_S if text == told else _SAY_S if told else 0):
            click.echo(text)
            told, told_at = text, now
        if now >= until:
            raise Failure(f"{node} does not vote after {timeout:g} s: {text}", Exit.TIMEOUT)
        time.sleep(_LOOK_S)


@contextmanager
def _or_why(client: Client) -> Iterator[None]:
    """Raises Failure instead of saying that there is no leader, where there can be none."""
    from raftsched.client.errors import ClientError

    try:
        yield
    except ClientError as error:
        if error.code == "no-leader":
            _require_majority(client)
        raise


def _require_majority(client: Client) -> None:
    """Raises Failure where a majority is lost: no change of the members can come about."""
    lost = lost_in(client)
    if lost is not None:
        raise Failure("\n".join([f"{lost.says}.", *lost.steps()]), Exit.UNAVAILABLE)


def _passes(error: ClientError) -> bool:
    """Returns True when it is worth waiting for another answer."""
    return error.code in ("not-waiting", "membership-busy", "unreachable", "unknown-outcome") or error.status == 503


def _progress(client: Client, node: str) -> str | None:
    """Returns how far a new member is; None when it votes."""
    member = next((m for m in client.get(addresses.MEMBERS)["items"] if m["id"] == node), None)
    if member is None:
        return f"{node} is not seen among the members yet"
    if member["voter"]:
        return None
    if not member["alive"]:
        return f"{node} is let in, but not connected; is it running?"
    lag = member.get("lag")
    return f"{node} catches up" + ("" if lag is None else f": {lag} entries behind")
