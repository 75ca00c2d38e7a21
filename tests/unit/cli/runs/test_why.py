"""Lists and commands that wait show what happened in one line."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.cli.dev.samples import _line
from tests.support.stub_server import serve
from tests.unit.cli.house import ID, INSTANCE, run

TRACE = 'Traceback (most recent call last):\n  File "jobs.py", line 1, in f\n    g()\nValueError: no disk\n'
AT = "2026-11-20T12:00:00Z"
RUN: dict[str, Any] = {
    "id": INSTANCE, "job_id": ID, "job_name": "tick", "job": "default/tick", "namespace": "default", "state": "FAILED",
    "scheduled_at": AT, "ended_at": AT, "dead_since": AT, "attempt": 1, "node": "n2", "worker": None, "exit_code": None,
    "reason": None, "error": TRACE, "event": None,
}  # fmt: skip
COUNTS = {"active": 0, "succeeded": 0, "failed": 1, "timed_out": 0, "killed": 0, "skipped": 0}
WORKFLOW = {"id": INSTANCE, "job": "default/tick", "state": "failed", "counts": COUNTS, "reruns": 0}
ATTEMPT = {"number": 1, "node": "n2", "worker": None, "outcome": "failed", "exit_code": None, "error": TRACE}
WHOLE = {
    **RUN,
    "attempts": [{**ATTEMPT, "started_at": AT, "ended_at": AT}],
    "parts": {"total": 1, "failed": 1, "results": [{"index": 2, "state": "FAILED", "error": TRACE}]},
}


@pytest.mark.parametrize(
    ("command", "answer", "last"),
    [
        (("instances", "list"), {"items": [RUN], "next": None}, "ValueError: no disk"),
        (("dlq", "list"), {"items": [RUN], "next": None}, "ValueError: no disk"),
        (("dlq", "list"), {"items": [{**RUN, "error": None, "reason": "max_lost"}], "next": None}, "max_lost"),
        (("webhooks", "deliveries", "w"), {"items": [RUN], "next": None}, "ValueError: no disk"),
        (("workflows", "show", INSTANCE), {**WORKFLOW, "items": [RUN], "next": None}, "ValueError: no disk"),
        (("workflows", "watch", INSTANCE), {**WORKFLOW, "items": [RUN], "next": None}, "ValueError: no disk"),
        (("jobs", "wait", INSTANCE), RUN, "ValueError: no disk"),
        (("instances", "get", INSTANCE), WHOLE, "ValueError: no disk"),
    ],
)
def test_the_line_that_says_what_happened(command: tuple[str, ...], answer: dict[str, Any], last: str) -> None:
    with serve(lambda _: (200, answer)) as stub:
        lines = run("--server", stub.url, *command).stdout.splitlines()
    of_runs = [line for line in lines if "FAILED" in line and not line.startswith("state ")]
    assert of_runs or command[1] == "get"
    assert all(line.endswith(last) for line in [*of_runs, lines[-1]] if not line.startswith(f"{INSTANCE} (")), lines
    assert sum("Traceback" in line for line in lines) == (command[1] == "get")  # there once, as the error of the run


def test_a_line_of_the_samples() -> None:
    assert _line("tick", RUN).endswith(" (ValueError: no disk)")
    assert _line("tick", {**RUN, "error": "exit code 1\none\ntwo"}).endswith(" (exit code 1: two)")
