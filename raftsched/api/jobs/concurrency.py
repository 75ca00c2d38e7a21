"""Limits by key as given -> core.rules.run_keys.Concurrency, with every error and its JSON pointer. Rates as queues and
jobs say them."""

from __future__ import annotations

from typing import Any

from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.triggers import duration_of
from raftsched.core.limits import RATE_PERIOD_MS
from raftsched.core.rules.key_templates import KeyTemplateError, parse, pointer, render
from raftsched.core.rules.run_keys import Concurrency
from raftsched.quantities import format_duration
from raftsched.surface.content import ConcurrencyIn, RateIn


def concurrency_of(given: ConcurrencyIn, params: dict[str, Any], errors: list[FieldError]) -> Concurrency:
    """Errors are added to the list; the result is of use only when none were."""
    value = ""
    if given.key is None:
        errors.append(FieldError("/concurrency/key", 'is missing; say what runs are told apart by: "{params.tenant}"'))
    else:
        value = _value(given.key, params, errors)
    if given.max is None and given.rate is None:
        errors.append(FieldError("/concurrency", "limits nothing; give max, rate, or both"))
    count, period = (None, 0) if given.rate is None else rate_of(given.rate, "/concurrency/rate", errors)
    return Concurrency(given.key or "", value, given.max or 0, count, period)


def _value(template: str, params: dict[str, Any], errors: list[FieldError]) -> str:
    try:
        parse(template)
    except KeyTemplateError as error:
        errors.append(FieldError("/concurrency/key", str(error)))
        return ""
    try:
        return render(template, params)
    except KeyTemplateError as error:
        at = "/concurrency/key" if error.param is None else "/params" + pointer(error.param)
        errors.append(FieldError(at, str(error), "inconsistent"))
        return ""


def rate_of(given: RateIn, at: str, errors: list[FieldError]) -> tuple[int | None, int]:
    """Returns the number of starts, and the milliseconds of the period."""
    period = duration_of(given.per, f"{at}/per", errors)
    least, most = RATE_PERIOD_MS
    if given.count is None:
        errors.append(FieldError(f"{at}/count", "is missing; say how many starts there may be in each period"))
    if given.per is None:
        errors.append(FieldError(f"{at}/per", "is missing; give the period of the rate, such as 1m"))
    elif period is not None and not least <= period <= most:
        detail = f"must be from {format_duration(least)} to {format_duration(most)}"
        errors.append(FieldError(f"{at}/per", detail, "out-of-range"))
    return given.count, period or 0
