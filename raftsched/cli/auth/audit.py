"""`raftsched audit`: the record of all requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Listing
from raftsched.cli.remote import check_namespace, format_option, remote
from raftsched.cli.resources.resource import listing, print_one, rows
from raftsched.cli.terminal.output import print_rows
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell
from raftsched.surface.plain import audit as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client


def _about(record: Mapping[str, Any]) -> str:
    """Returns the job by its name, or the address."""
    if record["job"]:
        text = f"{record['namespace']}/{record['job']}"
    else:
        text = record["resource"] or record["subject"] or "-"
    return text if record["count"] == 1 else f"{text} and {record['count'] - 1} more"


_COLUMNS = [
    Column("AT", lambda r: r["at"], "time", 1),
    Column("INDEX", lambda r: r["index"], "number", 6),
    Column("ACTOR", lambda r: r["actor"], "name", 2),
    Column("OPERATION", lambda r: r["operation"], "text", 3),
    Column("ABOUT", _about, "text", 4),
    Column("FROM", lambda r: r["remote"], "text", 5),
]

_REFUSED = [
    Column("LAST", lambda r: r["last_at"], "time", 1),
    Column("STATUS", lambda r: r["status"], "number", 2),
    Column("ACTOR", lambda r: r["actor"], "name", 3),
    Column("REQUEST", lambda r: f"{r['method']} {r['resource']}", "text", 4),
    Column("FROM", lambda r: r["remote"], "text", 5),
    Column("COUNT", lambda r: r["count"], "number", 6),
]


@click.group(cls=Listing)
def audit() -> None:
    """Show who asked for what, check that the record is whole, copy it elsewhere. Without a command it lists."""


@audit.command("list")
@click.option("--actor", metavar="NAME", help="By whose token: its name or id; anonymous: nobody who showed one.")
@click.option("--resource", metavar="WHAT", help="Such as queues, tokens, an address, or the id of a job.")
@click.option("--operation", metavar="ID", help="Such as queues_put, as /openapi.json names them.")
@click.option("--namespace", "-N", metavar="NS", help="In this namespace.")
@click.option("--kind", type=click.Choice(addresses.RECORD_KIND), help="Only notes of this kind.")
@click.option("--from", "from_", metavar="TIME", help="From this time on, such as 2030-01-31T00:00:00Z.")
@click.option("--to", metavar="TIME", help="Before this time.")
@listing()
def list_(client: Client, fmt: str, from_: str | None, namespace: str | None, **given: Any) -> None:
    """List who asked for what, and it was done; the newest first.

    Jobs that are created and runs that are asked for are in it when they came with a token; many at one moment are one
    line.

    \b
      raftsched audit
      raftsched audit --actor web-ci --from 2030-01-31T00:00:00Z
      raftsched audit list --operation jobs_delete      # who deleted a job, and when
      raftsched audit --resource queues
      raftsched audit list --all -o json      # with "change": what was asked for
    """
    query = {name: given.pop(name) for name in ("actor", "resource", "operation", "kind", "to")}
    query |= {"from": from_, "namespace": check_namespace(namespace) if namespace else None}
    print_rows(
        fmt, rows(client, addresses.LIST, given, query), _COLUMNS, lambda r: cell(r["index"]), "nothing was asked for"
    )


@audit.command()
@format_option
@remote
def refusals(client: Client, fmt: str) -> None:
    """List the requests that the asked node refused: 401, 403 and 429, a line for each caller and minute.

    Each node keeps its own, the newest 1,000, until it is stopped; 'audit export' keeps them elsewhere.

    \b
      raftsched audit refusals --server http://10.0.0.2:7401
    """
    found = client.get(addresses.REFUSALS)["items"]
    print_rows(fmt, found, _REFUSED, lambda r: cell(r["remote"]), "nobody was refused")


@audit.command()
@click.argument("copy", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from", "since", metavar="TIME", help="The copy has nothing from before, on purpose.")
@click.option("--to", "until", metavar="TIME", help="The copy has nothing from then on, on purpose.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=5.0,
    show_default=True,
    help="How long to wait for the newest notes, if the copy is followed.",
)
@format_option
@remote
def verify(client: Client, copy: Path | None, since: str | None, until: str | None, wait: float, fmt: str) -> None:
    """Check that no note was changed, removed or added: the hash of each covers the one before it.

    With a FILE of 'audit export' it checks that copy as well, and compares it with the cluster: somebody who rewrote
    the audit on all nodes did not rewrite the copy. The copy must have every note that the cluster has, except those
    that --from and --to leave out. If it has refusals of the asked node, it must have all that this node remembers.
    If something is wrong, the exit code is 1, and the first wrong line is printed.

    \b
      raftsched audit verify
      raftsched audit verify /var/log/raftsched-audit.jsonl
      raftsched audit verify may.jsonl --from 2030-05-01T00:00:00Z --to 2030-06-01T00:00:00Z
    """
    from raftsched.cli.auth.audit_chain import Broken, verify_all

    if copy is None and (since or until):
        raise click.UsageError("--from and --to are about a copy; name its FILE")
    try:
        found = verify_all(client, copy, _time("--from", since), _time("--to", until), wait)
    except Broken as broken:
        raise Failure(str(broken)) from None
    print_one(fmt, found, lambda _: "whole", {kind: _words(one) for kind, one in found.items()})


def _time(option: str, text: str | None) -> datetime | None:
    try:
        at = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min
    if at is not None and at.tzinfo is None:
        raise click.UsageError(f"{option} takes a time with its zone, such as 2030-01-31T00:00:00Z")
    return at


def _words(one: Mapping[str, Any]) -> str:
    cluster = f"{one['notes']} notes, whole; head {one['head'] or '-'}" if "notes" in one else ""
    if "copy" not in one:
        return cluster
    copy = one["copy"]
    span = f", {copy['first']} to {copy['last']}" if copy["first"] else ""
    if not cluster:
        held = f"held against {one['node']}" if one["held_against"] else f"ask {one['node']} with --server to hold them"
        return f"{copy['notes']} in the copy, whole{span}; {held}"
    if copy["unproved"]:
        span += f", {copy['unproved']} notes without a hash: not proved"
    return f"{copy['notes']} notes in the copy, whole{span}; the cluster has {copy['newer']} newer ones, of {cluster}"


@audit.command()
@click.option("--file", "file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="JSON lines.")
@click.option("--syslog", metavar="ADDRESS", help="/dev/log, or HOST:PORT for UDP.")
@click.option("--follow", is_flag=True, help="Go on as notes come, until Ctrl-C.")
@click.option("--interval", metavar="SECONDS", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True)
@remote
def export(client: Client, file: Path | None, syslog: str | None, follow: bool, interval: float) -> None:
    """Copy the audit to a place that its subjects cannot change: to a file, a syslog server, or both.

    It writes a line of JSON for each note, the oldest first, with its hash, and one of kind "refused" for each caller
    and minute that the asked node refused. These are chained as well, and a line of kind "export" after them names the
    node. It goes on where an existing file ends; lines are on the disk before it asks for the next ones. It checks the
    chains: the exit code is 1 when one is broken. Syslog gets the same lines as the file; without a file it gets all
    notes that are kept, at each start.

    \b
      raftsched audit export --file /var/log/raftsched-audit.jsonl --follow
      raftsched audit export --syslog logs.example:514 --follow
    """
    from raftsched.cli.auth.audit_export import Export

    if file is None and syslog is None:
        raise click.UsageError("say where to: --file FILE, --syslog ADDRESS, or both")
    broken = Export(client, file, syslog).run(interval if follow else None)
    if broken:
        raise Failure(f"{broken} notes do not fit to those before them; see 'raftsched audit verify'")
