"""`raftsched workflows`: runs that were started by the end of others, as one thing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.jobs.wait import Watch, milliseconds
from raftsched.cli.lazy import Group
from raftsched.cli.remote import check_namespace, find_job, remote
from raftsched.cli.resources.resource import identified, listing, rows, viewing_by
from raftsched.cli.runs.executors import executor_of
from raftsched.cli.runs.instances import check_id, run_of
from raftsched.cli.runs.why import duration_ms, error_line, why
from raftsched.cli.terminal.output import print_for_programs, print_rows
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import shown
from raftsched.errors import Exit
from raftsched.surface.plain import workflows as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

PAGE = 1_000
_COUNTS = ("active", "succeeded", "failed", "timed_out", "killed", "skipped")
_LISTED = [
    Column("WORKFLOW", lambda w: w["id"], "id", 1),
    Column("JOB", lambda w: w["job"], "name", 3),
    Column("STATE", lambda w: w["state"], "state", 2),
    Column("DUE", lambda w: w["scheduled_at"], "time", 4),
    Column("RUNS", lambda w: _counted(w["counts"]), "text", 5),
]
_COLUMNS = [
    Column("JOB", lambda r: r.get("job"), "name", 1),
    Column("STATE", lambda r: r["state"], "state", 2),
    Column("STARTED", lambda r: r.get("started_at"), "time", 3),
    Column("TOOK", duration_ms, "duration", 4),
    Column("ENDED", lambda r: r.get("ended_at"), "time", 8),
    Column("NODE", executor_of, "name", 7),
    Column("RUN", lambda r: r["id"], "id", 6),
    Column("WHY", why, "text", 5),
]


def _path(address: str, workflow: str) -> str:
    check_id(workflow)
    return address.format(id=workflow)


def _whole(client: Client, workflow: str) -> dict[str, Any]:
    """A workflow with all of its runs."""
    found: dict[str, Any] = client.get(_path(addresses.GET, workflow), {"limit": PAGE})
    cursor = found["next"]
    while cursor:
        page = client.get(_path(addresses.GET, workflow), {"limit": PAGE, "cursor": cursor})
        found["items"] += page["items"]
        cursor = page["next"]
    found["next"] = None
    return found


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in _COUNTS if counts[name])


def _in_short(found: Mapping[str, Any]) -> str:
    again = f", rerun {found['reruns']} times" if found["reruns"] else ""
    return (
        f"{found['id']} ({found['job'] or 'a job without a name'}) {found['state']}: {_counted(found['counts'])}{again}"
    )


@click.group(cls=Group)
def workflows() -> None:
    """Runs that were started by the end of others, from the first of them on. WORKFLOW is the id of the first run, as
    'raftsched jobs run' prints it.

    A workflow is started by running its first job.
    """


@workflows.command("list")
@click.option("--job", metavar="JOB", help="Whose first run is of this job: name, namespace/name or id.")
@click.option("--namespace", "-N", metavar="NS", help="Whose first run is of a job of this namespace.")
@click.option("--state", type=click.Choice(addresses.WORKFLOW_STATE_NAME))
@click.option("--from", "start", metavar="TIME", help="Scheduled at or after (RFC 3339).")
@click.option("--to", "end", metavar="TIME", help="Scheduled before (RFC 3339).")
@listing(50)
def list_(
    client: Client, job: str | None, namespace: str | None, state: str | None, start: str | None, end: str | None,
    fmt: str, **given: Any,
) -> None:  # fmt: skip
    """List workflows, those of the newest scheduled time first. Runs that started no others are none here.

    \b
      raftsched workflows list --job billing/import
      raftsched workflows list --state running -o name | xargs -r -n 1 raftsched workflows kill
    """
    query = {"namespace": check_namespace(namespace) if namespace else None, "state": state, "from": start, "to": end}
    if job:
        query["job"] = find_job(client, job)["id"]
    print_rows(fmt, rows(client, addresses.LIST, given, query), _LISTED, identified, "no workflows")


@workflows.command("show")
@click.argument("ref", metavar="JOB|RUN")
@viewing_by(lambda client, ref, fmt: {})
def show(client: Client, ref: str, fmt: str) -> None:
    """Show a workflow and its runs; any of its runs will do for RUN, and JOB stands for its newest run.

    \b
      raftsched workflows show 0d3k5xw2a9f4m@1763600400000
      raftsched workflows show billing/import
    """
    found = _whole(client, run_of(client, ref))
    if not print_for_programs(fmt, found, found["id"]):
        click.echo(_in_short(found))
        print_rows("table", found["items"], _COLUMNS, lambda r: str(r["id"]), "no runs")


@workflows.command()
@click.argument("workflow", metavar="WORKFLOW")
@click.option("--timeout", "timeout_ms", default="1h", show_default=True, metavar="DURATION", callback=milliseconds)
@remote
def watch(client: Client, workflow: str, timeout_ms: int) -> None:
    """Tell each start and end of a run in a workflow, until nothing of it is active.

    Exit code 0 when it succeeded, 1 when it ended otherwise, 7 when the time was up.

    \b
      raftsched workflows watch $(raftsched jobs run billing/import -o name)
    """
    from raftsched.system.clock import SystemClock

    check_id(workflow)
    told: dict[str, str] = {}

    def look() -> Any:
        found = _whole(client, workflow)
        for run in found["items"]:
            if told.get(run["id"]) != run["state"]:
                told[run["id"]] = run["state"]
                what = error_line(run) or run.get("reason")
                said = f": {shown(what)}" if what and run["ended_at"] else ""
                click.echo(f"{run['state']}: {run['job'] or run['job_id']} ({run['id']}){said}")
        return None if found["state"] == "running" else found

    found = Watch(timeout_ms / 1000, SystemClock().monotonic).until(f"{workflow} has not ended", look)
    click.echo(_in_short(found))
    sys.exit(0 if found["state"] == "succeeded" else int(Exit.ERROR))


@workflows.command()
@click.argument("workflow", metavar="WORKFLOW")
@remote
def kill(client: Client, workflow: str) -> None:
    """Ask all runs of a workflow to end, and let nothing more of it start.

    \b
      raftsched workflows kill 0d3k5xw2a9f4m@1763600400000
    """
    answer = client.post(_path(addresses.KILL, workflow))
    click.echo(f"asked to end: {answer['killed']} of {answer['id']}")
