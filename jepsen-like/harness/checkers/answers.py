"""The rest of what was promised to who asked: retries, dead letters, kills, deletes, bulk actions, documented answers,
and nodes that stay up unless something is done to them."""

from __future__ import annotations

from harness.checkers import Evidence, Finding, registers
from harness.clock import SECOND
from harness.history import Op

KILL_TAKES = 20 * SECOND  # a lease with its margin, five seconds after TERM, and a busy machine
START_TAKES = 10 * SECOND  # what was handed out before the kill may still start until its lease ends
HOPELESS_ATTEMPTS = 4  # the first, and one for each of three delays
BEFORE = SECOND  # a delete so long before a due time leaves no doubt
MANY = 20  # calls of a kind of which none was done are no accident
EXPECTED = {
    **{f: set(statuses) for f, statuses in registers.SAID.items()},
    "delete": {404},
    "kill": {404, 409},
    "create-failing": {412},
}
BUSY = {0, 429, 503, 507}  # nothing was done, and it may be asked again


def retried(evidence: Evidence) -> Finding:
    finding = Finding("what fails is tried again, and what cannot be helped becomes a dead letter")
    runs = evidence.lives.by_job()
    dead = {name for note in evidence.record.noted("dead-letters") for name in note["jobs"]}
    for op in evidence.record.of("create-failing"):
        if not op.ok:
            continue
        finding.looked_at += 1
        name = op.request["job"]
        failed = sum(run.failed for run in runs.get(name, ()))
        finding.counts["attempts that failed"] += failed
        if op.request["hopeless"]:
            finding.counts["dead letters"] += name in dead
            if name in dead and failed < HOPELESS_ATTEMPTS:
                finding.wrong.append(f"{name} became a dead letter after {failed} attempts that failed")
            if name not in dead:
                finding.wrong.append(f"{name} failed {failed} times for good and is no dead letter")
        elif name in dead:
            finding.wrong.append(f"{name} fails only {op.request['failures']} times and became a dead letter")
    return finding


def cancelled(evidence: Evidence) -> Finding:
    finding = Finding("what is deleted does not start, what is killed ends")
    runs = evidence.lives.by_job()
    there = {row["name"] for row in evidence.rows("jobs") if row.get("name")}
    for op in evidence.record.of("delete"):
        if op.ok and op.request["job"] in there:
            finding.wrong.append(f"{op.request['job']} was deleted and is in the list")
        if op.ok and op.ended is not None and op.ended < evidence.record.boot_of(op.request["at_ms"]) - BEFORE:
            finding.looked_at += 1
            for run in runs.get(op.request["job"], ()):
                finding.wrong.append(f"{run.name} started though the job had been deleted before it was due")
    for op in evidence.record.of("kill"):
        if not op.ok or op.ended is None:
            continue
        finding.looked_at += 1
        for run in runs.get(op.request["job"], ()):
            if run.started > op.ended + START_TAKES:
                finding.wrong.append(
                    f"{run.name} started {(run.started - op.ended) / SECOND:.1f} s after it was killed"
                )
            if run.last > op.ended + KILL_TAKES:
                finding.wrong.append(f"{run.name} lived {(run.last - op.ended) / SECOND:.1f} s after it was killed")
    return finding


def in_bulk(evidence: Evidence) -> Finding:
    finding = Finding("an action on many jobs reaches each of them")
    for op in evidence.record.of("bulk"):
        if op.ok:
            finding.looked_at += 1
            if op.answer["states"] != {op.request["wanted"]: op.request["jobs"]}:
                finding.wrong.append(f"after {op.request['action']} the jobs are {op.answer['states']}")
    return finding


def documented(evidence: Evidence) -> Finding:
    """A fault is answered by 503, 507 or 504, or by no answer; never by an error of another kind."""
    finding = Finding("no answer but those that are documented for faults")
    for op in evidence.record.ops:
        if op.ok or "status" not in op.answer:
            continue
        finding.looked_at += 1
        status = op.answer["status"]
        finding.counts[f"status {status}" if status else "no answer"] += 1
        if status == 500 and _without_memory(evidence, op):
            continue  # it has no memory to say more
        if (op.failed or status == 500) and status not in BUSY | EXPECTED.get(op.f, set()):
            finding.wrong.append(f"{op.f} {op.request}: {status} {op.answer.get('code')}")
    return finding


def stood(evidence: Evidence) -> Finding:
    finding = Finding("no node ends by itself, and each that is told to end does")
    finding.looked_at = len(evidence.record.noted("healed"))
    for note in evidence.record.noted("exit"):
        finding.wrong.append(f"{note['node']} ended with exit code {note['code']}: {note['log'][-600:]}")
    for note in evidence.record.noted("sync-error"):
        finding.counts["failed syncs that ended a node"] += note["ended"]
    for note in evidence.record.noted("damaged"):
        finding.counts["damaged stores that were refused"] += note["refused"]
    for note in evidence.record.noted("ended"):
        finding.counts[f"nodes that ended by {note['of']}"] += 1
    for note in evidence.record.noted("memory"):
        finding.counts["memory limits that were reached"] += note["reached"] or note["ended"]
    for note in evidence.record.noted("power-loss"):
        finding.counts["writes that power losses took back"] += note["lost"]
    for note in evidence.record.noted("bad-stop"):
        finding.wrong.append(f"{note['node']} answered SIGTERM with exit code {note['code']}")
    for note in evidence.record.noted("not-over"):
        finding.wrong.append(f"patience ran out: {note['amiss']}")
    return finding


def _without_memory(evidence: Evidence, op: Op) -> bool:
    return any(
        op.began < note["at"] and (op.ended is None or op.ended > note["began"])
        for note in evidence.record.noted("healed")
        if note["name"] == "memory-limit"
    )


def served(evidence: Evidence) -> Finding:
    """A cluster that refuses everything breaks no other rule."""
    finding = Finding("of each kind of call some are done")
    for f in sorted({op.f for op in evidence.record.ops}):
        ops = evidence.record.of(f)
        finding.looked_at += len(ops)
        if len(ops) >= MANY and not any(op.ok for op in ops):
            finding.wrong.append(f"none of {len(ops)} calls of {f!r} was done")
    return finding


RULES = (retried, cancelled, in_bulk, documented, served, stood)
