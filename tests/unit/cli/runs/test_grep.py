"""`raftsched runs grep`: what was found, what was not searched, and where it goes on."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from raftsched.cli.runs import searching
from raftsched.errors import Exit
from tests.support.clock import ManualClock
from tests.support.stub_server import serve
from tests.unit.cli.house import ID, INSTANCE, asked, run

OTHER = f"{ID}@1763600400001"


def hit(instance: str, *lines: tuple[int, str], more: bool = False) -> dict[str, Any]:
    return {
        "instance_id": instance,
        "attempt": 2,
        "lines": [{"line": line, "offset": 0, "text": text} for line, text in lines],
        "more": more,
    }


def part(*items: dict[str, Any], next: str | None = None, silent: int = 0) -> dict[str, Any]:
    nodes = [{"node": "n3", "outputs": silent, "detail": "Node n3 does not answer."}] if silent else []
    return {"items": [*items], "next": next, "outputs": 5, "bytes": 9, "silent": nodes}


def grep(answers: list[dict[str, Any]], *arguments: str) -> tuple[Any, list[dict[str, list[str]]]]:
    """What it printed, and what it asked for."""
    left = iter(answers)
    with serve(lambda r: (200, next(left))) as stub:
        result = run("--server", stub.url, "instances", "grep", *arguments)
        queries = [parse_qs(urlsplit(line.split()[1]).query) for line in asked(stub)]
    return result, queries


def test_it_prints_lines_and_goes_on_until_the_end() -> None:
    answers = [
        part(hit(INSTANCE, (3, "a needle"), (9, "two\x1b[2J"), more=True), next="c1"),
        part(next="c2"),
        part(hit(OTHER, (1, "x"))),
    ]
    result, queries = grep(answers, "needle", "-i", "--stream", "stderr", "-N", "billing")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        f"{INSTANCE} 2:3: a needle",
        f"{INSTANCE} 2:9: two\\x1b[2J",
        f"{INSTANCE} 2: more lines hold it",
        f"{OTHER} 2:1: x",
    ]
    assert [query.get("cursor") for query in queries] == [None, ["c1"], ["c2"]]
    assert queries[0] == {
        "q": ["needle"], "namespace": ["billing"], "ignore_case": ["true"], "stream": ["stderr"], "limit": ["100"],
    }  # fmt: skip
    assert [query["limit"] for query in queries] == [["100"], ["99"], ["99"]]


def test_it_says_that_there_may_be_more() -> None:
    result, queries = grep([part(hit(INSTANCE, (1, "x")), next="c")], "x", "--limit", "1")
    assert (result.exit_code, len(queries)) == (0, 1)
    assert "--limit 1 is reached; there may be more" in result.stderr


def test_it_says_what_was_not_searched() -> None:
    result, _ = grep([part(hit(INSTANCE, (1, "x")), next="c", silent=4), part(silent=3)], "x")
    assert result.exit_code == Exit.UNAVAILABLE
    assert result.stderr == "7 outputs on n3 were not searched: Node n3 does not answer.\n"


def test_nothing_found() -> None:
    result, _ = grep([part()], "x")
    assert (result.exit_code, result.output) == (1, "")


def test_for_programs() -> None:
    found = [hit(INSTANCE, (1, "x")), hit(OTHER, (1, "x"))]
    assert grep([part(*found)], "x", "-o", "name")[0].stdout == f"{INSTANCE}\n{OTHER}\n"
    assert json.loads(grep([part(*found)], "x", "-o", "json")[0].stdout) == found


def test_since_is_a_time_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    clock.wall = 1_763_600_400_000
    monkeypatch.setattr(searching, "SystemClock", lambda: clock)
    _, queries = grep([part()], "x", "--since", "1d")
    assert queries[0]["from"] == ["2025-11-19T01:00:00.000Z"]
    assert run("instances", "grep", "x", "--since", "soon").exit_code == 2
    assert run("instances", "grep", "x", "--since", "1d", "--from", "2025-11-19T01:00:00Z").exit_code == 2
