"""When the timers of a member run next."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftsched.raft import codec
from raftsched.raft.ticks import Ticks, is_quiet, next_tick
from tests.support.raft_replica import Solo

BEAT_S = 0.05  # heartbeat_ms of Solo


def wait_s(solo: Solo) -> float:
    return next_tick(solo.replica, solo.clock.monotonic())[0]


def test_a_leader_with_nothing_to_do_waits_for_its_next_heartbeat(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    term = solo.lead()
    for peer in "ac":
        solo.feed(peer, codec.AppendAnswer(term, solo.journal.last_index + 1, True, False))
    solo.pass_time(0.02)
    due_s = solo.engine.due_at - solo.clock.monotonic()
    assert 0 < due_s < BEAT_S
    assert wait_s(solo) == pytest.approx(due_s)
    solo.clock.forward(BEAT_S * 1_000)
    assert 0 < wait_s(solo) <= 0.001, "one that is due is not put off"


def test_a_follower_waits_no_longer_than_a_heartbeat_and_never_beyond_its_election(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.feed("a", codec.Ping(1, 1, 0))
    assert wait_s(solo) == BEAT_S
    solo.clock.forward((solo.engine.due_at - solo.clock.monotonic()) * 1_000 - 10)
    assert wait_s(solo) == pytest.approx(0.01, abs=0.001)


def test_without_a_leader_timers_run_at_their_usual_rate(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    assert not is_quiet(solo.replica)
    assert wait_s(solo) == solo.replica.options.tick_ms / 1_000


def test_a_proposal_without_an_answer_is_looked_at_at_the_usual_rate(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.feed("a", codec.Ping(1, 1, 0))
    assert is_quiet(solo.replica)
    solo.propose(1)
    assert wait_s(solo) == solo.replica.options.tick_ms / 1_000


def test_a_proposal_ends_the_rest_of_the_timer(tmp_path: Path) -> None:
    async def main() -> None:
        solo = Solo(tmp_path)
        solo.feed("a", codec.Ping(1, 1, 0))
        ticks = Ticks(solo.replica, solo.clock, lambda: None)
        ticks.again()
        resting = ticks._timer
        ticks.pumped()
        assert ticks._timer is resting, "nothing was begun"
        solo.propose(1)
        ticks.pumped()
        sooner = ticks._timer
        assert resting is not None
        assert sooner is not None
        assert resting.cancelled()
        assert sooner.when() < resting.when()
        ticks.stop()
        assert sooner.cancelled()

    asyncio.run(main())
