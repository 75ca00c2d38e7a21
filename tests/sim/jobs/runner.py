"""What a worker has on a simulated machine: its handle of the supervisor, as worker.processes.runner has it, and the
ends of runs on the disk."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from raftsched.core.commands import SelfReport, decode
from raftsched.core.model import Outcome, OutputRef, Verdict
from raftsched.errors import StartupError
from raftsched.system.clock import Clock
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.session.kept_ends import KeptEnds
from tests.sim.jobs.keepers import Site, Slot, Supervisor
from tests.sim.loop import Loop

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

SNOOZED_MS = 1_500
SPAWN_S = (0.03, 0.2)
LOCK_AGAIN_S = 0.01


def saying(end: RunEnd, seed: int, token: int) -> RunEnd:
    """Returns the end of a run that printed or says more about itself now and then: always the same of one attempt."""
    rng = random.Random(f"{seed} {token} says")
    if end.outcome is not Outcome.LOST and rng.random() < 0.3:
        end = msgspec.structs.replace(end, output=OutputRef(1, token, 1, b""))
    if end.outcome not in (Outcome.SUCCEEDED, Outcome.FAILED) or rng.random() > 0.12:
        return end
    mine = [Verdict.SNOOZE, Verdict.CANCEL, Verdict.FAIL if end.outcome is Outcome.FAILED else Verdict.SUCCEED]
    verdict = rng.choice([*mine, None])
    said = SelfReport(rng.randrange(101), "so far", b'{"token":%d}' % token)
    return msgspec.structs.replace(end, verdict=verdict, delay_ms=SNOOZED_MS, said=said)


class SimKeptEnds(KeptEnds):
    """The real ones, in files of the machine. `told`: gets the tokens of what is read."""

    def __init__(self, path: Path, store_id: bytes, told: set[int]) -> None:
        super().__init__(path, store_id)
        self._told = told

    def read(self) -> tuple[bytes, ...]:
        found = super().read()
        for raw in found:
            self._told.add(json.loads(raw)["report"]["token"] if raw.startswith(b"{") else decode(raw).token)  # type: ignore[union-attr]
        return found


class SimRunner:
    def __init__(self, world: JobsWorld, site: Site, loop: Loop, clock: Clock) -> None:
        self.on_started: Callable[[int, int], None] = lambda token, started_at_ms: None
        self.on_ended: Callable[[int, RunEnd], None] = lambda token, end: None
        self.on_self_report: Callable[[int, SelfReport], None] = lambda token, said: None
        self.on_died: Callable[[], None] = lambda: None
        self._world = world
        self._site = site
        self._loop = loop
        self._clock = clock
        self._slot = Slot()
        self._supervisor: Supervisor | None = None
        self._number = 0
        self._fences: dict[int, asyncio.Future[None]] = {}
        self._ping_sent: tuple[int, int] | None = None
        self.told: set[int] = set()  # tokens of runs whose ends this process can report

    # ------------------------------------------------------------ life

    @property
    def alive(self) -> bool:
        return self._supervisor is not None

    async def start(self) -> None:
        if self.alive:
            return
        while self._site.locked and self._world.switches.lock:
            if self._site.supervisor is not None:
                self._site.supervisor.end()  # SIGKILL, by the pid in the lock file
            await asyncio.sleep(LOCK_AGAIN_S)
        supervisor: Supervisor

        def tell(when: float, what: str, *facts: Any) -> None:
            self._world.scheduler.add(when, self._loop, self._hears, (supervisor, what, facts), None)

        supervisor = self._site.start(self._slot, tell)
        self._ping_sent = None
        await asyncio.sleep(self._site.rng.uniform(*SPAWN_S))
        if supervisor.dead:
            raise StartupError("The supervisor process ended while it started; its error output says why.")
        self._supervisor = supervisor

    async def stop(self) -> None:
        if self.alive:
            self._send("stop")
        while self._site.locked:
            await asyncio.sleep(LOCK_AGAIN_S)
            if not self.alive and self._site.supervisor is not None:
                self._site.supervisor.end()

    def moves(self, within_ms: int) -> bool:
        if not self.alive:
            return False
        return self._ping_sent is None or self._clock.boot_ms() - self._ping_sent[1] <= within_ms

    # ------------------------------------------------------------ requests

    def ping(self) -> None:
        if self.alive and self._ping_sent is None:
            self._number += 1
            self._ping_sent = (self._number, self._clock.boot_ms())
            self._send("ping", self._number)

    def launch(self, spec: RunSpec) -> None:
        self._send("launch", spec)

    def kill(self, token: int, reason: str = "") -> None:
        self._send("kill", token)

    def wind_down(self, grace_ms: int) -> None:
        """What runs ends when it ends; `stop` ends the rest."""

    def set_lease(self, session: int, deadline_boot_ms: int) -> None:
        self._slot.store(session, deadline_boot_ms)

    async def fence(self) -> None:
        if self.alive and self._world.switches.fence:
            self._number += 1
            number = self._number
            fenced = self._fences[number] = self._loop.create_future()
            self._send("fence", number)
            try:
                await fenced
            finally:
                self._fences.pop(number, None)
        if not self.alive:
            await self.start()

    def _send(self, what: str, *facts: Any) -> None:
        if self._supervisor is not None:
            self._supervisor.send(what, *facts)

    # ------------------------------------------------------------ what comes back

    def _hears(self, supervisor: Supervisor, what: str, facts: tuple[Any, ...]) -> None:
        if supervisor is not self._supervisor:
            return
        match what:
            case "ended":
                token, outcome, started_ms, ended_ms = facts
                code = {Outcome.SUCCEEDED: 0, Outcome.FAILED: 1}.get(outcome)
                end = RunEnd(outcome=outcome, started_at_ms=started_ms, ended_at_ms=ended_ms, exit_code=code)
                end = saying(end, self._world.seed, token)
                if outcome is not Outcome.LOST:
                    self.told.add(token)
                self.on_ended(token, end)
            case "began":
                self.on_started(*facts)
            case "pong":
                if self._ping_sent is not None and self._ping_sent[0] == facts[0]:
                    self._ping_sent = None
            case "fenced":
                fenced = self._fences.get(facts[0])
                if fenced is not None and not fenced.done():
                    fenced.set_result(None)
            case "died":
                self._supervisor = None
                for future in self._fences.values():
                    if not future.done():
                        future.set_result(None)
                self.on_died()
