"""`raftsched jobs`: what is done to jobs that exist. Making them is in `jobs_write` and `jobs_import`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.jobs_import import import_
from raftsched.cli.jobs_write import apply, create
from raftsched.cli.output import Column, print_fields, print_json, print_rows
from raftsched.cli.preview import print_times
from raftsched.cli.remote import check_namespace, each, find_job, format_option, job_ref, read_json, remote

if TYPE_CHECKING:
    from raftsched.client.http import Client

_STATES = ["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]
_TRIGGERS = ("cron", "every", "at", "in", "rrule")


def _trigger(job: Any) -> str:
    trigger = job.get("trigger") or {}
    for kind in _TRIGGERS:
        if trigger.get(kind):
            zone = trigger.get("timezone")
            return f"{kind} {trigger[kind]}" + (f" {zone}" if kind == "cron" and zone not in (None, "UTC") else "")
    return "manual"


_COLUMNS: list[Column] = [
    ("NAME", job_ref),  # type: ignore[list-item]
    ("STATE", lambda j: j["state"]),
    ("TRIGGER", _trigger),
    ("NEXT", lambda j: j.get("next_fire_at")),
    ("LAST START", lambda j: j.get("last_start_at")),
    ("RUNNING", lambda j: j.get("running")),
    ("ID", lambda j: j["id"]),
]


@click.group()
def jobs() -> None:
    """Jobs. JOB is a name (in the namespace "default"), namespace/name, or an id.

    Where several are given, one that fails does not keep the others; the exit code is that of the first failure.
    """


@jobs.command("list")
@click.option("--namespace", "-N", metavar="NS", help="Of this namespace.")
@click.option("--state", type=click.Choice(_STATES, case_sensitive=False), help="In this state.")
@click.option("--owner", help="Of this owner.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many.")
@click.option("--all", "everything", is_flag=True, help="No limit.")
@format_option
@remote
def list_(
    client: Client,
    namespace: str | None,
    state: str | None,
    owner: str | None,
    limit: int,
    everything: bool,
    fmt: str,
) -> None:
    """List jobs.

    \b
      raftsched jobs list
      raftsched jobs list -N billing --state SUSPENDED
      raftsched jobs list --all -o json > jobs.json
    """
    query = {"namespace": check_namespace(namespace) if namespace else None, "state": state, "owner": owner}
    rows = client.items("/v1/jobs", query, None if everything else limit)
    print_rows(fmt, rows, _COLUMNS, job_ref, "no jobs")  # type: ignore[arg-type]


@jobs.command()
@click.argument("job", metavar="JOB")
@format_option
@remote
def get(client: Client, job: str, fmt: str) -> None:
    """Show a job: its state, and the job as it was given.

    \b
      raftsched jobs get billing/nightly-report
      raftsched jobs get tick -o json
    """
    found = find_job(client, job)
    if fmt == "json":
        print_json(found)
    elif fmt == "name":
        click.echo(job_ref(found))
    else:
        print_fields({name: value for name, value in found.items() if value not in (None, [], {}, "")})


def _each(client: Client, refs: tuple[str, ...], action: str, done: str, body: Any = None) -> None:
    """The same for several jobs. These actions set a state: safe to repeat."""

    def act(ref: str) -> None:
        found = find_job(client, ref)
        client.post(f"/v1/jobs/{found['id']}/{action}", body, repeatable=True)
        click.echo(f"{done}: {job_ref(found)}")

    each(refs, act)


@jobs.command()
@click.argument("refs", metavar="JOB...", nargs=-1, required=True)
@remote
def pause(client: Client, refs: tuple[str, ...]) -> None:
    """Suspend jobs: nothing new is started, what runs goes on. Pausing a paused job is no error.

    \b
      raftsched jobs pause billing/nightly-report
    """
    _each(client, refs, "pause", "paused")


@jobs.command()
@click.argument("refs", metavar="JOB...", nargs=-1, required=True)
@remote
def resume(client: Client, refs: tuple[str, ...]) -> None:
    """Schedule suspended jobs again, from now on: what was missed meanwhile is not caught up.

    \b
      raftsched jobs resume billing/nightly-report
    """
    _each(client, refs, "resume", "resumed")


@jobs.command()
@click.argument("refs", metavar="JOB...", nargs=-1, required=True)
@click.option("--kill", is_flag=True, help="Also ask what runs to end.")
@remote
def expire(client: Client, refs: tuple[str, ...], kill: bool) -> None:
    """End jobs for good; they stay visible with their history.

    \b
      raftsched jobs expire billing/nightly-report --kill
    """
    _each(client, refs, "expire", "expired", {"kill": True} if kill else {})


@jobs.command()
@click.argument("refs", metavar="JOB...", nargs=-1, required=True)
@remote
def delete(client: Client, refs: tuple[str, ...]) -> None:
    """Delete jobs and free their names. What runs is asked to end.

    \b
      raftsched jobs delete tick billing/nightly-report
      raftsched jobs list -N samples --all -o name | xargs -r raftsched jobs delete
    """

    def act(ref: str) -> None:
        found = find_job(client, ref)
        client.request("DELETE", f"/v1/jobs/{found['id']}")
        click.echo(f"deleted: {job_ref(found)}")

    each(refs, act)


@jobs.command()
@click.argument("refs", metavar="JOB...", nargs=-1, required=True)
@click.option("--params", metavar="JSON", help="Parameters instead of the job's own, an object.")
@click.option("--priority", type=click.IntRange(0, 9), help="Instead of the job's own, 9 first.")
@format_option
@remote
def run(client: Client, refs: tuple[str, ...], params: str | None, priority: int | None, fmt: str) -> None:
    """Run jobs now, beside their schedules, and print the instances.

    \b
      raftsched jobs run billing/nightly-report --params '{"month": "2026-10"}'
      raftsched instances output -f $(raftsched jobs run tick -o name)
    """
    body: dict[str, Any] = {}
    if params is not None:
        body["params"] = read_json(params, "--params")
    if priority is not None:
        body["priority"] = priority
    answers: list[Any] = []

    def act(ref: str) -> None:
        found = find_job(client, ref)
        answer = client.post_once(f"/v1/jobs/{found['id']}/run", body)
        answers.append(answer)
        if fmt == "name":
            click.echo(answer["id"])
        elif fmt == "table":
            click.echo(f"accepted: {job_ref(found)} runs as {answer['id']}")

    try:
        each(refs, act)
    finally:  # what was accepted is told, whatever came after it
        if fmt == "json" and answers:
            print_json(answers[0] if len(refs) == 1 else {"items": answers})


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
    print_times(client.get(f"/v1/jobs/{found['id']}/next", {"count": count}), fmt)


for command in (create, apply, import_):
    jobs.add_command(command)
