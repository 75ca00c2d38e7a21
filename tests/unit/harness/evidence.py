"""Histories and lives made by hand. Times are seconds from the begin of the history, whose wall clock says 0 then."""

from __future__ import annotations

from typing import Any

from harness.beats import Lives, Run
from harness.checkers import Evidence, Finding
from harness.history import Op, Record

BEGIN = 1_000
S = 1_000_000_000


def at(seconds: float) -> int:
    return BEGIN + int(seconds * S)


class Story:
    """What a trial might have left behind."""

    def __init__(self) -> None:
        self.record = Record(notes=[{"at": BEGIN, "type": "note", "f": "begin", "wall_ms": 0}])
        self.lives = Lives()
        self.final: dict[str, dict[str, list[dict[str, Any]]]] = {
            node: {"jobs": [], "instances": [], "dead": []} for node in ("n1", "n2", "n3")
        }

    def op(
        self,
        f: str,
        request: dict[str, Any],
        began: float,
        ended: float | None,
        kind: str = "ok",
        answer: dict[str, Any] | None = None,
    ) -> Op:
        op = Op(f, "a client", request, at(began), None if ended is None else at(ended), kind, answer or {})
        self.record.ops.append(op)
        return op

    def create(self, job: str, due: float, kind: str = "ok", began: float = 0.0, listed: bool = True) -> Op:
        if kind == "ok" and listed:
            self.row("jobs", id=f"id-{job}")
        answer = {"id": f"id-{job}"} if kind == "ok" else {"status": 503}
        return self.op("create", {"job": job, "at_ms": due * 1000}, began, began + 0.01, kind, answer)

    def note(self, what: str, seconds: float = 0.0, **fields: Any) -> None:
        self.record.notes.append({"at": at(seconds), "type": "note", "f": what, **fields})

    def fault(self, began: float, healed: float) -> None:
        self.note("healed", healed, name="a fault", began=at(began), nodes=["n1"])

    def run(
        self,
        job: str,
        started: float,
        last: float,
        *,
        instance: str | None = None,
        token: int = 1,
        ended: bool = True,
        failed: bool = False,
    ) -> Run:
        line = 10 * len(self.lives.runs)
        run = Run(
            *(job, instance or f"{job}@1", 1, token, "n1", 4711, at(started), at(last), line, line + 9),
            ended=ended,
            failed=failed,
        )
        self.lives.runs.append(run)
        return run

    def row(self, kind: str, **fields: Any) -> None:
        for node in self.final.values():
            node[kind].append(dict(fields))

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.record, self.lives, self.final)


def said(finding: Finding) -> str:
    return "\n".join(finding.wrong)
