"""`--watch`: blocks into pipes, a picture on a terminal, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from raftsched.cli.terminal import watching
from raftsched.client import event_stream
from raftsched.client.errors import ClientError
from tests.support.patience import patient
from tests.support.stub_server import Request, problem, serve
from tests.unit.cli.house import BY_NAME, JOB, listening, run


@pytest.fixture(autouse=True)
def nobody_listens_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Who waits for events ends with its process; here with its test, else it would ask the servers of later ones."""
    over = threading.Event()
    monkeypatch.setattr(event_stream, "time", SimpleNamespace(sleep=over.wait))
    yield
    over.set()
    for thread in threading.enumerate():
        if thread.name == "events":
            thread.join(patient(30))
            assert not thread.is_alive()


def looks(monkeypatch: pytest.MonkeyPatch, count: int) -> list[float]:
    """Ctrl-C comes after so many looks. The pauses."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == count:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "pause_s", pause)
    return pauses


def test_blocks_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = looks(monkeypatch, 3)
    count = iter(range(9))
    with serve(lambda r: (200, {"items": [{**JOB, "name": f"tick-{next(count)}"}], "next": None})) as stub:
        result = run("--server", stub.url, "jobs", "list", "-o", "name", "--watch", "--interval", "7")
    assert (result.exit_code, result.output) == (0, "tick-0\n\ntick-1\n\ntick-2\n")
    assert pauses == [7.0] * 3


@pytest.mark.parametrize("words", [["jobs", "list"], ["instances", "list"], ["nodes", "list"], ["operations", "list"]])
def test_no_node_answering_is_shown_and_waited_out(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = looks(monkeypatch, 2)
    answers = iter([problem(503, "no-leader", "No leader now."), (200, {"items": [], "next": None})])
    with serve(lambda r: next(answers)) as stub:
        result = run("--server", stub.url, *words, "--watch")
    assert result.exit_code == 0
    assert result.stdout == "raftsched: No leader now.\n\n"
    assert pauses == [watching.EVERY_S] * 2


def test_what_is_not_there_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, 2)
    with serve(lambda r: problem(404, "not-found", "There is no queue 'x'.")) as stub:
        assert run("--server", stub.url, "queues", "get", "x", "--watch").exit_code == 3
        assert run("--server", stub.url, "queues", "get", "x", "--interval", "3").exit_code == 2


def test_an_event_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is shown again because of its event, not after the interval."""
    pauses = looks(monkeypatch, 2)
    event = {"id": "7-0", "type": "job.paused", "at": "2026-11-20T12:00:00Z"}

    def answer(request: Request) -> tuple[int, object]:
        if request.path.startswith("/v1/events"):
            assert request.path == f"/v1/events?job={JOB['id']}&follow=true"
            return 200, f"id: 7-0\ndata: {json.dumps(event)}\n\n".encode()
        return 200, JOB

    monkeypatch.setattr("raftsched.client.event_stream.AGAIN_S", 0.01)
    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "get", "tick", "-o", "name", "--watch", "--interval", "3600")
    assert (result.exit_code, result.output) == (0, "tick\n\ntick\n")
    assert pauses == [watching._TOGETHER_S] * 2
    assert [r.path for r in stub.requests].count(BY_NAME) >= 3


def test_without_events_it_looks_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> object:
        raise ClientError("events-gone", "off", status=410)

    monkeypatch.setattr("raftsched.client.event_stream.watch", refuse)
    seen = 0

    def answer(request: Request) -> tuple[int, object]:
        nonlocal seen
        seen += 1
        return (200, JOB) if seen < 5 else problem(404, "not-found", "gone")

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "get", "tick", "-o", "name", "--watch", "--interval", "0.1")
    assert (result.exit_code, result.stdout) == (3, "tick\n\ntick\n\ntick\n")


def test_on_a_terminal_it_is_drawn_in_place_and_the_last_picture_stays() -> None:
    with serve(lambda r: (200, {"items": [JOB], "next": None})) as stub:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "raftsched", "--server", stub.url, "jobs", "list", "--watch"]
        process = subprocess.Popen(
            listening([*command, "--interval", "0.1"]),
            stdout=theirs,
            stdin=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(theirs)
        seen = b""
        while seen.count(b"Ctrl-C ends") < 3:
            seen += _read(ours)
        assert seen.startswith(b"\033[?1049h")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        while piece := _read(ours):
            seen += piece
        assert process.wait() == 0
        os.close(ours)
    assert b"Traceback" not in seen
    assert b"\033[K\033[1mNAME" in seen, "erased before it is drawn: behind a full line that takes its last character"
    _, _, after = seen.rpartition(b"\033[?1049l")
    assert b"tick" in after
    assert b"Ctrl-C" not in after


def _read(fd: int) -> bytes:
    """Empty at the end."""
    ready, _, _ = select.select([fd], [], [], patient(30))
    assert ready, "nothing came"
    try:
        return os.read(fd, 65_536)
    except OSError:
        return b""
