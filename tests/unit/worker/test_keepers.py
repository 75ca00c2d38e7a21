"""Who gets a run, when another keeper is forked, when one ends, and what is told of a run whose keeper is gone."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from raftsched.worker.processes import wire
from raftsched.worker.processes.growth import GROW_AFTER_MS
from raftsched.worker.processes.keeper import AtWork
from raftsched.worker.processes.keepers import IDLE_MAX, IDLE_MAX_MS, KEEPER_KILLED, TAKE_MS, Keepers
from raftsched.worker.processes.lease import LeaseSlot
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.pool import OVERDUE_MS
from raftsched.worker.processes.tree import LEASE_ENDED, KeeperContext
from tests.support.clock import ManualClock

GRACE_MS, TIMEOUT_MS = 100, 60_000


class Supervisor:
    """Keepers that are sockets of this process. Their AtWork is what the keeper sees of it."""

    def __init__(self, clock: ManualClock) -> None:
        slot, slot_fd = LeaseSlot.create()
        os.close(slot_fd)
        options = Options(python_runs_max=1, python_memory_max=1, pids_max=1, nice=0)
        self.keepers = Keepers(self, clock, KeeperContext(slot, -1, -1, "", options))
        self.ends: dict[int, socket.socket] = {}  # theirs, by pid
        self.handlers: dict[int, Callable[[], None]] = {}
        self.said: list[wire.Finished] = []
        self.killed: list[int] = []
        self.late = False
        self.failing: OSError | None = None
        self._slot = slot
        self._ours: dict[int, socket.socket] = {}

    def fork(self, body: Callable[[socket.socket], None]) -> tuple[int, socket.socket]:
        if self.failing is not None:
            raise self.failing
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setblocking(False)
        pid = len(self.ends) + 1
        self.ends[pid] = theirs
        self._ours[pid] = ours
        return pid, ours

    def watch(self, sock: socket.socket, handler: Callable[[], None]) -> None:
        (pid,) = (pid for pid, ours in self._ours.items() if ours is sock)
        self.handlers[pid] = handler

    def over(self, pid: int, control: socket.socket) -> bool:
        control.close()
        return self.late

    def sweep_then(self, pid: int, then: Callable[[], None]) -> None:
        then()

    def kill_keeper(self, pid: int) -> None:
        self.killed.append(pid)

    def emit(self, message: bytes) -> None:
        said = wire.decode_up(message)
        assert isinstance(said, wire.Finished)
        self.said.append(said)

    def close(self) -> None:
        for sock in (*self.ends.values(), *self._ours.values()):
            sock.close()
        self._slot.close()

    # ------------------------------------------------------------ what the test does

    def launch(self, token: int, namespace: str = "") -> None:
        launch = wire.Launch(token, 1, "exec", TIMEOUT_MS, GRACE_MS, b"task", namespace=namespace)
        self.keepers.launch(launch, wire.encode(launch))

    def given(self, pid: int) -> list[bytes]:
        """What a keeper was sent since the last time, a launch as its token."""
        found = []
        while True:
            try:
                packet = self.ends[pid].recv(wire.PACKET_MAX)
            except BlockingIOError:
                return found
            found.append(b"%d" % wire.decode_down(packet).token if packet[0] >= 0x80 else packet)

    def ended(self, pid: int, token: int, *, stays: bool = True) -> None:
        done = wire.encode(wire.Finished(token, wire.SUCCEEDED, 1, 2))
        self.ends[pid].send((wire.END_AND_STAYS if stays else wire.END) + done)
        self.handlers[pid]()

    def gone(self, pid: int) -> None:
        self.ends[pid].close()
        self.handlers[pid]()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The run that each keeper has taken up last."""
    held = {"token": 0}
    monkeypatch.setattr(AtWork, "token", property(lambda self: held["token"]))
    return held


@pytest.fixture
def supervisor(clock: ManualClock, taken: dict[str, int]) -> Iterator[Supervisor]:
    found = Supervisor(clock)
    yield found
    found.close()


class TestWhoGetsARun:
    def test_the_first_is_forked_and_the_next_one_kept(self, supervisor: Supervisor) -> None:
        supervisor.launch(1)
        assert len(supervisor.ends) == 1
        assert supervisor.given(1) == [], "it was forked with it"
        supervisor.ended(1, 1)
        supervisor.launch(2)
        assert len(supervisor.ends) == 1
        assert supervisor.given(1) == [b"2"]

    def test_a_run_waits_a_moment_for_one_that_becomes_free(self, supervisor: Supervisor) -> None:
        supervisor.launch(1)
        supervisor.launch(2)
        assert len(supervisor.ends) == 1
        supervisor.ended(1, 1)
        assert supervisor.given(1) == [b"2"]

    def test_another_one_is_forked_when_none_does(self, supervisor: Supervisor, clock: ManualClock) -> None:
        for token in (1, 2, 3):
            supervisor.launch(token)
        assert supervisor.keepers.due_at == clock.boot + GROW_AFTER_MS
        clock.forward(GROW_AFTER_MS)
        supervisor.keepers.tick(clock.boot)
        assert len(supervisor.ends) == 2
        assert supervisor.keepers.due_at > clock.boot, "one after the other"
        clock.boot = supervisor.keepers.due_at
        supervisor.keepers.tick(clock.boot)
        assert len(supervisor.ends) == 3

    def test_none_is_forked_where_short_runs_are_through_soon(self, supervisor: Supervisor, clock: ManualClock) -> None:
        for token in range(1, 9):
            supervisor.launch(token)
        for token in range(1, 8):
            clock.forward(GROW_AFTER_MS / 4)
            supervisor.ended(1, token)
            supervisor.keepers.tick(clock.boot)
        assert len(supervisor.ends) == 1

    def test_the_last_that_became_free_is_the_first_to_get_one(
        self, supervisor: Supervisor, clock: ManualClock
    ) -> None:
        supervisor.launch(1)
        supervisor.launch(2)
        clock.forward(GROW_AFTER_MS)
        supervisor.keepers.tick(clock.boot)
        supervisor.ended(1, 1)
        supervisor.ended(2, 2)
        supervisor.launch(3)
        assert (supervisor.given(1), supervisor.given(2)) == ([], [b"3"])

    def test_a_namespace_has_its_own(self, supervisor: Supervisor) -> None:
        supervisor.launch(1, "one")
        supervisor.ended(1, 1)
        supervisor.launch(2, "two")
        assert len(supervisor.ends) == 2
        assert supervisor.given(1) == []
        supervisor.launch(3, "one")
        assert supervisor.given(1) == [b"3"]

    def test_one_that_says_that_it_ends_gets_none(self, supervisor: Supervisor) -> None:
        supervisor.launch(1)
        supervisor.ended(1, 1, stays=False)
        supervisor.launch(2)
        assert len(supervisor.ends) == 2
        supervisor.gone(1)
        assert len(supervisor.said) == 1

    def test_what_is_too_large_for_a_packet_is_forked_with(self, supervisor: Supervisor) -> None:
        supervisor.launch(1)
        supervisor.ended(1, 1)
        launch = wire.Launch(2, 1, "exec", TIMEOUT_MS, GRACE_MS, b"x" * wire.PACKET_MAX)
        supervisor.keepers.launch(launch, wire.encode(launch))
        assert len(supervisor.ends) == 2
        assert supervisor.given(1) == []

    def test_one_that_was_killed_unnoticed_is_passed_over(self, supervisor: Supervisor) -> None:
        supervisor.launch(1)
        supervisor.ended(1, 1)
        supervisor.ends[1].close()
        supervisor.launch(2)
        supervisor.keepers.tick(supervisor.keepers.due_at)
        assert len(supervisor.ends) == 2
        assert len(supervisor.said) == 1, "it is not lost"

    def test_a_fork_that_fails_hands_the_run_back(self, supervisor: Supervisor) -> None:
        supervisor.failing = BlockingIOError(11, "Resource temporarily unavailable")
        supervisor.launch(1)
        assert [(end.token, end.begun) for end in supervisor.said] == [(1, False)]
        supervisor.failing = None
        supervisor.launch(2)
        assert len(supervisor.ends) == 1


class TestWhenOneEnds:
    def test_without_a_run_for_long(self, supervisor: Supervisor, clock: ManualClock) -> None:
        supervisor.launch(1)
        supervisor.ended(1, 1)
        clock.forward(IDLE_MAX_MS - 1)
        supervisor.keepers.tick(clock.boot)
        assert supervisor.given(1) == []
        clock.forward(1)
        supervisor.keepers.tick(clock.boot)
        assert supervisor.given(1) == [wire.CMD_FENCE]
        supervisor.launch(2)
        assert len(supervisor.ends) == 2

    def test_where_there_are_many_without_one(self, supervisor: Supervisor, clock: ManualClock) -> None:
        for token in range(1, IDLE_MAX + 2):
            supervisor.launch(token, f"namespace {token}")
        for token in range(1, IDLE_MAX + 2):
            clock.forward(1)
            supervisor.ended(token, token)
        told = [pid for pid in supervisor.ends if supervisor.given(pid) == [wire.CMD_FENCE]]
        assert told == [1]

    def test_a_fence_ends_all_that_were_there(self, supervisor: Supervisor) -> None:
        supervisor.launch(1, "one")
        supervisor.ended(1, 1)
        supervisor.launch(2, "two")
        supervisor.launch(3, "two")
        supervisor.keepers.end_all()
        assert supervisor.given(1) == supervisor.given(2) == [wire.CMD_FENCE]
        assert (supervisor.said[-1].token, supervisor.said[-1].outcome) == (3, wire.LOST)
        supervisor.launch(4, "one")
        assert len(supervisor.ends) == 3
        supervisor.ended(2, 2)  # it had said so before it read of the fence
        supervisor.launch(5, "two")
        assert len(supervisor.ends) == 4


class TestAKill:
    def test_of_what_waits(self, supervisor: Supervisor, clock: ManualClock) -> None:
        supervisor.launch(1)
        supervisor.launch(2)
        assert supervisor.keepers.kill(2, "why")
        (end,) = supervisor.said
        assert (end.token, end.outcome, end.started_at_ms, end.error) == (2, wire.KILLED, None, "why")
        clock.forward(GROW_AFTER_MS)
        supervisor.keepers.tick(clock.boot)
        assert len(supervisor.ends) == 1

    def test_of_what_is_not_here(self, supervisor: Supervisor) -> None:
        supervisor.launch(1)
        supervisor.ended(1, 1)
        assert not supervisor.keepers.kill(1, "")

    def test_that_the_keeper_does_not_follow(
        self, supervisor: Supervisor, clock: ManualClock, taken: dict[str, int]
    ) -> None:
        supervisor.launch(1)
        taken["token"] = 1
        supervisor.keepers.kill(1, "why")
        assert supervisor.given(1) == [wire.CMD_KILL + GRACE_MS.to_bytes(4, "little")]
        clock.forward(GRACE_MS + OVERDUE_MS)
        supervisor.keepers.tick(clock.boot)
        assert supervisor.killed == [1]
        supervisor.gone(1)
        (end,) = supervisor.said
        assert (end.outcome, end.error) == (wire.KILLED, "why")

    def test_does_not_reach_the_next_run(self, supervisor: Supervisor, clock: ManualClock) -> None:
        supervisor.launch(1)
        supervisor.keepers.kill(1, "why")
        supervisor.ended(1, 1)
        supervisor.launch(2)
        clock.forward(GRACE_MS + OVERDUE_MS)
        supervisor.keepers.tick(clock.boot)
        assert supervisor.killed == []


class TestAKeeperThatIsGone:
    @pytest.mark.parametrize("late", [True, False])
    def test_while_it_was_at_a_run(self, supervisor: Supervisor, taken: dict[str, int], late: bool) -> None:
        supervisor.launch(1)
        taken["token"], supervisor.late = 1, late
        supervisor.gone(1)
        (end,) = supervisor.said
        assert (end.outcome, end.alone, end.error) == (wire.LOST, not late, LEASE_ENDED if late else KEEPER_KILLED)

    def test_before_it_took_the_run_up(self, supervisor: Supervisor, taken: dict[str, int]) -> None:
        supervisor.launch(1)
        taken["token"] = 1
        supervisor.ended(1, 1)
        supervisor.launch(2)
        supervisor.gone(1)
        end = supervisor.said[-1]
        assert (end.token, end.outcome, end.begun, end.error) == (2, wire.KILLED, False, KEEPER_KILLED)

    def test_with_others_that_wait_for_it(self, supervisor: Supervisor, clock: ManualClock) -> None:
        supervisor.launch(1)
        supervisor.launch(2)
        supervisor.gone(1)
        supervisor.keepers.tick(clock.boot)
        assert len(supervisor.ends) == 2
        assert [end.token for end in supervisor.said] == [1]

    def test_one_that_takes_nothing_up_is_ended(
        self, supervisor: Supervisor, clock: ManualClock, taken: dict[str, int]
    ) -> None:
        supervisor.launch(1)
        taken["token"] = 1
        clock.forward(TAKE_MS)
        supervisor.keepers.tick(clock.boot)
        assert supervisor.killed == []
        supervisor.ended(1, 1)
        supervisor.launch(2)
        clock.forward(TAKE_MS)
        supervisor.keepers.tick(clock.boot)
        assert supervisor.killed == [1]

    def test_a_timeout_does_not_end_a_run_that_was_not_taken_up(
        self, supervisor: Supervisor, clock: ManualClock
    ) -> None:
        launch = wire.Launch(1, 1, "exec", 10, 0, b"task")
        supervisor.keepers.launch(launch, wire.encode(launch))
        clock.forward(10 + OVERDUE_MS)
        supervisor.keepers.tick(clock.boot)
        assert supervisor.killed == [1]
        supervisor.gone(1)
        (end,) = supervisor.said
        assert (end.outcome, end.begun, end.error) == (wire.KILLED, False, KEEPER_KILLED)

    def test_without_a_run_nothing_is_told(self, supervisor: Supervisor) -> None:
        supervisor.launch(1)
        supervisor.ended(1, 1)
        supervisor.gone(1)
        assert len(supervisor.said) == 1
        supervisor.launch(2)
        assert len(supervisor.ends) == 2


def test_when_the_node_stops_what_waits_begins_and_is_told_with_the_rest(supervisor: Supervisor) -> None:
    supervisor.launch(1)
    supervisor.launch(2)
    supervisor.keepers.wind_down(50)
    assert len(supervisor.ends) == 2
    told = wire.CMD_STOP + (50).to_bytes(4, "little")
    assert supervisor.given(1) == supervisor.given(2) == [told]
