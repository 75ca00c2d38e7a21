"""Leases: what is granted, when a session is over, and that no worker's lease outlasts the leader's word."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.cluster_settings import SETTINGS
from raftsched.core.subjects.cluster import Session
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.leader.liveness.leases import Leases, may_assign, must_step_down
from raftsched.raft.options import RaftOptions
from raftsched.worker.session.lease_holder import HEARTBEAT_MS, LeaseHolder
from raftsched.worker.session.worker import TICK_S
from tests.support.amounts import examples

TTL = 5_000
MARGIN = TTL // 4
B = 1_000_000  # the boot clock at the start


def session(number: int = 1, node: str = "n2", ttl: int = TTL) -> Session:
    return Session(id=number, node=node, boot_id="", nonce=b"", ttl_ms=ttl, opened_at_ms=0, slots=4)


def leases(now: int = B) -> Leases:
    return Leases([session()], now)


class TestGrant:
    def test_counted_from_the_quorum_s_sending(self) -> None:
        held = leases()
        assert held.heartbeat(1, "n2", True, B, B) == TTL
        assert held.heartbeat(1, "n2", True, B, B + 700) == TTL - 700
        assert held.heartbeat(1, "n2", True, B, B + TTL) <= 0
        assert held.heartbeat(1, "n2", True, B, B + 2 * TTL) <= 0

    def test_none_without_a_quorum(self) -> None:
        assert leases().heartbeat(1, "n2", True, None, B) <= 0

    def test_none_to_strangers(self) -> None:
        assert leases().heartbeat(2, "n2", True, B, B) <= 0
        assert leases().heartbeat(1, "n3", True, B, B) <= 0

    def test_who_holds_none_gets_no_more_than_what_is_left(self) -> None:
        held = leases()
        assert held.heartbeat(1, "n2", False, B, B) == TTL
        assert held.heartbeat(1, "n2", False, B + 2_000, B + 2_000) == TTL - 2_000
        assert held.over(B + TTL + MARGIN - 1) == []  # and it moved nothing
        assert held.over(B + TTL + MARGIN) == [1]

    def test_who_holds_one_moves_the_end(self) -> None:
        held = leases()
        held.heartbeat(1, "n2", True, B + 3_000, B + 3_000)
        assert held.over(B + 3_000 + TTL + MARGIN - 1) == []
        assert held.over(B + 3_000 + TTL + MARGIN) == [1]

    def test_nothing_after_it_was_declared_over(self) -> None:
        held = leases()
        late = B + TTL + MARGIN
        assert held.over(late) == [1]
        assert held.heartbeat(1, "n2", True, late, late) <= 0
        assert held.over(late + 10 * TTL) == [1]  # until its end is applied
        held.ended(1)
        assert held.over(late + 10 * TTL) == []

    def test_opened_later_it_counts_from_there(self) -> None:
        held = Leases([], B)
        held.opened(session(), B + 9_000)
        assert held.over(B + 9_000 + TTL + MARGIN - 1) == []

    def test_elected_again_it_waits_anew(self) -> None:
        late = B + 60_000
        assert leases(late).over(late + TTL + MARGIN - 1) == []

    def test_each_by_its_own_ttl(self) -> None:
        held = Leases([session(1), session(2, "n3", 60_000)], B)
        assert held.over(B + TTL + MARGIN) == [1]
        assert held.heartbeat(2, "n3", True, B + 8_000, B + 8_000) == 60_000
        assert held.shortest_ttl_ms() == TTL
        held.ended(1)
        assert held.shortest_ttl_ms() == 60_000


class TestAssignable:
    def test_only_when_seen_holding(self) -> None:
        held = leases()
        assert not held.assignable(1, B)
        held.heartbeat(1, "n2", False, B, B)
        assert not held.assignable(1, B)
        held.heartbeat(1, "n2", True, B, B)
        assert held.assignable(1, B + 400)
        held.heartbeat(1, "n2", False, B, B + 500)
        assert not held.assignable(1, B + 500)

    def test_not_when_it_went_silent_or_is_over(self) -> None:
        held = leases()
        held.heartbeat(1, "n2", True, B, B)
        assert not held.assignable(1, B + TTL // 2)
        held.over(B + 10 * TTL)
        assert not held.assignable(1, B)
        assert not held.assignable(7, B)

    def test_from_a_quarter_of_the_ttl_nothing_new(self) -> None:
        assert may_assign(TTL // 4 - 1, TTL)
        assert not may_assign(TTL // 4, TTL)

    def test_by_ttl_less_the_killing_time_it_steps_down(self) -> None:
        assert not must_step_down(TTL - KILL_BEFORE_MS - 1, TTL)
        assert must_step_down(TTL - KILL_BEFORE_MS, TTL)


TTLS = (SETTINGS["session_ttl_ms"].least, SETTINGS["session_ttl_ms"].most)
RATES = st.sampled_from([0.9, 1.0, 1.1])
LOOK_MS = 100  # between two looks at the clock of a worker


@pytest.mark.parametrize("ttl", [TTLS[0], TTLS[0] + 1, 3_000, TTL, 60_000, TTLS[1]])
def test_one_heartbeat_without_an_answer_costs_no_run(ttl: int) -> None:
    """The slowest clockwork there may be, and a round of the leader's own heartbeats that is 250 ms old."""
    assert TICK_S * 1000 == LOOK_MS
    held, tenure = Leases([session(ttl=ttl)], B), LeaseHolder()
    tenure.adopt(1, ttl, B)
    starts = answered = 0
    for beat in range(200):
        now = B + beat * (HEARTBEAT_MS + LOOK_MS - 1)
        assert tenure.heartbeat_due(now)
        assert not tenure.over(now)
        tenure.heartbeat(now)
        grant = held.heartbeat(1, "n2", tenure.holds(now), now - 250, now)
        now += 50  # until the answer is here
        if beat:
            assert tenure.until_ms is not None
            assert now < tenure.until_ms - KILL_BEFORE_MS, "its keepers would have killed"
        if beat % 2 == 0:
            answered += 1
            assert tenure.grant(1, now - 50, grant, now)
            starts += tenure.may_start(now)
        assert held.over(now) == []
        assert not beat or held.assignable(1, now)
    assert starts == answered


def test_a_leader_s_own_limits_leave_room_for_its_heartbeats() -> None:
    options = RaftOptions()
    age = options.heartbeat_ms + options.tick_ms
    assert may_assign(2 * age, TTLS[0])
    assert not must_step_down(options.election_min_ms, TTLS[0])


class Worker:
    """Counts from when it sent; a lapsed one ignores grants. Its clock runs at `rate`."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.until: float | None = None  # in its own clock
        self.lapsed = False

    def clock(self, now: int) -> float:
        return now * self.rate

    def holds(self, now: int) -> bool:
        if self.until is not None and self.clock(now) >= self.until:
            self.lapsed = True
        return self.until is not None and not self.lapsed

    def granted(self, now: int, sent: float, grant: int) -> None:
        self.holds(now)
        if not self.lapsed:
            self.until = max(self.until or 0.0, sent + grant)


@settings(max_examples=examples(150))
@given(
    st.integers(0, 2**32),
    st.sampled_from([0.9, 1.0, 1.1]),
    st.sampled_from([0.9, 1.0, 1.1]),
    st.sampled_from([TTLS[0], TTL]) | st.integers(*TTLS),
)
def test_no_lease_outlasts_the_leader_s_word(seed: int, leader_rate: float, worker_rate: float, ttl: int) -> None:
    """Random delays, losses and pauses, clocks off by 10 %, any TTL that may be set: once a session is declared over,
    its lease is too."""
    note(f"seed {seed}")
    rng = random.Random(seed)
    worker = Worker(worker_rate)
    held = Leases([session(ttl=ttl)], int(B * leader_rate))
    now = B
    quorum = int(B * leader_rate)
    heartbeats: list[tuple[int, bool, float]] = []  # (arrives at, holds, sent by the worker's clock)
    grants: list[tuple[int, float, int]] = []
    partitioned = 0
    for _ in range(400):
        now += rng.choice([1, 50, 100, 250, 500])
        leader_now = int(now * leader_rate)
        if rng.random() < 0.02:
            partitioned = now + rng.choice([1_000, 4_000, 9_000])
        if now > partitioned:
            quorum = leader_now - rng.randint(0, 300)
        if rng.random() < 0.8:
            delay = rng.choice([1, 5, 400, 3_000])
            heartbeats.append((now + delay, worker.holds(now), worker.clock(now)))
        if rng.random() < 0.03:
            now += rng.choice([2_000, 7_000])  # everything stands still for a while
            leader_now = int(now * leader_rate)
        for message in [m for m in heartbeats if m[0] <= now]:
            heartbeats.remove(message)
            if rng.random() < 0.1:
                continue
            grant = held.heartbeat(1, "n2", message[1], quorum, leader_now)
            if grant > 0:
                grants.append((now + rng.choice([0, 10, 3_000]), message[2], grant))
        if held.over(leader_now):
            until = worker.until
            # what is on its way still counts: it may arrive before the worker sees its lease lapse
            for _, sent, grant in grants:
                until = max(until or 0.0, sent + grant)
            if until is not None:
                assert worker.clock(now) >= until, f"over at {now}, the lease runs until {until / worker_rate}"
            return
        for message in [g for g in grants if g[0] <= now]:
            grants.remove(message)
            worker.granted(now, message[1], message[2])


def test_the_property_notices_when_grants_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Leases.heartbeat

    def heartbeat(self: Leases, number: int, node: str, holds: bool, quorum: int | None, now: int) -> int:
        over_at = self._leases[number].over_at_ms
        grant = original(self, number, node, holds, quorum, now)
        self._leases[number].over_at_ms = over_at
        return grant

    monkeypatch.setattr(Leases, "heartbeat", heartbeat)
    with pytest.raises(AssertionError, match="over at"):
        test_no_lease_outlasts_the_leader_s_word()


class TestWorkers:
    """Remote workers hold a lease from their session's beginning, and any node may pass on what they ask for."""

    def held(self) -> Leases:
        return Leases([session(1, "worker/w1", 10_000), session(2, "n2")], B)

    def test_granted_as_to_nodes(self) -> None:
        held = self.held()
        assert held.worker_heartbeat(1, B + 1_000, B + 1_500) == 9_500
        assert held.over(B + 1_500 + 12_500 - 1) == [2]
        assert held.over(B + 1_500 + 12_500) == [1, 2]

    def test_nothing_without_a_quorum_or_after_the_end_was_declared(self) -> None:
        held = self.held()
        assert held.worker_heartbeat(1, None, B) <= 0
        assert 1 in held.over(B + 12_500)
        assert held.worker_heartbeat(1, B + 12_500, B + 12_500) <= 0

    def test_nothing_for_sessions_of_nodes_or_nobody(self) -> None:
        assert self.held().worker_heartbeat(2, B, B) == 0
        assert self.held().worker_heartbeat(3, B, B) == 0

    def test_a_worker_is_given_runs_once_it_was_heard_of(self) -> None:
        held = self.held()
        assert not held.assignable(1, B)
        held.worker_heartbeat(1, B, B)
        assert held.assignable(1, B)
        assert not held.assignable(1, B + 5_000)
