"""`raftsched namespaces`, and what their defaults mean to files of jobs, against a stub of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftsched.cli.jobs.export import DEFAULTS, portable
from tests.support.stub_server import problem, serve
from tests.unit.cli.house import JOB, asked, routes, run

BILLING: dict[str, Any] = {
    "name": "billing", "declared": True, "description": None, "owner": "ana", "jobs": 3, "secrets": 1, "revision": 4,
    "defaults": {"priority": 7, "retry": {"delays": ["5s"]}}, "limits": {"max_jobs": 500},
    "created_at": "2026-11-20T11:00:00Z", "modified_at": "2026-11-20T11:00:00Z",
}  # fmt: skip
FREE = {**BILLING, "name": "default", "declared": False, "owner": None, "defaults": {}, "limits": {"max_jobs": None}}
PATH = "/v1/namespaces/billing"


def test_list_and_get() -> None:
    with serve(
        routes({"GET /v1/namespaces?limit=100": {"items": [BILLING, FREE], "next": None}, f"GET {PATH}": BILLING})
    ) as stub:
        lines = run("--server", stub.url, "namespaces", "list").output.splitlines()
        assert run("--server", stub.url, "namespaces", "list", "-o", "name").output == "billing\ndefault\n"
        shown = run("--server", stub.url, "namespaces", "get", "billing").output
        assert json.loads(run("--server", stub.url, "namespaces", "get", "billing", "-o", "json").output) == BILLING
    assert lines[1].split()[:5] == ["billing", "yes", "3", "1", "ana"]
    assert "priority=7" in lines[1]
    assert ["max_jobs", "500"] in [line.split() for line in shown.splitlines()]


def test_keys() -> None:
    keys = [
        {"key": "acme", "running": 4, "waiting": 7, "runs": ["a@1", "b@1", "c@1", "d@1"], "next_at": None},
        {"key": "bolt", "running": 0, "waiting": 1, "runs": [], "next_at": "2026-11-20T11:00:00Z"},
    ]
    path = f"GET {PATH}/keys?limit=100"
    with serve(routes({path: {"items": keys, "next": None}})) as stub:
        lines = run("--server", stub.url, "namespaces", "keys", "billing").output.splitlines()
        assert run("--server", stub.url, "namespaces", "keys", "billing", "-o", "name").output == "acme\nbolt\n"
    assert lines[1].split() == ["acme", "4", "7", "-", "a@1,", "b@1,", "c@1,", "..."]
    assert lines[2].split()[:4] == ["bolt", "0", "1", "2026-11-20T11:00:00Z"]
    with serve(routes({path: {"items": [], "next": None}})) as stub:
        assert run("--server", stub.url, "namespaces", "keys", "billing").output == "no keys in use\n"


def test_set_changes_what_is_named_or_declares_it() -> None:
    options = ("--owner", "none", "--max-jobs", "9", "--default", "timezone=Europe/Madrid", "--default", "priority=7")
    options += (
        "--output-bytes",
        "10GiB",
        "--max-running",
        "none",
        "--output-max-bytes",
        "8MiB",
        "--output-keep",
        "30d",
        "--output-copies",
        "2",
    )
    wanted = {
        "owner": None,
        "limits": {
            "max_jobs": 9,
            "max_running": None,
            "output_bytes": 10 << 30,
            "output_max_bytes": 8 << 20,
            "output_keep": "30d",
            "output_copies": 2,
        },
        "defaults": {"timezone": "Europe/Madrid", "priority": 7},
    }
    with serve(lambda r: problem(404, "not-found", "none") if r.method == "PATCH" else (201, BILLING)) as stub:
        result = run("--server", stub.url, "namespaces", "set", "billing", *options)
        assert (result.exit_code, result.output) == (0, 'billing: max_jobs=500; priority=7, retry={"delays": ["5s"]}\n')
        assert [r.json for r in stub.requests] == [wanted, wanted]
        assert asked(stub) == [f"PATCH {PATH}", f"PUT {PATH}"]


@pytest.mark.parametrize(
    "options",
    [
        ("--default", "priority"),
        ("--default", "retry={"),
        ("--default", "a=1", "--default", "a=2"),
        ("--max-jobs", "many"),
        ("--output-bytes", "lots"),
        ("--output-max-bytes", "lots"),
    ],
)
def test_what_cannot_be_read_is_not_sent(options: tuple[str, ...]) -> None:
    with serve(routes({})) as stub:
        assert run("--server", stub.url, "namespaces", "set", "billing", *options).exit_code == 2
        assert run("--server", stub.url, "namespaces", "get", "No Name").exit_code == 2
        assert stub.requests == []


def test_delete() -> None:
    full = problem(409, "in-use", "The namespace billing holds 3 jobs and 1 secrets; delete them first.")
    with serve(lambda r: full) as stub:
        result = run("--server", stub.url, "namespaces", "delete", "billing")
    assert (result.exit_code, "3 jobs" in result.stderr) == (4, True)


def test_a_written_job_says_what_its_namespace_would_say_otherwise() -> None:
    job = {**JOB, **DEFAULTS, "trigger": {"cron": "0 12 * * *"}, "placement": None}
    written = portable(job, says=("priority", "placement", "labels", "timezone", "retry"))
    assert written == {
        "name": "tick", "namespace": "default", "trigger": {"cron": "0 12 * * *", "timezone": "UTC"},
        "handler": JOB["handler"], "priority": 5, "placement": {}, "labels": {}, "retry": {},
    }  # fmt: skip
    said = {**job, "trigger": {"cron": "CRON_TZ=Asia/Tokyo 0 12 * * *"}}
    assert portable(said, says=("timezone",))["trigger"] == said["trigger"]


def test_export_asks_what_the_namespace_says() -> None:
    jobs = {"items": [{**JOB, "priority": 5}, {**JOB, "priority": 5, "namespace": "billing"}], "next": None}
    with serve(routes({"GET /v1/jobs?limit=1000": jobs, f"GET {PATH}": BILLING})) as stub:
        result = run("--server", stub.url, "jobs", "export", "-o", "json")
    first, second = json.loads(result.output)["items"]
    assert "priority" not in first
    assert second["priority"] == 5
