"""Defines events for those who watch: the rows of the CHANGES table.

An event is numbered by the log entry that brought it about and its position among the events of that entry, so its
number is the same on every node. A row holds the events of one entry, up to `PER_ROW` of them, under the number of the
first: few rows, appended at the end of the tree. The value is the entry's time and the number of events, fixed in
size so that old rows are dropped without being decoded, and a msgpack array of the events.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import msgspec

from raftsched.core.model import InstanceState, JobState

PER_ROW = 40  # events; about 30 bytes each, so that a row does not outgrow its page
POSITION_MAX = 2**32 - 1

_KEY = struct.Struct(">QL")
_HEAD = struct.Struct(">QH")


class JobEvent(IntEnum):
    CREATED = 1
    EDITED = 2
    STATE = 3  # it has come into another state
    MOVED = 4  # new time zone data gave it another next time


class InstanceEvent(IntEnum):
    STATE = 1  # it is there, or has come into another state
    KILL_ASKED = 2  # what runs is asked to end
    DISCARDED = 3  # a dead letter is one no longer
    EXTENDED = 4  # a SKIPPED record stands for more times


class ClusterEvent(IntEnum):
    LEADER_CHANGED = 1  # subject: the leader
    MEMBERS_CHANGED = 2
    SESSION_OPENED = 3  # subject: the node
    SESSION_ENDED = 4
    NODE_CHANGED = 5  # what operators say about it
    QUEUE_CHANGED = 6  # subject: its name; also that it has no limits any more
    SETTINGS_CHANGED = 7
    CLUSTER_PAUSED = 8
    CLUSTER_RESUMED = 9
    OPERATION_STARTED = 10  # subject: its id
    OPERATION_ENDED = 11
    ZONES_CHANGED = 12  # subject: the time zone data that the leader computes with
    WEBHOOK_CHANGED = 30  # subject: its name; also that it is there no more


class JobChange(msgspec.Struct, array_like=True, frozen=True, tag=1, gc=False):
    event: JobEvent
    state: JobState
    namespace: str
    job_id: int
    revision: int


class InstanceChange(msgspec.Struct, array_like=True, frozen=True, tag=2, gc=False):
    event: InstanceEvent
    state: InstanceState
    namespace: str
    nominal_at_ms: int
    job_id: int
    request: int
    attempt: int  # number of the newest; 0: none yet
    node: str  # of that attempt; empty: none yet
    reason: str | None
    dead_letter: bool = False


class ClusterChange(msgspec.Struct, array_like=True, frozen=True, tag=3, gc=False):
    event: ClusterEvent
    subject: str = ""


Change = JobChange | InstanceChange | ClusterChange

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[Change])


def change_key(index: int, position: int) -> bytes:
    return _KEY.pack(index, position)


def split_change(key: bytes) -> tuple[int, int]:
    """(index of the entry, position)"""
    index, position = _KEY.unpack(key)
    return index, position


def encode_row(at_ms: int, changes: list[Change]) -> bytes:
    return _HEAD.pack(at_ms, len(changes)) + _encode(changes)


def row_head(raw: bytes) -> tuple[int, int]:
    """(time of the entry, number of events)"""
    at_ms, count = _HEAD.unpack_from(raw)
    return at_ms, count


def row_body(raw: bytes) -> memoryview:
    """The events of a row, as msgpack."""
    return memoryview(raw)[_HEAD.size :]


def decode_row(raw: bytes) -> tuple[int, list[Change]]:
    """(time of the entry, events)"""
    changes: list[Change] = _decoder.decode(row_body(raw))
    return row_head(raw)[0], changes
