"""A job's retry as given -> core.model.Retry: a list of delays, or a rule that is written out as one."""

from __future__ import annotations

from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.schema import ExponentialIn, RetryIn
from raftsched.api.jobs.triggers_in import duration_of
from raftsched.core.model import Outcome, Retry

_OUTCOME = {"failed": Outcome.FAILED, "timed_out": Outcome.TIMED_OUT}


def retry_of(given: RetryIn, errors: list[FieldError]) -> Retry:
    """Errors are added to the list; the result is of use only when none were."""
    delays = tuple(duration_of(text, f"/retry/delays/{i}", errors) or 0 for i, text in enumerate(given.delays))
    if given.exponential is not None:
        if given.delays:
            errors.append(FieldError("/retry/exponential", "is given beside delays; give one of them"))
        delays = _written_out(given.exponential, errors)
    if not given.on:
        errors.append(FieldError("/retry/on", 'is empty; give "failed", "timed_out" or both, or leave it out'))
    return Retry(delays, tuple(sorted({_OUTCOME[on] for on in given.on})), given.jitter_percent)


def _written_out(given: ExponentialIn, errors: list[FieldError]) -> tuple[int, ...]:
    first = duration_of(given.first, "/retry/exponential/first", errors) or 0
    most = duration_of(given.max, "/retry/exponential/max", errors) or 0
    if first > most and not errors:
        errors.append(FieldError("/retry/exponential/max", f"is below first; give {given.first} or more"))
    delays = []
    delay = float(first)
    for _ in range(given.attempts):
        delays.append(round(min(delay, most)))
        delay = min(delay * given.factor, most)
    return tuple(delays)
