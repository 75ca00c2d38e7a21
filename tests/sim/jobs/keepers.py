"""The processes of a machine beside its node process: supervisors, and under them keepers with their jobs.

As worker.processes.supervisor and worker.processes.keeper have it, seen from outside. A keeper reads the lease in
shared memory by itself; it goes on when node or supervisor is stopped, and kills when one of them is gone, when its
lease is about to end, when told to, and on timeout. Killing takes a moment, at the lease's end no longer than there is
of it.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.processes.tree import BEGAN_AFTER_MS
from raftsched.worker.processes.wire import Exec
from tests.sim.clocks import MachineClock
from tests.sim.jobs.truth import Run

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

FORK_S = (0.0005, 0.004)
PIPE_S = (0.00005, 0.0005)  # from one process of a machine to another


class Host(Protocol):
    """The machine: a node's, or a remote worker's."""

    name: str
    clock: MachineClock


class Slot:
    """worker.processes.lease.LeaseSlot: the memory that a node's runner shares with the keepers of its supervisors."""

    def __init__(self) -> None:
        self._session = 0
        self._deadline_ms = 0

    def store(self, session: int, deadline_boot_ms: int) -> None:
        self._session, self._deadline_ms = session, deadline_boot_ms

    def kill_at(self, session: int) -> int:
        return (self._deadline_ms if self._session in (0, session) else 0) - KILL_BEFORE_MS


class Keeper:
    def __init__(self, supervisor: Supervisor, spec: RunSpec) -> None:
        self._supervisor = supervisor
        self._site = supervisor.site
        self._world = supervisor.site.world
        self._clock = supervisor.site.machine.clock
        self._spec = spec
        self._rng = random.Random(f"{self._world.seed} {spec.token}")
        self._run: Run | None = None
        self._outcome: Outcome | None = None  # that it was asked to end with; None: not asked
        self._dies_at: float | None = None
        self._lost = False
        self._early: list[Callable[[], None]] = []  # what it was told before it had started
        self.over = False
        self.started_ms = 0
        self._after(self._rng.uniform(*FORK_S), self._begin)

    def _after(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        self._world.scheduler.after(seconds, self._unless_over, call, args)

    def _unless_over(self, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not self.over:
            call(*args)

    # ------------------------------------------------------------ life

    def _begin(self) -> None:
        spec, world = self._spec, self._world
        if self._kills_itself() and self._kill_at() <= self._clock.boot_ms():
            self._finish(Outcome.LOST)
            return
        task = spec.task
        assert isinstance(task, Exec)
        instance = parse_instance(task.env["RAFTSCHED_INSTANCE_ID"])
        if instance is None or int(task.env["RAFTSCHED_FENCING_TOKEN"]) != spec.token:
            world.checks.fail(f"attempt {spec.token} sees a wrong environment: {task.env}")
            return
        self.started_ms = self._clock.wall_ms()
        self._run = Run(spec.token, spec.session, self._site.machine.name, instance, world.scheduler.now)
        world.truth.starts(self._run)
        does = json.loads(task.argv[1])
        takes = does["takes"][0] + (does["takes"][1] - does["takes"][0]) * self._rng.random() ** 2
        self._stubborn = self._rng.random() < does.get("stubborn", 0.0)
        ends = Outcome.FAILED if self._rng.random() < does.get("fails", 0.0) else Outcome.SUCCEEDED
        self._after(takes, self._natural, ends)
        self._after(BEGAN_AFTER_MS / 1000, self._began)
        self._after(spec.timeout_ms / 1000, self.ask, Outcome.TIMED_OUT)
        if self._kills_itself():
            self._watch()
        if self._supervisor.orphaned:
            self.lose(KILL_BEFORE_MS / 1000)
        for told in self._early:
            told()

    def _kills_itself(self) -> bool:
        return self._world.switches.self_kill

    def _kill_at(self) -> int:
        ahead = 0 if self._world.switches.kill_before_end else KILL_BEFORE_MS
        return self._supervisor.slot.kill_at(self._spec.session) + ahead

    def _watch(self) -> None:
        """The timer is set for the lease's end as it is known now, and it is read again then."""
        kill_at, now = self._kill_at(), self._clock.boot_ms()
        if kill_at <= now:
            self.lose(KILL_BEFORE_MS / 1000)
        else:
            self._after(self._clock.seconds((kill_at - now) / 1000), self._watch)

    def _began(self) -> None:
        self._tell("began", self._spec.token, self.started_ms)

    def _natural(self, ends: Outcome) -> None:
        """The main process ends; others may be left, and are killed."""
        if self._dies_at is None:
            self._outcome = ends
            self._die(self._rng.choice([0.0, 0.0, self._rng.uniform(0.0, 0.05)]))

    def ask(self, outcome: Outcome) -> None:
        """TERM now, KILL after the grace period."""
        if self._run is None:
            self._early.append(partial(self.ask, outcome))
        elif self._outcome is None and not self._lost:
            self._outcome = outcome
            self._die(self._spec.grace_ms / 1000 if self._stubborn else self._rng.uniform(0.0, 0.3))

    def lose(self, within_s: float) -> None:
        """Killed for the sake of the lease, by its own clock within so many seconds."""
        if self._run is None:
            self._early.append(partial(self.lose, within_s))
            return
        if self._lost or (self._dies_at is not None and self._outcome in (Outcome.SUCCEEDED, Outcome.FAILED)):
            return
        self._lost = True
        share = self._rng.choice([0.02, 0.1, self._rng.random(), 0.98])
        self._die(self._clock.seconds(share * within_s))

    def _die(self, seconds: float) -> None:
        at = self._world.scheduler.now + seconds
        if self._dies_at is None or at < self._dies_at:
            self._dies_at = at
            self._after(seconds, self._dead, at)

    def _dead(self, at: float) -> None:
        if at == self._dies_at:
            assert self._outcome is not None or self._lost
            self._finish(Outcome.LOST if self._lost or self._outcome is None else self._outcome)

    def _finish(self, outcome: Outcome) -> None:
        self.over = True
        if self._run is not None:
            self._world.truth.ends(self._run, outcome)
        self._site.released(self)
        started = self.started_ms if self._run is not None else None
        self._tell("ended", self, self._spec.token, outcome, started, self._clock.wall_ms())

    def vanish(self) -> None:
        """The power is gone."""
        if not self.over:
            self.over = True
            if self._run is not None:
                self._world.truth.ends(self._run, Outcome.LOST)

    def _tell(self, what: str, *facts: Any) -> None:
        self._supervisor.hears(what, *facts)


class Supervisor:
    """The process between node and keepers. `tell` brings what it says to the node that started it."""

    def __init__(self, site: Site, slot: Slot, tell: Callable[..., None]) -> None:
        self.site = site
        self.slot = slot
        self.dead = False
        self.orphaned = False  # its node is gone
        self._stopping = False
        self._tell_node = tell
        self._keepers: dict[int, Keeper] = {}  # by token
        self._fences: list[tuple[int, set[Keeper]]] = []
        self._inbox: deque[tuple[str, tuple[Any, ...]]] = deque()
        self._stopped_until = 0.0
        self._last = 0.0  # when the newest message from the node arrives
        self._told = 0.0  # when the newest message to the node arrives

    # ------------------------------------------------------------ pipes

    def send(self, what: str, *facts: Any) -> None:
        """From the node, in order. What was written is read, even when the node is gone by then."""
        scheduler = self.site.world.scheduler
        self._last = max(self._last, scheduler.now + self.site.rng.uniform(*PIPE_S))
        scheduler.at(self._last, self._arrives, what, facts)

    def hears(self, what: str, *facts: Any) -> None:
        """From a keeper."""
        self.site.world.scheduler.after(self.site.rng.uniform(*PIPE_S), self._arrives, what, facts)

    def _arrives(self, what: str, facts: tuple[Any, ...]) -> None:
        if not self.dead:
            self._inbox.append((what, facts))
            self._go_on()

    def _go_on(self) -> None:
        while self._inbox and not self.dead and self.site.world.scheduler.now >= self._stopped_until:
            what, facts = self._inbox.popleft()
            getattr(self, f"_{what}")(*facts)

    def tell(self, what: str, *facts: Any) -> None:
        scheduler = self.site.world.scheduler
        self._told = max(self._told, scheduler.now + self.site.rng.uniform(*PIPE_S))
        self._tell_node(self._told, what, *facts)

    # ------------------------------------------------------------ messages

    def _launch(self, spec: RunSpec) -> None:
        if self._stopping:
            self.tell("ended", spec.token, Outcome.LOST, None, self.site.machine.clock.wall_ms())
            return
        keeper = self._keepers[spec.token] = Keeper(self, spec)
        self.site.held(keeper)

    def _kill(self, token: int) -> None:
        if token in self._keepers:
            self._keepers[token].ask(Outcome.KILLED)

    def _ping(self, number: int) -> None:
        self.tell("pong", number)

    def _fence(self, number: int) -> None:
        for keeper in self._keepers.values():
            keeper.lose(KILL_BEFORE_MS / 1000)
        self._fences.append((number, set(self._keepers.values())))
        self._answer_fences()

    def _eof(self) -> None:
        self.end()

    def _stop(self) -> None:
        self._stopping = True
        for keeper in self._keepers.values():
            keeper.lose(KILL_BEFORE_MS / 1000)
        self._end_when_done()

    def _end_when_done(self) -> None:
        if self._stopping and not self._keepers:
            self.end()

    def _began(self, token: int, started_ms: int) -> None:
        self.tell("began", token, started_ms)

    def _ended(self, keeper: Keeper, token: int, outcome: Outcome, started_ms: int | None, ended_ms: int) -> None:
        self._keepers.pop(token, None)
        self.tell("ended", token, outcome, started_ms, ended_ms)
        self._answer_fences()
        self._end_when_done()

    def _answer_fences(self) -> None:
        while self._fences and not any(keeper in self._fences[0][1] for keeper in self._keepers.values()):
            self.tell("fenced", self._fences.pop(0)[0])

    # ------------------------------------------------------------ life

    def stop(self, seconds: float) -> None:
        """SIGSTOP for so long."""
        scheduler = self.site.world.scheduler
        self._stopped_until = max(self._stopped_until, scheduler.now + seconds)
        scheduler.at(self._stopped_until, self._go_on)

    def go_on(self) -> None:
        """SIGCONT."""
        self._stopped_until = 0.0
        self._go_on()

    def end(self) -> None:
        """It is gone, by itself or killed: its keepers see that, and the node."""
        if self.dead:
            return
        self.dead = True
        for keeper in self._keepers.values():
            self.site.world.scheduler.after(self.site.rng.uniform(*PIPE_S), keeper.lose, KILL_BEFORE_MS / 1000)
        self.site.released(self)
        self.tell("died")


class Site:
    """One machine's processes beside the node: they outlive it. `lock`: who holds the lock of the data directory."""

    def __init__(self, world: JobsWorld, machine: Host, rng: random.Random) -> None:
        self.world = world
        self.machine = machine
        self.rng = rng
        self.boot = 1
        self.supervisor: Supervisor | None = None  # the newest
        self._lock: dict[object, None] = {}
        self._all: dict[object, None] = {}  # also those of a data directory that is no more

    @property
    def locked(self) -> bool:
        return bool(self._lock)

    def start(self, slot: Slot, tell: Callable[..., None]) -> Supervisor:
        self.supervisor = supervisor = Supervisor(self, slot, tell)
        self.held(supervisor)
        return supervisor

    def held(self, process: object) -> None:
        self._lock[process] = self._all[process] = None

    def released(self, process: object) -> None:
        self._lock.pop(process, None)
        self._all.pop(process, None)

    def node_gone(self) -> None:
        """The node process was killed. Each keeper sees its pipe end, and so does a supervisor that is not stopped."""
        for process in list(self._all):
            if isinstance(process, Keeper):
                self.world.scheduler.after(self.rng.uniform(*PIPE_S), process.lose, KILL_BEFORE_MS / 1000)
            elif isinstance(process, Supervisor):
                process.orphaned = True
                process.send("eof")

    def power_gone(self) -> None:
        self.boot += 1
        for process in list(self._all):
            if isinstance(process, Keeper):
                process.vanish()
            elif isinstance(process, Supervisor):
                process.dead = True
        self._all.clear()
        self._lock.clear()
        self.supervisor = None

    def new_disk(self) -> None:
        """Another data directory, and another lock in it."""
        self._lock = {}

    def calm(self) -> None:
        for process in list(self._all):
            if isinstance(process, Supervisor):
                process.go_on()
