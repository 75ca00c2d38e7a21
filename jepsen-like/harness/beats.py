"""What the jobs wrote, read as runs: who lived from when to when (`jobs/beating.py` writes it)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

WORDS = ("start", "beat", "end", "failed")


@dataclass(slots=True)
class Run:
    """One attempt, as its own lines show it: it lived at least from `started` to `last` (boot clock, nanoseconds)."""

    job: str
    instance: str
    attempt: int
    token: int
    node: str
    pid: int
    started: int
    last: int
    first_line: int
    last_line: int
    ended: bool = False  # wrote its end
    failed: bool = False  # ended as it was told to: badly

    @property
    def name(self) -> str:
        return f"{self.job}: {self.instance} attempt {self.attempt} (token {self.token}, {self.node})"


@dataclass(slots=True)
class Lives:
    """`faults`: what no honest run would have written."""

    runs: list[Run] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def by_job(self) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.job, []).append(run)
        return found


def read(directory: Path) -> Lives:
    lives = Lives()
    for file in sorted(directory.iterdir()):
        found = parse(file.name, file.read_text(errors="replace").split("\n"))
        lives.runs += found.runs
        lives.faults += found.faults
    return lives


def parse(job: str, lines: Iterable[str]) -> Lives:
    """The lines of one job's file. A last line without its end was cut short."""
    lives = Lives()
    live: dict[tuple[str, ...], Run] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            word, instance, attempt, token, node, pid, at = line.split(" ")
            made = Run(job, instance, int(attempt), int(token), node, int(pid), int(at), int(at), number, number)
            if word not in WORDS:
                raise ValueError(word)
        except ValueError:
            lives.faults.append(f"{job} line {number} cannot be read: {line!r}")
            continue
        who = (instance, attempt, token, node, pid)
        run = live.get(who)
        if run is None:
            if word != "start":
                lives.faults.append(f"{job} line {number}: {made.name} did not begin with a start")
            live[who] = run = made
            lives.runs.append(made)
        else:
            if word == "start":
                lives.faults.append(f"{job} line {number}: {run.name} started once more")
            elif run.ended:
                lives.faults.append(f"{job} line {number}: {run.name} lived on after its end")
            run.last = max(run.last, made.started)
            run.last_line = number
        run.ended = run.ended or word in ("end", "failed")
        run.failed = run.failed or word == "failed"
    return lives
