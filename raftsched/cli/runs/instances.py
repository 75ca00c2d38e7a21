"""`raftsched runs`: the runs of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.each import each
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import LazyGroup
from raftsched.cli.remote import check_namespace, find_job, format_option, remote
from raftsched.cli.resources.resource import identified, listing, rows, viewing_by
from raftsched.cli.runs.executors import executor_of, job_of
from raftsched.cli.runs.parts import go_through
from raftsched.cli.runs.searching import ago, search
from raftsched.cli.runs.states import state_option
from raftsched.cli.runs.why import duration_ms, error_line, why
from raftsched.cli.terminal.output import print_fields, print_for_programs, print_prose, print_rows, print_table
from raftsched.cli.terminal.progress import progress_option
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell
from raftsched.errors import Exit
from raftsched.quantities import duration_text
from raftsched.surface.plain import runs
from raftsched.surface.plain.enums import INSTANCE_STATE_NAME, LIVE_STATE_NAME
from raftsched.surface.plain.explain import INSTANCE as EXPLAIN
from raftsched.surface.plain.output import STREAM_NAME

if TYPE_CHECKING:
    from raftsched.client.http import Client

_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{13}@[0-9]{1,16}(?:-[0-9a-f]{16})?", re.ASCII)
_PARTS_SHOWN = 20  # of those that did not succeed


def _why(instance: Mapping[str, Any]) -> str | None:
    if instance.get("kill_asked") and instance["state"] in LIVE_STATE_NAME:
        return "asked to end"
    progress = instance.get("progress")
    if progress and instance["state"] == "RUNNING":
        return progress_text(progress)
    return why(instance)


def progress_text(progress: Mapping[str, Any]) -> str:
    """Such as "40% copying"."""
    percent = "" if progress["percent"] is None else f"{progress['percent']}%"
    return f"{percent} {progress['text']}".strip()


_COLUMNS = [
    Column("ID", lambda i: i["id"], "id", 1),
    Column("JOB", job_of, "name", 3),
    Column("STATE", lambda i: i["state"], "state", 2),
    Column("DUE", lambda i: i.get("scheduled_at"), "time", 4),
    Column("TOOK", duration_ms, "duration", 5),
    Column("NODE", executor_of, "name", 7),
    Column("ATTEMPT", lambda i: i.get("attempt"), "number", 8),
    Column("EXIT", lambda i: i.get("exit_code"), "number", 9),
    Column("ENDED", lambda i: i.get("ended_at"), "time", 10),
    Column("WHY", _why, "text", 6),
]


_ATTEMPTS = [
    Column("NUMBER", lambda a: a.get("number"), "number", 2),
    Column("NODE", executor_of, "name", 4),
    Column("OUTCOME", lambda a: a.get("outcome"), "state", 1),
    Column("EXIT", lambda a: a.get("exit_code"), "number", 7),
    Column("STARTED", lambda a: a.get("started_at"), "time", 5),
    Column("TOOK", duration_ms, "duration", 6),
    Column("ENDED", lambda a: a.get("ended_at"), "time", 8),
    Column("ERROR", error_line, "prose", 3),
]
_STEPS = [
    Column("AT", lambda s: s["at"], "id", 1),
    Column("KIND", lambda s: s["kind"], "state", 2),
    Column("INDEX", lambda s: s["index"], "number", 4),
    Column("TERM", lambda s: s["term"], "number", 6),
    Column("TOKEN", lambda s: s["token"], "number", 5),
    Column("TEXT", lambda s: s["text"], "prose", 3),
]


def check_id(instance: str) -> None:
    """Raises a usage error."""
    if not _ID.fullmatch(instance):
        raise click.UsageError(
            f"{instance!r} is not the id of a run; it looks like 0d3k5xw2a9f4m@1763600400000, see 'raftsched runs list'"
        )


def path_of(address: str, instance: str) -> str:
    check_id(instance)
    return address.format(id=instance)


def run_of(client: Client, ref: str) -> str:
    """Returns the id of a run: the one that is given, or the newest of the job that is. Raises a usage error,
    ClientError, Failure."""
    if "@" in ref:
        check_id(ref)
        return ref
    newest = find_job(client, ref)["last_instance"]
    if newest is None:
        raise Failure(f"{ref} has not run yet", Exit.NOT_FOUND)
    return str(newest)


def _news(client: Client, ref: str, fmt: str) -> dict[str, Any]:
    return {"job": ref.partition("@")[0] if "@" in ref else find_job(client, ref)["id"]}


_ORDER = ("list", "get", "output", "explain", "grep", "rerun", "kill")
_LATER = {"output": ("runs.logs", "output", "Print what a run wrote, or follow it; the same as 'raftsched logs'.")}


@click.group(cls=LazyGroup, later=_LATER, order=_ORDER)
def instances() -> None:
    """The runs of jobs. A run is one execution of a job for one due time; its retries are attempts of the same run.

    JOB stands for its newest run. The API calls a run an instance, and 'raftsched instances' is the same as 'raftsched
    runs'.
    """


@instances.command("list")
@click.option("--job", metavar="JOB", help="Of this job: name, namespace/name or id.")
@click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace.")
@state_option(INSTANCE_STATE_NAME)
@click.option("--node", metavar="NODE", help="That ran on this node.")
@click.option("--worker", metavar="WORKER", help="That ran on this remote worker.")
@click.option("--from", "start", metavar="TIME", help="Scheduled at or after (RFC 3339).")
@click.option("--to", "end", metavar="TIME", help="Scheduled before (RFC 3339).")
@click.option("--late", is_flag=True, help="That began more than a second after they were due.")
@click.option("--parent", metavar="RUN", help="The parts of this run, in their order.")
@listing(50)
def list_(
    client: Client, job: str | None, namespace: str | None, state: str | None, node: str | None, worker: str | None,
    parent: str | None, start: str | None, end: str | None, late: bool, fmt: str, **given: Any,
) -> None:  # fmt: skip
    """List runs, the newest scheduled time first.

    \b
      raftsched runs list --job billing/nightly-report
      raftsched runs list --state FAILED,TIMED_OUT --from 2026-11-20T00:00:00Z
      raftsched runs list --state RUNNING -o name | xargs -r raftsched runs kill
    """
    query = {
        "namespace": check_namespace(namespace) if namespace else None,
        "state": state,
        "node": node,
        "worker": worker,
        "parent": parent,
        "late": "true" if late else None,
        "from": start,
        "to": end,
    }
    if job:
        query["job"] = find_job(client, job)["id"]
    print_rows(fmt, rows(client, runs.LIST, given, query), _COLUMNS, identified, "no runs")


@instances.command()
@click.argument("ref", metavar="JOB|RUN")
@viewing_by(_news)
def get(client: Client, ref: str, fmt: str) -> None:
    """Show a run, or the newest of a job, and its attempts.

    \b
      raftsched runs get 0d3k5xw2a9f4m@1763600400000
      raftsched runs get billing/nightly-report
    """
    found: dict[str, Any] = client.get(path_of(runs.GET, run_of(client, ref)))
    if not print_for_programs(fmt, found, found["id"]):
        parts = found.get("parts")
        hidden = ("attempts", "output", "parts")
        if found.get("progress"):
            found["progress"] = f"{progress_text(found['progress'])} (at {found['progress']['at']})"
        print_fields({k: v for k, v in found.items() if k not in hidden and v not in (None, False)})
        if parts:
            counts = ("total", "succeeded", "failed", "killed", "running", "waiting")
            click.echo("parts: " + ", ".join(f"{parts[name]} {name}" for name in counts if parts.get(name) is not None))
            failed = [r for r in parts.get("results") or [] if r["state"] != "SUCCEEDED"]
            for one in failed[:_PARTS_SHOWN]:
                click.echo(f"  part {one['index']} {one['state']}: {cell(error_line(one))}")
        attempts = found.get("attempts") or []
        if attempts:
            click.echo()
            print_table(_ATTEMPTS, attempts)


@instances.command()
@click.argument("ref", metavar="JOB|RUN")
@viewing_by(_news)
def explain(client: Client, ref: str, fmt: str) -> None:
    """Say why a run, or the newest of a job, ran then and there, what it waited for, and what it waits for now.

    Each step comes with the entry of the log that did it, the term of that entry, and the fencing token.

    \b
      raftsched runs explain 0d3k5xw2a9f4m@1763600400000
      raftsched runs explain billing/nightly-report
    """
    found: dict[str, Any] = client.get(path_of(EXPLAIN, run_of(client, ref)))
    if print_for_programs(fmt, found, found["id"]):
        return
    print_prose(found["text"])
    for there in found["why_there"]:
        print_prose(f"Attempt {there['attempt']}: {there['text']}")
    for note in found.get("outputs", ()):
        print_prose(f"Output of attempt {note['attempt']}: {note['text']}")
    for message in found.get("notifications", ()):
        print_prose(message["text"])
    if found["waits"]:
        click.echo("\nIt waited:" if found["waiting_for"] is None else "\nIt waited, and waits:")
        for wait in found["waits"]:
            print_prose(f"  {duration_text(wait['ms'])} {wait['text']}")
    click.echo()
    print_table(_STEPS, found["steps"])
    if found["steps_left_out"]:
        click.echo("Steps between the first and the second were left out; the cluster keeps steps_kept of them.")


@instances.command()
@click.argument("text", metavar="TEXT")
@click.option("--job", metavar="JOB", help="Of this job: name, namespace/name or id.")
@click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace.")
@click.option("--ignore-case", "-i", is_flag=True, help="In whatever case it is written.")
@click.option("--stream", type=click.Choice(STREAM_NAME), help="Only one of both.")
@click.option("--since", metavar="TIME", help="Scheduled in this time up to now, such as 1d.")
@click.option("--from", "start", metavar="TIME", help="Scheduled at or after (RFC 3339).")
@click.option("--to", "end", metavar="TIME", help="Scheduled before (RFC 3339).")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many attempts.")
@format_option
@remote
def grep(
    client: Client, text: str, job: str | None, namespace: str | None, ignore_case: bool, stream: str | None,
    since: str | None, start: str | None, end: str | None, limit: int, fmt: str,
) -> None:  # fmt: skip
    """Search in the output of attempts that have ended, the newest run first.

    Prints each line that holds TEXT, as it is, behind run, attempt and number of the line; of one attempt ten
    lines at most. Exit code 1: nothing holds it; 6: some nodes that have output did not answer, which is told.

    \b
      raftsched runs grep 'connection refused' --since 1d
      raftsched runs grep -i error --job billing/nightly-report --stream stderr
      raftsched runs grep OutOfMemory -N billing -o name
    """
    if since is not None and start is not None:
        raise click.UsageError("--since and --from exclude each other")
    query: dict[str, Any] = {
        "q": text,
        "namespace": check_namespace(namespace) if namespace else None,
        "ignore_case": "true" if ignore_case else None,
        "stream": stream,
        "from": ago(since) if since is not None else start,
        "to": end,
    }
    if job:
        query["job"] = find_job(client, job)["id"]
    search(client, query, limit, fmt)


@instances.command()
@click.argument("instances", metavar="[RUN]...", nargs=-1)
@click.option("--job", metavar="JOB", help="All of this job: name, namespace/name or id.")
@click.option("--namespace", "-N", metavar="NS", help="All of the jobs of this namespace.")
@state_option(LIVE_STATE_NAME, "Only those in one of these states; may be repeated.")
@click.option("--from", "start", metavar="TIME", help="Only those scheduled at or after (RFC 3339).")
@click.option("--to", "end", metavar="TIME", help="Only those scheduled before (RFC 3339).")
@click.option("--dry-run", is_flag=True, help="Only count.")
@progress_option
@remote
def kill(
    client: Client, instances: tuple[str, ...], job: str | None, namespace: str | None, state: str | None,
    start: str | None, end: str | None, dry_run: bool,
) -> None:  # fmt: skip
    """Ask runs to end, and cancel those that have not started. They count as KILLED and are not retried.

    Name them by id, or take all active ones of a job or a namespace. If one fails, the others go on;
    the exit code is then that of the first failure.

    \b
      raftsched runs kill 0d3k5xw2a9f4m@1763600400000
      raftsched runs kill --job billing/nightly-report --state WAITING --dry-run
    """
    filters = {
        "job": find_job(client, job)["id"] if job else None,
        "namespace": check_namespace(namespace) if namespace else None,
        "state": state.split(",") if state else None,
        "from": start,
        "to": end,
    }
    wanted = {name: value for name, value in filters.items() if value is not None}
    if bool(instances) == bool(wanted) or (dry_run and instances) or (wanted and not job and not namespace):
        raise click.UsageError(
            "say which: ids, or --job or --namespace, which --state, --from, --to and --dry-run narrow"
        )
    if wanted:
        _kill_matching(client, wanted, dry_run)
        return

    def act(instance: str) -> None:
        client.post(path_of(runs.KILL, instance))
        click.echo(f"asked to end: {instance}")

    each(instances, act)


def _kill_matching(client: Client, wanted: dict[str, Any], dry_run: bool) -> None:
    def ask(body: dict[str, Any]) -> Any:
        return client.post(runs.KILL_MATCHING, body)

    requests = [{"filter": wanted, "dry_run": dry_run}]
    go_through("runs", requests, ask, "killed", "asked to end", dry_run=dry_run)


@instances.command()
@click.argument("instance", metavar="RUN")
@click.option("--downstream", is_flag=True, help="All that follows it in its workflow, too.")
@remote
def rerun(client: Client, instance: str, downstream: bool) -> None:
    """Run a run that has ended again, as a new attempt of the same run.

    Its end starts nothing that it started before. With --downstream everything behind it in its workflow runs again.

    \b
      raftsched runs rerun 0d3k5xw2a9f4m@1763600400000
      raftsched runs rerun --downstream 0d3k5xw2a9f4m@1763600400000
    """
    client.post(path_of(runs.RERUN, instance), {"downstream": True} if downstream else {})
    click.echo(f"runs again: {instance}")
