"""What a worker has to do with each answer of a node (docs/api.md#workers), held against those that there are: of
`raftsched worker`, and of examples/ in Go, Node.js and bash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.api_nodes import AnyCluster
from tests.support.remote_workers import Kind, Worker, Workers
from tests.support.scripted_node import Answer, ScriptedNode, problem

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BAD = "/result is bad"
SAID = f"Its report was refused: {BAD}"


class Bed:
    """A worker with a run that goes on until there is a file, unless it can do one thing only at a time."""

    def __init__(self, kind: Kind, directory: Path, workers: Workers) -> None:
        self.kind = kind
        self.node = ScriptedNode()
        self.gate = directory / "gate"
        self.long = 0 if kind.name == "bash" else self.node.give(kind.halves, {"to": 2, "gate": str(self.gate)})
        self.worker: Worker = workers.start(kind, cast(AnyCluster, self.node))

    def short(self) -> int:
        """Returns the token of one more run, which ends soon."""
        return self.node.give(self.kind.count, {"to": 1})

    def ended(self) -> None:
        """The long run has outlived all of it, under the same session."""
        self.gate.touch()
        if self.long:
            assert self.node.report(self.long)["outcome"] == "succeeded"
        assert self.node.opened == 1, self.worker.log.read_text()
        assert self.worker.stop() == 0


@pytest.fixture
def bed(kind: Kind, tmp_path: Path) -> Iterator[Bed]:
    workers = Workers(tmp_path)
    made = Bed(kind, tmp_path, workers)
    yield made
    made.gate.touch()
    workers.close()
    made.node.close()


def ends(poll: dict[str, Any], token: int) -> dict[str, Any] | None:
    """The report of a run's end in a poll."""
    return next((one for one in poll["reports"] if one["token"] == token and one.get("outcome")), None)


def says_more(report: dict[str, Any] | None) -> bool:
    return report is not None and report.get("error") != SAID


def test_a_report_that_is_refused_makes_its_run_fail(bed: Bed) -> None:
    """Alone or with all of its poll, whatever the status; the others are taken."""
    slow = bed.kind.name == "bash"  # one run after the other
    statuses = [200, 413] if slow else [200, 400, 413, 422]
    bad: dict[int, int] = {}

    def answer(poll: dict[str, Any]) -> Answer | None:
        for status, token in bad.items():
            if not says_more(ends(poll, token)):
                continue
            if status == 200:
                return 200, [{"token": token, "code": "invalid", "detail": BAD}]
            return problem(status, "invalid-body", BAD)
        return None

    bed.node.answer = answer
    for status in statuses:
        bad[status] = bed.short()
        good = [bed.short() for _ in range(1 if slow else 3)]
        failed = bed.node.report(bad[status])
        assert (failed["outcome"], failed["error"]) == ("failed", SAID), status
        assert failed.get("result") is None
        assert [bed.node.report(token)["outcome"] for token in good] == ["succeeded"] * len(good)
    bed.ended()


def test_what_is_refused_even_so_is_forgotten(bed: Bed) -> None:
    bad = bed.short()
    forgotten: list[bool] = []

    def answer(poll: dict[str, Any]) -> Answer | None:
        if any(report["token"] == bad for report in poll["reports"]):
            return problem(422, "invalid-body", BAD)
        forgotten.append(True)
        return None

    bed.node.answer = answer
    assert bed.node.report(bed.short())["outcome"] == "succeeded"
    assert forgotten
    assert bad not in bed.node.taken
    bed.ended()


def test_what_is_not_answered_is_sent_again(bed: Bed) -> None:
    """By a node that has no time, no leader or no room."""
    left = [(429, "too-many"), (503, "no-leader"), (504, "unknown-outcome"), (507, "disk-full"), (500, "internal")]

    def answer(poll: dict[str, Any]) -> Answer | None:
        return problem(*left.pop(), "try again") if left and any(r.get("outcome") for r in poll["reports"]) else None

    bed.node.answer = answer
    assert bed.node.report(bed.short())["outcome"] == "succeeded"
    assert left == []
    bed.ended()


def test_a_session_that_is_over_takes_its_runs_along(bed: Bed) -> None:
    token = bed.short()
    assert bed.node.report(token)["outcome"] == "succeeded"
    over = [problem(410, "session-over", "it is over")]
    bed.node.answer = lambda poll: over.pop() if over else None
    bed.node.wait("another session", lambda: bed.node.opened == 2)
    assert bed.node.report(bed.short())["outcome"] == "succeeded"
    if bed.long:
        bed.gate.touch()
        assert bed.node.report(bed.long)["outcome"] == "succeeded", "it was given again, and begun anew"
    assert bed.worker.stop() == 0
