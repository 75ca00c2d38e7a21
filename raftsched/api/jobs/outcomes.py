"""The `outcomes` of a job as given, checked: codes that mean something else than success or failure."""

from __future__ import annotations

import re
from itertools import pairwise

from raftsched.api.http.problems import FieldError, pointer
from raftsched.api.jobs.triggers import duration_of
from raftsched.bounds import OUTCOMES_MAX
from raftsched.core.limits import SNOOZE_MS
from raftsched.core.model import Mapped, Outcomes, Verdict
from raftsched.quantities import format_duration
from raftsched.surface.content import HandlerIn, OutcomesIn

_CODES = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", re.ASCII)
_EXITS, _STATUSES = (0, 255), (100, 599)
_WORDS = {verdict.name.lower(): verdict for verdict in Verdict}
_SHORTEST, _LONGEST = (format_duration(ms) for ms in SNOOZE_MS)
_CHOICES = 'use "succeed", "retry", "fail", "cancel" or "snooze 5m"'


def outcomes_of(given: OutcomesIn, handler: HandlerIn | None, errors: list[FieldError]) -> Outcomes | None:
    """Returns None where nothing is said."""
    if len(given.exit) + len(given.status) > OUTCOMES_MAX:
        described = max(len(given.exit), len(given.status)) <= OUTCOMES_MAX
        detail = f"has more than {OUTCOMES_MAX} entries; that is the limit"
        errors.append(FieldError("/outcomes", detail, "out-of-range" if described else None))
    if handler is not None:
        of_http = handler.http is not None
        if given.exit and of_http:
            errors.append(
                FieldError(
                    "/outcomes/exit", "has no meaning with http, which has no exit code; use status", "inconsistent"
                )
            )
        if given.status and not of_http:
            errors.append(FieldError("/outcomes/status", "is for http alone; use exit, for exit codes", "inconsistent"))
    exits = _entries(given.exit, "/outcomes/exit", _EXITS, "an exit code", errors)
    statuses = _entries(given.status, "/outcomes/status", _STATUSES, "a status", errors)
    return Outcomes(exits, statuses) if exits or statuses else None


def stored_outcomes(given: OutcomesIn) -> OutcomesIn | None:
    """Returns what is stored of it: none are the default."""
    return given if given.exit or given.status else None


def _entries(
    given: dict[str, str], at: str, bounds: tuple[int, int], what: str, errors: list[FieldError]
) -> tuple[Mapped, ...]:
    """Returns single codes first, for the first entry that has a code decides; then ranges, which have none in
    common."""
    single: list[tuple[str, Mapped]] = []
    ranges: list[tuple[str, Mapped]] = []
    for codes, text in given.items():
        place = at + pointer(codes[:32])
        span = _span(codes, bounds, what, place, errors)
        mapped = _meant(text, place, at.endswith("status"), errors)
        if span is None or mapped is None:
            continue
        entry = Mapped(*span, *mapped)
        (single if "-" not in codes else ranges).append((codes, entry))
    single.sort(key=lambda one: one[1].first)
    ranges.sort(key=lambda one: one[1].first)
    for group in (single, ranges):
        for (before, one), (codes, other) in pairwise(group):
            if other.first <= one.last:
                errors.append(
                    FieldError(at + pointer(codes), f"has codes that {before} has too; say each once", "repeated")
                )
    return tuple(entry for _, entry in [*single, *ranges])


def _span(codes: str, bounds: tuple[int, int], what: str, at: str, errors: list[FieldError]) -> tuple[int, int] | None:
    found, (least, most) = _CODES.fullmatch(codes), bounds
    turned = False
    if found is not None:
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if least <= first <= last <= most:
            return first, last
        turned = least <= last < first <= most
    detail = f'is not {what}; use one from {least} to {most}, or a range such as "{most - 9}-{most}"'
    errors.append(FieldError(at, detail, "inconsistent" if turned else None))
    return None


def _meant(text: str, at: str, may_ask: bool, errors: list[FieldError]) -> tuple[Verdict, int] | None:
    """Returns what an entry means. `may_ask`: the delay of a snooze may be left to the answer."""
    word, _, rest = text.partition(" ")
    verdict = _WORDS.get(word)
    if verdict is None or (rest and verdict is not Verdict.SNOOZE):
        errors.append(FieldError(at, f"is no outcome; {_CHOICES}"))
        return None
    if verdict is not Verdict.SNOOZE or (not rest and may_ask):
        return verdict, 0
    if not rest:
        errors.append(FieldError(at, 'says no time; write "snooze 5m", say'))
        return None
    delay_ms = duration_of(rest, at, errors)
    if delay_ms is None:
        return None
    if not SNOOZE_MS[0] <= delay_ms <= SNOOZE_MS[1]:
        errors.append(FieldError(at, f"is put off by {rest}; {_SHORTEST} to {_LONGEST} is allowed", "out-of-range"))
        return None
    return verdict, delay_ms
