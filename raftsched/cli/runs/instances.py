"""`raftsched instances`: the runs of jobs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.remote import check_namespace, each, find_job, format_option, remote
from raftsched.cli.resources.resource import identified, listing, rows, viewing_by
from raftsched.cli.runs.executors import executor_of
from raftsched.cli.runs.parts import go_through
from raftsched.cli.runs.searching import ago, search
from raftsched.cli.runs.states import state_option
from raftsched.cli.runs.why import error_line, why
from raftsched.cli.terminal.output import (
    Column,
    cell,
    print_fields,
    print_for_programs,
    print_rows,
    print_table,
)
from raftsched.cli.terminal.progress import progress_option
from raftsched.errors import Exit
from raftsched.quantities import format_duration
from raftsched.surface.plain import runs
from raftsched.surface.plain.enums import INSTANCE_STATE_NAME, LIVE_STATE_NAME
from raftsched.surface.plain.explain import INSTANCE as EXPLAIN
from raftsched.surface.plain.output import GET as OUTPUT
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


_COLUMNS: list[Column] = [
    ("ID", lambda i: i["id"]),
    ("JOB", lambda i: f"{i['namespace']}/{i['job_name']}" if i.get("job_name") else None),
    ("STATE", lambda i: i["state"]),
    ("SCHEDULED", lambda i: i.get("scheduled_at")),
    ("NODE", executor_of),
    ("ATTEMPT", lambda i: i.get("attempt")),
    ("EXIT", lambda i: i.get("exit_code")),
    ("ENDED", lambda i: i.get("ended_at")),
    ("WHY", _why),
]


def check_id(instance: str) -> None:
    """Raises a usage error."""
    if not _ID.fullmatch(instance):
        raise click.UsageError(
            f"{instance!r} is not an instance id; it looks like 0d3k5xw2a9f4m@1763600400000,"
            " see 'raftsched instances list'"
        )


def _path(address: str, instance: str) -> str:
    check_id(instance)
    return address.format(id=instance)


def run_of(client: Client, ref: str) -> str:
    """Returns the id of an instance: the one that is given, or the newest of the job that is. Raises a usage error,
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


@click.group()
def instances() -> None:
    """The runs of jobs. An instance is one due time of a job; its retries are attempts of the same instance."""


@instances.command("list")
@click.option("--job", metavar="JOB", help="Of this job: name, namespace/name or id.")
@click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace.")
@state_option(INSTANCE_STATE_NAME)
@click.option("--node", metavar="ID", help="That ran on this node.")
@click.option("--worker", metavar="NAME", help="That ran on this remote worker.")
@click.option("--from", "start", metavar="TIME", help="Scheduled at or after (RFC 3339).")
@click.option("--to", "end", metavar="TIME", help="Scheduled before (RFC 3339).")
@click.option("--parent", metavar="ID", help="The parts of this run, in their order.")
@listing(50)
def list_(
    client: Client, job: str | None, namespace: str | None, state: str | None, node: str | None, worker: str | None,
    parent: str | None, start: str | None, end: str | None, fmt: str, **given: Any,
) -> None:  # fmt: skip
    """List instances.

    \b
      raftsched instances list --job billing/nightly-report
      raftsched instances list --state FAILED,TIMED_OUT --from 2026-11-20T00:00:00Z
      raftsched instances list --state RUNNING -o name | xargs -r raftsched instances kill
    """
    query = {
        "namespace": check_namespace(namespace) if namespace else None,
        "state": state,
        "node": node,
        "worker": worker,
        "parent": parent,
        "from": start,
        "to": end,
    }
    if job:
        query["job"] = find_job(client, job)["id"]
    print_rows(fmt, rows(client, runs.LIST, given, query), _COLUMNS, identified, "no instances")


@instances.command()
@click.argument("ref", metavar="ID|JOB")
@viewing_by(_news)
def get(client: Client, ref: str, fmt: str) -> None:
    """Show one instance, or the newest of a job, and its attempts.

    \b
      raftsched instances get 0d3k5xw2a9f4m@1763600400000
      raftsched instances get billing/nightly-report
    """
    found: dict[str, Any] = client.get(_path(runs.GET, run_of(client, ref)))
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
            names = ["number", "node", "outcome", "exit_code", "started_at", "ended_at", "error"]
            given = [{**a, "node": executor_of(a), "error": error_line(a)} for a in attempts]
            lines = [[cell(a.get(n)) for n in names] for a in given]
            print_table([n.upper().replace("_", " ") for n in names], lines)


@instances.command()
@click.argument("ref", metavar="ID|JOB")
@viewing_by(_news)
def explain(client: Client, ref: str, fmt: str) -> None:
    """Say why an instance, or the newest of a job, ran then and there, what it waited for, and what it waits for now.

    Each step comes with the entry of the log that did it, the term of that entry, and the fencing token.

    \b
      raftsched instances explain 0d3k5xw2a9f4m@1763600400000
      raftsched instances explain billing/nightly-report
    """
    found: dict[str, Any] = client.get(_path(EXPLAIN, run_of(client, ref)))
    if print_for_programs(fmt, found, found["id"]):
        return
    click.echo(found["text"])
    for there in found["why_there"]:
        click.echo(f"Attempt {there['attempt']}: {there['text']}")
    for note in found.get("outputs", ()):
        click.echo(f"Output of attempt {note['attempt']}: {note['text']}")
    for message in found.get("notifications", ()):
        click.echo(message["text"])
    if found["waits"]:
        click.echo("\nIt waited:" if found["waiting_for"] is None else "\nIt waited, and waits:")
        for wait in found["waits"]:
            click.echo(f"  {format_duration(wait['ms'])} {wait['text']}")
    click.echo()
    names = ["at", "kind", "index", "term", "token", "text"]
    print_table([n.upper() for n in names], [[cell(step[n]) for n in names] for step in found["steps"]])
    if found["steps_left_out"]:
        click.echo("Steps between the first and the second were left out; the cluster keeps steps_kept of them.")


@instances.command()
@click.argument("ref", metavar="ID|JOB")
@click.option("-f", "--follow", is_flag=True, help="Go on as output comes, until the attempt ends.")
@click.option("--stream", type=click.Choice(STREAM_NAME), help="Only this one.  [default: both as they came]")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt.  [default: the last]")
@click.option("--tail", type=click.IntRange(0, 100_000), metavar="N", help="Only the last N lines.")
@click.option("--split", is_flag=True, help="What it wrote to stderr goes to stderr.  [default: both to stdout]")
@remote
def output(
    client: Client, ref: str, follow: bool, stream: str | None, attempt: int | None, tail: int | None, split: bool
) -> None:
    """Print what an instance, or the newest of a job, wrote, byte for byte, whichever node ran it.

    \b
      raftsched instances output 0d3k5xw2a9f4m@1763600400000
      raftsched instances output billing/nightly-report
      raftsched instances output -f 0d3k5xw2a9f4m@1763600400000
      raftsched instances output --split 0d3k5xw2a9f4m@1763600400000 2>errors.txt
    """
    from raftsched.client.event_stream import output as follow_output
    from raftsched.client.event_stream import pieces

    query = {"follow": True if follow else None, "stream": stream, "attempt": attempt, "tail": tail}
    path = _path(OUTPUT, run_of(client, ref))
    if split:
        for said in pieces(client, path, query):
            sink = sys.stderr if said["stream"] == "stderr" else sys.stdout
            sink.buffer.write(said["text"].encode())
            sink.buffer.flush()
        return
    for piece in follow_output(client, path, query) if follow else client.stream(path, query):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


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
    """Search in the output of attempts that have ended, the newest instance first.

    Prints each line that holds TEXT, as it is, behind instance, attempt and number of the line; of one attempt ten
    lines at most. Exit code 1: nothing holds it; 6: some nodes that have output did not answer, which is told.

    \b
      raftsched instances grep 'connection refused' --since 1d
      raftsched instances grep -i error --job billing/nightly-report --stream stderr
      raftsched instances grep OutOfMemory -N billing -o name
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
@click.argument("instances", metavar="[ID]...", nargs=-1)
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
    """Ask running instances to end, and cancel those that have not started. They count as KILLED and are not retried.

    Say which: by id, or all of a job or a namespace that are not at their end. One that fails does not keep the others;
    the exit code is then that of the first failure.

    \b
      raftsched instances kill 0d3k5xw2a9f4m@1763600400000
      raftsched instances kill --job billing/nightly-report --state WAITING --dry-run
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
        client.post(_path(runs.KILL, instance))
        click.echo(f"asked to end: {instance}")

    each(instances, act)


def _kill_matching(client: Client, wanted: dict[str, Any], dry_run: bool) -> None:
    def ask(body: dict[str, Any]) -> Any:
        return client.post(runs.KILL_MATCHING, body)

    requests = [{"filter": wanted, "dry_run": dry_run}]
    go_through("instances", requests, ask, "killed", "asked to end", dry_run=dry_run)


@instances.command()
@click.argument("instance", metavar="ID")
@click.option("--downstream", is_flag=True, help="From here on: all that follows it in its workflow, too.")
@remote
def rerun(client: Client, instance: str, downstream: bool) -> None:
    """Run a finished instance again, as a new attempt of the same instance.

    Its end starts nothing that it started before. With --downstream everything behind it in its workflow runs again.

    \b
      raftsched instances rerun 0d3k5xw2a9f4m@1763600400000
      raftsched instances rerun --downstream 0d3k5xw2a9f4m@1763600400000
    """
    client.post(_path(runs.RERUN, instance), {"downstream": True} if downstream else {})
    click.echo(f"runs again: {instance}")
