"""Reads when a job is due from the options of `jobs create`: one trigger, or several with an id for each."""

from __future__ import annotations

from typing import Any

import click

from raftsched import names
from raftsched.cli.jobs.fields import exactly_one
from raftsched.surface.plain import enums

_PASSED = "result"  # to the runs that come after

# In the order of the help.
OPTIONS = (
    click.option("--cron", metavar="[ID=]EXPR", multiple=True, help="When: a cron expression."),
    click.option(
        "--rrule",
        metavar="[ID=]RULE",
        multiple=True,
        help="A recurrence rule of RFC 5545, such as FREQ=WEEKLY;BYDAY=MO.",
    ),
    click.option("--every", metavar="[ID=]DURATION", multiple=True, help="When: each 10s, 5m, 1h30m."),
    click.option("--at", metavar="[ID=]TIME", multiple=True, help="Once, at this time (RFC 3339)."),
    click.option("--in", "in_", metavar="[ID=]DURATION", multiple=True, help="When: once, so long from now."),
    click.option("--manual", is_flag=True, help="Only when asked to (jobs run)."),
    click.option(
        "--after",
        metavar="JOB",
        multiple=True,
        help="When a run of JOB has succeeded; several: those of all of them have.",
    ),
    click.option("--after-on", type=click.Choice(enums.AFTER_END), help="Of --after.  [default: succeeded]"),
    click.option("--after-any", is_flag=True, help="Of --after: when the first of them has."),
    click.option("--pass-results", is_flag=True, help="Of --after: their results are among the params, as upstream."),
    click.option("--timezone", "-z", metavar="TZ", help="Of --cron or --rrule, such as Europe/Madrid.  [default: UTC]"),
    click.option(
        "--calendar", metavar="CALENDAR", help="Not in the time that this excludes; see 'raftsched calendars'."
    ),
    click.option(
        "--calendar-action", type=click.Choice(enums.CALENDAR_ACTION), help="What falls into that.  [default: skip]"
    ),
    click.option("--max-runs", metavar="N", type=click.IntRange(1), help="Over after so many runs."),
)
_TIMES = {"cron": "cron", "rrule": "rrule", "every": "every", "at": "at", "in": "in_"}  # kind of trigger -> parameter
_ON_CALENDARS = ("cron", "rrule", "every")
# option -> the kinds that know it
_TAKE = {"timezone": ("cron", "rrule"), "calendar": _ON_CALENDARS, "calendar_action": _ON_CALENDARS}


def when_options(command: Any) -> Any:
    """Adds the options that say when a job is due."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def when_of(o: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a job that say when it is due. Raises a usage error."""
    times = [(kind, *_split(kind, text)) for kind, parameter in _TIMES.items() for text in o[parameter]]
    others = {"manual": o["manual"], "after": _after(o)}
    if not any(others.values()) and (len(times) > 1 or any(ident for _, ident, _ in times)):
        return _several(times, o)
    trigger = exactly_one(
        "when the job is due", {kind: o[p][0] if o[p] else None for kind, p in _TIMES.items()} | others
    )
    for name in ("timezone", "calendar", "calendar_action", "max_runs"):
        if o[name]:
            trigger[name] = o[name]
    return {"trigger": trigger}


def _split(kind: str, text: str) -> tuple[str, str]:
    """Returns the id, "" for none, and the time."""
    ident, equals, value = text.partition("=")
    if not equals or (kind == "rrule" and "FREQ=" not in value.upper()):  # a rule has = in itself
        return "", text
    return ident, value


def _several(times: list[tuple[str, str, str]], o: dict[str, Any]) -> dict[str, Any]:
    triggers: list[dict[str, Any]] = []
    for kind, ident, value in times:
        if not names.TRIGGER.allows(ident):
            rule = f"{ident!r} is not {names.TRIGGER.kind}; it has {names.TRIGGER.rule}"
            wrong = rule if ident else f"each of {len(times)} times needs an id"
            raise click.UsageError(f"--{kind}: {wrong}; write --{kind} nightly={value!r}")
        triggers.append({"id": ident, kind: value})
    for name, kinds in _TAKE.items():
        takers = [trigger for trigger in triggers if o[name] and not trigger.keys().isdisjoint(kinds)]
        if o[name] and not takers:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with {', '.join(f'--{kind}' for kind in kinds)}")
        for trigger in takers:
            trigger[name] = o[name]
    return {"triggers": triggers, **({"max_runs": o["max_runs"]} if o["max_runs"] else {})}


def _after(o: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the jobs to follow, as options say; None: --after is not given. Raises a usage error."""
    jobs, any_of = list(o["after"]), o["after_any"]
    if not jobs:
        if o["after_on"] or any_of or o["pass_results"]:
            raise click.UsageError("--after-on, --after-any and --pass-results go with --after")
        return None
    after: dict[str, Any] = {"any_of": jobs} if any_of else {"job": jobs[0]} if len(jobs) == 1 else {"all_of": jobs}
    if o["after_on"]:
        after["on"] = o["after_on"]
    if o["pass_results"]:
        after["pass"] = _PASSED
    return after
