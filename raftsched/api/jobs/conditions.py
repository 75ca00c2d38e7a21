"""Conditions as given -> core.model.Condition, with every error and its JSON pointer."""

from __future__ import annotations

from raftsched import names
from raftsched.api.auth.callers import sees
from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.handlers import url_error
from raftsched.api.jobs.triggers import duration_of
from raftsched.bounds import CONDITION_MAX
from raftsched.core.model import Condition, ConditionKind, Policy
from raftsched.hosts import url_asked_for
from raftsched.surface.content import ConditionIn

_ONE_OF = "exactly one of path, http, job_succeeded"
_BELONGS = {"status": "http", "within": "job_succeeded"}


def conditions_of(
    given: list[ConditionIn], errors: list[FieldError], kept: Policy | None = None
) -> tuple[Condition, ...]:
    """Errors are added to the list; the result is of use only when none were. `kept`: of the job as it is; a condition
    that others wrote may stay so."""
    stay = () if kept is None else kept.conditions
    found = []
    for i, one in enumerate(given):
        condition = _condition(one, f"/conditions/{i}", errors, stay)
        if condition is not None:
            found.append(condition)
    return tuple(found)


def _condition(given: ConditionIn, at: str, errors: list[FieldError], stay: tuple[Condition, ...]) -> Condition | None:
    kinds = [kind for kind in ("path", "http", "job_succeeded") if getattr(given, kind) is not None]
    if len(kinds) != 1:
        detail = f"has {' and '.join(kinds)}" if kinds else "says nothing to look at"
        errors.append(FieldError(at, f'{detail}; give {_ONE_OF}, for example {{"path": "/data/in/*.csv"}}'))
        return None
    for field, kind in _BELONGS.items():
        if getattr(given, field) is not None and kind != kinds[0]:
            errors.append(FieldError(f"{at}/{field}", f'has no meaning with "{kinds[0]}"; it goes with {kind}'))
    if given.path is not None:
        _path(given.path, f"{at}/path", errors)
        return Condition(ConditionKind.PATH, given.path)
    if given.http is not None:
        wrong = url_error(given.http)
        if wrong is not None:
            errors.append(FieldError(f"{at}/http", wrong))
        return Condition(ConditionKind.HTTP, url_asked_for(given.http), status=given.status or 0)
    return _job(given, at, errors, stay)


def _path(path: str, at: str, errors: list[FieldError]) -> None:
    if not path.startswith("/"):
        errors.append(FieldError(at, 'must be absolute, such as "/data/in/*.csv"; nodes start anywhere'))
    elif "**" in path.split("/"):
        errors.append(FieldError(at, 'has "**", which is not known; "*" stands for names in one directory'))
    elif len(path) > CONDITION_MAX:
        errors.append(FieldError(at, f"has {len(path)} characters; at most {CONDITION_MAX} are allowed"))
    if "\0" in path:
        errors.append(FieldError(at, "holds a NUL character, which no path can have; take it out"))


def _job(given: ConditionIn, at: str, errors: list[FieldError], stay: tuple[Condition, ...]) -> Condition:
    target = given.job_succeeded or ""
    within_ms = _within(given, at, errors)
    found = Condition(ConditionKind.JOB, target, within_ms=within_ms)
    if not names.JOB_OF_NAMESPACE.allows(target):
        errors.append(FieldError(f"{at}/job_succeeded", 'is no job; write "namespace/name", such as "billing/import"'))
    elif not sees(target.partition("/")[0]) and found not in stay:
        errors.append(
            FieldError(f"{at}/job_succeeded", "is in a namespace that your token is not for", "not-permitted")
        )
    return found


def _within(given: ConditionIn, at: str, errors: list[FieldError]) -> int:
    if given.within is None:
        errors.append(FieldError(f"{at}/within", "is missing; say how long ago the success may be, such as 2h"))
        return 0
    before = len(errors)
    within_ms = duration_of(given.within, f"{at}/within", errors) or 0
    if within_ms == 0 and len(errors) == before:
        errors.append(FieldError(f"{at}/within", "must be more than zero, such as 2h", "out-of-range"))
    return within_ms
