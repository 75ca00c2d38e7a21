"""Notifications about the ends of instances: which ends there are, which jobs ask for them, what is sent.

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
NOTIFY_MAX = 8  # webhooks that one job names


def quota_queue(namespace: str) -> str:
    """The name of the queue in which all runs of a namespace count that has limits of them."""
    return QUOTA_QUEUE + namespace


class Ending(IntEnum):
    """The ends of an instance that webhooks can ask for. One end may be several of these: what failed is a dead letter,
    too."""

    SUCCEEDED = 1
    FAILED = 2
    TIMED_OUT = 3
    KILLED = 4
    SKIPPED = 5
    DEAD_LETTER = 6  # failed or timed out for good: it waits for somebody to requeue or discard it
    LOST = 7  # failed because its workers were lost


class Notify(msgspec.Struct, array_like=True, frozen=True):
    """A job says: tell this webhook when it comes to one of these ends."""

    webhook: str
    on: tuple[Ending, ...]


class Notice(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """An event: as it was when it came about. All webhooks are told of one end under the same `id`."""

    id: int
    at_ms: int
    ending: Ending | None = None  # None: a test, about nothing
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


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Notice)


def encode_notice(notice: Notice) -> bytes:
    return _encode(notice)


def decode_notice(raw: bytes) -> Notice:
    notice: Notice = _decoder.decode(raw)
    return notice
