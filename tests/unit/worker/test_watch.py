"""When those above the keepers look whether anything outlives a lease."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.worker.processes.lease import LOOK_MS, LeaseSlot, Watch
from raftsched.worker.processes.sentinel import LATE_MS as SENTINEL_LATE_MS
from raftsched.worker.processes.supervisor import LATE_MS as SUPERVISOR_LATE_MS

LATE_MS = 250


@pytest.fixture
def slot() -> Iterator[LeaseSlot]:
    slot, fd = LeaseSlot.create()
    os.close(fd)
    yield slot
    slot.close()


def test_once_after_the_keepers_should_be_done_and_before_the_lease_is_over(slot: LeaseSlot) -> None:
    watch = Watch(slot, LATE_MS, 1_000)
    slot.store(7, 6_000)
    late = 6_000 - KILL_BEFORE_MS + LATE_MS
    assert 0 < SUPERVISOR_LATE_MS < SENTINEL_LATE_MS < KILL_BEFORE_MS
    assert not watch.due(1_000)
    assert not watch.due(late - 1)
    assert watch.wait_ms(late - 1) == 1
    assert watch.due(late)
    assert not watch.due(late + 1)
    assert watch.wait_ms(late + 1) == LOOK_MS


def test_a_renewal_moves_it_whichever_session_it_is_for(slot: LeaseSlot) -> None:
    watch = Watch(slot, LATE_MS, 0)
    slot.store(7, 6_000)
    assert not watch.due(0)
    slot.store(7, 9_000)
    assert not watch.due(8_700)
    assert watch.due(8_750)
    slot.store(8, 20_000)
    assert not watch.due(9_000)
    assert watch.wait_ms(9_000) == LOOK_MS
    assert watch.due(19_750)


def test_a_lease_that_was_given_up(slot: LeaseSlot) -> None:
    watch = Watch(slot, LATE_MS, 0)
    slot.store(7, 60_000)
    assert not watch.due(0)
    slot.store(0, 0)
    assert not watch.due(10_000), "the keepers have just been told"
    assert watch.wait_ms(10_000) == LATE_MS
    assert watch.due(10_000 + LATE_MS)
    assert not watch.due(50_000)


def test_one_given_up_at_its_end_gets_no_more_time_by_that(slot: LeaseSlot) -> None:
    watch = Watch(slot, LATE_MS, 0)
    slot.store(7, 6_000)
    assert not watch.due(5_600)
    slot.store(0, 0)
    assert not watch.due(5_700)
    assert watch.due(5_750)


def test_before_the_first_lease_there_is_nothing_to_look_for(slot: LeaseSlot) -> None:
    watch = Watch(slot, LATE_MS, 0)
    assert not watch.due(0)
    assert not watch.due(1_000_000)
