"""scripts/simulate: many runs on all cores, what failed and how to replay it, one line of summary last."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.sim.__main__ import arguments, finished, without
from tests.sim.broken import without_rules
from tests.sim.jobs import mutations as jobs_mutations
from tests.sim.jobs.mutations import play
from tests.sim.world import Outcome, simulate


@dataclass(frozen=True)
class Task:
    seed: int
    nodes: int
    seconds: float
    profile: str
    without: str | None = None
    jobs: bool = False  # leader and workers, too: tests.sim.jobs

    def command(self) -> str:
        """What replays it."""
        guard = "" if self.without is None else f" --without {self.without}"
        profile = "" if self.profile == "mixed" else f" --profile {self.profile}"
        jobs = " --jobs" if self.jobs else ""
        return (
            f"python -m tests.sim{jobs} --seed {self.seed} --seconds {self.seconds:g} --nodes {self.nodes}"
            f"{profile}{guard} -v"
        )

    def __str__(self) -> str:
        return f"{self.seed}-{self.nodes}-{self.profile}"

    def play(self, verbose: bool = False) -> Outcome:
        """Raises nothing but what is wrong with the simulator itself."""
        if self.jobs:
            return play(self.seed, self.nodes, self.seconds, self.profile, self.without, verbose)
        with without_rules(self.without):
            return simulate(self.seed, self.nodes, self.seconds, self.profile, without(self.without), verbose)


def regressions(file: Path, jobs: bool = False) -> list[Task]:
    """The runs that once found something: "seed nodes seconds profile what" in each line."""
    tasks = []
    for line in file.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            seed, nodes, seconds, profile = line.split()[:4]
            tasks.append(Task(int(seed), int(nodes), float(seconds), profile, jobs=jobs))
    return tasks


@dataclass
class Summary:
    runs: int = 0
    virtual_s: float = 0.0
    faults: int = 0
    elections: int = 0
    installs: int = 0
    acknowledged: int = 0
    writes: int = 0
    ran: int = 0  # attempts that were really started
    converged: int = 0
    failed: list[tuple[Task, Outcome]] = field(default_factory=list)

    def add(self, task: Task, outcome: Outcome) -> None:
        self.runs += 1
        self.virtual_s += outcome.seconds
        self.faults += sum(outcome.faults.values())
        self.elections += outcome.elections
        self.installs += outcome.installs
        self.acknowledged += outcome.acknowledged
        self.writes += outcome.writes
        self.ran += outcome.runs
        self.converged += outcome.converged
        if outcome.violation is not None:
            self.failed.append((task, outcome))

    def line(self, first: int, wall_s: float) -> str:
        return (
            f"{self.runs} seeds from {first}: {self.virtual_s / 3600:.2f} cluster-hours, {self.faults} faults, "
            f"{self.elections} elections, {self.installs} snapshots installed, {self.acknowledged} calls "
            f"and {self.writes} writes acknowledged, {self.ran} runs started, {len(self.failed)} violations, "
            f"{self.converged} of {self.runs} converged, {wall_s:.0f} s"
        )


def nodes_of(seed: int, nodes: str, jobs: bool = False) -> int:
    """`mixed`: every second seed has five, with jobs every fourth."""
    return int(nodes) if nodes != "mixed" else 3 if seed % (4 if jobs else 2) else 5


def begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("raftsched").setLevel(logging.CRITICAL + 1)


def run(task: Task) -> tuple[Task, Outcome]:
    try:
        return task, task.play()
    except Exception as error:
        return task, Outcome(task.seed, task.nodes, task.profile, violation=f"{type(error).__name__}: {error}")


class Budget:
    """So many processor seconds of runs: how much a share of a test run looks at does not hang on what else the machine
    does. It ends after LONGEST times as many seconds, too, for the sake of a machine that has hardly any time."""

    LONGEST = 5

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds
        self._until = time.monotonic() + self.LONGEST * seconds

    def spent(self, seconds: float) -> bool:
        """Takes what a run has cost. Returns whether nothing is left."""
        self._left_s -= seconds
        return self._left_s <= 0 or self.wall_s <= 0

    @property
    def wall_s(self) -> float:
        """How long the rest may take."""
        return max(0.0, self._until - time.monotonic())


def shown(
    look: Callable[[tuple[str, int]], tuple[str | None, list[str], float]],
    names: Sequence[str],
    first: int,
    budget: Budget,
    rounds: int,
) -> tuple[set[str], int]:
    """Takes a seed of each name in turn, until the budget is spent and one at least has shown its harm. `look`: returns
    the name where the seed shows it, what is wrong with all rules in, and what it cost. Returns what showed it, and how
    many seeds were tried. Raises AssertionError for what is wrong with all rules in."""
    seen: set[str] = set()
    tried = 0
    with multiprocessing.get_context("spawn").Pool(at_once(), begin) as pool:
        turns = [(name, first + number) for number in range(rounds) for name in names]
        results = pool.imap_unordered(look, turns)
        try:
            over = False
            while not (over and seen):
                name, broken, cost_s = results.next(budget.wall_s if seen else None)
                over = budget.spent(cost_s)
                tried += 1
                assert not broken, "with all rules in:\n" + "\n".join(broken)
                if name is not None:
                    seen.add(name)
        except (StopIteration, multiprocessing.TimeoutError):
            pass
    return seen, tried


def at_once() -> int:
    """How many runs at a time when nobody says: one per core, or as RAFTSCHED_SIM_PROCESSES says."""
    return int(os.environ.get("RAFTSCHED_SIM_PROCESSES") or os.cpu_count() or 1)


def run_many(tasks: list[Task], processes: int = 0) -> Iterator[tuple[Task, Outcome]]:
    """As they end. `processes` 0: see at_once."""
    with multiprocessing.get_context("spawn").Pool(processes or at_once(), begin, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(run, tasks)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Runs many seeds of the simulator.")
    parser.add_argument("--seeds", type=int, help="how many (500; with --jobs 200)")
    parser.add_argument("--first-seed", type=int, help="default: a fresh one, printed")
    parser.add_argument("--nodes", choices=["3", "5", "mixed"], default="mixed")
    parser.add_argument("--processes", type=int, default=0, help="so many at a time (one per core)")
    parser.add_argument("--stop", action="store_true", help="end at the first violation")
    parser.add_argument(
        "--mutations",
        nargs="*",
        metavar="GUARD",
        help="take out one guard after the other (these, or all): each must be missed within --seeds seeds (200)",
    )
    arguments(parser)
    asked = finished(parser, parser.parse_args())
    if asked.mutations is not None:
        if asked.jobs:
            seeds = asked.seeds or jobs_mutations.SEEDS
            return jobs_mutations.main(asked.mutations, asked.first_seed, seeds, asked.processes)
        from tests.sim import mutations  # needs this module

        return mutations.main(asked.mutations, asked.first_seed, asked.seeds or mutations.SEEDS, asked.processes)
    asked.seeds = asked.seeds or (200 if asked.jobs else 500)
    first = random.SystemRandom().getrandbits(32) if asked.first_seed is None else asked.first_seed
    print(f"first seed {first}", flush=True)
    started = time.monotonic()
    tasks = [
        Task(seed, nodes_of(seed, asked.nodes, asked.jobs), asked.seconds, asked.profile, asked.without, asked.jobs)
        for seed in range(first, first + asked.seeds)
    ]
    summary = Summary()
    told = started
    for task, outcome in run_many(tasks, asked.processes):
        summary.add(task, outcome)
        if outcome.violation is not None:
            print(f"seed {task.seed}: {outcome.violation}\n  {task.command()}", flush=True)
            if asked.stop:
                break
        if time.monotonic() - told > 10 or summary.runs == len(tasks):
            told = time.monotonic()
            print(f"{summary.runs}/{len(tasks)} seeds, {told - started:.0f} s", file=sys.stderr, flush=True)
    print(summary.line(first, time.monotonic() - started))
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main())
