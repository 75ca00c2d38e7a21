"""`raftsched cluster upgrade`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option, remote
from raftsched.cli.terminal.output import print_for_programs, print_table
from raftsched.cli.terminal.table import Column
from raftsched.surface.plain import cluster as addresses
from raftsched.surface.plain import settings

if TYPE_CHECKING:
    from raftsched.client.http import Client


_COLUMNS = [
    Column("NODE", lambda n: n["id"], "name", 1),
    Column("VERSION", lambda n: n.get("version"), "state", 2),
    Column("LEVEL", lambda n: n.get("level"), "number", 3),
    Column("ALIVE", lambda n: n.get("alive"), "state", 4),
]


@click.command(cls=Command, short_help="Show how far an upgrade is; hold it, or let it end.")
@click.option("--hold/--no-hold", default=None, help="Keep the level, so that nodes can go back; or raise it.")
@format_option
@remote
def upgrade(client: Client, hold: bool | None, fmt: str) -> None:
    """Show the version and the level of each node, and what an upgrade waits for.

    The cluster's level says what may be used: what all members know. It rises by itself when all of them have a version
    that knows more. Until then nodes can go back to the version before; from then on they cannot. With --hold
    it does not rise, and you can watch the new version for a while; --no-hold lets it.

    \b
      raftsched cluster upgrade
      raftsched cluster upgrade --hold
      raftsched cluster upgrade --no-hold
    """
    if hold is not None:
        client.request("PATCH", settings.PATCH, body={"upgrade_hold": int(hold)}, repeatable=True)
    answer = client.get(addresses.STATUS)
    if not print_for_programs(fmt, answer, *(node["id"] for node in answer["nodes"])):
        print_table(_COLUMNS, answer["nodes"])
        if "level" in answer:
            click.echo(f"\nThe cluster is of level {answer['level']}: {_words(answer)}")
        else:
            click.echo(f"\n{answer['node']} has a version that knows of no levels; upgrade its cluster first.")


def _words(answer: dict[str, Any]) -> str:
    """Returns what becomes of the cluster's level."""
    level, known = answer["level"], {node["id"]: node.get("level") for node in answer["nodes"]}
    unheard = sorted(node for node, newest in known.items() if newest is None)
    if all(newest is None or newest <= level for newest in known.values()):
        return f"no node knows a later one. Not heard: {', '.join(unheard)}" if unheard else "the newest of all nodes."
    missing = sorted(node for node, newest in known.items() if newest is None or newest <= level)
    if missing:
        return f"it rises when all nodes know more. Until then nodes can go back. Missing: {', '.join(missing)}"
    if answer["level_held"]:
        return "it is held, and nodes can go back. It rises after: raftsched cluster upgrade --no-hold"
    return "it rises now, and no node can go back from then on."
