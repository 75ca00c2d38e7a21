"""Edits and deletes with If-Match, creates with If-None-Match and reads from the leader are linearizable: there is one
order of all of them that agrees with when they happened and with what each of them answered.

The search is that of Wing and Gong, "Testing and Verifying Concurrent Objects" (1993), with the memory of Lowe,
"Testing for linearizability" (2017). A register is a version and a value; each value is written once. A version is a
job and its revision, as bodies say them, whatever is sent as ETag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.checkers import Evidence, Finding
from harness.clock import SECOND
from harness.history import Op

FOREVER = 2**63


@dataclass(frozen=True, slots=True)
class State:
    """`version` is None after a write that was never answered: nobody was told it. `value` is None where there is no
    such register."""

    version: str | None
    value: str | None


ABSENT = State(None, None)
CHANGES = ("write", "remove", "make")
# The refusals that say something of the register.
SAID = {"read": (304, 404), "write": (404, 412), "remove": (404, 412), "make": (412,)}


@dataclass(frozen=True, slots=True)
class Event:
    """An operation as far as it says anything. `ended` is FOREVER for one that may have happened at any time since, or
    not at all."""

    op: Op
    began: int
    ended: int
    must: bool


def linearizable(evidence: Evidence) -> Finding:
    finding = Finding("edits and reads from the leader are linearizable")
    for note in evidence.record.noted("register"):
        calls = [op for f in ("read", *CHANGES) for op in evidence.record.of(f)]
        ops = [op for op in calls if op.request["key"] == note["key"]]
        finding.looked_at += len(ops)
        for op in ops:
            finding.counts[f"{op.f} {op.kind}"] += 1
        stuck = search(ops, State(note["version"], note["value"]))
        if stuck is not None:
            finding.wrong.append(f"register {note['key']}: no order explains {_tell(stuck, evidence)}")
    return finding


def search(ops: Sequence[Op], start: State) -> Op | None:
    """None: there is such an order. Else the operation that came first of those that no order reached."""
    events = sorted(_events(ops), key=lambda event: event.began)
    needed = sum(1 << i for i, event in enumerate(events) if event.must)
    stack: list[tuple[int, State]] = [(0, start)]
    seen = {stack[0]}
    furthest = 0
    while stack:
        done, state = stack.pop()
        if done & needed == needed:
            return None
        if (done & needed).bit_count() > (furthest & needed).bit_count():
            furthest = done
        for i in reversed(list(_next(events, done))):
            for after in step(events[i].op, state):
                node = (done | 1 << i, after)
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
    left = [event for i, event in enumerate(events) if event.must and not furthest >> i & 1]
    return min(left, key=lambda event: event.ended).op


def _events(ops: Sequence[Op]) -> Iterator[Event]:
    for op in ops:
        if op.ok or (op.failed and op.answer.get("status") in SAID[op.f]):
            assert op.ended is not None
            yield Event(op, op.began, op.ended, True)
        elif op.f in CHANGES and not op.failed:
            yield Event(op, op.began, FOREVER, False)
        # other refusals did nothing and say nothing; a read without an answer neither


def _next(events: Sequence[Event], done: int) -> Iterator[int]:
    """Those that may come next: begun before any other that is left had ended."""
    first_end = min((event.ended for i, event in enumerate(events) if not done >> i & 1), default=FOREVER)
    for i, event in enumerate(events):
        if event.began > first_end:
            return
        if not done >> i & 1:
            yield i


def step(op: Op, state: State) -> Iterator[State]:
    """The state after it, where it can have answered so in this one."""
    if op.failed:
        if _may_refuse(op, state):
            yield state
    elif op.f == "read":
        if state.value == op.answer["value"] and state.version in (None, op.answer["version"]):
            yield State(op.answer["version"], state.value)
    elif op.f == "make":
        if state.value is None:
            yield State(op.answer.get("version"), op.request["value"])
    elif state.value is not None and state.version == op.request["expected"]:
        if op.f == "remove":
            yield ABSENT
        elif not op.ok or _follows(op.answer["version"], op.request["expected"]):
            yield State(op.answer.get("version"), op.request["value"])


def _may_refuse(op: Op, state: State) -> bool:
    """Returns whether the refusal is right in this state."""
    if op.answer["status"] == 404:
        return state.value is None
    if op.f == "read":
        return state.value is not None and state.version == op.request["known"]
    if op.f == "make":
        return state.value is not None
    return state.value is not None and state.version != op.request["expected"]


def _follows(version: str, earlier: str) -> bool:
    """Returns whether a version is a later one of the same job."""
    job, _, revision = version.partition(".")
    same, _, before = earlier.partition(".")
    return job == same and int(revision) > int(before)


def _tell(op: Op, evidence: Evidence) -> str:
    at = (op.began - evidence.record.noted("begin")[0]["at"]) / SECOND
    return f"{op.f} {op.request} -> {op.kind} {op.answer} of {op.process} at {at:.2f} s"


RULES = (linearizable,)
