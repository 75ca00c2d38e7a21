"""dlq, jobs skip-next, jobs backfill: what they send, what they print, how they end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stub_server import Request, problem, serve
from tests.unit.cli.house import BY_NAME, ID, INSTANCE, JOB, asked, routes, run

DEAD = {
    "id": INSTANCE, "job_id": ID, "job_name": "tick", "namespace": "default", "state": "FAILED", "attempt": 3,
    "dead_since": "2026-11-20T11:00:00Z", "node": "n2", "exit_code": 1, "error": "no disk", "reason": None,
}  # fmt: skip


def done(matched: int = 1, count: int = 1, *, what: str = "requeued", following: str | None = None) -> dict[str, Any]:
    return {"matched": matched, what: count, "refused": [], "dry_run": False, "next": following}


def test_list() -> None:
    with serve(lambda r: (200, {"items": [DEAD], "next": None})) as stub:
        table = run("--server", stub.url, "dlq", "list", "-N", "default", "--name-prefix", "ti")
        names = run("--server", stub.url, "dlq", "list", "-o", "name")
    assert table.exit_code == 0
    assert "default/tick" in table.stdout
    assert "no disk" in table.stdout
    assert names.stdout == f"{INSTANCE}\n"
    assert stub.requests[0].path == "/v1/dead-letters?namespace=default&name_prefix=ti&limit=50"


def test_requeue_by_id_and_by_filter() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB, "POST /v1/dead-letters/requeue": done()})) as stub:
        assert run("--server", stub.url, "dlq", "requeue", INSTANCE).stdout == "requeued: 1\n"
        assert run("--server", stub.url, "dlq", "requeue", "--job", "tick").stdout == "requeued: 1\n"
        dry = run("--server", stub.url, "dlq", "requeue", "--every-dead-letter", "--dry-run")
        assert dry.stdout == "would be requeued: 1\n"
    bodies = [r.json for r in stub.requests if r.method == "POST"]
    assert bodies == [
        {"ids": [INSTANCE], "dry_run": False},
        {"filter": {"job": ID}, "dry_run": False},
        {"all": True, "dry_run": True},
    ]


def test_it_goes_on_until_the_end() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        cursor = request.json.get("cursor")
        return 200, done(2, 2, following={None: "a", "a": "b", "b": None}[cursor])

    with serve(answer) as stub:
        result = run("--server", stub.url, "dlq", "requeue", "--every-dead-letter")
    assert (result.exit_code, result.stdout) == (0, "requeued: 6\n")


def test_what_was_done_is_told_also_when_the_rest_fails() -> None:
    answers = [(200, done(2, 2, following="a")), problem(503, "no-leader", "No leader at the moment.")]
    with serve(lambda r: answers.pop(0)) as stub:
        result = run("--server", stub.url, "dlq", "requeue", "--every-dead-letter")
    assert (result.exit_code, result.stdout) == (6, "requeued: 2\n")


def test_refused_ones_are_named_and_the_end_is_a_conflict() -> None:
    refused = [{"id": INSTANCE, "code": "illegal-transition", "detail": "It is no dead letter."}]
    with serve(lambda r: (200, {**done(1, 0), "refused": refused})) as stub:
        result = run("--server", stub.url, "dlq", "requeue", INSTANCE)
    assert result.exit_code == 4
    assert result.stderr == f"raftsched: {INSTANCE}: It is no dead letter.\n"


def test_purge() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB})) as stub:
        stub.answer = lambda r: (200, done(what="discarded"))
        assert run("--server", stub.url, "dlq", "purge", INSTANCE).stdout == "discarded: 1\n"
        assert run("--server", stub.url, "dlq", "purge", "--to", "2026-11-20T00:00:00Z", "--dry-run").exit_code == 0
        assert run("--server", stub.url, "dlq", "purge", "--every-dead-letter").exit_code == 0
    assert asked(stub) == [
        f"DELETE /v1/dead-letters?ids={INSTANCE.replace('@', '%40')}",
        "DELETE /v1/dead-letters?to=2026-11-20T00%3A00%3A00Z&dry_run=true",
        "DELETE /v1/dead-letters?all=true",
    ]


@pytest.mark.parametrize("command", ["requeue", "purge"])
@pytest.mark.parametrize(
    "args", [(), ("--every-dead-letter", INSTANCE), ("--every-dead-letter", "-N", "a"), (INSTANCE, "-N", "a"), ("x",)]
)
def test_it_wants_to_be_told_which(command: str, args: tuple[str, ...]) -> None:
    assert run("--server", "http://127.0.0.1:1", "dlq", command, *args).exit_code == 2


def test_skip_next_names_the_time() -> None:
    table = {
        f"GET {BY_NAME}": JOB,
        f"GET /v1/jobs/{ID}/next?count=1": {"next": [{"at": "2026-11-20T12:00:00.000Z", "note": None}]},
        f"POST /v1/jobs/{ID}/skip-next": {**JOB, "next_fire_at": "2026-11-21T12:00:00.000Z"},
    }
    with serve(routes(table)) as stub:
        result = run("--server", stub.url, "jobs", "skip-next", "tick")
    assert result.stdout == "skipped: tick at 2026-11-20T12:00:00.000Z; next 2026-11-21T12:00:00.000Z\n"
    assert stub.requests[-1].json == {"at": "2026-11-20T12:00:00.000Z"}


def test_backfill() -> None:
    table = {f"GET {BY_NAME}": JOB, f"POST /v1/jobs/{ID}/backfill": (202, {"job_id": ID, "count": 3})}
    with serve(routes(table)) as stub:
        result = run("--server", stub.url, "jobs", "backfill", "tick", "--from", "2026-11-01T00:00:00Z")
        assert result.stdout == "accepted: tick, 3 times\n"
        assert stub.requests[-1].json == {"from": "2026-11-01T00:00:00Z", "dry_run": False}
        assert "idempotency-key" in stub.requests[-1].headers
        assert run("--server", stub.url, "jobs", "backfill", "tick").exit_code == 2
    table[f"POST /v1/jobs/{ID}/backfill"] = (200, {"job_id": ID, "count": 1, "times": ["2026-11-01T12:00:00.000Z"]})
    with serve(routes(table)) as stub:
        args = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-02T00:00:00Z", "--dry-run")
        result = run("--server", stub.url, "jobs", "backfill", "tick", *args)
    assert result.stdout == "2026-11-01T12:00:00.000Z\nwould run: tick, 1 times\n"
