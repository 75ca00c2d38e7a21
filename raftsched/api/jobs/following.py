"""The jobs that a job follows, as given -> core.model.After, with every error and its JSON pointer."""

from __future__ import annotations

from raftsched import names
from raftsched.api.auth.callers import sees
from raftsched.api.http.problems import FieldError
from raftsched.bounds import UPSTREAM_MAX
from raftsched.core.model import After, AfterOn, Policy
from raftsched.surface.content import AfterIn

_AT = "/trigger/after"
_ONE_OF = 'exactly one of job, all_of, any_of, for example {"job": "import"}'
_KINDS = ("job", "all_of", "any_of")


def after_of(given: AfterIn, namespace: str, errors: list[FieldError], kept: Policy | None = None) -> After:
    """Errors are added to the list; the result is of use only when none were. `namespace`: the job's own, which is that
    of names without one. `kept`: of the job as it is."""
    kinds = [kind for kind in _KINDS if getattr(given, kind) is not None]
    if len(kinds) != 1:
        detail = f"has {' and '.join(kinds)}" if kinds else "names no job"
        errors.append(FieldError(_AT, f"{detail}; give {_ONE_OF}"))
        return After(())
    if given.job is not None:
        places = [(given.job, f"{_AT}/job")]
    else:
        several = given.all_of if given.all_of is not None else given.any_of
        places = [(name, f"{_AT}/{kinds[0]}/{place}") for place, name in enumerate(several or ())]
        if not 1 <= len(places) <= UPSTREAM_MAX:
            detail = f"has {len(places)} jobs; name 1 to {UPSTREAM_MAX}"
            errors.append(FieldError(f"{_AT}/{kinds[0]}", detail))
            return After(())
    on = AfterOn.SUCCEEDED if given.on is None else AfterOn[given.on.upper()]
    passes = given.pass_ is not None
    stay = _stay(kept, on, passes=passes)
    found: dict[str, str] = {}
    said: set[str] = set()
    for name, at in places:
        target = name if "/" in name else f"{namespace}/{name}"
        if not names.JOB_OF_NAMESPACE.allows(target):
            errors.append(FieldError(at, 'is no job; write its name, or "namespace/name", such as "billing/import"'))
        elif target in found:
            detail = f"names the same job as {found[target]}; once is enough"
            errors.append(FieldError(at, detail, None if name in said else "repeated"))
        elif not sees(target.partition("/")[0]) and target not in stay:
            errors.append(FieldError(at, "is in a namespace that your token is not for", "not-permitted"))
        found.setdefault(target, at)
        said.add(name)
    return After(tuple(found), on, given.any_of is not None, passes)


def _stay(kept: Policy | None, on: AfterOn, *, passes: bool) -> tuple[str, ...]:
    """Returns the jobs that others may have named, and that stay whoever edits the job: not with other ends, nor with
    results that it was not to have."""
    after = None if kept is None else kept.trigger.after
    return () if after is None or after.on is not on or (passes and not after.passes) else after.jobs
