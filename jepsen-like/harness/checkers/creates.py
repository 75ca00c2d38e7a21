"""No acknowledged job is lost: it is there at the end, and has run to its end. What was refused never runs. What nobody
could say anything about may be there or not, but not half."""

from __future__ import annotations

from harness.checkers import Evidence, Finding
from harness.history import Op

CREATES = ("create", "create-failing", "create-cancelled")


def lost(evidence: Evidence) -> Finding:
    finding = Finding("no acknowledged job is lost")
    runs = evidence.lives.by_job()
    there = {row["id"] for row in evidence.rows("jobs")}
    named = _named(evidence)
    gone = {op.request["job"] for op in evidence.record.of("delete") if not op.failed}
    stopped = {op.request["job"] for op in evidence.record.of("kill") if not op.failed}
    for op in _creates(evidence):
        name = op.request["job"]
        finding.counts[f"creates {op.kind}"] += 1
        if op.failed:
            continue
        done = any(run.ended and not run.failed for run in runs.get(name, ()))
        if not op.ok:
            finding.counts["unknown creates that ran"] += done
            if name in named and not done and name not in stopped and name not in gone:
                finding.wrong.append(f"{name} may have been refused, is in the list, and never ran to its end")
            continue
        finding.looked_at += 1
        if name in gone:
            continue  # whether it ran is for another rule
        if op.answer["id"] not in there:
            finding.wrong.append(f"{name} ({op.answer['id']}) was acknowledged and is not in the list")
        if not done and name not in stopped:
            finding.wrong.append(f"{name} ({op.answer['id']}) was acknowledged and never ran to its end")
    return finding


def refused(evidence: Evidence) -> Finding:
    finding = Finding("what was refused never runs")
    runs = evidence.lives.by_job()
    named = _named(evidence)
    for op in _creates(evidence):
        if op.failed:
            finding.looked_at += 1
            if op.request["job"] in runs:
                finding.wrong.append(f"{op.request['job']} was refused ({op.answer.get('error') or op.answer}) and ran")
            elif op.request["job"] in named:
                finding.wrong.append(f"{op.request['job']} was refused and is in the list")
    return finding


def single(evidence: Evidence) -> Finding:
    """A create that was repeated, by the client or between nodes, is one job; and a job that is due once has one
    instance."""
    finding = Finding("what is created once is one job, with one instance")
    runs = evidence.lives.by_job()
    for op in _creates(evidence):
        instances = sorted({run.instance for run in runs.get(op.request["job"], ())})
        finding.looked_at += bool(instances)
        if len(instances) > 1:
            finding.wrong.append(f"{op.request['job']} ran as {', '.join(instances)}")
    return finding


def _named(evidence: Evidence) -> set[str]:
    """Names of jobs in the list. Some jobs have none."""
    return {row["name"] for row in evidence.rows("jobs") if row.get("name")}


def _creates(evidence: Evidence) -> list[Op]:
    return [op for f in CREATES for op in evidence.record.of(f)]


RULES = (lost, refused, single)
