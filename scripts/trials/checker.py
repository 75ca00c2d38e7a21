"""The judge of a trial. It knows what was asked for, what the jobs wrote and what the cluster says, and nothing of how
the cluster works.

The jobs' lines are the evidence: a run lived at least from its start line to its last line, by the boot clock and by
the order of the lines in the file. Nothing is forgiven: each due time that was accepted has to have run to its end, or
to be covered by the one record that says why it was skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from scripts.trials.beats import History, Run

READABLE = "the jobs' lines can be read, and each attempt starts once"
ALONE = "no two attempts of an instance live at once"
FORBIDDEN = "no two runs of a job that forbids it live at once"
ORDER = "an attempt with a later token starts later"
KNOWN = "each run is an attempt that the cluster handed out"
GONE = "nothing lives on when the cluster says that all has ended"
ACCOUNTED = "each due time and each accepted request is accounted for, once"
RAN = "what is SUCCEEDED ran to its end, and nothing ended otherwise"
AGREED = "all nodes say the same"
STOOD = "no node stopped by itself"
RULES = (READABLE, ALONE, FORBIDDEN, ORDER, KNOWN, GONE, ACCOUNTED, RAN, AGREED, STOOD)


@dataclass(slots=True)
class Job:
    """What was accepted, and what became of it."""

    name: str
    forbids: bool  # its runs must not live at once
    due_ms: Sequence[int]  # nominal times, ascending
    asked: set[str] = field(default_factory=set)  # instances that were acknowledged to who asked for a run
    may_be_asked: bool = False  # runs without an acknowledgement are no surprise
    rows: Sequence[Mapping[str, Any]] | None = None  # its instances as the API shows them; None: the job is gone


@dataclass(slots=True)
class Verdict:
    """Violations by rule, and how much there was to look at."""

    violations: dict[str, list[str]] = field(default_factory=lambda: {rule: [] for rule in RULES})
    checked: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def held(self) -> bool:
        return not any(self.violations.values())

    def look(self, rule: str, number: int = 1) -> None:
        self.checked[rule] += number

    def against(self, rule: str, what: str) -> None:
        self.violations[rule].append(what)


def judge(
    jobs: Iterable[Job],
    histories: Mapping[str, History],
    quiet_ns: int | None,
    verdict: Verdict | None = None,
) -> Verdict:
    """`histories` by job name; `quiet_ns`: the boot clock when the cluster said that everything had ended, None when it
    never did."""
    verdict = verdict or Verdict()
    if quiet_ns is None:
        verdict.against(ACCOUNTED, "the cluster still had something to run when patience ran out")
    for job in jobs:
        history = histories.get(job.name, History())
        _lines(job, history, quiet_ns, verdict)
        _lives(job, history.runs, verdict)
        _records(job, history.runs, verdict)
    return verdict


def _lines(job: Job, history: History, quiet_ns: int | None, verdict: Verdict) -> None:
    for run in history.runs:
        verdict.look(READABLE, run.lines)
        verdict.look(GONE)
        verdict.counts["runs"] += 1
        verdict.counts["runs that wrote their end"] += run.ended
        verdict.counts["runs cut short"] += not run.ended
        verdict.counts["lines"] += run.lines
        if quiet_ns is not None and run.last_ns > quiet_ns:
            verdict.against(GONE, f"{job.name}: {run.name} lived {_ms(run.last_ns - quiet_ns)} after everything ended")
    for fault in history.faults:
        verdict.look(READABLE)
        verdict.against(READABLE, f"{job.name}: {fault}")


# ---------------------------------------------------------------- who lived when


def _lives(job: Job, runs: Sequence[Run], verdict: Verdict) -> None:
    of: dict[str, list[Run]] = {}
    for run in runs:
        of.setdefault(run.instance, []).append(run)
    for attempts in of.values():
        verdict.look(ALONE, len(attempts) * (len(attempts) - 1) // 2)
        for earlier, later in overlaps(attempts):
            verdict.against(ALONE, _both(job, earlier, later))
        _order(job, attempts, verdict)
    if job.forbids:
        verdict.look(FORBIDDEN, len(runs) * (len(runs) - 1) // 2)
        for earlier, later in overlaps(runs):
            verdict.against(FORBIDDEN, _both(job, earlier, later))
        _order(job, runs, verdict)


def overlaps(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Pairs that lived at the same time, by the clock or by the order of their lines. Each run is held against the one
    before it that lived longest."""
    found: dict[int, tuple[Run, Run]] = {}
    for by_clock in (True, False):
        longest: Run | None = None
        for run in sorted(runs, key=lambda r: r.started_ns if by_clock else r.first_line):
            if longest is not None and (
                run.started_ns <= longest.last_ns if by_clock else run.first_line < longest.last_line
            ):
                found.setdefault(id(run), (longest, run))
            if longest is None or (run.last_ns > longest.last_ns if by_clock else run.last_line > longest.last_line):
                longest = run
    return list(found.values())


def _order(job: Job, runs: Sequence[Run], verdict: Verdict) -> None:
    for earlier, later in pairwise(sorted(runs, key=lambda r: r.started_ns)):
        verdict.look(ORDER)
        if later.token <= earlier.token:
            verdict.against(ORDER, f"{job.name}: {later.name} started after {earlier.name}")


def _both(job: Job, earlier: Run, later: Run) -> str:
    return (
        f"{job.name}: {later.name} started {_ms(earlier.last_ns - later.started_ns)} before the last sign of life of "
        f"{earlier.name} (lines {later.first_line} and {earlier.last_line})"
    )


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms"


# ---------------------------------------------------------------- what the cluster says


def _records(job: Job, runs: Sequence[Run], verdict: Verdict) -> None:
    verdict.look(ACCOUNTED)
    if job.rows is None:
        verdict.against(ACCOUNTED, f"{job.name}: the job was accepted and is gone")
        return
    times: Counter[int] = Counter()
    for row in job.rows:
        verdict.counts["instances"] += 1
        if row["state"] == "SKIPPED":
            _gap(job, row, times, verdict)
            continue
        if row["manual"]:
            if not job.may_be_asked:
                verdict.against(ACCOUNTED, f"{job.name}: {row['id']} was asked for by nobody")
        else:
            times[parse_ms(row["scheduled_at"])] += 1
        _ended(job, row, runs, verdict)
    due = Counter(job.due_ms)
    verdict.look(ACCOUNTED, len(due) + len(job.asked))
    for at in sorted(due - times):
        verdict.against(ACCOUNTED, f"{job.name}: due at {at}, and nothing is known of it")
    for at in sorted(times - due):
        verdict.against(ACCOUNTED, f"{job.name}: {times[at]} records for {at}, {due[at]} wanted")
    for instance in sorted(job.asked - {row["id"] for row in job.rows}):
        verdict.against(ACCOUNTED, f"{job.name}: {instance} was acknowledged, and nothing is known of it")
    _known(job, runs, verdict)


def _gap(job: Job, row: Mapping[str, Any], times: Counter[int], verdict: Verdict) -> None:
    first, last = parse_ms(row["scheduled_at"]), parse_ms(row["skipped_until"] or row["scheduled_at"])
    covered = [at for at in job.due_ms if first <= at <= last]
    times.update(covered)
    verdict.counts["gaps"] += 1
    verdict.counts["due times skipped"] += len(covered)
    if len(covered) != row["skipped"] or not covered or not row["reason"]:
        verdict.against(
            ACCOUNTED,
            f"{job.name}: a gap from {first} to {last} counts {row['skipped']} for {row['reason']}; "
            f"{len(covered)} were due",
        )


def _ended(job: Job, row: Mapping[str, Any], runs: Sequence[Run], verdict: Verdict) -> None:
    verdict.look(RAN)
    verdict.counts["attempts"] += len(row["attempts"])
    verdict.counts["attempts lost"] += sum(a["outcome"] == "lost" for a in row["attempts"])
    if row["state"] != "SUCCEEDED":
        verdict.against(RAN, f"{job.name}: {row['id']} is {row['state']} ({row['error'] or row['reason']})")
        return
    good = [a for a in row["attempts"] if a["outcome"] == "succeeded"]
    if len(good) != 1:
        verdict.against(RAN, f"{job.name}: {row['id']} is SUCCEEDED with {len(good)} attempts that succeeded")
        return
    token = good[0]["token"]
    if not any(run.ended for run in runs if run.instance == row["id"] and run.token == token):
        verdict.against(RAN, f"{job.name}: {row['id']} is SUCCEEDED, and token {token} never wrote its end")


def _known(job: Job, runs: Sequence[Run], verdict: Verdict) -> None:
    given = {
        (row["id"], a["number"], a["token"], a["node"]): a["outcome"] for row in job.rows or () for a in row["attempts"]
    }
    for run in runs:
        verdict.look(KNOWN)
        if (run.instance, run.attempt, run.token, run.node) not in given:
            verdict.against(KNOWN, f"{job.name}: {run.name} was handed to nobody")


def parse_ms(text: str) -> int:
    """Of an RFC 3339 time."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
