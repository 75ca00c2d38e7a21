"""Defines queues with limits: their rows, and the commands that change them."""

from __future__ import annotations

import msgspec

from raftsched.core.subjects.command import Command


class Queue(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """A queue with limits. Jobs may name any queue; one that is not here has none."""

    name: str
    lane: int  # the part of READY that its instances wait in; numbers are never reused
    max_running: int | None = None  # attempts at one time
    rate_count: int | None = None  # starts in each
    rate_period_ms: int = 0
    running: int = 0  # live attempts counted
    arrival_ns: int = 0  # rate: the theoretical arrival time of the generic cell rate algorithm (ITU-T I.371), UTC
    paused: bool = False
    created_at_ms: int = 0
    modified_at_ms: int = 0
    revision: int = 0  # of what was said about it; greater with each change, and never used again


class QueueLimits(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The limits that an operator set for a queue."""

    max_running: int | None = None
    rate_count: int | None = None
    rate_period_ms: int = 0
    paused: bool = False


def limits_of(queue: Queue) -> QueueLimits:
    return QueueLimits(queue.max_running, queue.rate_count, queue.rate_period_ms, queue.paused)


# ---------------------------------------------------------------- commands


class PutQueue(Command, frozen=True, tag=8):
    """Creates the queue or sets its limits anew."""

    name: str
    max_running: int | None = None
    rate_count: int | None = None
    rate_period_ms: int = 0
    paused: bool = False
    was: QueueLimits | None = None  # refused unless the queue is there, with these
    if_none: bool = False  # create only: refused when it has limits, whatever they are
    if_revision: int | None = None  # refused unless the queue is there, at this revision


class DeleteQueue(Command, frozen=True, tag=9):
    """Its limits go; what waits in it goes on without."""

    name: str
    if_revision: int | None = None
