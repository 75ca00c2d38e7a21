"""A remote worker's agent among fakes: nodes that are one cluster, played by the test; time that only jumps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from raftsched.core.model import Outcome, OutputRef
from raftsched.remote.polls import Polls
from raftsched.remote.server_port import NoAnswer, Refused, SessionOver
from raftsched.surface.worker_sessions import (
    CloseIn,
    OutputPlace,
    PollAnswer,
    PollIn,
    Printed,
    RefusedReport,
    Report,
    Run,
    UploadOut,
    WorkerSessionIn,
    WorkerSessionOut,
)
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.session.worker import Worker
from raftsched.worker.tasks.permits import Permits
from tests.unit.worker.world import FakeRunner, LoopClock, run_jumping

TTL_MS = 10_000
POLL_MS = 2_500
GRACE_MS = 3_000
STEP_S = 0.005  # a request takes so long, there and back


class Cluster:
    """What all nodes agree on: one worker's session, its runs, and what became of them."""

    def __init__(self) -> None:
        self.number = 0
        self.open = False
        self.incarnation = ""
        self.grant_ms: int | None = None  # None: the whole TTL
        self.openings: list[WorkerSessionIn] = []
        self.given: dict[int, Run] = {}  # assigned to the session that is open
        self.kills: set[int] = set()
        self.reports: list[Report] = []  # as they were committed
        self.stale: set[int] = set()  # reports about these are refused
        self.invalid: Callable[[Report], bool] = lambda report: False  # what is refused as no report
        self.closed: list[CloseIn] = []
        self.changed = asyncio.Event()

    def give(self, token: int, **fields: Any) -> Run:
        run = Run(
            token=token,
            **{
                "instance": f"i{token}",
                "job": "j",
                "job_name": None,
                "namespace": "default",
                "queue": "default",
                "priority": 5,
                "attempt": 1,
                "scheduled_at": "2030-01-01T00:00:00Z",
                "handler": {"exec": ["true"]},
                "params": {},
                "timeout_ms": 60_000,
                "grace_ms": 5_000,
                "env": {"RAFTSCHED_FENCING_TOKEN": str(token)},
                **fields,
            },
        )
        self.given[token] = run
        self.changed.set()
        return run

    def kill(self, token: int) -> None:
        self.kills.add(token)
        self.changed.set()

    def end(self) -> None:
        """The session is over."""
        self.open = False
        self.given.clear()
        self.kills.clear()
        self.changed.set()

    def ends(self) -> list[tuple[int, str | None]]:
        return [(report.token, report.outcome) for report in self.reports if report.outcome is not None]

    def session(self, text: str) -> None:
        if not self.open or text != f"{self.number}-secret":
            raise SessionOver


class Node:
    """A `Server`. `down`: answers nothing; `deaf`: takes a request, does it, and its answer is lost; `holds`: the
    answers wait until it is set."""

    def __init__(self, name: str, cluster: Cluster, clock: LoopClock) -> None:
        self.name = name
        self.cluster = cluster
        self._clock = clock
        self.down = self.deaf = self.silent = False
        self.lease = True  # False: it hears of no leader
        self.refuses: Refused | None = None
        self.polls: list[PollIn] = []
        self.at: list[int] = []  # boot ms of the polls
        self.under_way = self.most_under_way = 0
        self.holds = asyncio.Event()
        self.holds.set()

    async def _reached(self) -> None:
        await asyncio.sleep(STEP_S)
        if self.silent:
            await asyncio.Event().wait()
        if self.down:
            raise NoAnswer("cannot be connected to")
        if self.refuses is not None:
            raise self.refuses

    async def _answered(self) -> None:
        await self.holds.wait()
        if self.deaf:
            raise NoAnswer("broke the connection")

    async def open(self, request: WorkerSessionIn) -> WorkerSessionOut:
        cluster = self.cluster
        cluster.openings.append(request)
        await self._reached()
        if cluster.open and cluster.incarnation != request.incarnation:
            raise Refused("name-taken", "Another process works under the name.", 409, 1.0)
        cluster.end()
        cluster.open, cluster.incarnation = True, request.incarnation
        cluster.number += 1
        await self._answered()
        return WorkerSessionOut(
            session=f"{cluster.number}-secret",
            name=request.name,
            lease_ms=TTL_MS,
            ttl_ms=TTL_MS,
            kill_before_ms=500,
            poll_ms=POLL_MS,
            queues=None,
            namespaces=None,
        )

    async def poll(self, session: str, request: PollIn) -> PollAnswer:
        request = msgspec.json.decode(msgspec.json.encode(request), type=PollIn)
        self.polls.append(request)
        self.at.append(self._clock.boot_ms())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._poll(session, request)
        finally:
            self.under_way -= 1

    async def _poll(self, session: str, request: PollIn) -> PollAnswer:
        await self._reached()
        cluster = self.cluster
        cluster.session(session)
        refused = []
        for report in request.reports:
            if report.token in cluster.stale or report.token not in cluster.given:
                refused.append(RefusedReport(token=report.token, code="stale", detail="It is over already."))
                continue
            if cluster.invalid(report):
                refused.append(RefusedReport(token=report.token, code="invalid", detail="/result is bad"))
                continue
            cluster.reports.append(report)
            if report.outcome is not None:
                del cluster.given[report.token]
                cluster.kills.discard(report.token)
        end = asyncio.get_running_loop().time() + request.wait_ms / 1000
        while True:
            runs = [run for token, run in sorted(cluster.given.items()) if token > request.after][: request.max_runs]
            kill = sorted(cluster.kills - set(request.killing))
            left = end - asyncio.get_running_loop().time()
            if runs or kill or request.reports or left <= 0:
                break
            cluster.changed.clear()
            try:
                async with asyncio.timeout(left):
                    await cluster.changed.wait()
            except TimeoutError:
                continue
            cluster.session(session)
        await self._answered()
        grant = (TTL_MS if cluster.grant_ms is None else cluster.grant_ms) if self.lease else 0
        return PollAnswer(lease_ms=grant, runs=runs, kill=kill, refused=refused)

    async def close(self, session: str, request: CloseIn) -> None:
        await self._reached()
        self.cluster.session(session)
        self.cluster.closed.append(request)
        self.cluster.end()

    async def upload(
        self, session: str, token: int, offset: int, data: bytes, stream: str | None = None, *, end: bool = False
    ) -> UploadOut:
        raise NotImplementedError


class FakeOutputs:
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.forgotten: list[int] = []
        self.taken = asyncio.Event()
        self.taken.set()

    def begin(self, session: str, token: int) -> None:
        self.begun.append(token)

    async def finish(self, session: str, token: int, output: OutputRef) -> OutputPlace | str | list[Printed] | None:
        await self.taken.wait()
        return f"output of {token}"

    def forget(self, token: int) -> None:
        self.forgotten.append(token)


class World:
    def __init__(self, nodes: int = 3) -> None:
        self.seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {self.seed}")  # shown when the test fails
        self.clock = LoopClock()
        self.cluster = Cluster()
        self.nodes = [Node(f"n{n}", self.cluster, self.clock) for n in range(1, nodes + 1)]
        self.runner = FakeRunner()
        self.outputs = FakeOutputs()
        self.agent = self.make(self.runner)

    def make(self, runner: FakeRunner, incarnation: str = "boot/1") -> Worker:
        self.polls_link = Polls(
            servers=self.nodes,
            opening=WorkerSessionIn(name="w1", slots=4, handlers=["exec"], incarnation=incarnation),
            outputs=self.outputs,
            clock=self.clock,
            rng=random.Random(self.seed),
            permits=Permits(),
            token_from="--token-file",
        )
        return Worker(name="w1", link=self.polls_link, runner=runner, clock=self.clock, grace_ms=GRACE_MS)

    async def until(self, true: Callable[[], Any], seconds: float = 60) -> None:
        """Lets time pass until this holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not true():
            assert loop.time() < end, "it did not come to pass"
            await asyncio.sleep(0.005)

    async def leased(self) -> int:
        """Until the worker holds a lease; returns the session."""
        await self.until(lambda: self.agent.holds_lease)
        return self.agent.session

    async def launched(self, *tokens: int) -> None:
        await self.until(lambda: self.runner.launched.keys() >= set(tokens))

    def begin(self, token: int) -> None:
        self.runner.on_started(token, self.clock.wall_ms())

    def end(self, token: int, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
        now = self.clock.wall_ms()
        self.runner.on_ended(token, RunEnd(outcome=outcome, started_at_ms=now, ended_at_ms=now, **fields))

    @property
    def polls(self) -> list[PollIn]:
        return [poll for node in self.nodes for poll in node.polls]

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        for node in self.nodes:
            node.down = True
        yield
        for node in self.nodes:
            node.down = False


def run(body: Callable[[World], Coroutine[Any, Any, None]], nodes: int = 3) -> None:
    async def main() -> None:
        world = World(nodes)
        await world.agent.start()
        try:
            await body(world)
        finally:
            await world.agent.stop()

    run_jumping(main)
