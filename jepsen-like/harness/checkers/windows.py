"""Every due time has a run of its own that started in its window, judged as Jepsen's test of Chronos does it: windows
and starts are matched, each start to one window at most.

A window is EPSILON long. Where a fault was on in it, or had ended less than RECOVERY before, it reaches to RECOVERY
after that fault's end, and so on over the faults that follow, to MOST at the very most."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from harness.checkers import Evidence, Finding
from harness.clock import SECOND
from harness.history import Record

EPSILON = 2 * SECOND
EARLY = SECOND // 2  # by how much a leader's clock may be wrong unnoticed
RECOVERY = 15 * SECOND  # a lease with its margin, an election, a restart, and what has piled up
MOST = 90 * SECOND
Span = tuple[int, int]


def recurring(evidence: Evidence) -> Finding:
    finding = Finding("each time of a recurring job has a run that started in its window")
    faults = spans(evidence.record)
    runs = evidence.lives.by_job()
    for note in evidence.record.noted("recurs"):
        first: dict[str, int] = {}
        for run in runs.get(note["job"], ()):
            first[run.instance] = min(run.started, first.get(run.instance, run.started))
        targets = [evidence.record.boot_of(at) for at in note["targets_ms"]]
        missed, extra = match([window(at, faults) for at in targets], sorted(first.values()))
        skips = note["kind"] == "forbid"  # a time that comes while the last one's run lives may be left out
        finding.looked_at += len(first) if skips else len(targets)
        for at in () if skips else missed:
            finding.wrong.append(f"{note['job']}: nothing started for the time {_s(evidence, at + EARLY)}")
        for at in extra:
            finding.wrong.append(f"{note['job']}: the run that started at {_s(evidence, at)} is for no time")
    return finding


def once(evidence: Evidence) -> Finding:
    finding = Finding("each one-shot started in its window")
    faults = spans(evidence.record)
    runs = evidence.lives.by_job()
    for op in evidence.record.of("create"):
        if op.failed or not (found := runs.get(op.request["job"])):
            continue  # that it ran at all is for another rule
        finding.looked_at += 1
        due = evidence.record.boot_of(op.request["at_ms"])
        low, high = window(max(due, op.began), faults)
        started = min(run.started for run in found)
        late = started - due
        if op.ok:
            finding.counts["started in time"] += late <= EPSILON
            finding.counts["later, in a window that a fault made longer"] += late > EPSILON
        else:  # when it was taken nobody knows: only too early is wrong
            high = max(high, started)
        if not min(low, due - EARLY) <= started <= high:
            finding.wrong.append(
                f"{op.request['job']} was due at {_s(evidence, due)} and started {late / SECOND:+.1f} s from then, "
                f"{(started - high) / SECOND:.1f} s past its window"
            )
    return finding


def spans(record: Record) -> list[Span]:
    """When a fault was on: began, healed. Ascending by begin."""
    return sorted((note["began"], note["at"]) for note in record.noted("healed") if note["nodes"] is not None)


def window(at: int, faults: Sequence[Span]) -> Span:
    end = at + EPSILON
    for began, healed in faults:
        if began > end:
            break
        if healed + RECOVERY > at:
            end = max(end, healed + RECOVERY)
    return at - EARLY, min(end, at + MOST)


def match(windows: Sequence[Span], starts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Each start goes to the open window that closes first, which matches as many as can be matched. Returns the begins
    of windows without a start, and the starts without a window."""
    pending = sorted(windows, reverse=True)
    open_: list[tuple[int, int]] = []  # (end, begin)
    missed: list[int] = []
    extra: list[int] = []

    def admit(now: int) -> None:
        while pending and pending[-1][0] <= now:
            begin, end = pending.pop()
            heapq.heappush(open_, (end, begin))
        while open_ and open_[0][0] < now:
            missed.append(heapq.heappop(open_)[1])

    for start in starts:
        admit(start)
        if open_:
            heapq.heappop(open_)
        else:
            extra.append(start)
    missed += [begin for _, begin in open_] + [begin for begin, _ in pending]
    return sorted(missed), extra


def _s(evidence: Evidence, at: int) -> str:
    return f"{(at - evidence.record.noted('begin')[0]['at']) / SECOND:.2f} s"


RULES = (once, recurring)
