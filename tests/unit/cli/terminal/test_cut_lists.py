"""Lists that are cut say so, and how to see more; those that are long are printed as they come."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.stub_server import Request, serve
from tests.unit.cli.house import JOB, run


def many(count: int, *, behind: int = 0) -> Any:
    """Answers with so many jobs in pages, as nodes do; `behind`: rows after them that are not asked for."""

    def answer(request: Request) -> tuple[int, Any]:
        query = parse_qs(urlsplit(request.path).query)
        begin, limit = int(query.get("cursor", ["0"])[0]), int(query["limit"][0])
        end = min(begin + limit, count)
        left = end < count or (begin < end == count and behind)
        return 200, {
            "items": [{**JOB, "name": f"job-{n}"} for n in range(begin, end)],
            "next": str(end) if left else None,
        }

    return answer


@pytest.mark.parametrize("fmt", ["table", "name", "json", "jsonl", "yaml"])
def test_a_cut_list_says_so_on_stderr(fmt: str) -> None:
    with serve(many(9)) as stub:
        result = run("--server", stub.url, "jobs", "list", "--limit", "3", "-o", fmt)
    said = "3 shown; more: --all, or --limit N\n"
    if fmt != "table":
        said = "3 shown; more: --all, --limit N, or --cursor 3\n"
    assert (result.exit_code, result.stderr) == (0, said)


@pytest.mark.parametrize("words", [["--limit", "9"], ["--limit", "50"], ["--all"]])
def test_a_whole_list_says_nothing(words: list[str]) -> None:
    with serve(many(9)) as stub:
        assert run("--server", stub.url, "jobs", "list", *words).stderr == ""


def test_what_is_behind_and_not_asked_for_is_not_more() -> None:
    """A node says where to go on before it knows that nothing there is asked for."""
    with serve(many(9, behind=5)) as stub:
        result = run("--server", stub.url, "jobs", "list", "--limit", "9", "-o", "json")
    assert (result.stderr, json.loads(result.stdout)["next"]) == ("", None)


def test_it_goes_on_at_the_cursor() -> None:
    with serve(many(9)) as stub:
        first = json.loads(run("--server", stub.url, "jobs", "list", "--limit", "4", "-o", "json").stdout)
        rest = json.loads(
            run("--server", stub.url, "jobs", "list", "--cursor", first["next"], "--all", "-o", "json").stdout
        )
    assert [one["name"] for one in first["items"] + rest["items"]] == [f"job-{n}" for n in range(9)]
    assert rest["next"] is None


def test_json_is_the_same_as_if_it_were_written_at_once() -> None:
    items = [{"name": "a", "queue": {"x": [1, {"y": "ü"}]}}, {"name": "b"}]
    for listed in (items, []):
        with serve(lambda _, listed=listed: (200, {"items": listed, "next": None})) as stub:  # type: ignore[misc]
            printed = run("--server", stub.url, "jobs", "list", "-o", "json").stdout
            lines = run("--server", stub.url, "jobs", "list", "-o", "jsonl").stdout
        assert printed == json.dumps({"items": listed, "next": None}, indent=2, ensure_ascii=False) + "\n"
        assert [json.loads(line) for line in lines.splitlines()] == listed


def test_jsonl_of_a_thing_is_one_line() -> None:
    with serve(lambda _: (200, JOB)) as stub:
        printed = run("--server", stub.url, "jobs", "get", "tick", "-o", "jsonl").stdout
    assert json.loads(printed) == JOB
    assert printed.count("\n") == 1


def test_a_long_list_comes_page_by_page() -> None:
    with serve(many(2_500)) as stub:
        result = run("--server", stub.url, "jobs", "list", "--all", "-o", "jsonl")
    assert [parse_qs(urlsplit(one.path).query).get("cursor") for one in stub.requests] == [None, ["1000"], ["2000"]]
    assert result.stdout.count("\n") == 2_500


def test_nodes_have_a_limit_too() -> None:
    node = {"role": "follower", "alive": True, "drained": False, "labels": {}, "handlers": [], "running": 0, "slots": 4}
    items = [{"id": f"n{n}", **node} for n in range(3)]
    with serve(lambda _: (200, {"items": items, "next": None})) as stub:
        result = run("--server", stub.url, "nodes", "list", "--limit", "2", "-o", "name")
        assert run("--server", stub.url, "nodes", "list", "--cursor", "x").exit_code == 2
    assert (result.stdout, result.stderr) == ("n0\nn1\n", "2 of 3 shown; more: --all, or --limit N\n")


def test_a_finished_job_is_said_to_be() -> None:
    over = {**JOB, "state": "EXPIRED", "last_state": "FAILED", "last_end_at": "2026-11-20T11:00:00Z"}
    with serve(lambda _: (200, {"items": [over], "next": None})) as stub:
        row = run("--server", stub.url, "jobs", "list").stdout.splitlines()[1]
        assert json.loads(run("--server", stub.url, "jobs", "list", "-o", "json").stdout)["items"] == [over]
    with serve(lambda _: (200, over)) as stub:
        shown = [line.split() for line in run("--server", stub.url, "jobs", "get", "tick").stdout.splitlines()]
    assert "FINISHED" in row
    assert "FAILED" in row
    assert ["state", "FINISHED"] in shown
