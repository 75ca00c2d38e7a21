"""`raftsched ui`: the address of a node that answers, and a browser when one is wanted and there."""

from __future__ import annotations

import webbrowser

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import routes, run

LIVE = {"GET /livez": {"alive": True}}
DEAD = "http://127.0.0.1:1"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: found.append(address) or True)
    return found


def test_the_page_of_a_node_that_answers_is_opened(opened: list[str]) -> None:
    with serve(routes(LIVE)) as stub:
        result = run("ui", "--server", f"{DEAD},{stub.url}")
    assert (result.exit_code, result.stdout) == (0, f"{stub.url}/ui/\n")
    assert opened == [f"{stub.url}/ui/"]


def test_no_token_is_in_the_address(opened: list[str]) -> None:
    with serve(routes(LIVE)) as stub:
        result = run("--token", "rs_of-somebody", "ui", "--server", stub.url)
    assert "rs_of-somebody" not in result.output
    assert opened == [f"{stub.url}/ui/"]


def test_without_a_browser_it_is_printed(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(routes(LIVE)) as stub:
        result = run("ui", "--server", stub.url, "--no-browser")
        assert (result.exit_code, result.stdout, result.stderr) == (0, f"{stub.url}/ui/\n", "")
        assert opened == []
        monkeypatch.setattr(webbrowser, "open", lambda _: False)
        result = run("ui", "--server", stub.url)
    assert (result.exit_code, result.stdout) == (0, f"{stub.url}/ui/\n")
    assert "no browser was found" in result.stderr


def test_where_no_node_answers_there_is_no_page(opened: list[str]) -> None:
    result = run("ui", "--server", DEAD)
    assert result.exit_code == 6
    assert (result.stdout, opened) == ("", [])
