"""The shared word: a deadline counts for its session only, and a renewal is seen by who mapped the same memory."""

from __future__ import annotations

import os

import pytest

from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.worker.processes.lease import LeaseSlot


def test_a_deadline_is_of_one_session() -> None:
    slot, fd = LeaseSlot.create()
    other = LeaseSlot(fd)
    os.close(fd)
    assert other.deadline(1) == 0
    slot.store(1, 123_456_789)
    assert other.deadline(1) == 123_456_789
    assert other.kill_at(1) == 123_456_789 - KILL_BEFORE_MS
    assert other.deadline(2) == 0
    slot.store(2, 999)
    assert (other.deadline(1), other.deadline(2)) == (0, 999)
    slot.store(0, 0)
    assert (other.deadline(2), other.kill_at(2)) == (0, -KILL_BEFORE_MS)
    slot.close()
    other.close()


def test_large_values() -> None:
    slot, fd = LeaseSlot.create()
    os.close(fd)
    longest = (1 << 42) - 1
    slot.store((1 << 63) + 5, longest)
    assert slot.deadline((1 << 63) + 5) == longest
    assert slot.deadline(6) == 0
    with pytest.raises(ValueError, match="milliseconds since boot"):
        slot.store(1, longest + 1)
    slot.close()
