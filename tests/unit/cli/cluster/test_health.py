"""`raftsched health`: one node, by what it answers at /readyz and /livez."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.cli.cluster import health
from raftsched.security.local_token import ADDRESS_FILE
from tests.support.stub_server import Request, serve
from tests.unit.cli.house import asked, routes, run

WAITS = {"ready": False, "checks": {}, "waits_for": "A majority of the members does not answer."}
READY = {"GET /readyz": {"ready": True, "checks": {}}, "GET /livez": {"alive": True}}
UNREADY = {"GET /readyz": (503, WAITS), "GET /livez": {"alive": True}}
DEAD = "http://127.0.0.1:1"


def test_a_node_that_is_ready() -> None:
    with serve(routes(READY)) as stub:
        result = run("health", "--server", stub.url)
    assert (result.exit_code, result.stdout) == (0, "ready\n")
    assert asked(stub) == ["GET /readyz"]


def test_a_node_that_is_not_says_what_it_waits_for() -> None:
    with serve(routes(UNREADY)) as stub:
        result = run("health", "--server", stub.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"raftsched: {stub.url}: A majority of the members does not answer.\n"


def test_a_node_without_a_leader_is_alive() -> None:
    with serve(routes(UNREADY)) as stub:
        result = run("health", "--server", stub.url, "--live")
    assert (result.exit_code, result.stdout) == (0, "alive\n")
    assert asked(stub) == ["GET /livez"]


def test_it_is_about_the_first_server_and_no_other() -> None:
    with serve(routes(READY)) as stub:
        result = run("health", "--server", f"{DEAD},{stub.url}")
        assert asked(stub) == []
    assert result.exit_code == 6
    assert f"{DEAD} does not answer" in result.stderr


@pytest.mark.parametrize("answer", [(500, b"<html>"), (200, None), (503, [])])
def test_answers_of_something_else(answer: tuple[int, object]) -> None:
    with serve(lambda _: (0, None) if answer[1] is None else answer) as stub:
        result = run("health", "--server", stub.url)
    assert result.exit_code == (6 if answer[1] is None else 1), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_the_node_of_a_data_directory(tmp_path: Path) -> None:
    result = run("health", "--data", str(tmp_path))
    assert result.exit_code == 6
    assert "its node has not started yet" in result.stderr
    with serve(routes(READY)) as stub:
        (tmp_path / ADDRESS_FILE).write_text(f"{stub.url}\n")
        result = run("health", "--data", str(tmp_path))
    assert (result.exit_code, result.stdout) == (0, "ready\n")


def test_no_token_is_sent(tmp_path: Path) -> None:
    with serve(routes(READY)) as stub:
        run("--token", "rs_of-somebody", "health", "--server", stub.url)
    assert "authorization" not in stub.requests[0].headers


def test_it_waits_until_the_node_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PAUSE_S", 0.01)
    answers = iter([(503, WAITS), (0, None), (200, {"ready": True})])

    def answer(_: Request) -> tuple[int, object]:
        return next(answers)

    with serve(answer) as stub:
        result = run("health", "--server", stub.url, "--wait")
    assert (result.exit_code, result.stdout, len(stub.requests)) == (0, "ready\n", 3)


def test_and_no_longer_than_it_may() -> None:
    with serve(routes(UNREADY)) as stub:
        result = run("health", "--server", stub.url, "--wait", "--timeout", "0.1")
    assert result.exit_code == 7
    assert "not within 0.1 s" in result.stderr
    assert "majority" in result.stderr
