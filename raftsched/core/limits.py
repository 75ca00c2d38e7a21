"""The bounds of every number that apply computes with or makes a key of.

The API refuses earlier and says it better; here nothing may slip through, because what apply raises stops every node.
"""

from __future__ import annotations

from raftsched.core.model import DAY_MS, MINUTE_MS, Policy, Settings, Trigger, TriggerKind

NOW_MAX_MS = 2**43  # the year 2248: ids are a time and 20 bits more, and fit in 64
TIME_MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
DURATION_MAX_MS = 40_000 * DAY_MS  # more than a hundred years
RETRY_LEVELS_MAX = 1_000
KEPT_MAX = 100_000  # instances of one outcome of one job
EXPRESSION_MAX = 4_096  # characters
ERROR_MAX = 4_096  # characters of an attempt's error
RESULT_MAX = 64 * 1024  # bytes of an attempt's result
U64_MAX = 2**64 - 1
KEY_SIZE = 24  # bytes of an instance key

_COUNT_MAX = 1_000_000_000
_MOMENT = "{} must lie between 1970 and 9999."
# name -> (least, most)
_SETTINGS = {
    "session_ttl_ms": (1_000, 10 * MINUTE_MS),  # keepers need half a second of it to kill
    "timeout_ceiling_ms": (1, DURATION_MAX_MS),
    "body_max_bytes": (0, 16 * 2**20),
    "params_max_bytes": (0, 16 * 2**20),
    "start_deadline_ms": (1_000, DURATION_MAX_MS),
    "once_succeeded_keep_ms": (0, DURATION_MAX_MS),
    "once_failed_keep_ms": (0, DURATION_MAX_MS),
    "catch_up_max": (1, 10_000),
    "queue_all_max": (0, 10_000),
    "active_max": (1, 100_000),
    "attempts_kept": (1, 1_000),
    "idempotency_keep_ms": (0, 30 * DAY_MS),
    "idempotency_max": (0, 100_000_000),
}


def wrong_in_settings(settings: Settings) -> str | None:
    """What is wrong and what would be right; None: nothing."""
    for name, (least, most) in _SETTINGS.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            return f"{name} is {value}; use {least} to {most}."
    return None


def wrong_in_policy(policy: Policy) -> str | None:
    """What is wrong and what would be right; None: nothing."""
    found = _wrong_in_trigger(policy.trigger)
    if found is not None:
        return found
    if not 0 <= policy.priority <= 9:
        return f"priority is {policy.priority}; use 0 to 9."
    retry, retention, misfire = policy.retry, policy.retention, policy.misfire
    if not 1 <= policy.timeout_ms <= DURATION_MAX_MS:
        return _duration("timeout", policy.timeout_ms)
    if not 0 <= policy.max_lost <= _COUNT_MAX or not 1 <= policy.max_concurrency <= _COUNT_MAX:
        return "max_lost must be 0 or more, max_concurrency 1 or more."
    if policy.suspend_after is not None and not 1 <= policy.suspend_after <= _COUNT_MAX:
        return "suspend_after must be 1 or more."
    if len(retry.delays_ms) > RETRY_LEVELS_MAX:
        return f"retry has {len(retry.delays_ms)} delays; at most {RETRY_LEVELS_MAX} are allowed."
    for delay in retry.delays_ms:
        if not 0 <= delay <= DURATION_MAX_MS:
            return _duration("a retry delay", delay)
    if not 0 <= misfire.grace_ms <= DURATION_MAX_MS:
        return _duration("misfire grace", misfire.grace_ms)
    if not 0 <= retention.max_age_ms <= DURATION_MAX_MS:
        return _duration("retention max_age", retention.max_age_ms)
    if not (0 <= retention.succeeded <= KEPT_MAX and 0 <= retention.failed <= KEPT_MAX):
        return f"retention keeps 0 to {KEPT_MAX} instances of an outcome."
    return None


def _wrong_in_trigger(trigger: Trigger) -> str | None:
    starts, ends = trigger.starts_at_ms, trigger.ends_at_ms
    if not 0 <= trigger.at_ms <= TIME_MAX_MS:
        return _MOMENT.format("at")
    if starts is not None and not 0 <= starts <= TIME_MAX_MS:
        return _MOMENT.format("starts_at")
    if ends is not None and not 0 <= ends <= TIME_MAX_MS:
        return _MOMENT.format("ends_at")
    least = 1 if trigger.kind is TriggerKind.EVERY else 0
    if not least <= trigger.period_ms <= DURATION_MAX_MS:
        return _duration("the period", trigger.period_ms)
    if not 0 <= trigger.jitter_ms <= DURATION_MAX_MS:
        return _duration("jitter", trigger.jitter_ms)
    if trigger.max_runs is not None and not 1 <= trigger.max_runs <= _COUNT_MAX:
        return "max_runs must be 1 or more."
    if len(trigger.expr) > EXPRESSION_MAX:
        return f"an expression has at most {EXPRESSION_MAX} characters."
    return None


def _duration(name: str, value: int) -> str:
    return f"{name} is {value} ms; use more than zero, and at most {DURATION_MAX_MS}."
