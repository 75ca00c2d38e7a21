"""Who would not hear of what it is given is given nothing: a remote worker without an open poll, a node whose
connection has ended. Leases do not depend on it."""

from __future__ import annotations

import msgspec

from raftsched.core.model import InstanceState as I
from raftsched.core.rules.executors import worker_key
from raftsched.core.subjects.leasing import (
    QUIET_AFTER_MS,
    WorkerBeat,
    WorkerBeats,
    decode_beats,
    encode,
    longest_poll_ms,
)
from raftsched.leader.liveness.quiet import SLACK_MS, Quiet
from tests.support.memory_view import T0, at
from tests.unit.leader.house import House, play

TTL_MS = 10_000
B = 5_000_000  # boot clock
RENEWED_MS = (
    longest_poll_ms(TTL_MS) + QUIET_AFTER_MS + SLACK_MS
)  # a node that has a poll passes on the next one by then


class TestQuiet:
    def test_of_whom_nothing_is_known_somebody_may_be_there(self) -> None:
        assert not Quiet().is_quiet(1)

    def test_from_the_end_of_its_polls_to_the_next_one(self) -> None:
        quiet = Quiet()
        quiet.polled(1, "n1", B)
        assert not quiet.is_quiet(1)
        quiet.left(1, "n1", 1_000, TTL_MS, B + 4_000)
        quiet.left(1, "n1", 2_000, TTL_MS, B + 5_000)
        assert quiet.is_quiet(1)
        assert quiet.ages(B + 6_000) == {1: 3_000}
        quiet.polled(1, "n2", B + 6_000)
        assert not quiet.is_quiet(1)
        assert quiet.ages(B + 6_000) == {}

    def test_a_worker_that_has_changed_nodes_is_with_the_other_one(self) -> None:
        quiet = Quiet()
        quiet.polled(1, "n1", B)
        quiet.polled(1, "n2", B + 100)
        quiet.left(1, "n1", 1_000, TTL_MS, B + 1_100)
        assert not quiet.is_quiet(1)
        quiet.left(1, "n2", 1_000, TTL_MS, B + 1_200)
        assert quiet.is_quiet(1), "and now with none"

    def test_a_poll_that_another_node_has_beside_its_last_one(self) -> None:
        """Reports went to n2, while a poll for runs goes on waiting at n1."""
        quiet = Quiet()
        quiet.polled(1, "n1", B)
        quiet.polled(1, "n2", B + 100)
        quiet.left(1, "n2", 1_000, TTL_MS, B + 1_200)
        assert not quiet.is_quiet(1)

    def test_a_node_that_can_say_nothing_any_more_counts_for_the_time_of_a_poll(self) -> None:
        for silent_ms, expected in ((RENEWED_MS, False), (RENEWED_MS + 1, True)):
            quiet = Quiet()
            quiet.polled(1, "n1", B)
            quiet.left(1, "n2", 0, TTL_MS, B + silent_ms)
            assert quiet.is_quiet(1) is expected

    def test_nothing_is_left_of_a_session_that_is_over(self) -> None:
        quiet = Quiet()
        quiet.polled(1, "n1", B)
        quiet.left(1, "n1", 0, TTL_MS, B)
        quiet.forget(1)
        assert not quiet.is_quiet(1)
        assert (quiet._polled, quiet._since) == ({}, {})


class TestTheMessage:
    def test_nodes_of_an_earlier_version_take_it_and_say_nothing_of_who_left(self) -> None:
        class Earlier(msgspec.Struct, array_like=True):
            beats: tuple[WorkerBeat, ...]

        beats = (WorkerBeat(1, 2),)
        raw = encode(WorkerBeats(beats, left=((3, 4),)))
        assert msgspec.msgpack.decode(raw, type=Earlier).beats == beats
        assert decode_beats(msgspec.msgpack.encode(Earlier(beats))) == WorkerBeats(beats)


class TestAssignments:
    def test_a_worker_without_a_poll_is_given_nothing_and_keeps_its_lease(self) -> None:
        async def scene(house: House) -> None:
            gone, there = house.worker("gone"), house.worker("there", slots=1)
            house.lead()
            house.worker_beats(gone, there)
            house.worker_beats(left=((gone, 0),))
            jobs = [house.create(at(T0)) for _ in range(2)]
            await house.until_idle()
            first, second = (house.world.instances(job)[0] for job in jobs)
            assert first.live is not None
            assert first.live.session == there
            assert second.state is I.WAITING, "rather than wait with who is not there"
            assert house.leader.quiet_workers() == {worker_key("gone"): 0}
            leases = house.leader.current.leases if house.leader.current else None
            assert leases is not None
            assert leases.assignable(gone, house.clock.boot), "its lease is as it was"
            house.worker_beats(gone)
            await house.until_idle()
            live = house.world.instances(jobs[1])[0].live
            assert live is not None
            assert live.session == gone, "it has polled"
            assert house.leader.quiet_workers() == {}

        play(scene)

    def test_what_a_node_of_an_earlier_version_does_not_say_counts_as_there(self) -> None:
        async def scene(house: House) -> None:
            session = house.worker()
            house.lead()
            house.worker_beats(session)
            job = house.create(at(T0))
            house.clock.forward(TTL_MS // 2 - 1)
            house.quorum = house.clock.boot
            await house.until_idle()
            assert house.world.instances(job)[0].live is not None

        play(scene)

    def test_a_leader_that_is_new_has_been_told_nothing(self) -> None:
        async def scene(house: House) -> None:
            session = house.worker()
            house.lead()
            house.worker_beats(session)
            house.worker_beats(left=((session, 0),))
            house.leading = False
            house.leader.on_role()
            house.term += 1
            house.lead()
            assert house.leader.quiet_workers() == {}
            job = house.create(at(T0))
            await house.until_idle()
            assert house.world.instances(job)[0].live is None, "it has not heard of it yet"
            house.worker_beats(session)
            await house.until_idle()
            assert house.world.instances(job)[0].live is not None

        play(scene)

    def test_a_node_whose_connection_has_ended_is_given_nothing_until_it_is_heard_of_again(self) -> None:
        async def scene(house: House) -> None:
            house.connections = {"n2": 1, "n3": 2}
            lost, there = house.session("n2"), house.session("n3", slots=1)
            house.lead()
            house.beat(lost, "n2")
            house.beat(there, "n3")
            del house.connections["n2"]
            jobs = [house.create(at(T0)) for _ in range(2)]
            await house.until_idle()
            first, second = (house.world.instances(job)[0] for job in jobs)
            assert first.live is not None
            assert first.live.session == there
            assert second.state is I.WAITING
            house.connections["n2"] = 3  # perhaps of a process that knows nothing of this session
            await house.until_idle()
            assert house.world.instances(jobs[1])[0].state is I.WAITING
            house.beat(lost, "n2")
            await house.until_idle()
            live = house.world.instances(jobs[1])[0].live
            assert live is not None
            assert live.session == lost

        play(scene)
