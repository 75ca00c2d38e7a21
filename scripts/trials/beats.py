"""What the jobs of a trial wrote, read as runs: who lived from when to when."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

WORDS = ("start", "beat", "end")


@dataclass(slots=True)
class Run:
    """One attempt, as its own lines show it. Times are of the boot clock, in nanoseconds."""

    instance: str
    attempt: int
    token: int
    node: str
    started_ns: int
    last_ns: int  # it lived at least to here
    first_line: int
    last_line: int
    lines: int = 1
    ended: bool = False  # wrote its end

    @property
    def name(self) -> str:
        return f"{self.instance} attempt {self.attempt} (token {self.token}, {self.node})"


@dataclass(slots=True)
class History:
    """The file of one job."""

    runs: list[Run] = field(default_factory=list)  # by first line
    faults: list[str] = field(default_factory=list)  # what no honest run would have written


def read_history(file: Path) -> History:
    """A file that is not there is the history of a job that never ran."""
    return parse_history(file.read_text(errors="replace") if file.exists() else "")


def parse_history(text: str) -> History:
    history = History()
    live: dict[tuple[str, ...], Run] = {}
    lines = text.split("\n")
    if lines[-1]:
        history.faults.append(f"line {len(lines)} is cut short: {lines[-1]!r}")
    for number, line in enumerate(lines[:-1], 1):
        try:
            word, instance, attempt, token, node, at = line.split(" ")
            if word not in WORDS:
                raise ValueError
            who = (instance, attempt, token, node)
            made = Run(instance, int(attempt), int(token), node, int(at), int(at), number, number)
        except ValueError:
            history.faults.append(f"line {number} cannot be read: {line!r}")
            continue
        run = live.get(who)
        if run is None:
            if word != "start":
                history.faults.append(f"line {number}: {made.name} did not begin with a start")
            live[who] = made
            made.ended = word == "end"
            history.runs.append(made)
            continue
        if word == "start":
            history.faults.append(f"line {number}: {run.name} started once more")
        elif run.ended:
            history.faults.append(f"line {number}: {run.name} lived on after its end")
        if made.started_ns < run.last_ns:
            history.faults.append(f"line {number}: the clock of {run.name} went back")
        run.last_ns = max(run.last_ns, made.started_ns)
        run.last_line = number
        run.lines += 1
        run.ended = run.ended or word == "end"
    return history
