"""`workflows list`, `show`, `watch` and `kill`; and `instances rerun --downstream`."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.cli.jobs import wait as jobs_wait
from tests.support.stub_server import problem, serve
from tests.unit.cli.house import BY_NAME, ID, INSTANCE, JOB, asked, routes, run

OTHER = f"{ID}@1763600400000-00000000000000ff"
PATH = "/v1/workflows/0d3k5xw2a9f4m@1763600400000"


def one(id: str, job: str, state: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "job": job, "job_id": ID, "state": state, "started_at": None, "ended_at": None, **more}


def workflow(state: str, *items: dict[str, Any], next: str | None = None) -> dict[str, Any]:
    counts = {"active": 0, "succeeded": 1, "failed": 0, "timed_out": 1, "killed": 0, "skipped": 0}
    return {
        "id": INSTANCE,
        "job": "s/a",
        "state": state,
        "counts": counts,
        "reruns": 0,
        "items": [*items],
        "next": next,
    }


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_wait, "_FIRST_LOOK_S", 0.001)
    monkeypatch.setattr(jobs_wait, "_LOOK_S", 0.001)


def test_list() -> None:
    found = {**workflow("failed"), "scheduled_at": "2025-11-20T01:00:00Z"}
    with serve(lambda r: (200, {"items": [found], "next": None})) as stub:
        given = ("--server", stub.url, "workflows", "list", "-N", "s", "--state", "failed", "--limit", "7")
        lines = run(*given).stdout.splitlines()
        assert run(*given, "-o", "name").stdout == f"{INSTANCE}\n"
    assert asked(stub)[0] == "GET /v1/workflows?namespace=s&state=failed&limit=7"
    assert lines[0].split() == ["WORKFLOW", "JOB", "STATE", "DUE", "RUNS"]
    assert lines[1].startswith(INSTANCE)
    assert lines[1].endswith("1 succeeded, 1 timed out")
    assert run("workflows", "list", "--state", "skipped").exit_code == 2


def test_show_all_pages() -> None:
    pages = iter(
        [
            workflow("failed", one(INSTANCE, "s/a", "SUCCEEDED"), next="c"),
            workflow("failed", one(OTHER, "s/b", "TIMED_OUT", reason="conditions_timeout")),
        ]
    )
    with serve(lambda r: (200, next(pages))) as stub:
        result = run("--server", stub.url, "workflows", "show", INSTANCE)
    assert asked(stub) == [f"GET {PATH}?limit=1000", f"GET {PATH}?limit=1000&cursor=c"]
    assert result.stdout.splitlines()[0] == f"{INSTANCE} (s/a) failed: 1 succeeded, 1 timed out"
    assert "conditions_timeout" in result.stdout


def test_watch_tells_each_change_once_and_says_how_it_ended() -> None:
    ended = "2026-11-20T12:00:00Z"
    looks = iter(
        [
            (200, workflow("running", one(INSTANCE, "s/a", "RUNNING"))),
            problem(503, "no-leader", "no"),
            (200, workflow("running", one(INSTANCE, "s/a", "SUCCEEDED", ended_at=ended), one(OTHER, "s/b", "RUNNING"))),
            (
                200,
                workflow(
                    "failed",
                    one(INSTANCE, "s/a", "SUCCEEDED", ended_at=ended),
                    one(OTHER, "s/b", "FAILED", ended_at=ended, error="exit 3"),
                ),
            ),
        ]
    )
    with serve(lambda r: next(looks)) as stub:
        result = run("--server", stub.url, "workflows", "watch", INSTANCE)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"RUNNING: s/a ({INSTANCE})",
        f"SUCCEEDED: s/a ({INSTANCE})",
        f"RUNNING: s/b ({OTHER})",
        f"FAILED: s/b ({OTHER}): exit 3",
        f"{INSTANCE} (s/a) failed: 1 succeeded, 1 timed out",
    ]


def test_watch_one_that_succeeded() -> None:
    with serve(lambda r: (200, workflow("succeeded"))) as stub:
        assert run("--server", stub.url, "workflows", "watch", INSTANCE).exit_code == 0


def test_kill() -> None:
    with serve(lambda r: (202, {"id": INSTANCE, "killed": 3})) as stub:
        result = run("--server", stub.url, "workflows", "kill", INSTANCE)
    assert (asked(stub), result.stdout) == ([f"POST {PATH}/kill"], f"asked to end: 3 of {INSTANCE}\n")
    assert run("workflows", "kill", "nothing").exit_code == 2


def test_rerun_from_here_on() -> None:
    with serve(lambda r: (202, {})) as stub:
        run("--server", stub.url, "instances", "rerun", INSTANCE)
        run("--server", stub.url, "instances", "rerun", "--downstream", INSTANCE)
    assert [request.json for request in stub.requests] == [{}, {"downstream": True}]


def test_a_workflow_by_the_newest_run_of_a_job() -> None:
    table = {
        f"GET {BY_NAME}": {**JOB, "last_instance": INSTANCE},
        f"GET {PATH}?limit=1000": workflow("failed", one(INSTANCE, "s/a", "SUCCEEDED")),
    }
    with serve(routes(table)) as stub:
        shown = run("--server", stub.url, "workflows", "show", "tick")
    assert (shown.exit_code, shown.output.startswith(INSTANCE)) == (0, True), shown.output
