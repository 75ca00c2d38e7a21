"""Filters, actions on many jobs, operations, statistics and revisions on the command line, against a stub."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftsched.cli.jobs import operations
from raftsched.cli.main import cli
from tests.support.stub_server import Reply, Request, Stub, serve

ID = "0d3k5xw2a9f4m"
RUNNING = {"id": ID, "action": "pause", "state": "RUNNING", "filter": {}, "ids": None, "kill": False,
           "created_at": "2026-11-20T11:00:00Z", "modified_at": "2026-11-20T11:00:01Z", "ended_at": None, "total": 9,
           "examined": 3, "matched": 3, "changed": 3, "unchanged": 0, "refused": 0, "refusals": []}  # fmt: skip
DONE = {**RUNNING, "state": "DONE", "ended_at": "2026-11-20T11:00:02Z", "examined": 9, "matched": 9, "changed": 7,
        "unchanged": 2}  # fmt: skip
REFUSAL = {"id": "0d3k5xw2a9f4n", "code": "illegal-transition", "title": "Not allowed in the current state"}
REFUSED = {**DONE, "changed": 6, "refused": 1, "unchanged": 2, "refusals": [REFUSAL]}


def run(stub: Stub, *args: str) -> Result:
    return CliRunner().invoke(cli, ["--server", stub.url, *args])


def sent(stub: Stub) -> list[tuple[str, str, Any]]:
    return [(r.method, r.path, r.json if r.body else None) for r in stub.requests]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "POLL_S", 0)


def stepping(end: dict[str, Any]) -> Any:
    """An operation that has ended when it is asked about for the second time."""
    asked = 0

    def answer(request: Request) -> Reply:
        nonlocal asked
        if request.method == "POST":
            return 202, {**RUNNING, "action": request.json["action"]}
        asked += 1
        return 200, {**(end if asked > 1 else RUNNING), "action": end["action"]}

    return answer


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--owner", "ana"], {"owner": "ana"}),
        (["--label", "team=a=b", "--state", "suspended"], {"labels": {"team": "a=b"}, "state": ["SUSPENDED"]}),
        (
            ["-N", "billing", "--name-prefix", "x", "--queue", "q"],
            {"namespace": "billing", "name_prefix": "x", "queue": "q"},
        ),
        (
            ["--name-contains", "y", "--created-from", "A", "--created-to", "B", "--next-from", "C", "--next-to", "D"],
            {"name_contains": "y", "created_from": "A", "created_to": "B", "next_from": "C", "next_to": "D"},
        ),
    ],
)
def test_by_filter(options: list[str], wanted: dict[str, Any]) -> None:
    with serve(stepping(DONE)) as stub:
        result = run(stub, "jobs", "pause", *options)
    assert (result.exit_code, result.output) == (0, "paused: 7 (2 were that already)\n")
    first, *rest = sent(stub)
    assert first == ("POST", "/v1/jobs:actions", {"action": "pause", "filter": wanted})
    assert rest == [("GET", f"/v1/operations/{ID}", None)] * 2
    assert "idempotency-key" in stub.requests[0].headers


@pytest.mark.parametrize(("option", "value"), [("until", "2030-01-07T06:00:00Z"), ("for", "2h")])
def test_a_pause_that_ends_by_itself(option: str, value: str) -> None:
    until = "2030-01-07T06:00:00.000Z"
    with serve(stepping({**DONE, "until": until})) as stub:
        result = run(stub, "jobs", "pause", "--every-job", f"--{option}", value)
    assert (result.exit_code, result.output) == (0, f"paused: 7 (2 were that already), until {until}\n")
    assert sent(stub)[0] == ("POST", "/v1/jobs:actions", {"action": "pause", "all": True, option: value})
    job = {"id": ID, "namespace": "default", "name": "a", "state": "SUSPENDED", "resumes_at": until}
    with serve(lambda r: (200, job)) as stub:
        assert run(stub, "jobs", "pause", "a", f"--{option}", value).output == f"paused: a, until {until}\n"
    assert sent(stub)[-1] == ("POST", f"/v1/jobs/{ID}/pause", {option: value})


@pytest.mark.parametrize(
    ("action", "options", "more", "done"),
    [
        ("resume", [], {}, "resumed"),
        ("run", [], {}, "accepted"),
        ("expire", ["--kill"], {"kill": True}, "expired"),
        ("delete", [], {}, "deleted"),
    ],
)
def test_all(action: str, options: list[str], more: dict[str, Any], done: str) -> None:
    with serve(stepping({**DONE, "action": action, "unchanged": 0})) as stub:
        result = run(stub, "jobs", action, "--every-job", *options)
    assert (result.exit_code, result.output) == (0, f"{done}: 7\n")
    assert sent(stub)[0] == ("POST", "/v1/jobs:actions", {"action": action, "all": True, **more})


def test_what_was_refused_is_told_and_ends_with_4() -> None:
    with serve(stepping(REFUSED)) as stub:
        result = run(stub, "jobs", "pause", "--every-job")
    assert (result.exit_code, result.stdout) == (4, "paused: 6 (2 were that already)\n")
    assert result.stderr == "raftsched: 0d3k5xw2a9f4n: Not allowed in the current state\n"


@pytest.mark.parametrize("action", ["pause", "resume", "run", "expire", "delete"])
def test_for_programs_the_operation_is_printed(action: str) -> None:
    with serve(stepping({**REFUSED, "action": action})) as stub:
        result = run(stub, "jobs", action, "--every-job", "-o", "json")
        assert json.loads(result.stdout) == {**REFUSED, "action": action}
        assert result.exit_code == 4
    with serve(stepping({**DONE, "action": action})) as stub:
        assert run(stub, "jobs", action, "--every-job", "-o", "name").stdout == f"{ID}\n"
        started = run(stub, "jobs", action, "--every-job", "--no-wait", "-o", "json")
        assert json.loads(started.stdout) == {**RUNNING, "action": action}
    answer = {"action": action, "matched": 0, "examined": 99, "complete": True, "sample": [], "dry_run": True}
    with serve(lambda r: (200, answer)) as stub:
        assert json.loads(run(stub, "jobs", action, "--every-job", "--dry-run", "-o", "json").stdout) == answer


def test_a_dry_run() -> None:
    sample = [{"id": ID, "namespace": "n", "name": None}, {"id": ID, "namespace": "n", "name": "a"}]
    answer = {"action": "delete", "matched": 12, "examined": 99, "complete": True, "sample": sample, "dry_run": True}
    with serve(lambda r: (200, answer)) as stub:
        result = run(stub, "jobs", "delete", "--owner", "ana", "--dry-run")
    assert (result.exit_code, result.output) == (0, f"would be deleted: 12\n  {ID}\n  n/a\n  ...\n")
    assert sent(stub) == [
        ("POST", "/v1/jobs:actions", {"action": "delete", "filter": {"owner": "ana"}, "dry_run": True})
    ]


def test_no_wait_prints_the_operation() -> None:
    with serve(stepping(DONE)) as stub:
        result = run(stub, "jobs", "pause", "--every-job", "--no-wait")
        assert (result.exit_code, result.output) == (0, f"{ID}\n")
        assert len(stub.requests) == 1
        assert run(stub, "operations", "watch", ID).output == "paused: 7 (2 were that already)\n"


@pytest.mark.parametrize(
    "args",
    [
        ["pause"],
        ["delete"],
        ["pause", "a", "--owner", "ana"],
        ["pause", "--every-job", "--owner", "ana"],
        ["pause", "a", "--every-job"],
        ["pause", "a", "--dry-run"],
        ["pause", "--dry-run"],
        ["pause", "--label", "x"],
        ["pause", "a", "--for", "2h", "--until", "2030-01-07T06:00:00Z"],
        ["pause", "-N", "A"],
        ["run", "--every-job", "--priority", "3"],
        ["stats", "a", "--owner", "ana"],
    ],
)
def test_what_is_meant_must_be_said_in_one_way(args: list[str]) -> None:
    with serve(lambda r: (500, {})) as stub:
        result = run(stub, "jobs", *args)
    assert result.exit_code == 2
    assert stub.requests == []


def test_operations() -> None:
    with serve(lambda r: (200, {"items": [DONE, RUNNING], "next": None})) as stub:
        lines = run(stub, "operations", "list").output.splitlines()
        assert run(stub, "operations", "list", "-o", "name").output == f"{ID}\n{ID}\n"
        run(stub, "operations", "list", "--state", "running")
        assert stub.requests[-1].path == "/v1/operations?state=RUNNING&limit=20"
    assert lines[1].split() == [ID, "pause", "DONE", "9", "7", "0", "2026-11-20T11:00:00Z", "2026-11-20T11:00:02Z"]
    with serve(lambda r: (200, REFUSED)) as stub:
        assert json.loads(run(stub, "operations", "get", ID, "-o", "json").output) == REFUSED
        assert ["matched", "9"] in [line.split() for line in run(stub, "operations", "get", ID).output.splitlines()]
        result = run(stub, "operations", "watch", ID)
        assert result.exit_code == 4
    with serve(lambda r: (200, {**DONE, "state": "CANCELLED"})) as stub:
        assert run(stub, "operations", "cancel", ID).output == f"cancelled: {ID}, 7 were paused\n"
        assert sent(stub)[0][:2] == ("POST", f"/v1/operations/{ID}/cancel")
        assert run(stub, "operations", "watch", ID).exit_code == 4


def test_lists_by_filter() -> None:
    with serve(lambda r: (200, {"items": [], "next": None})) as stub:
        run(stub, "jobs", "list", "--label", "team=fin", "--name-contains", "x", "--queue", "q")
    assert stub.requests[0].path == "/v1/jobs?name_contains=x&label=team%3Dfin&queue=q&limit=100"


def test_stats_and_revisions() -> None:
    spread = {"count": 3, "mean": 5, "p50": 4, "p90": 9, "p99": 9, "max": 9}
    found = {"from": "A", "to": "B", "counted_from": "A", "complete": False, "instances": {"SUCCEEDED": 3, "FAILED": 0},
             "attempts": {"succeeded": 3}, "skipped_fires": 0, "dead_letters": 0, "duration": spread,
             "lateness": {**spread, "count": 0}, "jobs": {"SCHEDULED": 2, "NEW": 0}}  # fmt: skip
    with serve(lambda r: (200, found)) as stub:
        lines = [line.split() for line in run(stub, "jobs", "stats", "--owner", "ana").output.splitlines()]
        assert stub.requests[0].path == "/v1/stats?owner=ana"
        assert json.loads(run(stub, "jobs", "stats", "-o", "json").output) == found
    assert ["jobs", "SCHEDULED", "2"] in lines
    assert any(" ".join(line) == "duration mean 5 ms, p50 4 ms, p90 9 ms, p99 9 ms, max 9 ms" for line in lines)
    assert not any(line[0] == "lateness" for line in lines)
    assert any(line[0] == "note" for line in lines)
    now, before = {"owner": "bo", "trigger": {"every": "1m"}}, {"trigger": {"every": "5m"}}
    items = [
        {"revision": 2, "name": "a", "from": "B", "to": None, "content": now},
        {"revision": 1, "name": "a", "from": "A", "to": "B", "content": before},
    ]
    with serve(lambda r: (200, {"items": items, "next": None, "id": ID, "name": "a"})) as stub:
        lines = [line.split() for line in run(stub, "jobs", "revisions", "a").output.splitlines()]
        assert stub.requests[-1].path == f"/v1/jobs/{ID}/revisions"
    assert lines[1:] == [["2", "a", "B", "-", "bo", "every", "1m"], ["1", "a", "A", "B", "-", "every", "5m"]]
