"""Remote workers: machines without Raft and without a store, and the ways between them and the nodes.

On each runs the real worker, which asks nodes (raftsched.remote.polls); what it asks goes to the real gateway there. A
request may be lost, come late, or come twice, long after the worker has given it up; so may an answer. HTTP is not
simulated: every request has a connection of its own, and they overtake one another.
"""

from __future__ import annotations

import asyncio
import random
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from raftsched.core.model import OutputRef
from raftsched.core.rules.executors import worker_key
from raftsched.errors import KINDS, RaftschedError, StartupError
from raftsched.handlers import KINDS as HANDLERS
from raftsched.remote.polls import Polls
from raftsched.remote.server_port import NoAnswer, Refused, SessionOver
from raftsched.surface.worker_sessions import (
    CloseIn,
    OutputPlace,
    PollAnswer,
    PollIn,
    Printed,
    UploadOut,
    WorkerSessionIn,
    WorkerSessionOut,
)
from raftsched.worker.session.worker import Worker
from raftsched.worker.tasks.permits import Permits
from tests.sim.checks import Violation
from tests.sim.clocks import MachineClock
from tests.sim.jobs.keepers import Site
from tests.sim.jobs.runner import SimKeptEnds, SimRunner
from tests.sim.loop import Loop

if TYPE_CHECKING:
    from tests.sim.jobs.machine import JobsMachine
    from tests.sim.jobs.world import JobsWorld

GRACE_MS = 3_000  # for runs, when a worker stops
Asked = WorkerSessionIn | PollIn | CloseIn

REPEATED_S = (0.2, 12.0)  # how much later a request comes once more
NO_CONNECTION_S = 0.02
SENDING_S = ((0.0, 0.05), (0.05, 0.5), (0.5, 5.0))  # of what a run printed
DISK_S = (0.0003, 0.01)


class Way:
    """From a worker to a node, or back."""

    def __init__(self, latency_s: tuple[float, float]) -> None:
        self.low_s, self.high_s = latency_s
        self.cut = False
        self.lost = 0.0  # the share of what is sent that never comes
        self.repeated = 0.0


class Call:
    """A request on its way, and where its answer belongs."""

    def __init__(self, asker: RemoteMachine, loop: Loop, node: JobsMachine, session: str, request: Asked) -> None:
        self.asker, self.loop, self.node, self.session = asker, loop, node, session
        self._body, self._kind = msgspec.json.encode(request), type(request)
        self.answer: asyncio.Future[Any] | None = loop.create_future()

    @property
    def request(self) -> Asked:
        """As the node reads it."""
        return msgspec.json.decode(self._body, type=self._kind)

    def again(self) -> Call:
        """The same once more; whoever repeats it drops the answer."""
        call = copy(self)
        call.answer = None
        return call

    def gone(self) -> bool:
        """Whether nobody waits for the answer."""
        return self.loop.dead or self.answer is None or self.answer.done()


class Ways:
    """All of them, and what is on its way."""

    def __init__(self, world: JobsWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._ways: dict[tuple[str, str], Way] = {}
        self._served: dict[str, dict[Call, None]] = {}  # by node: taken, not answered

    def __getitem__(self, pair: tuple[str, str]) -> Way:
        return self._ways[pair]

    def add(self, worker: str) -> None:
        for node in self._world.machines:
            self._ways[worker, node] = Way(self._world.profile.latency_s)
            self._ways[node, worker] = Way(self._world.profile.latency_s)

    def heal_all(self) -> None:
        for way in self._ways.values():
            way.cut, way.lost, way.repeated = False, 0.0, 0.0
            way.low_s, way.high_s = self._world.profile.latency_s

    def ask(self, call: Call) -> None:
        way = self._ways[call.asker.name, call.node.name]
        self._send(call.asker.name, call.node.name, self._arrives, call)
        if way.repeated and self._rng.random() < way.repeated:
            self._world.scheduler.after(self._rng.uniform(*REPEATED_S), self._arrives, call.again())

    def _send(self, source: str, target: str, arrives: Any, *facts: Any) -> None:
        way = self._ways[source, target]
        if not way.cut and self._rng.random() >= way.lost:
            self._world.scheduler.after(self._rng.uniform(way.low_s, way.high_s), arrives, *facts)

    def _arrives(self, call: Call) -> None:
        node = call.node
        if self._ways[call.asker.name, node.name].cut:
            return
        if node.loop is None or not node.serving or node.gateway is None:
            self._world.scheduler.after(NO_CONNECTION_S, self._answered, call, None, NoAnswer("no connection"))
            return
        self._served.setdefault(node.name, {})[call] = None
        node.loop.create_task(self._serve(call, node))

    async def _serve(self, call: Call, node: JobsMachine) -> None:
        answer, error = None, None
        try:
            answer = await node.serve(call.session, call.request, call.gone)
        except Violation:
            raise
        except RaftschedError as exc:
            error = told(exc, isinstance(call.request, WorkerSessionIn))
        self._served[node.name].pop(call, None)
        self._send(node.name, call.asker.name, self._answered, call, answer, error)

    def node_gone(self, node: str) -> None:
        """Its connections break."""
        for call in self._served.pop(node, {}):
            self._send(node, call.asker.name, self._answered, call, None, NoAnswer("the connection broke"))

    def _answered(self, call: Call, answer: Any, error: Exception | None) -> None:
        if not call.loop.dead and call.answer is not None:
            call.loop.call_soon(_settle, call.answer, answer, error)


def _settle(future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)


def told(error: RaftschedError, opening: bool) -> Exception:
    """Returns what the worker's client makes of a problem that a node answered with."""
    status = KINDS[error.code].status
    if error.code == "session-over":
        return NoAnswer(error.detail) if opening else SessionOver()
    if status >= 500:
        return NoAnswer(error.detail)
    return Refused(error.code, error.detail, status, getattr(error, "after_s", None))


class SimServer:
    """raftsched.remote.server_port.Server over simulated ways."""

    def __init__(self, machine: RemoteMachine, node: JobsMachine) -> None:
        self._machine, self._node = machine, node

    @property
    def name(self) -> str:
        return self._node.name

    async def open(self, request: WorkerSessionIn) -> WorkerSessionOut:
        opened = await self._ask("", request)
        assert isinstance(opened, WorkerSessionOut)
        return opened

    async def poll(self, session: str, request: PollIn) -> PollAnswer:
        answer = await self._ask(session, request)
        assert isinstance(answer, PollAnswer)
        return answer

    async def close(self, session: str, request: CloseIn) -> None:
        await self._ask(session, request)

    async def upload(
        self, session: str, token: int, offset: int, data: bytes, stream: str | None = None, *, end: bool = False
    ) -> UploadOut:
        raise AssertionError("nothing is printed here")

    async def _ask(self, session: str, request: Asked) -> Any:
        assert self._machine.loop is not None
        call = Call(self._machine, self._machine.loop, self._node, session, request)
        assert call.answer is not None
        self._machine.world.ways.ask(call)
        return await call.answer


class SimOutputs:
    """raftsched.remote.server_port.Outputs: what runs print is sent, which takes its time, and not looked at."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def begin(self, session: str, token: int) -> None: ...

    async def finish(self, session: str, token: int, output: OutputRef) -> OutputPlace | str | list[Printed] | None:
        await asyncio.sleep(self._rng.uniform(*self._rng.choice(SENDING_S)))
        return None

    def forget(self, token: int) -> None: ...


class RemoteMachine:
    """A machine of a remote worker. `worker`, `loop`: of the running process; None: there is none."""

    def __init__(self, world: JobsWorld, name: str, rng: random.Random, path: Path) -> None:
        """`path`: where its data directories are."""
        self.world = world
        self._path = path
        self.name = worker_key(name)
        self._name = name
        self._rng = rng
        slew = world.profile.slew
        self.clock = MachineClock(
            world.scheduler,
            boot_s=rng.uniform(1, 1_000_000),
            rate=1 + (rng.choice([-slew, slew]) if slew else rng.uniform(-2e-4, 2e-4)),
            wall_offset_ms=rng.choice([0, 0, rng.randint(-5_000, 5_000)]),
            wall_rate=1.0,
        )
        self.wall_offset_ms = self.clock.wall_offset_ms
        self.site = Site(world, self, random.Random(rng.random()))
        self.slots = rng.choice(world.profile.worker_slots)
        self.weight = rng.choice([1, 1, 3])
        self.incarnation = 0  # processes
        self.directory = 1  # another one: nothing is known of what ran under the one before
        self.worker: Worker | None = None
        self.runner: SimRunner | None = None
        self.loop: Loop | None = None
        self.stopping = False

    @property
    def running(self) -> bool:
        return self.loop is not None

    @property
    def holds_lease(self) -> bool:
        return self.worker is not None and self.worker.holds_lease

    # ------------------------------------------------------------ life

    def start(self) -> None:
        if self.running:
            return
        world = self.world
        self.incarnation += 1
        world.trace.event(self.name, "start", f"#{self.incarnation}")
        self.loop = loop = Loop(world.scheduler, self.name, world.network, lambda: None, self._crashed)
        rng = random.Random(f"{world.seed} {self.name} {self.incarnation}")
        loop.thread_s = partial(self._rng.uniform, *DISK_S)
        self.runner = runner = SimRunner(world, self.site, loop, self.clock)
        servers = [SimServer(self, node) for node in world.machines.values()]
        rng.shuffle(servers)
        polls = Polls(
            servers=servers,
            opening=WorkerSessionIn(
                name=self._name,
                slots=self.slots,
                weight=self.weight,
                labels={"disk": "ssd"},
                handlers=list(HANDLERS),
                incarnation=f"{self.site.boot}/{self.directory}",
            ),
            outputs=SimOutputs(rng),
            clock=self.clock,
            rng=rng,
            permits=Permits(),
        )
        kept_ends = SimKeptEnds(self._path / f"{self._name}-{self.directory}", self._name.encode(), runner.told)
        self.worker = Worker(
            name=self._name, link=polls, runner=runner, clock=self.clock, grace_ms=GRACE_MS, kept_ends=kept_ends
        )
        loop.call_soon(self._begin, loop, self.worker)

    def _begin(self, loop: Loop, worker: Worker) -> None:
        loop.create_task(self._run(worker, self.incarnation))

    async def _run(self, worker: Worker, incarnation: int) -> None:
        try:
            await worker.start()
        except StartupError:  # its supervisor was killed; somebody starts it again
            self.world.scheduler.after(0.0, self._again, incarnation)

    def _again(self, incarnation: int) -> None:
        if self.incarnation == incarnation:
            self.kill()
            self.world.scheduler.after(1.0, self.start)

    def _crashed(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.world.checks.fail(f"{self.name}: {context.get('message')}: {error!r}")

    def kill(self, power: bool = False) -> None:
        """SIGKILL, or the power goes."""
        if self.loop is not None:
            self.world.trace.event(self.name, "power" if power else "kill")
            self.loop.kill()
            self.loop = self.worker = self.runner = None
            self.stopping = False
            self.site.node_gone()
        if power:
            self.site.power_gone()
            self.clock.reboot(self._rng.uniform(1, 30))

    def stop(self) -> None:
        """SIGTERM."""
        if self.loop is not None and self.worker is not None and not self.stopping:
            self.stopping = True
            self.loop.create_task(self._stop(self.worker, self.incarnation))

    async def _stop(self, worker: Worker, incarnation: int) -> None:
        self.world.trace.event(self.name, "stops")
        await worker.wind_down()
        await worker.stop()
        self.world.scheduler.after(0.0, self._stopped, incarnation)

    def _stopped(self, incarnation: int) -> None:
        if self.incarnation == incarnation:
            self.kill()

    def move(self) -> None:
        """From here on its processes have another data directory: another incarnation. It must not run."""
        self.directory += 1
        self.site.new_disk()

    def pause(self, seconds: float) -> None:
        """SIGSTOP for a while; its supervisor and keepers go on."""
        if self.loop is not None:
            self.loop.stop_until(self.world.scheduler.now + seconds)

    def calm(self) -> None:
        self.clock.wall_offset_ms = self.wall_offset_ms
        if self.stopping:
            self.kill()
        if self.loop is not None:
            self.loop.busy_until = 0.0
            self.world.scheduler.after(0.0, self.world.scheduler.wake, self.loop)
        self.site.calm()
        self.world.scheduler.after(0.0, self.start)

    def close(self) -> None:
        """The run is over."""
        if self.loop is not None:
            self.loop.kill()
