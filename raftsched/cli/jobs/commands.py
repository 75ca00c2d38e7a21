"""`raftsched jobs`: what is done to jobs that exist. Making them is in `create`, `apply` and `imports`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.each import each
from raftsched.cli.jobs.filters import filter_options, said
from raftsched.cli.jobs.operations import by_filter, many_options
from raftsched.cli.lazy import LazyGroup
from raftsched.cli.remote import find_job, format_option, job_ref, remote
from raftsched.cli.resources.resource import listing, print_one, rows, said_fields, viewing, viewing_by
from raftsched.cli.runs.states import job_state, state_option, told_state
from raftsched.cli.terminal.output import print_fields, print_json, print_rows
from raftsched.cli.terminal.table import Column
from raftsched.surface.plain import job_actions, schedules, statistics
from raftsched.surface.plain import jobs as addresses
from raftsched.surface.plain.enums import INSTANCE_STATE_NAME

if TYPE_CHECKING:
    from raftsched.client.http import Client

_TRIGGERS = ("cron", "every", "at", "in", "rrule")


def _trigger(job: Any) -> str:
    if job.get("triggers"):
        return ", ".join(f"{trigger.get('id')}: {_of_one(trigger)}" for trigger in job["triggers"])
    return _of_one(job.get("trigger") or {})


def _of_one(trigger: Any) -> str:
    after = trigger.get("after")
    if after:
        others = [after["job"]] if after.get("job") else after.get("all_of") or after.get("any_of") or []
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        return f"after {others[0] if others else '?'}{more}"
    for kind in _TRIGGERS:
        if trigger.get(kind):
            zone = trigger.get("timezone")
            return f"{kind} {trigger[kind]}" + (
                f" {zone}" if kind in ("cron", "rrule") and zone not in (None, "UTC") else ""
            )
    return "manual"


_COLUMNS = [
    Column("NAME", job_ref, "name", 1),  # type: ignore[arg-type]
    Column("STATE", job_state, "state", 2),
    Column("TRIGGER", _trigger, "text", 6),
    Column("NEXT", lambda j: j.get("next_fire_at"), "time", 3),
    Column("LAST", lambda j: j.get("last_state"), "state", 4),
    Column("ENDED", lambda j: j.get("last_end_at"), "time", 5),
    Column("TOOK", lambda j: j.get("last_duration_ms"), "duration", 8),
    Column("RUNNING", lambda j: j.get("running"), "number", 7),
    Column("OWNER", lambda j: j.get("owner"), "text", 10),
    Column("ID", lambda j: j["id"], "id", 9),
]


_REVISIONS = [
    Column("REVISION", lambda r: r["revision"], "id", 1),
    Column("NAME", lambda r: r["name"], "name", 3),
    Column("FROM", lambda r: r["from"], "time", 4),
    Column("TO", lambda r: r["to"], "time", 2),
    Column("OWNER", lambda r: r["content"].get("owner"), "text", 6),
    Column("TRIGGER", lambda r: _trigger(r["content"]), "text", 5),
]


def _stats(found: dict[str, Any]) -> dict[str, Any]:
    from raftsched.quantities import duration_text

    begin = found["counted_from"]
    shown: dict[str, Any] = {"from": "the first run" if begin.startswith("1970-") else begin, "to": found["to"]}
    for name in ("jobs", "instances", "attempts"):
        told = ", ".join(f"{told_state(state)} {n:,}" for state, n in (found[name] or {}).items() if n)
        shown["runs" if name == "instances" else name] = told
    shown |= {"skipped fires": found["skipped_fires"], "dead letters": found["dead_letters"]}
    for name in ("duration", "lateness"):
        of = found[name]
        if of["count"]:
            shown[name] = ", ".join(f"{key} {duration_text(of[key])}" for key in ("mean", "p50", "p90", "p99", "max"))
    if not found["complete"]:
        shown["note"] = "the newest only: there are more than one answer counts"
    return shown


# in the order of their use
_ORDER = (
    *("list", "get", "create", "run", "explain", "next", "pause", "resume", "edit", "delete"),
    *("apply", "diff", "export", "import", "wait", "stats", "minutes", "graph", "revisions"),
    *("skip-next", "backfill", "expire"),
)
_LATER = {
    "apply": ("jobs.apply", "apply", "Create and replace jobs as files say, by their names."),
    "create": ("jobs.create", "create", "Create a job: when it is due, and what it does."),
    "diff": ("jobs.diff", "diff", "Say what 'apply' would change."),
    "edit": ("jobs.diff", "edit", "Change a job in an editor."),
    "explain": ("jobs.explain", "explain", "Say why a job does not run, or when it does."),
    "export": ("jobs.export", "export", "Write jobs as YAML or JSON, for 'apply'."),
    "graph": ("jobs.graph", "graph", "Draw which jobs follow which: as text, for Graphviz or Mermaid."),
    "import": ("jobs.imports", "import_", "Bring jobs in from a crontab, Dkron or Kubernetes."),
    "run": ("jobs.run", "run", "Run jobs now, beside their schedules; wait for the end, or follow the output."),
    "minutes": ("jobs.minutes", "minutes", "Count the runs of the last day, by the hour or finer."),
    "wait": ("jobs.wait", "wait", "Wait for the end of runs, or until jobs are as wanted."),
}


@click.group(cls=LazyGroup, later=_LATER, order=_ORDER)
def jobs() -> None:
    """Jobs. JOB is a name (in the namespace "default"), namespace/name, or an id.

    Where several are given, one that fails does not keep the others; the exit code is that of the first failure.
    """


@jobs.command("list")
@filter_options
@click.option("--failing", is_flag=True, help="Whose last run failed or timed out.")
@click.option("--late", is_flag=True, help="Due more than a second ago, and not begun.")
@listing()
def list_(client: Client, failing: bool, late: bool, fmt: str, **given: Any) -> None:
    """List jobs, in the order of their creation; with --next-from or --next-to in that of their next times.

    \b
      raftsched jobs list
      raftsched jobs list -N billing --state SUSPENDED
      raftsched jobs list --failing
      raftsched jobs list --label team=fin --next-to 2026-11-21T00:00:00Z
      raftsched jobs list --all -o json > jobs.json
    """
    flags = {name: "true" for name, is_given in (("failing", failing), ("late", late)) if is_given}
    found = rows(client, addresses.LIST, given, {**said(given), **flags})
    print_rows(fmt, found, _COLUMNS, job_ref, "no jobs")  # type: ignore[arg-type]


@jobs.command()
@click.argument("job", metavar="JOB")
@viewing_by(lambda client, job, fmt: {"job": find_job(client, job)["id"]})
def get(client: Client, job: str, fmt: str) -> None:
    """Show a job: its state, and the job as it was given.

    \b
      raftsched jobs get billing/nightly-report
      raftsched jobs get tick -o json
      raftsched jobs get tick --watch
    """
    found = find_job(client, job)
    print_one(fmt, found, job_ref, said_fields({**found, "state": job_state(found)}))  # type: ignore[arg-type]


def _told(refs: tuple[str, ...], fmt: str, act: Callable[[str], tuple[Any, str, str]]) -> None:
    """Does it to each. `act` says what was answered, what that is called, and what people are told."""
    answers: list[Any] = []

    def one(ref: str) -> None:
        answer, name, words = act(ref)
        answers.append(answer)
        if fmt != "json":
            click.echo(name if fmt == "name" else words)

    try:
        each(refs, one)
    finally:  # what was done is told, whatever came after it
        if fmt == "json" and answers:
            print_json(answers[0] if len(refs) == 1 else {"items": answers})


def _until(job: Any) -> str:
    """Says until when a job is paused, where that is known."""
    return f", until {job['resumes_at']}" if isinstance(job, dict) and job.get("resumes_at") else ""


def _each(client: Client, refs: tuple[str, ...], address: str, done: str, fmt: str, body: Any = None) -> None:
    """The same for several jobs; answered with each as it is then."""

    def act(ref: str) -> tuple[Any, str, str]:
        found = find_job(client, ref)
        answer = client.post(address.format(id=found["id"]), body)
        return answer, job_ref(found), f"{done}: {job_ref(found)}{_until(answer)}"

    _told(refs, fmt, act)


@jobs.command()
@click.argument("refs", metavar="[JOB]...", nargs=-1)
@click.option("--until", metavar="TIME", help="Schedule them again by themselves at this time (RFC 3339).")
@click.option("--for", "length", metavar="DURATION", help="The same after so long, such as 2h.")
@many_options
@format_option
@remote
def pause(client: Client, refs: tuple[str, ...], until: str | None, length: str | None, fmt: str, **given: Any) -> None:
    """Suspend jobs: no new run starts, and active runs go on. Due times meanwhile are not caught up.

    Pausing a paused job is no error: without --until and --for it stays so until somebody resumes it.

    \b
      raftsched jobs pause billing/nightly-report
      raftsched jobs pause billing/nightly-report --until 2030-01-07T06:00:00Z
      raftsched jobs pause --label team=fin --for 2h
      raftsched jobs pause --owner ana --dry-run
    """
    if until and length:
        raise click.UsageError("say --until or --for, not both")
    more = {"until": until} if until else {"for": length} if length else {}
    if not by_filter(client, "pause", refs, given, fmt, **more):
        _each(client, refs, job_actions.PAUSE, "paused", fmt, more or None)


@jobs.command()
@click.argument("refs", metavar="[JOB]...", nargs=-1)
@many_options
@format_option
@remote
def resume(client: Client, refs: tuple[str, ...], fmt: str, **given: Any) -> None:
    """Schedule suspended jobs again, from now on: missed times are not caught up.

    \b
      raftsched jobs resume billing/nightly-report
      raftsched jobs resume --state SUSPENDED --label team=fin
    """
    if not by_filter(client, "resume", refs, given, fmt):
        _each(client, refs, job_actions.RESUME, "resumed", fmt)


@jobs.command()
@click.argument("refs", metavar="[JOB]...", nargs=-1)
@click.option("--kill", is_flag=True, help="Also ask active runs to end.")
@many_options
@format_option
@remote
def expire(client: Client, refs: tuple[str, ...], kill: bool, fmt: str, **given: Any) -> None:
    """End jobs for good; they stay visible with their history.

    \b
      raftsched jobs expire billing/nightly-report --kill
      raftsched jobs expire -N billing --created-to 2026-01-01T00:00:00Z
    """
    more = {"kill": True} if kill else {}
    if not by_filter(client, "expire", refs, given, fmt, **more):
        _each(client, refs, job_actions.EXPIRE, "expired", fmt, more)


@jobs.command()
@click.argument("refs", metavar="[JOB]...", nargs=-1)
@many_options
@format_option
@remote
def delete(client: Client, refs: tuple[str, ...], fmt: str, **given: Any) -> None:
    """Delete jobs and free their names. Active runs are asked to end. For programs each is printed as it was.

    \b
      raftsched jobs delete tick billing/nightly-report
      raftsched jobs delete -N samples --dry-run
    """
    if by_filter(client, "delete", refs, given, fmt):
        return

    def act(ref: str) -> tuple[Any, str, str]:
        found = find_job(client, ref)
        answer = client.request("DELETE", addresses.DELETE.format(id=found["id"])).json() or {}
        ending = answer.get("ending")
        more = f", {ending} running: asked to end" if ending else ""
        return found, job_ref(found), f"deleted: {job_ref(found)}{more}"

    _told(refs, fmt, act)


@jobs.command("next")
@click.argument("job", metavar="JOB")
@click.option("-n", "--count", type=click.IntRange(1, 100), default=10, show_default=True, help="How many times.")
@format_option
@remote
def next_(client: Client, job: str, count: int, fmt: str) -> None:
    """Say when a job is due next, daylight saving time included.

    \b
      raftsched jobs next billing/nightly-report -n 3
    """
    found = find_job(client, job)
    from raftsched.cli.jobs.preview import print_times

    none = (
        "it is suspended: it has no times until it is resumed"
        if found["state"] in ("NEW", "SUSPENDED")
        else "never again"
    )
    print_times(client.get(schedules.NEXT.format(id=found["id"]), {"count": count}), fmt, none)


@jobs.command("skip-next")
@click.argument("refs", metavar="JOB...", nargs=-1, required=True)
@remote
def skip_next(client: Client, refs: tuple[str, ...]) -> None:
    """Leave out the next time of jobs; the times after it stay as they are.

    \b
      raftsched jobs skip-next billing/nightly-report
    """

    def act(ref: str) -> None:
        found = find_job(client, ref)
        upcoming = client.get(schedules.NEXT.format(id=found["id"]), {"count": 1})["next"]
        body = {"at": upcoming[0]["at"]} if upcoming else {}  # so that asking twice leaves out one
        job = client.post(job_actions.SKIP_NEXT.format(id=found["id"]), body)
        click.echo(f"skipped: {job_ref(found)} at {body.get('at', 'its next time')}; next {job['next_fire_at'] or '-'}")

    each(refs, act)


@jobs.command()
@click.argument("job", metavar="JOB")
@format_option
@remote
def revisions(client: Client, job: str, fmt: str) -> None:
    """Show the contents of a job before its newest edits, and from when until when each held.

    \b
      raftsched jobs revisions billing/nightly-report
      raftsched jobs revisions billing/nightly-report -o json
    """
    found = find_job(client, job)
    old = client.get(addresses.REVISIONS.format(id=found["id"]))["items"]
    print_rows(fmt, old, _REVISIONS, lambda r: str(r["revision"]), "no revisions")


@jobs.command()
@click.argument("job", metavar="[JOB]", required=False)
@click.option("--owner", help="Of the jobs of this owner.")
@click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace.")
@click.option("--from", "start", metavar="TIME", help="Due at or after.  [default: all of a job, else the last hour]")
@click.option("--to", "end", metavar="TIME", help="Due before.  [default: now]")
@state_option(INSTANCE_STATE_NAME, "Only of runs in one of these states; may be repeated.")
@viewing
def stats(client: Client, job: str | None, fmt: str, **given: Any) -> None:
    """Show how runs went: counts, durations, lateness; of one job, of all, of an owner's or a namespace's.

    \b
      raftsched jobs stats billing/nightly-report
      raftsched jobs stats --owner ana --from 2026-11-20T00:00:00Z
    """

    query = {"from": given["start"], "to": given["end"], "state": given["state"]}
    if job is not None:
        if given["owner"] or given["namespace"]:
            raise click.UsageError("--owner and --namespace are for all jobs; leave JOB out")
        found = client.get(statistics.OF_JOB.format(id=find_job(client, job)["id"]), query)
    else:
        found = client.get(statistics.ALL, {**query, "owner": given["owner"], "namespace": given["namespace"]})
    if fmt == "json":
        print_json(found)
    else:
        print_fields(_stats(found))


@jobs.command()
@click.argument("job", metavar="JOB")
@click.option("--from", "start", metavar="TIME", required=True, help="The first time that is meant (RFC 3339).")
@click.option("--to", "end", metavar="TIME", help="Before this.  [default: now]")
@click.option("--dry-run", is_flag=True, help="Only say which times.")
@remote
def backfill(client: Client, job: str, start: str, end: str | None, dry_run: bool) -> None:
    """Run a job for times of its schedule that went by without a run, one after the other unless runs may overlap.

    Asked for again, it runs none of them twice.

    \b
      raftsched jobs backfill billing/nightly-report --from 2026-11-01T00:00:00Z --dry-run
      raftsched jobs backfill billing/nightly-report --from 2026-11-01T00:00:00Z --to 2026-11-15T00:00:00Z
    """
    found = find_job(client, job)
    body = {"from": start, "dry_run": dry_run, **({"to": end} if end else {})}
    answer = client.post(job_actions.BACKFILL.format(id=found["id"]), body)
    for time in answer.get("times", ()):
        click.echo(time)
    click.echo(f"{'would run' if dry_run else 'accepted'}: {job_ref(found)}, {answer['count']} times")
