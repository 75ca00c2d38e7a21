"""POST /v1/schedules/crontab: a crontab, line by line, as the jobs that it would become. Nothing is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from aiohttp import web

from raftsched import names, schedule
from raftsched.api.auth.callers import check_permitted
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.parse import read_plain
from raftsched.api.serving import serves
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.schedule import TriggerError
from raftsched.surface import schedules

if TYPE_CHECKING:
    from raftsched.crontabs.line import Switches
    from raftsched.crontabs.reading import Crontab, Entry

TEXT_MAX = 128 * 1024  # bytes
LINES_MAX = 2_000  # that are neither blank nor comments
SETTINGS_MAX = 200  # lines that set a variable
JOBS_BYTES = 4 * 1024 * 1024  # of the commands and variables of all jobs: each carries all variables above it
_NO_USER = '"user_column": false'

_PREFIX = re.compile(schedules.CRONTAB_PREFIX, re.ASCII)


@serves(schedules.CONVERT_CRONTAB)
async def convert(ctx: ApiContext, call: Call[schedules.CrontabIn]) -> web.Response:
    given = call.body
    data = (given.text or "").encode("utf-8", "replace")
    errors = list(_wrong(given, data))
    if errors:
        raise Problem("invalid-body", errors=errors)
    namespace = given.namespace or DEFAULT_NAMESPACE
    check_permitted(namespace)
    from raftsched.crontabs.reading import read_in_steps  # a few ms, which a node starts without

    steps = read_in_steps(
        data,
        source=given.file,
        timezone=given.timezone,
        system=given.user_column,
        seconds=given.seconds,
        prefix=given.prefix,
        switches=_switches(),
    )
    slices = Slices()
    tab = await _last(steps, slices)
    lines = [schedules.CrontabLineOut(r.line, r.text, "refused", None, None, r.reason, []) for r in tab.refused]
    texts = data.decode("utf-8", "replace").split("\n")
    lines += [schedules.CrontabLineOut(n, texts[n - 1].strip(), "setting", None, None, None, []) for n in tab.settings]
    for entry in tab.entries:
        lines.append(_line(ctx, entry, namespace))
        await slices.turn()
    lines.sort(key=lambda line: line.line)
    by_number = {line.line: line for line in lines}
    for at, note in tab.notes:
        by_number[at].notes.append(note)
    return reply_value(schedules.CrontabOut(tab.system, lines))


@cache
def _switches() -> Switches:
    from raftsched.crontabs.line import Switches  # as in `convert`

    return Switches(
        user='"user_column": true',
        no_user=_NO_USER,
        no_user_column=_NO_USER,
        seconds='"seconds": true',
        no_seconds='"seconds": false',
        timezone='"timezone"',
    )


def _wrong(given: schedules.CrontabIn, data: bytes) -> Iterator[FieldError]:
    if given.text is None:
        yield FieldError("/text", "is missing; give what crontab -l prints")
    elif len(data) > TEXT_MAX:
        yield FieldError("/text", f"takes {len(data):,} bytes; {TEXT_MAX:,} is the limit", "out-of-range")
    elif (count := _count(data)) > LINES_MAX:
        yield FieldError("/text", f"has {count:,} lines; {LINES_MAX:,} is the limit, comments aside", "out-of-range")
    try:
        schedule.check_zone(given.timezone)
    except TriggerError as error:
        yield FieldError("/timezone", error.detail, "unknown-reference")
    if given.namespace is not None and not names.NAMESPACE.allows(given.namespace):
        yield FieldError("/namespace", f"breaks the rule for namespaces; use {names.NAMESPACE.rule}")
    if not _PREFIX.fullmatch(given.prefix):
        yield FieldError("/prefix", f"must be {schedules.CRONTAB_PREFIX_RULE}")
    if not 1 <= len(given.file) <= schedules.CRONTAB_FILE_MAX:
        yield FieldError("/file", f"must have 1 to {schedules.CRONTAB_FILE_MAX} characters")


async def _last(steps: Iterator[Crontab], slices: Slices) -> Crontab:
    """Returns the crontab as a whole. Raises Problem invalid-body when its jobs take too much room."""
    tab = next(steps)
    seen = size = 0
    for later in steps:
        tab = later
        if len(tab.settings) > SETTINGS_MAX:
            raise _too_much(f"sets more than {SETTINGS_MAX} variables")
        if len(tab.entries) > seen:
            seen = len(tab.entries)
            size += _size(tab.entries[-1])
            if size > JOBS_BYTES:
                raise _too_much(f"becomes jobs of more than {JOBS_BYTES:,} bytes, for each has all variables above it")
        await slices.turn()
    return tab


def _size(entry: Entry) -> int:
    handler = entry.job["handler"]
    return len(handler["shell"]) + sum(len(name) + len(value) for name, value in handler.get("env", {}).items())


def _too_much(detail: str) -> Problem:
    return Problem("invalid-body", errors=[FieldError("/text", f"{detail}; convert it in parts", "out-of-range")])


def _count(data: bytes) -> int:
    return sum(1 for line in data.split(b"\n") if line.strip() and not line.lstrip().startswith(b"#"))


def _line(ctx: ApiContext, entry: Entry, namespace: str) -> schedules.CrontabLineOut:
    job = {"name": entry.name, "namespace": namespace, **entry.job}
    try:
        content = read_plain(job, ctx.settings(), ctx.now_ms(), ctx.defaults_of, namespace)
    except Problem as problem:
        return schedules.CrontabLineOut(entry.line, entry.text, "refused", None, None, problem.detail, [])
    words = schedule.describe(content.policy.trigger)
    return schedules.CrontabLineOut(entry.line, entry.text, "job", job, words, None, [])
