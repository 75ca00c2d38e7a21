"""One run of the cluster with jobs: tests.sim.world with the rooms above Raft."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from unittest.mock import patch

from raftsched.cluster_settings import Settings
from raftsched.errors import StartupError
from tests.sim.checks import Violation
from tests.sim.jobs.calm import JobsCalm
from tests.sim.jobs.clients import JobClients
from tests.sim.jobs.dues import CATCH_UP_LEAST, Dues
from tests.sim.jobs.faults import JobsNemesis
from tests.sim.jobs.ledger import Ledger
from tests.sim.jobs.machine import JobsMachine
from tests.sim.jobs.order import Order
from tests.sim.jobs.outside import Outside
from tests.sim.jobs.profiles import PROFILES, JobsProfile
from tests.sim.jobs.remote import RemoteMachine, Ways
from tests.sim.jobs.switches import ALL, Switches
from tests.sim.jobs.truth import Truth
from tests.sim.machine import Machine
from tests.sim.world import Outcome, World, play, scratch

FAR_DAY_MS = 2_000  # due times lie days ahead then, and come near all the time


class _Errors(logging.Handler):
    """A room's log record with a traceback is a bug: the room has caught it so that others may go on."""

    def __init__(self, world: JobsWorld) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None and not isinstance(record.exc_info[1], Violation):
            try:
                self._world.checks.fail(f"{record.getMessage()}: {record.exc_info[1]!r}")
            except Violation:
                pass  # the run ends at the next step


class JobsWorld(World):
    profiles = PROFILES
    profile: JobsProfile
    machines: dict[str, JobsMachine]
    clients: JobClients

    def __init__(
        self,
        seed: int,
        nodes: int,
        profile: str,
        directory: Path,
        switches: Switches = ALL,
        verbose: bool = False,
    ) -> None:
        self.switches = switches
        self.truth = Truth(self)
        self.ledger = Ledger(self)
        self.dues = Dues(self)
        self.outside = Outside(self, random.Random(f"{seed} outside"))
        self.order = Order(self)
        self.promised: set[bytes] = set()  # manual runs that were acknowledged
        super().__init__(seed, nodes, profile, directory, verbose=verbose)
        self.ways = Ways(self, random.Random(f"{seed} ways"))
        self.workers: dict[str, RemoteMachine] = {}
        for number in range(1, self.profile.workers + 1):
            worker = RemoteMachine(self, f"w{number}", random.Random(f"{seed} worker {number}"), directory)
            self.workers[worker.name] = worker
            self.ways.add(worker.name)
        self._errors = _Errors(self)
        self._log = logging.getLogger("raftsched")
        self._log.addHandler(self._errors)
        self._log_was = (self._log.level, self._log.propagate)
        if not verbose:
            self._log.setLevel(logging.ERROR)
            self._log.propagate = False

    def make_machine(self, name: str, rng: random.Random, directory: Path) -> JobsMachine:
        return JobsMachine(self, name, rng, directory)

    def make_clients(self, rng: random.Random) -> JobClients:
        return JobClients(self, self.profile.clients, rng)

    def make_nemesis(self, rng: random.Random) -> JobsNemesis:
        return JobsNemesis(self, rng)

    def run(self, seconds: float) -> None:
        rng = random.Random(f"{self.seed} workers start")
        for worker in self.workers.values():
            self.scheduler.at(rng.uniform(0, 5), worker.start)
        super().run(seconds)

    def draw_settings(self, rng: random.Random) -> Settings:
        return Settings(
            session_ttl_ms=rng.choice(self.profile.ttl_ms),
            worker_ttl_ms=self.profile.worker_ttl_ms[self.seed % len(self.profile.worker_ttl_ms)],
            catch_up_max=rng.choice([CATCH_UP_LEAST, 10]),
            queue_all_max=rng.choice([2, 8]),
            start_deadline_ms=rng.choice([8_000, 900_000]),
            attempts_kept=1_000,
            condition_check_ms=rng.choice([1_000, 4_000]),
            ageing_ms=rng.choice([1_000, 60_000]),
        )

    def stopped(self, machine: Machine, error: BaseException) -> None:
        if isinstance(error, StartupError) and "supervisor process ended" in str(error):
            self.scheduler.after(1.0, machine.start)  # it was killed; somebody starts the node again
        else:
            super().stopped(machine, error)

    def calm(self) -> None:
        JobsCalm(self).watch()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
        self._log.removeHandler(self._errors)
        level, self._log.propagate = self._log_was  # other tests of this process look at what is logged
        self._log.setLevel(level)
        super().close()


def simulate_jobs(
    seed: int,
    nodes: int = 3,
    seconds: float = 120.0,
    profile: str = "mixed",
    switches: Switches = ALL,
    verbose: bool = False,
) -> Outcome:
    """One run; a violation is told in the outcome. Its files are gone afterwards."""
    outcome = Outcome(seed, nodes, profile)
    with scratch() as directory:
        world = JobsWorld(seed, nodes, profile, directory, switches, verbose)
        with (
            world.outside.watched(),
            world.order.watched(),
            patch("raftsched.core.tables.FAR_DAY_MS", FAR_DAY_MS),
            patch("raftsched.leader.bulk_steps.JOBS", world.profile.operation_jobs),
        ):
            play(world, seconds, outcome)
        outcome.runs, outcome.commands = len(world.truth.runs), world.ledger.counts
    return outcome
