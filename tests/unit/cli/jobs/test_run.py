"""`raftsched jobs run`: its runs are started, waited for or followed, and its exit code is theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from raftsched.cli.jobs.run import exit_code
from tests.support.stub_server import Reply, Request, problem, serve
from tests.unit.cli.house import BY_NAME, ID, INSTANCE, JOB, listening, routes, run

_RUN = f"POST /v1/jobs/{ID}/run"
_GET = f"GET /v1/instances/{INSTANCE}"


def row(state: str, number: int = 1, outcome: str | None = None, **more: Any) -> dict[str, Any]:
    attempts = [{"number": n, "outcome": "failed"} for n in range(1, number)]
    return {"id": INSTANCE, "state": state, "attempt": number, "exit_code": None, "reason": None, "error": None,
            "attempts": [*attempts, {"number": number, "outcome": outcome}], **more}  # fmt: skip


def said(*pieces: tuple[str, str], attempt: int = 1) -> bytes:
    """A stream of output, and its end."""
    events = [
        f"id: {attempt}.{n}\ndata: {json.dumps({'offset': n, 'text': text, 'stream': stream, 'skipped': 0})}\n\n"
        for n, (stream, text) in enumerate(pieces)
    ]
    return "".join([*events, "event: end\ndata: {}\n\n"]).encode()


def output(attempt: int) -> str:
    return f"{_GET}/output?follow=true&attempt={attempt}"


DONE = row("SUCCEEDED", outcome="succeeded", exit_code=0)
BUSY = problem(409, "conflict", "A run is active.")
FAILED = row("FAILED", outcome="failed", exit_code=7, error="exit code 7: no paper")


@pytest.mark.parametrize(
    "found, code",
    [
        (DONE, 0),
        (row("SUCCEEDED", exit_code=3), 0),  # as its outcomes say
        (FAILED, 7),
        (row("FAILED", exit_code=None), 1),  # a function that raised
        (row("FAILED", exit_code=-9), 1),
        (row("KILLED", exit_code=143), 1),
        (row("TIMED_OUT", exit_code=137), 1),
        (row("SKIPPED"), 1),
    ],
)
def test_the_exit_code_is_that_of_the_run(found: dict[str, Any], code: int) -> None:
    assert exit_code(found) == code


def test_wait_says_how_it_ended() -> None:
    table = {f"GET {BY_NAME}": JOB, _RUN: (202, row("WAITING", 0)), _GET: FAILED}
    with serve(routes(table)) as stub:
        result = run("--server", stub.url, "jobs", "run", "tick", "--wait")
        named = run("--server", stub.url, "jobs", "run", "tick", "--wait", "-o", "name")
        printed = run("--server", stub.url, "jobs", "run", "tick", "--wait", "-o", "json")
    assert (result.exit_code, result.stdout) == (7, f"FAILED: tick ({INSTANCE}): exit code 7: no paper\n")
    assert result.stderr == f"accepted: tick runs as {INSTANCE}\n"
    assert (named.exit_code, named.stdout) == (7, f"{INSTANCE}\n")
    assert (printed.exit_code, json.loads(printed.stdout)) == (7, FAILED)


def test_several_are_waited_for_also_where_one_cannot_be_started() -> None:
    other = {**JOB, "id": "0d3k5xw2a9f4n", "name": "tock"}
    table = {f"GET {BY_NAME}": JOB, "GET /v1/namespaces/default/jobs/tock": other,
             _RUN: (202, row("WAITING", 0)), "POST /v1/jobs/0d3k5xw2a9f4n/run": BUSY,
             _GET: DONE}  # fmt: skip
    with serve(routes(table)) as stub:
        result = run("--server", stub.url, "jobs", "run", "tock", "tick", "--wait")
    assert (result.exit_code, result.stdout) == (125, f"SUCCEEDED: tick ({INSTANCE})\n")
    assert "raftsched: tock: A run is active." in result.stderr


def test_follow_prints_both_streams_and_goes_on_with_the_next_attempt() -> None:
    rows = [row("RUNNING"), row("RETRYING", outcome="failed", reason="retry"), DONE]
    job = {**JOB, "retry": {"delays": ["10s", "1m"], "jitter_percent": 0}}

    def answer(request: Request) -> Reply:
        key = f"{request.method} {request.path}"
        table = {f"GET {BY_NAME}": (200, job), _RUN: (202, row("WAITING", 0)),
                 output(1): (200, said(("stdout", "one\n"), ("stderr", "oh\n"))),
                 output(2): (200, said(("stdout", "two\n"), attempt=2))}  # fmt: skip
        return (200, rows.pop(0)) if key == _GET else table[key]

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "run", "tick", "-f")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    assert result.stderr.splitlines() == [
        f"accepted: tick runs as {INSTANCE}",
        "oh",
        "raftsched: attempt 1 failed; attempt 2 of 3 in 10s",
        f"SUCCEEDED: tick ({INSTANCE})",
    ]


def test_what_does_not_begin_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.cli.jobs.run._SOON_S", 0.01)
    rows = [row("WAITING", 0)] * 2
    waits = {"waiting_for": {"reason": "slots", "text": "All 64 slots are taken."}}
    table = {f"GET {BY_NAME}": JOB, _RUN: (202, row("WAITING", 0)), f"{_GET}/explain": waits,
             output(1): said(("stdout", "at last\n"))}  # fmt: skip

    def answer(request: Request) -> Reply:
        if f"{request.method} {request.path}" == _GET:
            return 200, rows.pop() if rows else DONE
        return routes(table)(request)

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "run", "tick", "-f")
    assert (result.exit_code, result.stdout) == (0, "at last\n")
    assert "raftsched: it waits: All 64 slots are taken.\n" in result.stderr


def test_what_it_waits_for_need_not_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.cli.jobs.run._SOON_S", 0.01)
    table = {f"GET {BY_NAME}": JOB, _RUN: (202, row("WAITING", 0)), output(1): said(("stdout", "at last\n")),
             f"{_GET}/explain": problem(404, "not-found", "There is no such run.")}  # fmt: skip
    rows = [row("WAITING", 0)] * 2

    def answer(request: Request) -> Reply:
        if f"{request.method} {request.path}" == _GET:
            return 200, rows.pop() if rows else DONE
        return routes(table)(request)

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "run", "tick", "-f")
    assert (result.exit_code, result.stdout) == (0, "at last\n")


def test_the_time_may_be_up_before_it_begins() -> None:
    table = {f"GET {BY_NAME}": JOB, _RUN: (202, row("WAITING", 0)), _GET: row("WAITING", 0), output(1): said(),
             f"{_GET}/explain": {"waiting_for": None}}  # fmt: skip

    def answer(request: Request) -> Reply:
        if request.path.endswith("attempt=1"):
            raise AssertionError("it goes on behind the time of --timeout")
        return routes(table)(request)

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "run", "tick", "-f", "--timeout", "50ms")
    assert (result.exit_code, stub.requests[-1].path) == (124, _GET.removeprefix("GET "))
    assert f"gave up waiting: {INSTANCE} has not ended" in result.stderr


@pytest.mark.parametrize("words", [["jobs", "run", "tick", "-f"], ["logs", INSTANCE], ["logs", "--split", INSTANCE]])
def test_of_a_run_with_parts_it_is_said_where_they_wrote(words: list[str]) -> None:
    parts = {**row("SUCCEEDED", 0), "attempts": [], "parts": {"total": 3}}

    def answer(request: Request) -> Reply:
        if "/output" in request.path:
            return 200, b"" if words == ["logs", INSTANCE] else said()
        return routes({f"GET {BY_NAME}": JOB, _RUN: (202, row("WAITING", 0)), _GET: parts})(request)

    with serve(answer) as stub:
        result = run("--server", stub.url, *words)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"each part of it has an output of its own: raftsched runs list --parent {INSTANCE} has" in result.stderr


@pytest.mark.parametrize("how", ["--wait", "-f"])
def test_the_time_may_be_up_and_the_run_goes_on(how: str) -> None:
    let_go = threading.Event()

    def answer(request: Request) -> Reply:
        if request.path.endswith("attempt=1"):
            let_go.wait(60)
            return 200, said()
        return routes({f"GET {BY_NAME}": JOB, _RUN: (202, row("WAITING", 0)), _GET: row("RUNNING")})(request)

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "run", "tick", how, "--timeout", "300ms")
        let_go.set()
    assert result.exit_code == 124
    assert (
        f"it goes on: raftsched logs -f {INSTANCE} follows it, raftsched runs kill {INSTANCE} ends it" in result.stderr
    )
    assert f"gave up waiting: {INSTANCE} has not ended" in result.stderr


@pytest.mark.parametrize("how", ["--wait", "-f"])
@pytest.mark.parametrize("jobs", [["tick"], ["tick", "tick"]], ids=["one", "two"])
def test_what_keeps_it_from_saying_how_a_run_ended_is_no_exit_code_of_a_program(how: str, jobs: list[str]) -> None:
    """A program may end with 3, 5 or 6, which are codes of this command elsewhere."""
    if how == "-f" and len(jobs) > 1:
        return
    refused = problem(403, "not-allowed", "Your token may not do that.")
    with serve(routes({f"GET {BY_NAME}": JOB, _RUN: refused})) as stub:
        assert run("--server", stub.url, "jobs", "run", *jobs, how).exit_code == 125
        assert run("--server", stub.url, "jobs", "run", *jobs).exit_code == 5
        missing = run("--server", stub.url, "jobs", "run", "tock", how)
    assert missing.exit_code == 125
    assert "raftsched: " in missing.stderr


def test_ctrl_c_detaches_and_says_how_to_look_again() -> None:
    followed, let_go = threading.Event(), threading.Event()

    def answer(request: Request) -> Reply:
        if request.path.endswith("attempt=1"):
            followed.set()
            let_go.wait(60)
            return 200, said()
        return routes({f"GET {BY_NAME}": JOB, _RUN: (202, row("WAITING", 0)), _GET: row("RUNNING")})(request)

    with serve(answer) as stub:
        command = listening(
            [sys.executable, "-m", "raftsched.cli.main", "--server", stub.url, "jobs", "run", "tick", "-f"]
        )
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
        ) as process:
            assert followed.wait(60)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
            let_go.set()
    assert process.returncode == 130
    assert f"it goes on: raftsched logs -f {INSTANCE} follows it, raftsched runs kill {INSTANCE} ends it" in told
    assert not [request for request in stub.requests if request.path.endswith("/kill")]


@pytest.mark.parametrize(
    "words, said",
    [
        (["a", "b", "-f"], "-f follows the run of one job, not of 2; --wait waits for all of them"),
        (["a", "-f", "-o", "json"], "-f prints what the run writes; leave -o out"),
        (["a", "--timeout", "1s"], "--timeout goes with --wait or -f"),
        (["--label", "a=b", "--wait"], "--wait and -f go with JOB..., not with a filter"),
        (["--all"], "--all means 'no limit' in lists, and nothing here; say --every-job if you mean all"),
    ],
)
def test_what_does_not_go_together(words: list[str], said: str) -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "run", *words)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
