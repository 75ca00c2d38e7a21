"""A remote worker among fakes: it polls nodes, which share one gateway and may fail each in its own way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from raftsched.core.model import OutputRef
from raftsched.core.rules.executors import worker_key
from raftsched.core.subjects.leasing import WorkerBeat, WorkerGrants, decode_beats, encode
from raftsched.errors import KINDS, RaftschedError
from raftsched.remote.gateway import Gateway
from raftsched.remote.polls import Polls
from raftsched.remote.server_port import NoAnswer, Refused, SessionOver
from raftsched.surface.worker_sessions import (
    CloseIn,
    PollAnswer,
    PollIn,
    RefusedReport,
    Report,
    Run,
    UploadOut,
    WorkerSessionIn,
    WorkerSessionOut,
)
from raftsched.worker.tasks.permits import Permits
from tests.unit.remote.gateway_world import Kept
from tests.unit.worker.world import World

STEP_S = 0.005  # a request takes so long, there and back


class Node:
    """A `Server`. `down`: answers nothing; `silent`: says not even that; `deaf`: takes a request, does it, and its
    answer is lost."""

    def __init__(self, name: str, world: PollsWorld) -> None:
        self.name = name
        self._world = world
        self.down = self.deaf = self.silent = False
        self.leads = True  # False: it hears of no leader
        self.refuses: Callable[[PollIn | None], Exception | None] = lambda request: None
        self.polls: list[PollIn] = []
        self.at: list[int] = []  # boot ms of the polls
        self.under_way = self.most_under_way = 0

    async def _reached(self, request: PollIn | None = None) -> None:
        await asyncio.sleep(STEP_S)
        if self.silent:
            await asyncio.Event().wait()
        if self.down or not self._world.raft.reachable:
            raise NoAnswer("cannot be connected to")
        refused = self.refuses(request)
        if refused is not None:
            raise refused

    async def _answered(self) -> None:
        await self._world.answers.wait()
        if self.deaf:
            raise NoAnswer("broke the connection")

    async def open(self, request: WorkerSessionIn) -> WorkerSessionOut:
        self._world.openings.append(request)
        await self._reached()
        try:
            out = await self._world.gateway.open(request)
        except RaftschedError as error:
            raise _told(error) from None
        await self._answered()
        return out

    async def poll(self, session: str, request: PollIn) -> PollAnswer:
        world, request = self._world, msgspec.json.decode(msgspec.json.encode(request), type=PollIn)
        now = world.clock.boot_ms()
        self.polls.append(request)
        self.at.append(now)
        world.asked.append(now)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self._reached(request)
            wrong = [report for report in request.reports if world.invalid(report)]
            request.reports = [report for report in request.reports if report not in wrong]
            refused = [RefusedReport(token=report.token, code="invalid", detail="/result is bad") for report in wrong]
            out = await world.gateway.poll(session, request, now, refused=refused)
            await self._answered()
        except RaftschedError as error:
            raise _told(error) from None
        finally:
            self.under_way -= 1
        world.given += out.runs
        out.runs = [*out.runs, *world.repeated]
        if not self.leads:
            out.lease_ms = 0
        return out

    async def close(self, session: str, request: CloseIn) -> None:
        self._world.closed.append(request)
        await self._reached()
        await self._world.gateway.close(session, request)

    async def upload(
        self, session: str, token: int, offset: int, data: bytes, stream: str | None = None, *, end: bool = False
    ) -> UploadOut:
        raise NotImplementedError


def _told(error: RaftschedError) -> Exception:
    status = KINDS[error.code].status
    if error.code == "session-over":
        return SessionOver()
    if status >= 500:
        return NoAnswer(error.detail)
    return Refused(error.code, error.detail, status, getattr(error, "after_s", None))


class FakeOutputs:
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.forgotten: list[int] = []
        self.taken = asyncio.Event()
        self.taken.set()

    def begin(self, session: str, token: int) -> None:
        self.begun.append(token)

    async def finish(self, session: str, token: int, output: OutputRef) -> str:
        await self.taken.wait()
        return f"output of {token}"

    def forget(self, token: int) -> None:
        self.forgotten.append(token)


class PollsWorld(World):
    output = OutputRef(1, 1, 1, b"x" * 32)  # as the gateway stores the first
    name = "w1"
    key = worker_key("w1")
    ttl_ms = 10_000
    poll_ms = 2_500

    def __init__(self, directory: Path, nodes: int = 1) -> None:
        self.nodes = [Node(f"n{n}", self) for n in range(1, nodes + 1)]
        self.outputs = FakeOutputs()
        self.openings: list[WorkerSessionIn] = []
        self.closed: list[CloseIn] = []
        self.invalid: Callable[[Report], bool] = lambda report: False  # what is refused as no report
        self.given: list[Run] = []  # by answers
        self.repeated: Sequence[Run] = ()  # what answers bring beside that
        super().__init__(directory)

    def form(self) -> None:
        super().form()
        self.stored = Kept()
        self.gateway = Gateway(node_id="n1", raft=self.raft, read=self.read, clock=self.clock, outputs=self.stored)
        self.gateway.start()

    def _link(self, boot: str) -> Polls:
        self.link = Polls(
            servers=self.nodes,
            opening=WorkerSessionIn(name="w1", slots=4, handlers=["exec"], incarnation=boot),
            outputs=self.outputs,
            clock=self.clock,
            rng=random.Random(self.seed),
            permits=Permits(),
            token_from="--token-file",
        )
        return self.link

    def _on_sent(self, kind: str, payload: bytes) -> None:
        if kind == "worker_beats" and self.grant_ms is not None:
            grants = [(beat.session, beat.request, self.grant_ms) for beat in decode_beats(payload).beats]
            message = encode(WorkerGrants(tuple(grants)))
            asyncio.get_running_loop().call_soon(self.raft.deliver, "worker_grants", message)

    def beats(self) -> list[WorkerBeat]:
        return [beat for _, kind, raw in self.raft.sent if kind == "worker_beats" for beat in decode_beats(raw).beats]

    def see_again(self) -> None:
        """As by a node that is behind, and has not applied what was reported meanwhile."""
        self.repeated = list(self.given)

    @property
    def polls(self) -> list[PollIn]:
        return [poll for node in self.nodes for poll in node.polls]

    def last(self) -> PollIn:
        """The newest poll."""
        return max(self.nodes, key=lambda node: node.at[-1:]).polls[-1]

    def forget_polls(self) -> None:
        for node in self.nodes:
            node.polls.clear()

    def reported(self) -> list[Report]:
        return [report for poll in self.polls for report in poll.reports]

    def close(self) -> None:
        self.gateway.stop()
