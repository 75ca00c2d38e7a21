"""Fire times that are integer arithmetic: apply computes these itself, on every node alike.

Calendar triggers (cron, rrule) are not here: the leader computes those and a command carries them.
"""

from __future__ import annotations

from zlib import crc32

from raftsched.core.ids import instance_key
from raftsched.core.model import EveryMode, Retry, Trigger, TriggerKind

_AT, _IN = TriggerKind.AT, TriggerKind.IN


def first_nominal(trigger: Trigger, now_ms: int, anchor_at_ms: int) -> int | None:
    """The first nominal time of a job accepted (or taken up again) at `now_ms`; None: none, or not ours to say."""
    if trigger.kind is _AT:
        return trigger.at_ms
    if trigger.kind is _IN:
        return anchor_at_ms + trigger.period_ms
    if trigger.kind is TriggerKind.EVERY:
        return next_every(trigger, now_ms, anchor_at_ms)
    return None


def next_every(trigger: Trigger, after_ms: int, anchor_at_ms: int) -> int | None:
    """The first point of the grid anchor + k * period (k >= 0 when starts_at is given, else k >= 1) after `after_ms`.

    Fixed delay counts from `after_ms`, the end of the run before, instead of the grid."""
    period = trigger.period_ms
    start = trigger.starts_at_ms
    if trigger.mode is EveryMode.FIXED_DELAY and after_ms > anchor_at_ms:
        at = after_ms + period
    elif after_ms < anchor_at_ms:
        at = anchor_at_ms
    else:
        at = anchor_at_ms + ((after_ms - anchor_at_ms) // period + 1) * period
    if start is not None and at < start:
        at = start
    if trigger.ends_at_ms is not None and at > trigger.ends_at_ms:
        return None
    return at


def grid_due(trigger: Trigger, nominal_at_ms: int, now_ms: int, keep: int) -> tuple[list[int], int]:
    """Grid points from `nominal_at_ms` to `now_ms` inclusive: the newest `keep` of them, and how many there are."""
    period = trigger.period_ms
    last = now_ms if trigger.ends_at_ms is None else min(now_ms, trigger.ends_at_ms)
    count = max(0, (last - nominal_at_ms) // period) + 1
    newest = nominal_at_ms + (count - 1) * period
    kept = min(count, keep)
    return [newest - (kept - 1 - i) * period for i in range(kept)], count


def jitter_ms(trigger: Trigger, job_id: int, nominal_at_ms: int, gap_ms: int | None = None) -> int:
    """A delay in [0, jitter_ms], spread evenly over jobs and times, and always the same for one of them.

    It stays below the period of a fixed rate, and below `gap_ms`, the time from this nominal time to the next: put off
    any longer, a fire would swallow the next one, or hold it up. None: there is no next time, or it is not known."""
    bound = trigger.jitter_ms
    if not bound:
        return 0
    if trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE:
        bound = min(bound, trigger.period_ms - 1)
    if gap_ms is not None:
        bound = min(bound, gap_ms - 1)
    if bound <= 0:
        return 0
    return crc32(instance_key(nominal_at_ms, job_id)) % (bound + 1)


def retry_delay_ms(retry: Retry, key: bytes, level: int) -> int:
    """Returns the delay before the retry of this level (from 1 on), lengthened by a part of at most `jitter_percent`
    that is spread evenly over instances and levels, and always the same for one of them. Runs that failed together do
    not come back together."""
    delay = retry.delays_ms[level - 1]
    most = delay * retry.jitter_percent // 100
    return delay + crc32(key + level.to_bytes(4, "big")) % (most + 1)
