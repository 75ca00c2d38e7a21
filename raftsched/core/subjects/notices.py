"""Notifications about jobs and their instances: of which events there are some, which jobs ask for them, what is sent.

A notice is an event on its way to one webhook. It lies in the row of the hidden instance that delivers it, so that it
is there as long as the delivery is, whatever becomes of what it is about.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

SYSTEM_NAMESPACE = "_system"  # of the jobs that the cluster makes for itself; nobody else's may be in it
SYSTEM_QUEUE = "_webhooks."  # what the names of queues begin with that deliveries wait in
QUOTA_QUEUE = "_namespaces."  # and of those that hold the runs of a namespace within its limits
SYSTEM_QUEUES = (SYSTEM_QUEUE, QUOTA_QUEUE)


def quota_queue(namespace: str) -> str:
    """The name of the queue in which all runs of a namespace count that has limits of them."""
    return QUOTA_QUEUE + namespace


class Event(IntEnum):
    """An event that webhooks can ask for. One end may be several of these: what failed is a dead letter, too."""

    SUCCEEDED = 1
    FAILED = 2
    TIMED_OUT = 3
    KILLED = 4
    SKIPPED = 5
    DEAD_LETTER = 6  # failed or timed out for good: it waits for somebody to requeue or discard it
    LOST = 7  # failed because its workers were lost
    STARTED = 8  # for the first time, or for the first time after a rerun
    LATE = 9  # started so long after it was due, or has not started by then
    RUNNING_LONG = 10  # an attempt takes longer than that
    NOT_RUN_SINCE = 11  # the job has not succeeded for so long
    LEADER_CHANGED = 20  # another node leads
    NODE_LOST = 21  # it was not heard of, and its session was ended
    NODE_BACK = 22  # after that
    DISK_SHORT = 23  # of a node, which takes no writes of clients then


ENDS = frozenset(event for event in Event if event <= Event.LOST)
OF_CLUSTER = frozenset(event for event in Event if event >= Event.LEADER_CHANGED)
MEASURED = frozenset({Event.LATE, Event.RUNNING_LONG, Event.NOT_RUN_SINCE})  # by what the job says of each: jobs ask


class Notify(msgspec.Struct, array_like=True, frozen=True):
    """A job says: tell this webhook of these events."""

    webhook: str
    on: tuple[Event, ...]
    late_ms: int = 0  # LATE; this and the following are 0 where the job does not say
    longer_ms: int = 0  # RUNNING_LONG
    p95_percent: int = 0  # RUNNING_LONG: of the 95th percentile of what its runs took lately
    not_run_ms: int = 0  # NOT_RUN_SINCE


class Notice(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """An event: as it was when it came about. All webhooks are told of one end under the same `id`."""

    id: int
    at_ms: int
    event: Event | None = None  # None: a test, about nothing
    instance: bytes = b""  # its key
    namespace: str = ""
    job_name: str | None = None
    owner: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    queue: str = ""
    state: int = 0  # of model.InstanceState
    dead_letter: bool = False
    reason: str | None = None
    error: str | None = None
    attempt: int = 0  # number of the last; 0: there was none
    node: str = ""  # of that attempt
    started_at_ms: int | None = None
    exit_code: int | None = None
    has_output: bool = False
    skipped: int = 0  # fires that a SKIPPED record stands for, so far
    job_id: int = 0  # where it is about a job, and no instance of it
    since_ms: int | None = None  # of MEASURED: from when it is counted,
    limit_ms: int = 0  # and how long was allowed
    left_out: int = 0  # events that the webhook was not told of before this one: too many in a time
    repeats: int = 0  # of OF_CLUSTER: how often it came about shortly before, and was not told


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Notice)


def encode_notice(notice: Notice) -> bytes:
    return _encode(notice)


def decode_notice(raw: bytes) -> Notice:
    notice: Notice = _decoder.decode(raw)
    return notice
