"""`raftsched jobs run`: starts runs by hand, and where it is told to waits for their end or follows their output."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.each import each_tried
from raftsched.cli.failures import Failure, failure
from raftsched.cli.jobs.operations import by_filter, many_options
from raftsched.cli.jobs.wait import GivenUp, Watch, end_words, ended, milliseconds
from raftsched.cli.lazy import Command
from raftsched.cli.remote import find_job, format_option, job_ref, read_json, remote
from raftsched.cli.runs.logs import print_split, say_where_parts_wrote
from raftsched.cli.terminal.limit import limited
from raftsched.cli.terminal.output import print_json
from raftsched.errors import Exit, RaftschedError
from raftsched.surface.plain import explain, job_actions, output, runs
from raftsched.surface.plain.enums import END_STATE_NAME

if TYPE_CHECKING:
    from raftsched.client.http import Client

_SOON_S = 2.0  # a run that has not begun by then is told why
# Where the exit code is a run's, which programs end with as they like: those that `timeout` and `docker run` have.
_TIME_OVER = 124
_NOT_SAID = 125
_INTERRUPTED = 130  # as a shell says of what SIGINT ended


@click.command(cls=Command)
@click.argument("refs", metavar="[JOB]...", nargs=-1)
@click.option("--wait", "waits", is_flag=True, help="Wait for the end, and say how it ended.")
@click.option("-f", "--follow", is_flag=True, help="Print the output of the job's run as it comes, to its end.")
@click.option(
    "--timeout", "timeout_ms", metavar="DURATION", callback=milliseconds,
    help="Of --wait and -f: give up waiting after this; the run goes on.  [default: none]",
)  # fmt: skip
@click.option("--params", metavar="JSON", help="Parameters instead of the job's own, an object.")
@click.option("--priority", type=click.IntRange(0, 9), help="Instead of the job's own, 9 first.")
@many_options
@format_option
@remote
def run(
    client: Client, refs: tuple[str, ...], waits: bool, follow: bool, timeout_ms: int | None, params: str | None,
    priority: int | None, fmt: str, **given: Any,
) -> None:  # fmt: skip
    """Run jobs now, beside their schedules, and print the ids of the runs. By filter, with their own parameters and
    priority, only how many.

    With --wait or -f the exit code is that of the run: 0 when it succeeded, its program's own where that failed with
    one, else 1. It is 124 when the time of --timeout was over, and 125 when it is not known how the run ended, or it
    was not started. Of several runs it is that of the first that did not succeed.
    -f goes on with the next attempt where a run is retried; what the run wrote to stderr goes to stderr, and so do
    notices. Ctrl-C ends the waiting, and the run goes on.

    \b
      raftsched jobs run billing/nightly-report --params '{"month": "2026-10"}'
      raftsched jobs run billing/nightly-report -f
      raftsched jobs run import export --wait --timeout 1h
      raftsched jobs run --label team=fin --dry-run
    """
    if not refs and (params is not None or priority is not None):
        raise click.UsageError("--params and --priority go with JOB..., not with a filter")
    if not refs and (waits or follow):
        raise click.UsageError("--wait and -f go with JOB..., not with a filter, which waits by itself")
    if follow and len(refs) > 1:
        raise click.UsageError(f"-f follows the run of one job, not of {len(refs)}; --wait waits for all of them")
    if follow and fmt != "table":
        raise click.UsageError("-f prints what the run writes; leave -o out")
    if timeout_ms is not None and not (waits or follow):
        raise click.UsageError("--timeout goes with --wait or -f; how long a run may take the job says")
    if by_filter(client, "run", refs, given, fmt):
        return
    body: dict[str, Any] = {}
    if params is not None:
        body["params"] = read_json(params, "--params")
    if priority is not None:
        body["priority"] = priority
    started: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def act(ref: str) -> None:
        job = find_job(client, ref)
        answer = client.post(job_actions.RUN.format(id=job["id"]), body)
        started.append((job, answer))
        if fmt == "name":
            click.echo(answer["id"])
        elif fmt == "table":
            click.echo(f"accepted: {job_ref(job)} runs as {answer['id']}", err=waits or follow)

    if waits or follow:
        seconds = None if timeout_ms is None else timeout_ms / 1000
        with _codes_of_a_run():
            code = _NOT_SAID if each_tried(refs, act) else 0
            code = _to_their_end(client, started, seconds, fmt, len(refs), follow) or code
        sys.exit(code)
    try:
        code = each_tried(refs, act)
    finally:  # what was done is told, whatever came after it
        if fmt == "json" and started:
            _print_all([answer for _, answer in started], len(refs))
    sys.exit(code)


@contextmanager
def _codes_of_a_run() -> Iterator[None]:
    """Gives failures of this command exit codes of their own, beside that of a run."""
    from raftsched.cli.near import with_near

    try:
        yield
    except Failure as error:
        error.exit_code = _TIME_OVER if error.exit_code == Exit.TIMEOUT else _NOT_SAID  # type: ignore[misc]
        raise
    except RaftschedError as error:
        failed = failure(with_near(error, click.get_current_context()))
        failed.exit_code = _NOT_SAID  # type: ignore[misc]
        raise failed from None


def _print_all(found: list[dict[str, Any]], asked: int) -> None:
    print_json(found[0] if asked == 1 else {"items": found})


def _to_their_end(
    client: Client, started: list[tuple[dict[str, Any], dict[str, Any]]], seconds: float | None, fmt: str, asked: int,
    follow: bool,
) -> int:  # fmt: skip
    """Waits for the end of these runs, or follows the one there is. Returns the exit code."""
    from raftsched.system.clock import SystemClock

    watch = Watch(math.inf if seconds is None else seconds, SystemClock().monotonic)
    code, ends = 0, []
    open_ids = [answer["id"] for _, answer in started]
    try:
        for job, answer in started:
            instance = answer["id"]
            if follow:
                late = Failure(f"gave up waiting: {instance} has not ended", Exit.TIMEOUT)
                with limited(seconds, late):
                    found = _follow(client, job, instance)
            else:
                look = functools.partial(ended, client, instance)
                found = watch.until(f"{instance} has not ended", look)
            open_ids.remove(instance)
            ends.append(found)
            if fmt != "json":
                click.echo(end_words(found, f"{job_ref(job)} ({instance})"), err=follow or fmt == "name")
            code = code or exit_code(found)
    except KeyboardInterrupt:
        _say_how_to_go_on(open_ids)
        sys.exit(_INTERRUPTED)
    except Failure as error:
        if error.exit_code == Exit.TIMEOUT:
            _say_how_to_go_on(open_ids)
        raise
    finally:
        if fmt == "json" and ends:
            _print_all(ends, asked)
    return code


def _say_how_to_go_on(instances: list[str]) -> None:
    for instance in instances:
        click.echo(
            f"it goes on: raftsched logs -f {instance} follows it, raftsched runs kill {instance} ends it", err=True
        )


def exit_code(found: Mapping[str, Any]) -> int:
    """Returns the exit code that says how a run ended: its program's own where that failed with one."""
    if found["state"] == "SUCCEEDED":
        return 0
    own = found.get("exit_code")
    return int(own) if found["state"] == "FAILED" and own is not None and 0 < own < 256 else int(Exit.ERROR)


def _follow(client: Client, job: Mapping[str, Any], instance: str) -> dict[str, Any]:
    """Prints what a run writes, attempt after attempt. Returns the run as it is at its end. Raises ClientError,
    Failure."""
    from raftsched.system.clock import SystemClock

    watch = Watch(math.inf, SystemClock().monotonic)
    _say_why_it_waits(client, instance)
    number = 1
    while True:
        print_split(client, output.GET.format(id=instance), {"follow": True, "attempt": number})
        found: dict[str, Any] = watch.until("", functools.partial(_over, client, instance, number))
        if found["state"] in END_STATE_NAME:
            say_where_parts_wrote(found)
            return found
        _say_next(job, found, number)
        number += 1


def _say_why_it_waits(client: Client, instance: str) -> None:
    """Says what a run waits for that has not begun after a while, where a node can say so now."""
    from raftsched.client.errors import ClientError
    from raftsched.system.clock import SystemClock

    def begun() -> bool | None:
        found = client.get(runs.GET.format(id=instance))
        return True if found["attempt"] or found["state"] in END_STATE_NAME else None

    try:
        Watch(_SOON_S, SystemClock().monotonic).until("", begun)
    except GivenUp:  # and no other failure: the time of --timeout may be up meanwhile
        try:
            found = client.get(explain.INSTANCE.format(id=instance))
        except ClientError:
            return
        if found["waiting_for"] is not None:
            click.echo(f"raftsched: it waits: {found['waiting_for']['text']}", err=True)


def _over(client: Client, instance: str, number: int) -> dict[str, Any] | None:
    """Returns the run when this attempt of it has ended; None: it has not."""
    found: dict[str, Any] = client.get(runs.GET.format(id=instance))
    ends = any(attempt["number"] == number and attempt.get("outcome") for attempt in found["attempts"])
    return found if ends or found["attempt"] > number or found["state"] in END_STATE_NAME else None


def _say_next(job: Mapping[str, Any], found: Mapping[str, Any], number: int) -> None:
    """Says that another attempt comes, of how many, and when."""
    retry = job.get("retry") or {}
    delays = retry.get("delays") or ()
    of, when = "", ""
    if found.get("reason") == "retry" and number <= len(delays):
        about = "about " if retry.get("jitter_percent") else ""
        of, when = f" of {len(delays) + 1}", f" in {about}{delays[number - 1]}"
    outcomes = {attempt["number"]: attempt.get("outcome") for attempt in found["attempts"]}
    how = str(outcomes.get(number) or "ended").replace("_", " ")
    click.echo(f"raftsched: attempt {number} {how}; attempt {number + 1}{of}{when}", err=True)
