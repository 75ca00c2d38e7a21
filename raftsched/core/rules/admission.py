"""Decides whether one more run of a queue may start now: exactly in apply, and by an estimate on the leader, before it
proposes.

A rate of N starts in each period is a bucket of N that fills again evenly: the generic cell rate algorithm (ITU-T
I.371, virtual scheduling) with the period as its burst. After a quiet period N may start at once; in the long run
never more than N in a period. The arrival time is kept in nanoseconds, so that high rates lose nothing to rounding.
"""

from __future__ import annotations

from typing import Protocol

from raftsched.core.subjects.queue import Queue

CLOCKS_APART_MS = 60_000
_NS = 1_000_000  # in a millisecond


class Bucket(Protocol):
    """The rate of a queue, or one of a key of runs. A count of None: no rate."""

    rate_count: int | None
    rate_period_ms: int
    arrival_ns: int


def blocked_reason(queue: Queue, now_ms: int, ahead: int = 0) -> str | None:
    """Why nothing more of the queue may start now: "paused", "full", "rate"; None: it may. `ahead`: starts that the row
    does not count yet."""
    if queue.paused:
        return "paused"
    if queue.max_running is not None and queue.running + ahead >= queue.max_running:
        return "full"
    if queue.rate_count is not None and unblocked_at_ms(queue, now_ms, ahead) > now_ms:
        return "rate"
    return None


def unblocked_at_ms(bucket: Bucket, now_ms: int, ahead: int = 0) -> int:
    """The first millisecond at which the rate lets one more start."""
    if bucket.rate_count is None:
        return now_ms
    arrival = _arrival_ns(bucket, now_ms) + ahead * _spacing_ns(bucket)
    burst = bucket.rate_period_ms * _NS - _spacing_ns(bucket)
    return max(now_ms, -(-(arrival - burst) // _NS))


def full_at_ms(bucket: Bucket, now_ms: int) -> int:
    """The first millisecond at which the bucket is as full as if nothing had ever started."""
    return -(-_arrival_ns(bucket, now_ms) // _NS)


def take(queue: Queue, now_ms: int) -> None:
    """One more starts."""
    queue.running += 1
    take_rate(queue, now_ms)


def take_rate(bucket: Bucket, now_ms: int) -> None:
    """One more starts, as far as the rate counts it."""
    if bucket.rate_count is not None:
        bucket.arrival_ns = _arrival_ns(bucket, now_ms) + _spacing_ns(bucket)


def _spacing_ns(bucket: Bucket) -> int:
    """Returns the time between two starts in the long run, rounded up."""
    return -(-bucket.rate_period_ms * _NS // (bucket.rate_count or 1))


def _arrival_ns(bucket: Bucket, now_ms: int) -> int:
    """Never before now. No start brings it more than a period ahead: where it is further than leaders' clocks are
    apart, a clock was wrong, and what that did must not last."""
    now = now_ms * _NS
    if bucket.arrival_ns > now + (bucket.rate_period_ms + CLOCKS_APART_MS) * _NS:
        return now
    return max(now, bucket.arrival_ns)
