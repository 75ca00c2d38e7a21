"""A job's notify as given -> core.subjects.notices.Notify, with every error and its JSON pointer."""

from __future__ import annotations

from raftsched import names
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.jobs.triggers import duration_of
from raftsched.bounds import NOTIFY_MAX
from raftsched.core.model import Policy
from raftsched.core.subjects.notices import OF_CLUSTER, Event, Notify
from raftsched.core.tables import ReadView, Table
from raftsched.surface.content import NotifyIn

Given = NotifyIn | list[NotifyIn] | None

EVENTS = {event.name.lower(): event for event in Event if event not in OF_CLUSTER}
_DURATIONS = ("late_by", "longer_than", "not_run_for")
_MEASURES = {"late": ("late_by",), "running_long": ("longer_than", "p95_times"), "not_run_since": ("not_run_for",)}
_MEANING = {
    "late": "how long after it was due a run has to have started",
    "running_long": "how long it may take, or how many times as long as 95 of 100 runs took lately",
    "not_run_since": "within which time it has to succeed again",
}
_CHOICES = ", ".join(f'"{name}"' for name in EVENTS)


def normal(given: Given) -> Given:
    """Returns one form for all that mean the same: the item of a list of one, None for an empty list."""
    if isinstance(given, list):
        given = given[0] if len(given) == 1 else given or None
    for one in given if isinstance(given, list) else [given] if given is not None else []:
        one.on = [event.name.lower() for event in sorted({EVENTS[name] for name in one.on})]  # type: ignore[misc]
    return given


def notify_of(given: Given, errors: list[FieldError]) -> tuple[Notify, ...]:
    """Errors are added to the list; the result is of use only when none were. Whether the webhooks are there is said
    by apply."""
    listed = isinstance(given, list)
    many = given if isinstance(given, list) else [] if given is None else [given]
    found: dict[str, Notify] = {}
    if len(many) > NOTIFY_MAX:
        errors.append(FieldError("/notify", f"names {len(many)} webhooks; at most {NOTIFY_MAX} are allowed"))
        return ()
    for i, one in enumerate(many):
        at = f"/notify/{i}" if listed else "/notify"
        name = one.webhook
        if name is None:
            errors.append(FieldError(f"{at}/webhook", 'is missing; give the name of a webhook, such as "ops"'))
        elif not names.WEBHOOK.allows(name):
            errors.append(FieldError(f"{at}/webhook", f"breaks the rule for webhooks' names; use {names.WEBHOOK.rule}"))
        elif name in found:
            errors.append(
                FieldError(f"{at}/webhook", f'is named before; say all "on" of "{name}" in one place', "repeated")
            )
        else:
            found[name] = _read(name, one, at, errors)
        if not one.on:
            errors.append(FieldError(f"{at}/on", f"is empty; give one or more of {_CHOICES}"))
    return tuple(found.values())


def _read(name: str, one: NotifyIn, at: str, errors: list[FieldError]) -> Notify:
    """Returns what a job asks of one webhook. What is measured goes with its measure, and the other way round."""
    for event, fields in _MEASURES.items():
        given = [field for field in fields if getattr(one, field) is not None]
        if event in one.on and not given:
            named = " or ".join(f'"{field}"' for field in fields)
            errors.append(FieldError(f"{at}/on", f'has "{event}"; say {named}, too: {_MEANING[event]}', "inconsistent"))
        for field in given if event not in one.on else ():
            errors.append(FieldError(f"{at}/{field}", f'is the measure of "{event}", which "on" lacks', "inconsistent"))
    measures = []
    for field in _DURATIONS:
        ms = duration_of(getattr(one, field), f"{at}/{field}", errors)
        if ms == 0:
            errors.append(FieldError(f"{at}/{field}", "is 0; give a duration above that, such as 30s", "out-of-range"))
        measures.append(ms or 0)
    late_ms, longer_ms, not_run_ms = measures
    percent = round((one.p95_times or 0) * 100)
    return Notify(name, tuple(sorted({EVENTS[event] for event in one.on})), late_ms, longer_ms, percent, not_run_ms)


def absent(policy: Policy, at: int) -> FieldError:
    """Returns the refusal of a webhook that does not exist, as apply finds it."""
    where = f"/notify/{at}/webhook" if len(policy.notify) > 1 else "/notify/webhook"
    name = policy.notify[at].webhook
    return FieldError(where, f'names the webhook "{name}", which is not there; create it first', "unknown-reference")


def refuse_unknown(view: ReadView, policy: Policy) -> None:
    """Refuses webhooks that do not exist, for requests that propose nothing. Raises Problem invalid-job."""
    for i, one in enumerate(policy.notify):
        if view.get(Table.WEBHOOKS, one.webhook.encode()) is None:
            raise Problem("invalid-job", errors=[absent(policy, i)])
