"""Never two at once, by what the runs themselves wrote: one lived from its start line to its last line at least."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from harness.beats import Run
from harness.checkers import Evidence, Finding
from harness.clock import SECOND


def alone(evidence: Evidence) -> Finding:
    finding = Finding("no two runs of an instance live at once")
    for runs in _instances(evidence.lives.runs).values():
        finding.looked_at += len(runs)
        for earlier, later in overlaps(runs):
            finding.wrong.append(_both(earlier, later))
    return finding


def forbidden(evidence: Evidence) -> Finding:
    finding = Finding("no two runs of a job that forbids it live at once")
    runs = evidence.lives.by_job()
    for note in evidence.record.noted("recurs"):
        if note["kind"] == "forbid":
            found = runs.get(note["job"], [])
            finding.looked_at += len(found)
            for earlier, later in overlaps(found):
                finding.wrong.append(_both(earlier, later))
    return finding


def ordered(evidence: Evidence) -> Finding:
    finding = Finding("a later run of an instance has a higher token")
    for runs in _instances(evidence.lives.runs).values():
        for earlier, later in pairwise(sorted(runs, key=lambda run: run.started)):
            finding.looked_at += 1
            if later.token <= earlier.token:
                finding.wrong.append(f"{later.name} started after {earlier.name}")
    return finding


def readable(evidence: Evidence) -> Finding:
    """Torn lines, lives without a start or after their end, and what lived on when the cluster said all was over."""
    finding = Finding("what the runs wrote makes sense, and ends", len(evidence.lives.runs))
    finding.wrong += evidence.lives.faults
    for note in evidence.record.noted("quiet"):
        for run in evidence.lives.runs:
            if run.last > note["at"]:
                finding.wrong.append(f"{run.name} lived {(run.last - note['at']) / SECOND:.1f} s after all was over")
    return finding


def duplicates(evidence: Evidence) -> Finding:
    """At least once means that a run may be repeated. Each time that it is, the cluster has to know why."""
    finding = Finding("an instance that ran more than once has a reason for it")
    rows = {row["id"]: row for row in evidence.rows("instances")}
    for instance, runs in _instances(evidence.lives.runs).items():
        finding.counts["runs"] += len(runs)
        finding.counts["instances"] += 1
        row = rows.get(instance)
        given = {attempt["token"]: attempt for attempt in row["attempts"]} if row is not None else {}
        if given and row is not None and row["attempts"][0].get("number") == 1:  # none was dropped as too old
            finding.wrong += [f"{run.name} ran, and nobody gave it out" for run in runs if run.token not in given]
        if len(runs) == 1:
            continue
        finding.looked_at += 1
        if row is None:
            finding.counts["of deleted jobs"] += 1
            continue
        for run in sorted(runs, key=lambda r: r.started)[:-1]:
            finding.counts[f"repeated after: {_why(given.get(run.token))}"] += 1
            if run.token in given and given[run.token]["outcome"] == "succeeded":
                finding.wrong.append(f"{run.name} succeeded, and it was run again")
    return finding


def succeeded(evidence: Evidence) -> Finding:
    """A report counts for the attempt that it is of: what is called succeeded wrote its end, under that token."""
    finding = Finding("what is said to have succeeded ran to its end")
    ended = {(run.instance, run.token) for run in evidence.lives.runs if run.ended and not run.failed}
    lived = {run.instance for run in evidence.lives.runs}
    for row in evidence.rows("instances"):
        if row["id"] not in lived:
            continue  # it writes nothing
        for attempt in row["attempts"]:
            if attempt["outcome"] == "succeeded":
                finding.looked_at += 1
                if (row["id"], attempt["token"]) not in ended:
                    finding.wrong.append(f"{row['id']}: the attempt with token {attempt['token']} never wrote its end")
    return finding


def over(evidence: Evidence) -> Finding:
    """Nor is it said before: whoever heard it knows that nothing of that attempt is to come."""
    finding = Finding("what is said to have succeeded lives no more")
    said: dict[tuple[str, int], int] = {}
    for note in evidence.record.noted("succeeded"):
        for instance, token in note["attempts"]:
            said.setdefault((instance, token), note["at"])
    for run in evidence.lives.runs:
        at = said.get((run.instance, run.token))
        if at is not None:
            finding.looked_at += 1
            if run.last > at:
                finding.wrong.append(f"{run.name} lived {(run.last - at) / SECOND:.2f} s after it was said")
    return finding


def _why(attempt: dict[str, Any] | None) -> str:
    return "not listed any more" if attempt is None else str(attempt["outcome"])


def _instances(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.instance, []).append(run)
    return found


def overlaps(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Pairs that lived at the same time, by the clock or by the order of their lines in the file. Each is held against
    the one before it that lived longest."""
    found: dict[int, tuple[Run, Run]] = {}
    for by_clock in (True, False):
        longest: Run | None = None
        for run in sorted(runs, key=lambda r: r.started if by_clock else r.first_line):
            if longest is not None and (
                run.started <= longest.last if by_clock else run.first_line < longest.last_line
            ):
                found.setdefault(id(run), (longest, run))
            if longest is None or (run.last > longest.last if by_clock else run.last_line > longest.last_line):
                longest = run
    return list(found.values())


def _both(earlier: Run, later: Run) -> str:
    over = (earlier.last - later.started) / SECOND
    return f"{later.name} started {over:.2f} s before the last sign of life of {earlier.name}"


RULES = (alone, forbidden, ordered, duplicates, succeeded, over, readable)
