"""`raftsched webhooks`, and --notify of `jobs create`, against a stub of the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from raftsched.cli.jobs.notify_option import EXAMPLES, MEASURES
from raftsched.surface.plain.enums import EVENT_NAME, JOB_EVENT_NAME
from tests.support.stub_server import Stub, problem, serve
from tests.unit.cli import house

HOOK = {"name": "ops", "kind": "webhook", "url": "https://ops.example/hook", "events": ["failed", "killed"],
        "active": True, "gone": False, "cluster_events": [], "page": None, "smtp": None, "at_most": None,
        "left_out": 0,
        "filter": {"namespace": None, "owner": None, "labels": {}, "queue": None}, "headers": {}, "timeout": "15s",
        "retry_delays": ["5s"], "max_running": 4, "revision": 7, "job_id": house.ID, "waiting": 2,
        "failures_in_a_row": 1, "last_success_at": None, "dropped": 0, "dropped_at": None,
        "previous_secret_until": None, "created_at": "2026-11-20T11:00:00Z",
        "modified_at": "2026-11-20T11:00:00Z"}  # fmt: skip
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DELIVERY = {"id": house.INSTANCE, "state": "RETRYING", "attempt": 2, "scheduled_at": "2026-11-20T11:00:00Z",
            "error": "HTTP 500 Oh\nbody", "event": {"id": "evt_1", "type": "io.raftsched.instance.dead_letter",
            "subject": "0d3k5xw2a9f4m@1"}}  # fmt: skip


def run(stub: Stub | None, *args: str, **fields: Any) -> Result:
    return house.run(*(("--server", stub.url) if stub else ()), *args, **fields)


def sent(stub: Stub) -> list[tuple[str, str, Any]]:
    return [(r.method, r.path, r.json if r.body else None) for r in stub.requests]


def test_what_is_measured_are_the_events_that_webhooks_are_not_told_of_by_themselves() -> None:
    assert tuple(MEASURES) == tuple(EXAMPLES) == JOB_EVENT_NAME[len(EVENT_NAME) :]


def test_list_and_get() -> None:
    gone = {**HOOK, "name": "old", "active": False, "gone": True, "events": []}
    with serve(lambda r: (200, {"items": [HOOK, gone], "next": None})) as stub:
        lines = run(stub, "webhooks", "list").output.splitlines()
        assert run(stub, "webhooks", "list", "-o", "name").output == "ops\nold\n"
    assert lines[1].split() == ["ops", "webhook", "https://ops.example/hook", "failed,killed", "yes", "2", "1", "0"]
    assert lines[2].split()[:5] == ["old", "webhook", "https://ops.example/hook", "-", "gone"]
    with serve(lambda r: (200, HOOK)) as stub:
        assert json.loads(run(stub, "webhooks", "get", "ops", "-o", "json").output) == HOOK
        assert ["timeout", "15s"] in [line.split() for line in run(stub, "webhooks", "get", "ops").output.splitlines()]
    assert run(None, "webhooks", "get", "a/b").exit_code == 2


def test_create_prints_the_secret_this_one_time(tmp_path: Path) -> None:
    with serve(lambda r: (201, {**HOOK, "secret": SECRET})) as stub:
        result = run(stub, "webhooks", "create", "ops", "--url", "https://ops.example/hook")
        assert result.exit_code == 0, result.output
        assert f"not shown again: {SECRET}" in result.output
        assert stub.requests[0].headers.get("idempotency-key")
        options = ["--event", "failed", "--event", "killed", "-N", "billing", "--owner", "ana", "--label", "a=b"]
        options += ["--queue", "q", "--header", "X-A=1", "--timeout", "5s", "--retry", "5s, 1m", "--max-running", "2"]
        assert run(stub, "webhooks", "create", "ops", "--url", "http://h/", "--inactive", *options).exit_code == 0
        secret = tmp_path / "secret"
        secret.write_text(SECRET + "\n")
        run(stub, "webhooks", "create", "ops", "--url", "http://h/", "--secret-file", str(secret), "--retry", "none")
    assert sent(stub) == [
        ("POST", "/v1/webhooks", {"name": "ops", "url": "https://ops.example/hook"}),
        ("POST", "/v1/webhooks", {
            "name": "ops", "url": "http://h/", "events": ["failed", "killed"], "headers": {"X-A": "1"},
            "filter": {"namespace": "billing", "owner": "ana", "queue": "q", "labels": {"a": "b"}}, "timeout": "5s",
            "retry_delays": ["5s", "1m"], "max_running": 2, "active": False,
        }),
        ("POST", "/v1/webhooks", {"name": "ops", "url": "http://h/", "secret": SECRET, "retry_delays": []}),
    ]  # fmt: skip
    with serve(lambda r: (201, {**HOOK, "secret": None})) as stub:
        output = run(stub, "webhooks", "create", "ops", "--url", "http://h/").output
    assert "has its secret already" in output


def test_edit() -> None:
    with serve(lambda r: (200, {**HOOK, "active": False})) as stub:
        assert run(stub, "webhooks", "edit", "ops", "--inactive").output == "changed: ops, not active\n"
        run(stub, "webhooks", "edit", "ops", "--active", "--url", "http://h/", "--change", '{"filter": null}')
        assert run(stub, "webhooks", "edit", "ops").exit_code == 2
        assert run(stub, "webhooks", "edit", "ops", "--change", "[]").exit_code == 2
    assert sent(stub) == [
        ("PATCH", "/v1/webhooks/ops", {"active": False}),
        ("PATCH", "/v1/webhooks/ops", {"url": "http://h/", "active": True, "filter": None}),
    ]


def test_delete() -> None:
    refusal = problem(409, "illegal-transition", "Jobs name the webhook ops: default/report.")
    with serve(lambda r: refusal if r.path.endswith("ops") else (204, None)) as stub:
        assert run(stub, "webhooks", "delete", "audit").output == "deleted: audit\n"
        result = run(stub, "webhooks", "delete", "ops")
    assert (result.exit_code, "default/report" in result.output) == (4, True)


def test_test_and_rotate() -> None:
    with serve(lambda r: (202, DELIVERY)) as stub:
        assert run(stub, "webhooks", "test", "ops").output == f"sending: {house.INSTANCE} (RETRYING)\n"
        assert run(stub, "webhooks", "test", "ops", "-o", "name").output == f"{house.INSTANCE}\n"
    rotated = {**HOOK, "secret": SECRET, "previous_secret_until": "2026-11-21T11:00:00Z"}
    with serve(lambda r: (200, rotated)) as stub:
        output = run(stub, "webhooks", "rotate", "ops", "--overlap", "1h").output
        run(stub, "webhooks", "rotate", "ops", "--secret-file", "-", input=SECRET)
    assert "until 2026-11-21T11:00:00Z" in output
    assert SECRET in output
    assert [body for _, _, body in sent(stub)] == [{"overlap": "1h"}, {"overlap": "24h", "secret": SECRET}]


def test_deliveries() -> None:
    with serve(lambda r: (200, {"items": [DELIVERY], "next": None})) as stub:
        lines = run(stub, "webhooks", "deliveries", "ops", "--state", "FAILED,RETRYING").output.splitlines()
        query = stub.requests[0].path
    assert lines[1].split()[:5] == [house.INSTANCE, "RETRYING", "dead_letter", "0d3k5xw2a9f4m@1", "2"]
    assert "HTTP 500 Oh" in lines[1]
    for part in ("_system", "ops", "FAILED"):
        assert part in query


@pytest.mark.parametrize(
    "given, notify",
    [
        (["ops:dead_letter"], {"webhook": "ops", "on": ["dead_letter"]}),
        (["ops:failed, lost"], {"webhook": "ops", "on": ["failed", "lost"]}),
        (["a:failed", "b:killed"], [{"webhook": "a", "on": ["failed"]}, {"webhook": "b", "on": ["killed"]}]),
        (
            ["ops:started,late=30s,running_long=10m,running_long=1.5x,not_run_since=25h"],
            {
                "webhook": "ops",
                "on": ["started", "late", "running_long", "not_run_since"],
                "late_by": "30s",
                "longer_than": "10m",
                "p95_times": 1.5,
                "not_run_for": "25h",
            },
        ),
    ],
)
def test_a_job_says_whom_to_tell(given: list[str], notify: Any) -> None:
    options = [part for text in given for part in ("--notify", text)]
    with serve(lambda r: (201, house.JOB)) as stub:
        assert run(stub, "jobs", "create", "tick", "--manual", "--shell", "date", *options).exit_code == 0
    assert stub.requests[0].json["notify"] == notify


@pytest.mark.parametrize(
    "text", ["ops", "ops:", ":failed", "ops:broken", "ops:late", "ops:failed=3s", "ops:running_long=ax"]
)
def test_a_bad_notify_says_how_it_is_written(text: str) -> None:
    result = run(None, "jobs", "create", "tick", "--manual", "--shell", "date", "--notify", text)
    assert result.exit_code == 2
    assert "ops:dead_letter" in result.output


def test_slack_by_its_address_or_from_stdin() -> None:
    made = {**HOOK, "kind": "slack", "url": "https://hooks.slack.com/***", "secret": None}
    with serve(lambda r: (201, made)) as stub:
        url = "https://hooks.slack.com/services/x"
        options = ("--cluster-event", "node_lost", "--page", "https://p/")
        result = run(stub, "webhooks", "create", "ops", "--slack", url, *options)
        assert result.output == "created: ops\n"
        assert run(stub, "webhooks", "create", "ops", "--slack", "-", input=f"{url}\n").exit_code == 0
        assert run(stub, "webhooks", "edit", "ops", "--slack", url).exit_code == 0
        first, second, third = (r.json for r in stub.requests)
    assert first == {
        "name": "ops", "kind": "slack", "url": url, "cluster_events": ["node_lost"], "page": "https://p/",
    }  # fmt: skip
    assert second == {"name": "ops", "kind": "slack", "url": url}
    assert third == {"kind": "slack", "url": url}


def test_mails_and_not_too_many(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("s3cret\n")
    made = {**HOOK, "kind": "email", "url": None, "secret": None}
    with serve(lambda r: (201, made)) as stub:
        options = ["--email", "a@b.example", "--email", "c@b.example", "--smtp", "mail.example:2525", "--tls", "tls"]
        options += ["--from", "r@b.example", "--smtp-user", "me", "--smtp-password-file", str(tmp_path / "pw")]
        assert run(stub, "webhooks", "create", "ops", *options, "--at-most", "10/1h").output == "created: ops\n"
        assert run(stub, "webhooks", "edit", "ops", "--email", "d@b.example").exit_code == 0
        first, second = (r.json for r in stub.requests)
    assert first == {
        "name": "ops", "kind": "email", "at_most": {"count": 10, "per": "1h"},
        "smtp": {
            "host": "mail.example", "port": 2525, "tls": "tls", "from": "r@b.example", "user": "me",
            "password": "s3cret", "to": ["a@b.example", "c@b.example"],
        },
    }  # fmt: skip
    assert second == {"kind": "email", "smtp": {"to": ["d@b.example"]}}


@pytest.mark.parametrize(
    "options, words",
    [
        ((), "one of --url, --slack, --email"),
        (("--url", "http://h/", "--slack", "http://h/"), "one of --url, --slack, --email"),
        (("--email", "a@b.example"), "needs --smtp and --from"),
        (("--url", "http://h/", "--at-most", "many"), "10/1h"),
    ],
)
def test_what_is_not_said_right(options: tuple[str, ...], words: str) -> None:
    result = run(None, "webhooks", "create", "ops", *options)
    assert result.exit_code == 2
    assert words in result.output
