"""When the pool starts another python process, and when those there are have to do."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.worker.executors.python import PythonService
from raftsched.worker.processes import pool as module
from raftsched.worker.processes import wire
from raftsched.worker.processes.growth import GROW_AFTER_MS, KEEP_UP_MS
from raftsched.worker.processes.pages import RunsPage
from raftsched.worker.processes.pool import GROW_EVERY_MS, Pool
from raftsched.worker.processes.service import OP_KILL, OP_RUN, PACKET_HEAD
from raftsched.worker.processes.warm_process import Serve, Service


class House:
    """A pool whose services answer when they are told to."""

    def __init__(self) -> None:
        self.now = 1_000
        self.services: list[Service] = []
        self.sockets: list[socket.socket] = []
        self.emitted: list[bytes] = []
        self.tokens = 0
        self.killed: list[int] = []
        self.users: list[str] = []
        self.pool = Pool(self, self, PythonService([], 1, 1), lambda: lambda work, shared: None, 100, 10)

    def boot_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000

    def start_service(
        self, kind: str, session: int, serve: Serve, user: str = "", memory: int | None = None, room: int = 1
    ) -> Service:
        self.users.append(user)
        ours, theirs = socket.socketpair()
        self.sockets += [ours, theirs]
        self.services.append(Service(kind, session, ours, ours, len(self.services) + 1, room))
        return self.services[-1]

    def emit(self, message: bytes) -> None:
        self.emitted.append(message)

    def kill_keeper(self, pid: int) -> None:
        self.killed.append(pid)

    def launch(
        self,
        count: int,
        fresh: bool = False,
        kind: str = "python",
        namespace: str = "",
        user: str = "",
        concurrency: int = 1,
    ) -> None:
        for _ in range(count):
            self.tokens += 1
            launch = wire.Launch(self.tokens, 1, kind, 60_000, 1_000, b"task", fresh, None, namespace, user)
            if concurrency > 1:
                launch = replace(launch, function="module:function", concurrency=concurrency)
            self.pool.launch(launch)
        self.pool.tick(self.now)

    def answer(self, service: Service, took_ms: int = 0) -> None:
        (token,) = service.runs
        done = wire.Finished(token, wire.SUCCEEDED, self.now - took_ms, self.now)
        self.pool.answered(service, b"\0" + wire.encode(done))

    def answer_some(self, service: Service, *tokens: int, flags: int = 0) -> None:
        done = [wire.encode(wire.Finished(token, wire.SUCCEEDED, self.now, self.now)) for token in tokens]
        packets = [PACKET_HEAD.pack(token, flags) + raw for token, raw in zip(tokens, done, strict=True)]
        self.pool.answered(service, b"".join(map(wire.frame, packets)))

    def ends(self) -> list[tuple[int, int]]:
        found = [wire.decode_up(raw) for raw in self.emitted]
        return [(end.token, end.outcome) for end in found if isinstance(end, wire.Finished)]

    def forward(self, ms: int) -> None:
        for _ in range(ms):
            self.now += 1
            self.pool.tick(self.now)


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    assert made.killed == []
    for sock in made.sockets:
        sock.close()


def test_where_nothing_gets_free_all_that_wait_get_processes_one_after_the_other(house: House) -> None:
    house.launch(6)
    assert len(house.services) == 1  # the first at once
    house.forward(GROW_AFTER_MS - 1)
    assert len(house.services) == 1
    house.forward(1)
    assert len(house.services) == 2
    house.forward(GROW_EVERY_MS)
    assert len(house.services) == 3
    house.forward(GROW_EVERY_MS * 10)
    assert len(house.services) == 6
    assert all(len(service.runs) == 1 for service in house.services)


def test_short_runs_keep_to_the_process_that_gets_through_them(house: House) -> None:
    house.launch(20)
    for _ in range(19):
        house.forward(1)
        house.answer(house.services[0])
    assert len(house.services) == 1
    assert len(house.emitted) == 19


def test_where_many_wait_for_few_more_are_started(house: House) -> None:
    house.launch(20 * KEEP_UP_MS)
    for _ in range(3 * GROW_AFTER_MS):
        house.forward(1)
        house.answer(house.services[0])
    assert len(house.services) > 1


def test_runs_that_wait_for_the_processors_get_no_more_processes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROCESSORS", 2)
    house.launch(20 * KEEP_UP_MS)
    for _ in range(4 * GROW_AFTER_MS):
        house.forward(1)
        for service in house.services:
            house.answer(service)  # it was at it for less than a millisecond, and then waited for its turn
    assert len(house.services) == 2
    for _ in range(6 * GROW_AFTER_MS):
        house.forward(1)
        for service in house.services:
            house.answer(service, took_ms=1)
    assert len(house.services) > 2, "they are at work all the time"


def test_runs_that_go_on_count_as_work(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROCESSORS", 2)
    house.launch(20 * KEEP_UP_MS)
    for _ in range(4 * GROW_AFTER_MS):
        house.forward(1)
        for service in house.services[1:]:
            house.answer(service)
    assert len(house.services) > 2, "the first one was at one run all the time"


def test_a_run_that_gets_no_process_is_handed_back_as_not_begun(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(kind: str, session: int, serve: Serve, user: str, memory: int | None, room: int) -> Service:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(house, "start_service", full)
    house.launch(2)
    house.forward(GROW_AFTER_MS + GROW_EVERY_MS)
    ends = [wire.decode_up(raw) for raw in house.emitted]
    assert [(e.token, e.outcome, e.begun, e.started_at_ms) for e in ends] == [
        (1, wire.KILLED, False, None),
        (2, wire.KILLED, False, None),
    ]
    assert ends[0].error == "this node cannot start a process: Resource temporarily unavailable"


def test_a_process_that_could_not_be_started_began_nothing(house: House) -> None:
    house.launch(1)
    why = "this node cannot start a process: Too many open files"
    house.pool.gone(house.services[0], wire.ServiceExited(1, False, wire.Collected(b"", False, 0, ""), not_begun=why))
    (end,) = [wire.decode_up(raw) for raw in house.emitted]
    assert (end.outcome, end.begun, end.error) == (wire.KILLED, False, why)


def test_who_wants_a_process_of_his_own_gets_a_new_one_at_once(house: House) -> None:
    house.launch(1)
    house.answer(house.services[0])  # idle now
    house.launch(3, fresh=True)
    assert [len(service.runs) for service in house.services] == [0, 1, 1, 1]
    house.launch(1)
    assert [len(service.runs) for service in house.services] == [1, 1, 1, 1]


def test_an_answer_that_had_to_wait_for_the_end_of_its_process_counts(house: House) -> None:
    house.launch(1)
    (service,) = house.services
    done = wire.encode(wire.Finished(1, wire.SUCCEEDED, house.now, house.now))
    house.pool.answered(service, bytes((wire.DIRTY,)) + done)
    assert not house.emitted
    house.pool.gone(service, wire.ServiceExited(0, False, wire.Collected(b"", False, 0, "")))
    (message,) = house.emitted
    assert wire.decode_up(message).outcome == wire.SUCCEEDED


def test_an_http_service_that_does_not_move_is_ended_for_a_run_that_was_to_end(house: House) -> None:
    house.launch(2, kind="http")
    (service,) = house.services
    house.pool.kill(1, "asked to")
    house.forward(module.HTTP_ENDS_MS + module.OVERDUE_MS - 1)
    assert house.killed == []
    house.forward(1)
    assert house.killed.pop() == service.pid
    house.launch(1, kind="http")
    assert len(house.services) == 2  # it is given nothing more
    house.pool.vanished(service, lost=False)
    ends = {end.token: end for end in map(wire.decode_up, house.emitted) if isinstance(end, wire.Finished)}
    assert [(end.outcome, end.error, end.alone) for _, end in sorted(ends.items())] == [
        (wire.KILLED, "asked to", False),
        (wire.LOST, "its keeper process was killed", True),
    ]


def test_an_http_run_that_ends_in_time_leaves_its_service_alone(house: House) -> None:
    house.launch(1, kind="http")
    house.pool.kill(1, "asked to")
    house.pool.answered(house.services[0], b"\0" + wire.encode(wire.Finished(1, wire.KILLED, house.now, house.now)))
    house.forward(module.HTTP_ENDS_MS + module.OVERDUE_MS + 1)


def test_requests_of_each_namespace_have_a_process(house: House) -> None:
    for kind, namespace in (("http", "a"), ("http", "b"), ("mail", wire.SYSTEM), ("http", wire.SYSTEM), ("http", "a")):
        house.launch(1, kind=kind, namespace=namespace)
    assert [sorted(service.runs) for service in house.services] == [[1, 5], [2], [3, 4]]
    assert wire.SYSTEM == SYSTEM_NAMESPACE


def test_a_process_for_requests_ends_when_none_came_for_long(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HTTP_IDLE_MAX_MS", 1_000)
    house.launch(1, kind="http", namespace="a")
    house.launch(1, kind="http", namespace="b")
    first, second = house.services
    house.answer(first)
    house.now += module.HTTP_IDLE_MAX_MS
    house.launch(1, kind="http", namespace="a")
    assert (first.ending, second.ending) == (False, False), "it was needed in the last moment, and the other is at work"
    house.answer(first)
    house.now += module.HTTP_IDLE_MAX_MS
    assert house.pool.due_at <= house.now
    house.pool.tick(house.now)
    assert (first.ending, second.ending) == (True, False)
    house.launch(1, kind="http", namespace="a")
    assert len(house.services) == 3


def test_there_are_not_more_processes_for_requests_than_are_needed_or_useful(house: House) -> None:
    house.launch(1, kind="mail", namespace=wire.SYSTEM)
    for number in range(module.HTTP_MAX):
        house.launch(1, kind="http", namespace=f"ns{number}")
    system, *others = house.services
    house.now += 1
    for service in (others[3], others[2]):
        house.answer(service)
        house.now += 1
    house.launch(1, kind="http", namespace="another")
    assert [service for service in house.services if service.ending] == [others[3]], "the one that was idle longest"
    house.launch(2, kind="http", namespace="ns2")
    house.launch(1, kind="http", namespace="one too many")
    assert len(house.services) == module.HTTP_MAX + 2
    assert sorted(len(service.runs) for service in house.services if not service.ending) == [1] * 15 + [2] * 2
    assert list(system.runs) == [1], "what the cluster sends for itself shares no process"
    house.launch(1, kind="http", namespace=wire.SYSTEM)
    assert len(system.runs) == 2


def test_a_process_serves_one_namespace_and_one_user(house: House) -> None:
    for namespace, user in (("a", ""), ("b", ""), ("a", "svc"), ("a", "")):
        house.launch(1, namespace=namespace, user=user)
        house.forward(1)
        for service in house.services:
            if service.runs:
                house.answer(service)
    assert house.users == ["", "", "svc"]  # the last one met the process that the first one had left
    assert len(house.emitted) == 4


def test_the_process_idle_longest_ends_for_one_that_another_namespace_needs(house: House) -> None:
    for number in range(12):
        house.launch(1, namespace=f"ns{number}")
        house.forward(1)
        house.answer(house.services[-1])
    assert [service.ending for service in house.services] == [True] * 2 + [False] * 10
    house.launch(1, namespace="ns2")
    assert len(house.services) == 12, "it is warm"


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"\xc1",
        b"\x00" * 99,
        wire.encode(wire.Finished(99, wire.SUCCEEDED, 1_000, 1_000)),  # somebody else's
        wire.encode(wire.Finished(1, wire.LOST, 1_000, 1_000)),
        wire.encode(wire.Finished(1, wire.KILLED, None, 1_000, begun=False)),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1_000, alone=True)),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1_000, spooled=True)),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1_000, frames=b"x")),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1 << 62)),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1_000, exit_code=1 << 40)),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1_000, error="x" * 10_000)),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1_000, result=b"{no json")),
        wire.encode(wire.Finished(1, wire.SUCCEEDED, 1_000, 1_000, result=b"[" * 65 + b"]" * 65)),
        wire.encode(wire.Fenced(1)),
        wire.encode(wire.Ready(1)),
    ],
)
@pytest.mark.parametrize("flags", [0, wire.WROTE, wire.DIRTY, wire.STALE])
def test_the_code_of_a_job_speaks_for_its_own_run_alone(house: House, forged: bytes, flags: int) -> None:
    house.launch(1)
    (service,) = house.services
    if flags & wire.STALE and forged[:1] and forged[2:3] == b"\x01":
        return  # its run was not begun: it may begin
    house.pool.answered(service, bytes((flags,)) + forged)
    assert service.ending
    assert house.emitted == []
    house.pool.gone(service, wire.ServiceExited(0, False, wire.Collected(b"", False, 0, "")))
    (end,) = [wire.decode_up(raw) for raw in house.emitted]
    assert (end.token, end.outcome, end.error) == (1, wire.FAILED, "its process said what no run says of itself")


def test_a_process_with_room_takes_all_that_there_is_room_for(house: House) -> None:
    house.launch(5, concurrency=3)
    assert [len(service.runs) for service in house.services] == [3]
    house.forward(GROW_AFTER_MS)
    assert [len(service.runs) for service in house.services] == [3, 2]
    house.launch(1)  # of the same namespace, and not of that function
    assert [service.room for service in house.services] == [3, 3, 1]
    house.launch(1, concurrency=3, namespace="other")
    assert [len(service.runs) for service in house.services] == [3, 2, 1, 1]


def test_runs_and_answers_travel_together(house: House) -> None:
    house.launch(3, concurrency=3)
    (service,) = house.services
    service.send_rest()
    packet = house.sockets[1].recv(wire.PACKET_MAX)
    assert list(wire.framed(packet)) == [PACKET_HEAD.pack(token, OP_RUN) + b"task" for token in (1, 2, 3)]
    house.answer_some(service, 2, 1)
    assert house.ends() == [(2, wire.SUCCEEDED), (1, wire.SUCCEEDED)]
    house.launch(3, concurrency=3)
    assert list(service.runs) == [3, 4, 5]
    house.answer_some(service, 4)
    assert list(service.runs) == [3, 5, 6]


def test_one_of_several_is_asked_to_end_and_the_others_are_not(house: House) -> None:
    house.launch(2, concurrency=3)
    (service,) = house.services
    assert house.pool.kill(1, "not wanted")
    service.send_rest()
    packet = house.sockets[1].recv(wire.PACKET_MAX)
    assert list(wire.framed(packet))[2:] == [PACKET_HEAD.pack(1, OP_KILL)]
    house.answer_some(service, 1, 2)
    assert house.ends() == [(1, wire.KILLED), (2, wire.SUCCEEDED)]
    house.forward(2_000)
    assert not service.ending


def test_one_that_goes_on_ends_its_process_and_the_others_are_lost_alone(house: House) -> None:
    house.launch(2, concurrency=3)
    (service,) = house.services
    house.pool.kill(1, "not wanted")
    house.forward(1_000)
    assert service.ending
    house.launch(1, concurrency=3)
    assert 3 not in service.runs
    house.pool.gone(service, wire.ServiceExited(128 + 9, False, wire.Collected(b"", False, 0, "")))
    ends = [wire.decode_up(raw) for raw in house.emitted]
    assert [(e.token, e.outcome, e.alone) for e in ends if isinstance(e, wire.Finished)] == [
        (1, wire.KILLED, False),
        (2, wire.LOST, True),
    ]


def test_a_keeper_is_asked_for_outputs_together_and_once_at_a_time(house: House) -> None:
    house.launch(4, concurrency=4)
    (service,) = house.services
    service.send_rest()
    house.sockets[1].recv(wire.PACKET_MAX)
    house.answer_some(service, 2, 1, 3, 4, flags=wire.WROTE)

    def asked_for() -> list[int]:
        packet = house.sockets[1].recv(wire.PACKET_MAX, socket.MSG_DONTWAIT)
        assert packet[:1] == wire.CMD_COLLECT
        return [int.from_bytes(packet[at : at + 8], "little") for at in range(1, len(packet), 8)]

    assert asked_for() == [2]
    with pytest.raises(BlockingIOError):
        asked_for()
    house.pool.collected(service, wire.Collected(b"", False, 0, "", 2))
    assert asked_for() == [1, 3, 4]
    for token in (1, 3, 4):
        house.pool.collected(service, wire.Collected(b"", False, 0, "", token))
    assert [token for token, _ in house.ends()] == [2, 1, 3, 4]


def test_an_end_that_came_before_the_timeout_counts_though_its_output_is_late(house: House) -> None:
    house.launch(1, concurrency=3)
    (service,) = house.services
    house.answer_some(service, 1, flags=wire.WROTE)
    house.now += 60_000
    house.pool.tick(house.now)
    house.pool.collected(service, wire.Collected(b"", False, 0, "", 1))
    assert house.ends() == [(1, wire.SUCCEEDED)]


def test_a_process_that_wants_to_end_gets_nothing_new_and_ends_with_its_last_run(house: House) -> None:
    house.launch(2, concurrency=3)
    (service,) = house.services
    house.answer_some(service, 1, flags=wire.DIRTY)
    assert not service.ending
    house.launch(1, concurrency=3)
    assert list(service.runs) == [2]
    house.answer_some(service, 2)
    assert service.ending


@pytest.mark.parametrize(
    "packet", [b"x", b"\xff" * 40, wire.frame(b""), wire.frame(PACKET_HEAD.pack(1, 0) + b"?")], ids=repr
)
def test_a_process_of_several_is_cut_where_it_says_what_none_says(house: House, packet: bytes) -> None:
    house.launch(2, concurrency=3)
    (service,) = house.services
    house.pool.answered(service, packet)
    assert service.ending
    house.pool.gone(service, wire.ServiceExited(128 + 9, False, wire.Collected(b"", False, 0, "")))
    first, second = house.ends()
    assert first == (1, wire.FAILED if packet[-1:] == b"?" else wire.LOST)
    assert second == (2, wire.LOST)


def test_a_page_says_which_runs_are_in_a_process() -> None:
    page = RunsPage()
    page.turn_to(7, 100)
    page.turn_to(8, 200)
    assert [page.output_max(token) for token in (7, 8, 9, 0)] == [100, 200, None, None]
    page.turn_from(7)
    page.turn_to(9, 300)
    assert [page.output_max(token) for token in (7, 8, 9)] == [None, 200, 300]
    page.close()
