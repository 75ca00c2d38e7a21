"""`raftsched jobs wait`: until runs have ended, or jobs are as wanted. Goes on while the cluster elects a leader."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Command
from raftsched.cli.remote import find_job, job_ref, remote
from raftsched.cli.runs.instances import check_id
from raftsched.cli.runs.states import meant_state, told_state
from raftsched.cli.runs.why import error_line
from raftsched.cli.terminal.values import shown
from raftsched.errors import Exit
from raftsched.surface.plain import runs
from raftsched.surface.plain.enums import END_STATE_NAME, JOB_STATE

if TYPE_CHECKING:
    from raftsched.client.http import Client

_FIRST_LOOK_S = 0.1
_LOOK_S = 2.0  # the longest time between two looks
_UNSEEN_S = 5.0  # what was made a moment ago may not be known to every node yet
Look = Callable[[], Any]


class GivenUp(Failure):
    """The time of a watch is up."""


class Watch:
    """Looks again and again until something is so, or the time is up."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._start = monotonic()
        self._until = self._start + seconds

    def until(self, what: str, look: Look) -> Any:
        """The first answer of `look` that is not None. An answer that cannot be had at the moment is none; what is not
        there becomes an error when it was there before, or does not appear."""
        from raftsched.client.errors import ClientError

        pause, seen, trouble = _FIRST_LOOK_S, False, ""
        while True:
            try:
                found = look()
                seen, trouble = True, ""
                if found is not None:
                    return found
            except ClientError as e:
                missing = e.status == 404 and not seen and self._monotonic() < self._start + _UNSEEN_S
                if not missing and e.exit not in (Exit.UNAVAILABLE, Exit.TIMEOUT):
                    raise
                trouble = f"; {e.detail}"
            left = self._until - self._monotonic()
            if left <= 0:
                raise GivenUp(f"gave up waiting: {what}{trouble}", Exit.TIMEOUT)
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _LOOK_S)


def milliseconds(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Returns a duration that was given as an option; None: none was. Raises a usage error."""
    if value is None:
        return None
    from raftsched.quantities import parse_duration

    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}") from None


@click.command(cls=Command)
@click.argument("refs", metavar="JOB|RUN...", nargs=-1, required=True)
@click.option(
    "--for", "wanted", default="end", show_default=True, metavar="WHAT",
    help="end: of the run; idle: no run is under way; deleted; or a state of the job.",
)  # fmt: skip
@click.option("--timeout", "timeout_ms", default="10m", show_default=True, metavar="DURATION", callback=milliseconds)
@remote
def wait(client: Client, refs: tuple[str, ...], wanted: str, timeout_ms: int) -> None:
    """Wait for the end of runs: of the one with this id, or of a job's run that is under way, or else of its next one.

    Exit code 0 when all succeeded or are as wanted, 1 when a run ended otherwise, 7 when the time was up. While no node
    answers, or there is no leader, it waits on.

    \b
      raftsched jobs wait billing/nightly-report
      raftsched jobs wait billing/nightly-report --for idle --timeout 1h
      raftsched jobs wait import export --for SUSPENDED
    """
    from raftsched.system.clock import SystemClock

    wanted = meant_state(wanted) if meant_state(wanted) in JOB_STATE else wanted
    if wanted not in ("end", "idle", "deleted", *JOB_STATE):
        known = ", ".join(("end", "idle", "deleted", *map(told_state, JOB_STATE)))
        raise click.UsageError(f"--for {wanted!r} is not known; use one of {known}")
    for ref in refs:
        if "@" in ref:
            check_id(ref)
            if wanted != "end":
                raise click.UsageError(f"{ref} is a run; --for {wanted} is about jobs")
    watch = Watch(timeout_ms / 1000, SystemClock().monotonic)
    code = 0
    for ref in refs:
        if wanted != "end":
            _state(client, watch, ref, wanted)
            continue
        instance = ref if "@" in ref else _run_of(client, watch, ref)
        found = watch.until(f"{instance} has not ended", functools.partial(ended, client, instance))
        click.echo(end_words(found, instance if "@" in ref else f"{ref} ({instance})"))
        code = code or (0 if found["state"] == "SUCCEEDED" else int(Exit.ERROR))
    sys.exit(code)


def ended(client: Client, instance: str) -> Any:
    """Returns a run that is at its end; None: it is not."""
    found = client.get(runs.GET.format(id=instance))
    return found if found["state"] in END_STATE_NAME else None


def end_words(found: Mapping[str, Any], about: str) -> str:
    """Returns how a run ended, and why, in a line."""
    why = [found["reason"]] if found.get("reason") else []
    why += [shown(line)] if (line := error_line(found)) else []
    return ": ".join([found["state"], about, *why])


def _run_of(client: Client, watch: Watch, ref: str) -> str:
    """The run that is meant, when it is there: the one under way, else the next. Raises Failure when none will come."""
    job = watch.until(f"there is no job {ref}", lambda: find_job(client, ref))
    before = job["last_instance"]
    over = job["state"] == "EXPIRED"
    if job["active"] or (over and before):
        return str(before)

    def look() -> str | None:
        now = find_job(client, job["id"])
        if now["last_instance"] not in (None, before):
            return str(now["last_instance"])
        if now["state"] == "EXPIRED":
            raise Failure(f"{job_ref(job)} has expired; it will not run again", Exit.ERROR)
        return None

    return str(watch.until(f"{job_ref(job)} has not run meanwhile", look))


def _state(client: Client, watch: Watch, ref: str, wanted: str) -> None:
    from raftsched.client.errors import ClientError

    def look() -> bool | None:
        try:
            job = find_job(client, ref)
        except ClientError as e:
            if wanted == "deleted" and e.status == 404:
                return True
            raise
        return True if wanted == job["state"] or (wanted == "idle" and not job["active"]) else None

    watch.until(f"{ref} is not {wanted}", look)
    click.echo(f"{wanted}: {ref}")
