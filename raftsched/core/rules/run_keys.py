"""Limits by key: how many runs with the same key may go at one time, and how many may start in a period.

A key is a text that follows from the params of a run, within its namespace. Runs of all jobs of the namespace that
come to the same key share its permits: one that goes has one, and those that find none wait in the line of the key.
"""

from __future__ import annotations

from enum import Enum, IntEnum

import msgspec

from raftsched.core.ids import job_text
from raftsched.core.rules.admission import full_at_ms, unblocked_at_ms
from raftsched.core.rules.key_templates import JOB_MARK, render
from raftsched.core.subjects.command import Command

RATES_MAX = 16  # rates of one key that are counted at a time; a run with another one waits until one of them is over
NAME_MAX = 128  # bytes of a job's name in a key; one with a longer name, which a log may hold, is in it by its id
HOLDERS_MAX = 10  # runs that the row of a key names, of those that have its permits

_params = msgspec.json.Decoder(dict).decode


class Concurrency(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The limits that a job sets for the keys of its runs."""

    key: str  # a template (core.rules.key_templates)
    value: str  # of it, for the job's own params
    max: int = 0  # runs with the same key at one time; 0: any number
    rate_count: int | None = None  # starts with the same key in each
    rate_period_ms: int = 0


def key_of(limits: Concurrency, name: str | None, job_id: int, params: bytes | None) -> str:
    """Returns the key of a run of the job with this name and id. `params`: its own, as JSON; None: it has the job's.
    Raises KeyTemplateError, and what decoding raises, for params of its own only."""
    value = limits.value if params is None else render(limits.key, _params(params))
    if JOB_MARK not in value:
        return value
    if name is None or len(name.encode()) > NAME_MAX:
        name = job_text(job_id)
    return value.replace(JOB_MARK, name)


class PermitState(IntEnum):
    NONE = 0
    IN_LINE = 1  # it waits for one
    HELD = 2


class Permit(msgspec.Struct, array_like=True, gc=False):
    """The key of an instance, and whether it may go by it."""

    namespace: str
    key: str
    state: PermitState = PermitState.NONE
    rate_count: int | None = None  # HELD, and not started yet: a start is kept for it in this bucket of the key
    rate_period_ms: int = 0


class KeyRate(msgspec.Struct, array_like=True, gc=False):
    """The bucket of one rate of a key (core.rules.admission)."""

    rate_count: int | None
    rate_period_ms: int
    arrival_ns: int = 0
    kept: int = 0  # starts for those that have a permit and have not started


class RunKey(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """One row of RUN_KEYS. It is there as long as one of its runs goes or waits, or a bucket of it is not full."""

    running: int = 0  # permits that are out: runs that wait for a worker or run
    waiting: int = 0  # runs in its line
    rates: list[KeyRate] = []
    wake_at_ms: int | None = None  # the key of its KEY_TIMERS row
    holders: list[bytes] = []  # instance keys of some of the runs that have a permit

    @property
    def is_needed(self) -> bool:
        return bool(self.running or self.waiting or self.rates)


class Blocked(Enum):
    """Why no further run with a key may go."""

    FULL = "full"
    RATE = "rate"
    RATES = "rates"  # too many different ones are counted


def blocked_by(row: RunKey, limits: Concurrency | None, now_ms: int) -> Blocked | None:
    """Returns what keeps one more run with these limits from having a permit; None: nothing."""
    if limits is None:
        return None
    if limits.max and row.running >= limits.max:
        return Blocked.FULL
    if limits.rate_count is None:
        return None
    bucket = bucket_of(row, limits.rate_count, limits.rate_period_ms)
    if bucket is None:
        counted = sum(1 for one in row.rates if one.kept or full_at_ms(one, now_ms) > now_ms)
        return Blocked.RATES if counted >= RATES_MAX else None
    return Blocked.RATE if unblocked_at_ms(bucket, now_ms, bucket.kept) > now_ms else None


def take_permit(row: RunKey, limits: Concurrency | None) -> None:
    """Counts one more run with a permit, and keeps a start for it in the bucket of its rate."""
    row.running += 1
    if limits is None or limits.rate_count is None:
        return
    bucket = bucket_of(row, limits.rate_count, limits.rate_period_ms)
    if bucket is None:
        bucket = KeyRate(limits.rate_count, limits.rate_period_ms)
        row.rates.append(bucket)
    bucket.kept += 1


def look_again_ms(row: RunKey, limits: Concurrency | None, now_ms: int) -> int | None:
    """Returns when time alone lets one more run with these limits go, which its rate holds up; None: never, others have
    to start or to end first."""
    bucket = None if limits is None else bucket_of(row, limits.rate_count, limits.rate_period_ms)
    if bucket is None:
        return min((full_at_ms(one, now_ms) for one in row.rates if not one.kept), default=None)
    if bucket.kept >= (bucket.rate_count or 0):
        return None
    return unblocked_at_ms(bucket, now_ms, bucket.kept)


def bucket_of(row: RunKey, rate_count: int | None, rate_period_ms: int) -> KeyRate | None:
    """Returns the bucket of a rate, None where it is full and not counted."""
    for one in row.rates:
        if one.rate_count == rate_count and one.rate_period_ms == rate_period_ms:
            return one
    return None


class WakeKey(Command, frozen=True, tag=140):
    """The timer of a key came due (its KEY_TIMERS row): its rate lets one more start, or there is more to let go."""

    key: bytes
    at_ms: int


def run_key(namespace: str, key: str) -> bytes:
    """Returns the key of a row of RUN_KEYS."""
    return namespace.encode() + b"\0" + key.encode()


def from_run_key(raw: bytes) -> tuple[str, str]:
    """Returns namespace and key."""
    namespace, _, key = raw.partition(b"\0")
    return namespace.decode(), key.decode()


def line_key(key: bytes, score_ms: int, instance: bytes) -> bytes:
    """Returns the key of a row of KEY_LINES. `key`: that of RUN_KEYS."""
    return key + b"\0" + score_ms.to_bytes(8, "big") + instance


def line_of(key: bytes) -> bytes:
    """Returns the prefix of the KEY_LINES rows of a key."""
    return key + b"\0"


def from_line(raw: bytes) -> bytes:
    """The instance key of a KEY_LINES key."""
    return raw[-24:]
