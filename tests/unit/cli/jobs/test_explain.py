"""`raftsched jobs explain`: what it prints of an explanation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import routes, run

JOB = {"id": "0d3k5xw2a9f4m", "namespace": "default", "name": "tick"}
TOLD: dict[str, Any] = {
    "id": JOB["id"],
    "job": "default/tick",
    "text": "It is SUSPENDED. ana paused it.",
    "obstacles": [{"reason": "paused", "text": "ana paused it."}],
    "notes": [{"reason": "jitter", "text": "Its trigger puts each time off."}],
}


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, ["It is SUSPENDED. ana paused it.", "Its trigger puts each time off."]),
        (
            {"text": "It is SCHEDULED, due now.", "obstacles": [], "notes": []},
            ["It is SCHEDULED, due now.", "Nothing is in its way."],
        ),
    ],
)
def test_what_is_printed(more: dict[str, Any], lines: list[str]) -> None:
    answers = {
        "GET /v1/namespaces/default/jobs/tick": JOB,
        f"GET /v1/jobs/{JOB['id']}/explain": {**TOLD, **more},
    }
    with serve(routes(answers)) as stub:
        shown = run("--server", stub.url, "jobs", "explain", "tick")
        raw = run("--server", stub.url, "jobs", "explain", "tick", "-o", "json")
        name = run("--server", stub.url, "jobs", "explain", "tick", "-o", "name")
    assert shown.exit_code == raw.exit_code == 0, shown.output
    assert shown.output.splitlines() == lines
    assert json.loads(raw.output) == {**TOLD, **more}
    assert name.output.strip() == "default/tick"
