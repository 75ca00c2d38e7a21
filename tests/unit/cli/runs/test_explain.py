"""`raftsched runs explain`: what it prints of an explanation."""

from __future__ import annotations

import json
from typing import Any

from tests.support.stub_server import serve
from tests.unit.cli.house import INSTANCE, routes, run

STEP: dict[str, Any] = {
    "at": "2026-11-20T12:00:00.000Z",
    "kind": "created",
    "text": "its time came: it was made",
    "index": 41,
    "term": 3,
    "token": None,
    "attempt": None,
    "node": None,
}
TOLD: dict[str, Any] = {
    "id": INSTANCE,
    "text": "It was due. It waits.",
    "why_there": [{"attempt": 1, "text": "n2 had 0 of 8 slots taken."}],
    "waits": [{"reason": "turn", "text": "It is the first in line.", "from": STEP["at"], "to": None, "ms": 1_500}],
    "waiting_for": {"reason": "turn", "text": "It is the first in line."},
    "steps": [STEP, {**STEP, "kind": "assigned", "token": 77, "text": "attempt 1 was given to n2"}],
    "steps_left_out": True,
    "notifications": [{"text": 'The webhook "ops" was told (failed): it has the message.'}],
}


def test_what_is_printed() -> None:
    with serve(routes({f"GET /v1/instances/{INSTANCE}/explain": TOLD})) as stub:
        shown = run("--server", stub.url, "instances", "explain", INSTANCE)
        raw = run("--server", stub.url, "instances", "explain", INSTANCE, "-o", "json")
        name = run("--server", stub.url, "instances", "explain", INSTANCE, "-o", "name")
    assert shown.exit_code == raw.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[0] == TOLD["text"]
    assert lines[1] == "Attempt 1: n2 had 0 of 8 slots taken."
    assert lines[2] == 'The webhook "ops" was told (failed): it has the message.'
    assert "  1.5 s It is the first in line." in lines
    assert [line.split()[1:5] for line in lines if line.startswith("2026")] == [
        ["created", "41", "3", "-"],
        ["assigned", "41", "3", "77"],
    ]
    assert "left out" in lines[-1]
    assert json.loads(raw.output) == TOLD
    assert name.output.strip() == INSTANCE


def test_what_is_no_instance_is_not_asked_for() -> None:
    assert run("instances", "explain", "non@sense").exit_code == 2
