"""The rules of a job's fields that are named in `fields.py`: a value as given -> the value in core.model.Policy.

Each adds what it refuses to `errors`, with its JSON pointer; the result is of use only when nothing was added. The
rules of triggers, handlers, conditions and notify have modules of their own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched import names
from raftsched.api.http.durations import format_duration
from raftsched.api.http.problems import Combination, FieldError, pointer
from raftsched.api.jobs.handlers import check_params
from raftsched.api.jobs.triggers import duration_of
from raftsched.bounds import DESCRIPTION_MAX, LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, OWNER_MAX
from raftsched.cluster_settings import Settings
from raftsched.core.limits import GRACE_MAX_MS, RUN_MAX
from raftsched.core.model import (
    Delivery,
    Misfire,
    MisfirePolicy,
    Outcome,
    Overlap,
    Policy,
    Retention,
    Retry,
    Trigger,
    TriggerKind,
)
from raftsched.core.rules.references import may_refer
from raftsched.core.subjects.notices import SYSTEM_QUEUES
from raftsched.surface.content import (
    ConditionIn,
    ExponentialIn,
    HandlerIn,
    MisfireIn,
    PlacementIn,
    RetentionIn,
    RetryIn,
    TriggerItemIn,
)
from raftsched.system.nesting import DEPTH_MAX, nests_deeper

POLICY = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))  # that of a job which leaves out all but trigger and handler
_OVERLAPS = {v.name.lower(): v for v in Overlap}
_DELIVERIES = {v.name.lower(): v for v in Delivery}
_MISFIRES = {v.name.lower(): v for v in MisfirePolicy}
_OUTCOMES = {"failed": Outcome.FAILED, "timed_out": Outcome.TIMED_OUT}
PARTS_ONE_WAY = "does not go with `on`: a run has shards, or a part on each node"
_TIMEOUT_MS, _CONDITIONS_TIMEOUT_MS = POLICY.timeout_ms, POLICY.conditions_timeout_ms
_MISFIRE_IN, _PLACEMENT_IN = MisfireIn(), PlacementIn()

_json = msgspec.json.Encoder(order="deterministic").encode


def check_description(given: str, errors: list[FieldError]) -> None:
    if len(given) > DESCRIPTION_MAX:
        detail = f"has {len(given):,} characters; {DESCRIPTION_MAX:,} is the limit"
        errors.append(FieldError("/description", detail))


def check_owner(given: str, errors: list[FieldError]) -> None:
    if not 1 <= len(given) <= OWNER_MAX:
        errors.append(FieldError("/owner", f"must have 1 to {OWNER_MAX} characters"))


def queue_of(given: str, errors: list[FieldError]) -> str:
    if not names.QUEUE.allows(given):
        errors.append(FieldError("/queue", f"breaks the rule for names; use {names.QUEUE.rule}"))
    elif given.startswith(SYSTEM_QUEUES):
        errors.append(FieldError("/queue", "is that of a webhook or a namespace; take another", "reserved"))
    return given


def delivery_of(given: str) -> Delivery:
    return _DELIVERIES[given]


def overlap_of(given: str) -> Overlap:
    return _OVERLAPS[given]


def max_concurrency_of(given: int, overlap: str | None) -> int:
    """Returns 0 where it is what `overlap` says by itself."""
    return 0 if given == 1 and overlap != "allow" else given


def stored_max_concurrency(given: int, overlap: str | None) -> int | None:
    return max_concurrency_of(given, overlap) or None


def shown_max_concurrency(overlap: str) -> int | None:
    return None if overlap == "allow" else 1


def timeout_of(given: str | None, settings: Settings, errors: list[FieldError]) -> int:
    ceiling = settings.timeout_ceiling_ms
    if given is None:
        return min(_TIMEOUT_MS, ceiling)
    timeout = duration_of(given, "/timeout", errors)
    if timeout is None:
        return _TIMEOUT_MS
    if timeout > ceiling:
        errors.append(
            FieldError(
                "/timeout",
                f"is above the cluster's ceiling; at most {format_duration(ceiling)} is allowed",
                "out-of-range",
            )
        )
    elif timeout == 0:
        errors.append(
            FieldError("/timeout", f"must be more than zero and at most {format_duration(ceiling)}", "out-of-range")
        )
    return timeout


def shown_timeout(policy: Policy) -> str:
    return format_duration(policy.timeout_ms)


def grace_of(given: str, errors: list[FieldError]) -> int:
    grace = duration_of(given, "/grace", errors)
    if grace is not None and grace > GRACE_MAX_MS:
        errors.append(FieldError("/grace", f"must be at most {format_duration(GRACE_MAX_MS)}", "out-of-range"))
    return grace or 0


def expires_of(given: str, errors: list[FieldError]) -> int:
    expires = duration_of(given, "/expires", errors)
    if expires == 0:
        errors.append(FieldError("/expires", "must be more than zero, such as 10m", "out-of-range"))
    return expires or 0


def user_of(given: str, handler: HandlerIn | None, namespace: str, errors: list[FieldError]) -> str:
    """Returns `namespace:user`, which a node must allow."""
    if not names.USER.allows(given):
        errors.append(FieldError("/user", f"is no name of a user; use {names.USER.rule}"))
    if handler is not None and handler.http is not None:
        errors.append(
            FieldError(
                "/user", "has no meaning with http, which is no process of the job's; leave it out", "inconsistent"
            )
        )
    return f"{namespace}:{given}"


def conditions_timeout_of(given: str, errors: list[FieldError]) -> int:
    timeout = duration_of(given, "/conditions_timeout", errors)
    if timeout == 0:
        errors.append(FieldError("/conditions_timeout", "must be more than zero, such as 1h", "out-of-range"))
    return _CONDITIONS_TIMEOUT_MS if timeout is None else timeout


def shown_conditions_timeout(policy: Policy) -> str | None:
    return format_duration(policy.conditions_timeout_ms) if policy.conditions else None


def misfire_of(given: MisfireIn, due: Trigger, triggers: list[TriggerItemIn], errors: list[FieldError]) -> Misfire:
    once = due.once or (bool(triggers) and all(t.at is not None or t.in_ is not None for t in triggers))
    if once and given.policy != _MISFIRE_IN.policy:
        errors.append(
            FieldError(
                "/misfire/policy",
                f'"{given.policy}" has no meaning for a job that is due once: it runs, however late; leave misfire out '
                "(where a job has one, give null)",
                "inconsistent",
            )
        )
    grace = duration_of(given.grace, "/misfire/grace", errors) or 0
    return Misfire(_MISFIRES[given.policy], grace)


def placement_of(given: PlacementIn, errors: list[FieldError]) -> tuple[tuple[str, str], ...]:
    check_labels(given.labels, errors, "/placement/labels")
    return tuple(sorted(given.labels.items()))


def preferred_of(given: PlacementIn, errors: list[FieldError]) -> tuple[tuple[str, str], ...]:
    check_labels(given.prefer, errors, "/placement/prefer")
    return tuple(sorted(given.prefer.items()))


def is_on_all(given: PlacementIn) -> bool:
    return given.on == "all"


def shards_of(given: PlacementIn, conditions: list[ConditionIn] | None, errors: list[FieldError]) -> int:
    """Returns 0 where a run has none. Refuses what does not go with parts."""
    what = "shards" if given.shards is not None else "on"
    if given.shards is not None and given.on is not None:
        errors.append(Combination("/placement/shards", PARTS_ONE_WAY))
    elif (given.shards is not None or given.on == "all") and any(c.path is not None for c in conditions or ()):
        text = "does not go with a `path` among the conditions, which is looked for on the one node that then runs it"
        errors.append(FieldError(f"/placement/{what}", text, "inconsistent"))
    return given.shards or 0


def stored_placement(given: PlacementIn) -> PlacementIn | None:
    """Returns what is stored of it: "one" is the default, and no labels are no placement."""
    if given.on == "one":
        given.on = None
    return None if given == _PLACEMENT_IN else given


def retention_of(given: RetentionIn, errors: list[FieldError]) -> Retention:
    age = duration_of(given.max_age, "/retention/max_age", errors) or 0
    return Retention(given.succeeded, given.failed, age)


def check_labels(given: dict[str, str], errors: list[FieldError], at: str = "/labels") -> None:
    if len(given) > LABELS_MAX:
        errors.append(Combination(at, f"has {len(given)} labels; at most {LABELS_MAX} are allowed"))
        return
    for key, value in given.items():
        if not 1 <= len(key) <= LABEL_KEY_MAX:
            errors.append(FieldError(at + pointer(key[:32]), f"needs a key of 1 to {LABEL_KEY_MAX} characters"))
        if len(value) > LABEL_VALUE_MAX:
            errors.append(FieldError(at + pointer(key[:32]), f"is too long; at most {LABEL_VALUE_MAX} characters"))


def check_run(handler_bytes: int, params_bytes: int, errors: list[FieldError]) -> None:
    """Refuses what a node cannot hand over to a run, whatever the limits of jobs are set to."""
    if handler_bytes + params_bytes > RUN_MAX:
        which, other = ("/params", "the handler") if params_bytes >= handler_bytes else ("/handler", "params")
        both = f"with {other} takes {handler_bytes + params_bytes:,} bytes"
        errors.append(
            FieldError(which, f"{both}; a run is given {RUN_MAX:,} at most, and may fetch what is more", "out-of-range")
        )


def encode_params(given: dict[str, Any], settings: Settings, errors: list[FieldError]) -> bytes:
    """Returns the JSON of params; refuses what is too large or nests too deeply."""
    if nests_deeper(given):
        errors.append(
            FieldError("/params", f"nests too deeply; at most {DEPTH_MAX} levels are allowed", "out-of-range")
        )
        return b"{}"
    raw = _json(given)
    if may_refer(raw):
        check_params(given, errors)
    if len(raw) > settings.params_max_bytes:
        errors.append(
            FieldError(
                "/params", f"takes {len(raw):,} bytes; {settings.params_max_bytes:,} is the limit", "out-of-range"
            )
        )
    return raw


def retry_of(given: RetryIn, errors: list[FieldError]) -> Retry:
    delays = tuple(duration_of(text, f"/retry/delays/{i}", errors) or 0 for i, text in enumerate(given.delays))
    if given.exponential is not None:
        if given.delays:
            errors.append(FieldError("/retry/exponential", "is given beside delays; give one of them", "inconsistent"))
        delays = _written_out(given.exponential, errors)
    if not given.on:
        errors.append(FieldError("/retry/on", 'is empty; give "failed", "timed_out" or both, or leave it out'))
    return Retry(delays, tuple(sorted({_OUTCOMES[on] for on in given.on})), given.jitter_percent)


def _written_out(given: ExponentialIn, errors: list[FieldError]) -> tuple[int, ...]:
    """Returns the delays that the rule stands for."""
    before = len(errors)
    first = duration_of(given.first, "/retry/exponential/first", errors) or 0
    longest = duration_of(given.max, "/retry/exponential/max", errors) or 0
    if first > longest and len(errors) == before:
        errors.append(
            FieldError("/retry/exponential/max", f"is below first; give {given.first} or more", "inconsistent")
        )
    delays = []
    delay = float(first)
    for _ in range(given.attempts):
        delays.append(round(min(delay, longest)))
        delay = min(delay * given.factor, longest)
    return tuple(delays)
