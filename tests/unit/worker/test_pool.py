"""When the pool starts another python process, and when those there are have to do."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.worker.executors.python import PythonService
from raftsched.worker.processes import pool as module
from raftsched.worker.processes import wire
from raftsched.worker.processes.pool import GROW_AFTER_MS, GROW_EVERY_MS, Pool, Serve, Service


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
        self, kind: str, session: int, serve: Serve, user: str = "", memory: int | None = None
    ) -> Service:
        self.users.append(user)
        ours, theirs = socket.socketpair()
        self.sockets += [ours, theirs]
        self.services.append(Service(kind, session, ours, ours, len(self.services) + 1))
        return self.services[-1]

    def emit(self, message: bytes) -> None:
        self.emitted.append(message)

    def kill_keeper(self, pid: int) -> None:
        self.killed.append(pid)

    def launch(
        self, count: int, fresh: bool = False, kind: str = "python", namespace: str = "", user: str = ""
    ) -> None:
        for _ in range(count):
            self.tokens += 1
            launch = wire.Launch(self.tokens, 1, kind, 60_000, 1_000, b"task", fresh, None, namespace, user)
            self.pool.launch(launch)
        self.pool.tick(self.now)

    def answer(self, service: Service) -> None:
        (token,) = service.runs
        self.pool.answered(service, b"\0" + wire.encode(wire.Finished(token, wire.SUCCEEDED, self.now, self.now)))

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
    house.launch(20 * module.KEEP_UP_MS)
    for _ in range(3 * GROW_AFTER_MS):
        house.forward(1)
        house.answer(house.services[0])
    assert len(house.services) > 1


def test_a_run_that_gets_no_process_is_handed_back_as_not_begun(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(kind: str, session: int, serve: Serve, user: str, memory: int | None) -> Service:
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
