"""Filters of jobs, from a query or a body -> core.rules.filters.JobFilter."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from raftsched import names
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import FieldError
from raftsched.api.http.requests import NAMESPACE_HELP, Query, bad_parameter, check_namespace
from raftsched.api.jobs.triggers import time_of
from raftsched.core.model import JobState
from raftsched.core.rules.filters import JobFilter, filter_error
from raftsched.surface import enums
from raftsched.surface.bulk import JobFilterIn
from raftsched.surface.jobs import FILTERS

STATES = get_args(enums.JobState)
_RANGES = (("created_from", "created_to"), ("next_from", "next_to"))


def of_query(query: Query) -> JobFilter:
    """Raises Problem invalid-parameter."""
    check_namespace(query.text("namespace"))
    if query.text("name") is not None and query.text("name_prefix") is not None:
        raise bad_parameter("name", "and name_prefix exclude each other", "inconsistent")
    times = {name: query.time(name) for pair in _RANGES for name in pair}
    for low, high in _RANGES:
        if _crossed(times[low], times[high]):
            raise bad_parameter(low, f'is after "{high}"; it must not be', "inconsistent")
    found = JobFilter(
        namespace=query.text("namespace"),
        name=query.text("name"),
        name_prefix=query.text("name_prefix"),
        name_contains=query.text("name_contains"),
        states=_states(query),
        owner=query.text("owner"),
        labels=_label(query),
        queue=query.text("queue"),
        calendar=query.text("calendar"),
        created_from_ms=times["created_from"],
        created_to_ms=times["created_to"],
        next_from_ms=times["next_from"],
        next_to_ms=times["next_to"],
    )
    wrong = filter_error(found)
    if wrong is not None:
        longest = max(FILTERS, key=lambda name: len(query.text(name) or ""))
        raise bad_parameter(longest, f"is too long: {wrong.rstrip('.')}", "out-of-range")
    return found


def _states(query: Query) -> tuple[JobState, ...]:
    text = query.text("state")
    if text is None:
        return ()
    states = text.split(",")
    if any(state not in STATES for state in states):
        raise bad_parameter("state", f"must be one or more of {', '.join(STATES)}, separated by commas")
    return _sorted_states(states)


def _label(query: Query) -> tuple[tuple[str, str], ...]:
    text = query.text("label")
    if text is None:
        return ()
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise bad_parameter("label", "must be key=value")
    return ((key, value),)


def of_body(given: JobFilterIn, errors: list[FieldError]) -> JobFilter:
    """Returns the filter; refusals are added to `errors`, under /filter."""
    times = {name: time_of(getattr(given, name), f"/filter/{name}", errors) for pair in _RANGES for name in pair}
    for low, high in _RANGES:
        if _crossed(times[low], times[high]):
            errors.append(FieldError(f"/filter/{low}", f'is after "{high}"; it must not be', "inconsistent"))
    if given.name is not None and given.name_prefix is not None:
        errors.append(FieldError("/filter/name", "and name_prefix exclude each other", "inconsistent"))
    found = JobFilter(
        namespace=given.namespace,
        name=given.name,
        name_prefix=given.name_prefix,
        name_contains=given.name_contains,
        states=_sorted_states(given.state),
        owner=given.owner,
        labels=tuple(sorted(given.labels.items())),
        queue=given.queue,
        calendar=given.calendar,
        created_from_ms=times["created_from"],
        created_to_ms=times["created_to"],
        next_from_ms=times["next_from"],
        next_to_ms=times["next_to"],
    )
    if given.namespace is not None and not names.NAMESPACE.allows(given.namespace):
        errors.append(FieldError("/filter/namespace", NAMESPACE_HELP))
    wrong = filter_error(found)
    if wrong is not None:
        errors.append(FieldError("/filter", f"is too long: {wrong.rstrip('.')}", "out-of-range"))
    return found


def shown(wanted: JobFilter) -> JobFilterIn:
    """Returns the filter as it would be given in a body."""
    given: dict[str, Any] = {
        name: value
        for name, value in msgspec.structs.asdict(wanted).items()
        if value is not None and name in JobFilterIn.__struct_fields__
    }
    for low, high in _RANGES:
        for name in (low, high):
            at_ms = getattr(wanted, f"{name}_ms")
            if at_ms is not None:
                given[name] = format_time(at_ms)
    given["labels"] = dict(wanted.labels)
    given["state"] = [state.name for state in wanted.states]
    return JobFilterIn(**given)


def _sorted_states(names: Any) -> tuple[JobState, ...]:
    return tuple(sorted({JobState[name] for name in names}))


def _crossed(low_ms: int | None, high_ms: int | None) -> bool:
    return low_ms is not None and high_ms is not None and low_ms > high_ms
