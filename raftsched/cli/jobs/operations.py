"""Actions on many jobs, and `raftsched operations`: their progress and outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched.cli.jobs.filters import as_body, filter_options, said
from raftsched.cli.lazy import Group, in_section
from raftsched.cli.remote import everything_option, remote
from raftsched.cli.resources.resource import identified, listing, print_one, rows, said_fields, viewing
from raftsched.cli.terminal.output import print_json, print_rows
from raftsched.cli.terminal.progress import Progress, progress_option
from raftsched.cli.terminal.table import Column
from raftsched.errors import Exit
from raftsched.surface.plain import bulk, enums

if TYPE_CHECKING:
    from raftsched.client.http import Client

_F = TypeVar("_F", bound=Callable[..., Any])
POLL_S = 0.3
_DONE = {"pause": "paused", "resume": "resumed", "run": "accepted", "expire": "expired", "delete": "deleted"}
_COLUMNS = [
    Column("ID", lambda o: o["id"], "id", 1),
    Column("ACTION", lambda o: o["action"], "state", 3),
    Column("STATE", lambda o: o["state"], "state", 2),
    Column("MATCHED", lambda o: o["matched"], "number", 6),
    Column("CHANGED", lambda o: o["changed"], "number", 5),
    Column("REFUSED", lambda o: o["refused"], "number", 7),
    Column("STARTED", lambda o: o["created_at"], "time", 4),
    Column("ENDED", lambda o: o["ended_at"], "time", 8),
]


# ---------------------------------------------------------------- the same for many jobs


# A filter instead of names, --every-job, and what goes with it.
many_options = in_section(
    "Many jobs, instead of JOB",
    filter_options,
    progress_option,
    *everything_option("--every-job", "All jobs of the cluster."),
    click.option("--dry-run", is_flag=True, help="Only say how many jobs are meant by the filter."),
    click.option("--no-wait", is_flag=True, help="Start it, print the operation, do not wait."),
)


def by_filter(client: Client, action: str, refs: tuple[str, ...], given: dict[str, Any], fmt: str, **more: Any) -> bool:
    """Does it to the jobs of the filter; False when jobs were named instead. For programs it prints the operation, or,
    with --dry-run, what was answered. Raises a usage error unless there is exactly one of names, filter and
    --every-job."""
    filters = said(given)
    if bool(refs) + bool(filters) + given["everything"] != 1:
        raise click.UsageError(
            "say which: JOB..., a filter (--owner, --label, ...), or --every-job, and one of these only"
        )
    if refs:
        if given["dry_run"] or given["no_wait"]:
            raise click.UsageError("--dry-run and --no-wait go with a filter or --every-job")
        return False
    which = {"all": True} if given["everything"] else {"filter": as_body(filters)}
    if given["dry_run"]:
        answer = client.post(bulk.ACT, {"action": action, **which, "dry_run": True})
        if fmt == "json":
            print_json(answer)
        else:
            _print_dry(answer)
        return True
    operation = client.post(bulk.ACT, {"action": action, **which, **more})
    if not given["no_wait"]:
        follow(client, operation, fmt)
    elif fmt == "json":
        print_json(operation)
    else:
        click.echo(operation["id"])
    return True


def _print_dry(found: Mapping[str, Any]) -> None:
    least = "" if found["complete"] else "at least "
    click.echo(f"would be {_DONE[found['action']]}: {least}{found['matched']}")
    for job in found["sample"]:
        click.echo(f"  {job['namespace']}/{job['name']}" if job["name"] else f"  {job['id']}")
    if found["matched"] > len(found["sample"]):
        click.echo("  ...")


def follow(client: Client, operation: dict[str, Any], fmt: str = "table") -> None:
    """Follows it until it has ended; then says what came of it. Ends the command with 4 when some jobs were refused, or
    when it was cancelled."""
    try:
        with Progress("looked at", operation["total"]) as line:
            while operation["state"] == "RUNNING":
                line.at(operation["examined"], f"{operation['changed']:,} {_DONE[operation['action']]}")
                time.sleep(POLL_S)
                operation = client.get(bulk.GET.format(id=operation["id"]))
    except KeyboardInterrupt:
        where = f"raftsched operations watch {operation['id']}"
        click.echo(f"it goes on; see '{where}', or end it with 'raftsched operations cancel'", err=True)
        raise
    _print_end(operation, fmt)


def _print_end(operation: Mapping[str, Any], fmt: str) -> None:
    same = f" ({operation['unchanged']} were that already)" if operation["unchanged"] else ""
    if fmt == "table":
        until = f", until {operation['until']}" if operation.get("until") else ""
        click.echo(f"{_DONE[operation['action']]}: {operation['changed']}{same}{until}")
    else:
        print_one(fmt, operation, identified)
    for one in operation["refusals"]:
        click.echo(f"raftsched: {one['id']}: {one['title']}", err=True)
    if operation["refused"] > len(operation["refusals"]):
        click.echo(f"raftsched: {operation['refused']} were refused in all", err=True)
    if operation["state"] == "CANCELLED":
        click.echo("raftsched: it was cancelled before it had done all", err=True)
    if operation["refused"] or operation["state"] == "CANCELLED":
        sys.exit(int(Exit.CONFLICT))


# ---------------------------------------------------------------- operations


@click.group(cls=Group)
def operations() -> None:
    """Operations: actions on many jobs, which the cluster carries out step by step."""


@operations.command("list")
@click.option("--state", type=click.Choice(enums.OPERATION_STATE, case_sensitive=False), help="In this state.")
@listing(20)
def list_(client: Client, state: str | None, fmt: str, **given: Any) -> None:
    """List operations, the newest first.

    \b
      raftsched operations list --state RUNNING
    """
    found = rows(client, bulk.LIST, given, {"state": state})
    print_rows(fmt, found, _COLUMNS, identified, "no operations")


@operations.command()
@click.argument("operation", metavar="OPERATION")
@viewing
def get(client: Client, operation: str, fmt: str) -> None:
    """Show an operation: its progress, and what it refused.

    \b
      raftsched operations get 0d3k5xw2a9f4m
    """
    found = client.get(_path(bulk.GET, operation))
    print_one(fmt, found, identified, said_fields(found))


@operations.command()
@click.argument("operation", metavar="OPERATION")
@progress_option
@remote
def watch(client: Client, operation: str) -> None:
    """Wait for an operation to end, and say what came of it.

    \b
      raftsched operations watch $(raftsched jobs pause --owner ana --no-wait)
    """
    follow(client, client.get(_path(bulk.GET, operation)))


@operations.command()
@click.argument("operation", metavar="OPERATION")
@remote
def cancel(client: Client, operation: str) -> None:
    """End an operation early. Changes that it has made stay.

    \b
      raftsched operations cancel 0d3k5xw2a9f4m
    """
    found = client.post(_path(bulk.CANCEL, operation))
    click.echo(f"cancelled: {found['id']}, {found['changed']} were {_DONE[found['action']]}")


def _path(address: str, operation: str) -> str:
    from raftsched.client.wire import at

    return at(address, id=operation)
