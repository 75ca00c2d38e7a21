"""`raftsched cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.lazy import LazyGroup
from raftsched.cli.remote import remote
from raftsched.cli.resources.resource import viewing
from raftsched.cli.terminal.output import print_for_programs, print_rows, print_table
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell
from raftsched.surface.plain import cluster as addresses
from raftsched.surface.plain import settings

if TYPE_CHECKING:
    from raftsched.client.http import Client

_COLUMNS = [
    Column("NODE", lambda n: n["id"], "name", 1),
    Column("ROLE", lambda n: n.get("role"), "state", 3),
    Column("VOTES", lambda n: n.get("voter"), "state", 5),
    Column("ALIVE", lambda n: n.get("alive"), "state", 2),
    Column("HTTP", lambda n: n.get("http"), "text", 6),
    Column("APPLIED", lambda n: n.get("applied_index"), "number", 9),
    Column("LAG", lambda n: n.get("lag"), "number", 4),
    Column("CLOCK", lambda n: n.get("clock_offset_ms"), "duration", 10),
    Column("RUNNING", lambda n: f"{cell(n.get('running'))}/{cell(n.get('slots'))}", "number", 7),
    Column("DISK FREE", lambda n: n["disk"]["free"] if n.get("disk") else None, "size", 8),
    Column("VERSION", lambda n: n.get("version"), "state", 11),
]

_TERMS = [
    Column("TERM", lambda t: t["term"], "id", 1),
    Column("LEADER", lambda t: t["leader"], "name", 2),
    Column("FROM", lambda t: t["at"], "time", 3),
    Column("INDEX", lambda t: t["index"], "number", 4),
]

_LATER = {
    "backup": ("cluster.backup", "backup", "Write the whole state to a file."),
    "members": ("cluster.members", "members", "List, add, replace, remove members."),
    "upgrade": ("cluster.upgrade", "upgrade", "Show how far an upgrade is; hold it, or let it end."),
    "restore": ("cluster.backup", "restore", "Begin a new cluster with the state of a backup."),
    "settings": ("resources.settings", "settings", "List and change the limits and defaults of the cluster."),
    "verify": ("cluster.backup", "verify", "Say whether a backup is whole, and what is in it."),
}


@click.group(cls=LazyGroup, later=_LATER)
def cluster() -> None:
    """Look after the cluster: its status, members, leader, settings, and backups."""


@cluster.command(short_help="Show the leader, how far every node is, and who asks to join.")
@viewing
def status(client: Client, fmt: str) -> None:
    """Show the leader and its term, how far every node is, and the nodes that ask to join.

    A member that does not vote (VOTES) is catching up, and votes by itself when it is done. APPLIED is the last log
    entry that a node has applied, LAG how many committed ones it is behind, CLOCK how far its clock is off, RUNNING
    how many of its slots are taken. Any node answers and asks the leader about the others. Without a leader each node
    is asked about itself, those of --server and those that they name; '-' stands for what is not known. Where a
    majority is lost it says which node has most, and how to save that.

    \b
      raftsched cluster status
      raftsched cluster status -o json | jq -r .leader
    """
    answer = client.get(addresses.STATUS)
    if not print_for_programs(fmt, answer, *(node["id"] for node in answer["nodes"])):
        views = [answer]
        if not answer.get("leader"):
            from raftsched.cli.cluster.views import each_view

            views = each_view(client, answer)
        _tell(next((view for view in views if view.get("leader")), answer), views)


def _tell(answer: dict[str, Any], views: list[dict[str, Any]]) -> None:
    """`views`: those of all nodes, where there is no leader that knows of them."""
    from raftsched.cli.cluster.members import tell_moved, tell_waiting

    nodes, leader = answer["nodes"], answer.get("leader")
    if leader:
        committed = max((n["commit_index"] for n in nodes if n.get("commit_index") is not None), default=0)
        voting = sum(1 for n in nodes if n.get("voter"))
        learning = sum(1 for n in nodes if not n.get("voter"))
        counts = f"{voting} voting" + (f", {learning} catching up" if learning else "")
        click.echo(f"{leader} leads, term {answer.get('term')}, {committed} entries committed, {counts}")
    else:
        click.echo("no leader at the moment")
        for view in views:
            if view.get("waits_for"):
                click.echo(f"{view['node']} says: {view['waits_for']}")
        nodes = _by_themselves(nodes, views)
    if answer.get("paused"):
        click.echo("the cluster is paused, nothing is started; go on with: raftsched cluster resume")
    print_table(_COLUMNS, nodes)
    drained = [node["id"] for node in nodes if node.get("drained")]
    if drained:
        click.echo(f"\nnothing new is given to: {', '.join(drained)}; go on with: raftsched nodes undrain NODE")
    tell_moved(nodes)
    tell_waiting(answer["waiting"], views)


def _by_themselves(nodes: list[dict[str, Any]], views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the nodes, each as it sees itself where it could be asked."""
    own = {node["id"]: node for view in views for node in view["nodes"] if node["id"] == view.get("node")}
    return [own.get(node["id"], node) for node in nodes]


@cluster.command(short_help="Show who led, and since when.")
@viewing
def terms(client: Client, fmt: str) -> None:
    """Show the newest leaderships, the newest first. FROM is by the clock of who led, INDEX its first entry in the log.

    \b
      raftsched cluster terms
      raftsched cluster terms -o json | jq '.items[0]'
    """
    found = client.get(addresses.TERMS)["items"]
    print_rows(fmt, found, _TERMS, lambda t: str(t["term"]), "nobody has led yet")


@cluster.command(short_help="Start nothing, on any node.")
@remote
def pause(client: Client) -> None:
    """Fire no job and start no run from now on, on any node. Active runs go on.

    You can create, change and run jobs meanwhile; these runs wait.

    \b
      raftsched cluster pause
    """
    client.post(settings.PAUSE)
    click.echo("paused: nothing is started until 'raftsched cluster resume'")


@cluster.command(short_help="Go on after a pause.")
@remote
def resume(client: Client) -> None:
    """Go on after a pause. Each job's misfire policy says whether its missed times run: once, all, or not at all.

    \b
      raftsched cluster resume
    """
    client.post(settings.RESUME)
    click.echo("resumed")


@cluster.command(short_help="Hand leadership over.")
@click.option("--to", metavar="NODE", help="To this voting member.  [default: the one that has most of the log]")
@remote
def transfer(client: Client, to: str | None) -> None:
    """Hand leadership over to another member, before its machine is worked on, say.

    Nothing is lost: what was asked meanwhile goes on to the next leader.

    \b
      raftsched cluster transfer
      raftsched cluster transfer --to n2
    """
    answer = client.post(addresses.TRANSFER, {} if to is None else {"to": to}, repeatable=to is not None)
    click.echo(f"{answer['leader'] or 'another member'} leads, term {answer['term']}")
