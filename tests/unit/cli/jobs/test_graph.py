"""`jobs graph`: the same graph as text, for Graphviz and for Mermaid; and `jobs create --after`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import BY_NAME, ID, JOB, asked, routes, run


def edge(of: str, to: str, mode: str = "one", on: str = "succeeded", kind: str = "after") -> dict[str, str]:
    return {"from": f"s/{of}", "to": f"s/{to}", "kind": kind, "on": on, "mode": mode}


GRAPH = {
    "jobs": [
        *({"name": f"s/{name}", "id": ID, "state": "SCHEDULED", "when": "w"} for name in "abcd"),
        {"name": "s/gone", "id": None, "state": None, "when": None},
    ],
    "edges": [
        edge("a", "b"),
        edge("a", "c", on="failed"),
        edge("b", "d", "all"),
        edge("gone", "d", "all", kind="condition"),
        edge("c", "d", "any", on="ended"),
    ],
    "complete": True,
}


def drawn(*words: str, graph: Any = GRAPH) -> str:
    with serve(lambda r: (200, graph)) as stub:
        result = run("--server", stub.url, "jobs", "graph", *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_as_text() -> None:
    assert drawn() == (
        "s/a\n├─ s/b\n│  └─ s/d\n└─ s/c  (failed)\n   └─ s/d  (ended, any)\ns/gone  (does not exist)\n"
        "└─ s/d  (condition)\n"
    )


def test_what_was_drawn_is_named_again_and_no_more() -> None:
    graph = {**GRAPH, "edges": [edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("gone", "c")]}
    assert drawn(graph=graph).endswith("s/gone  (does not exist)\n└─ s/c ...\n")


def test_a_circle_is_drawn_once() -> None:
    graph = {**GRAPH, "jobs": GRAPH["jobs"][:2], "edges": [edge("a", "b"), edge("b", "a")]}  # type: ignore[index]
    assert drawn(graph=graph) == "s/a\n└─ s/b\n   └─ s/a ...\n"


def test_nothing() -> None:
    assert drawn(graph={"jobs": [], "edges": [], "complete": True}) == "no job follows another\n"


def test_for_graphviz() -> None:
    lines = drawn("-o", "dot").splitlines()
    assert (lines[0], lines[-1]) == ("digraph jobs {", "}")
    assert '  "s/gone" [style=dashed];' in lines
    assert '  "s/a" -> "s/c" [label="failed"];' in lines
    assert '  "s/c" -> "s/d" [label="ended, any", style=dashed];' in lines
    assert '  "s/b" -> "s/d";' in lines


def test_for_mermaid() -> None:
    lines = drawn("-o", "mermaid").splitlines()
    assert lines[:2] == ["flowchart LR", '  j0["s/a"]']
    assert "  j0 -->|failed| j2" in lines
    assert "  j4 -.->|condition| j3" in lines


def test_of_one_job_and_a_namespace() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB, f"GET /v1/jobs:graph?job={ID}": GRAPH})) as stub:
        assert run("--server", stub.url, "jobs", "graph", "tick").exit_code == 0
    with serve(lambda r: (200, {**GRAPH, "complete": False})) as stub:
        result = run("--server", stub.url, "jobs", "graph", "-N", "s", "-o", "json")
        cut = run("--server", stub.url, "jobs", "graph", "-N", "s")
    assert asked(stub)[0] == "GET /v1/jobs:graph?namespace=s"
    assert '"complete": false' in result.stdout
    assert "more than one answer holds" in cut.stderr


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (["--after", "a"], {"job": "a"}),
        (["--after", "a", "--after", "x/b"], {"all_of": ["a", "x/b"]}),
        (["--after", "a", "--after-any"], {"any_of": ["a"]}),
        (["--after", "a", "--after-on", "failed", "--pass-results"], {"job": "a", "on": "failed", "pass": "result"}),
    ],
)
def test_a_job_that_follows_others(words: list[str], after: Any) -> None:
    with serve(lambda r: (201, {**JOB, "trigger": {"after": after}})) as stub:
        result = run("--server", stub.url, "jobs", "create", "b", *words, "--shell", "true")
        listed = run("--server", stub.url, "jobs", "get", "b")
    assert result.exit_code == 0, result.output
    assert stub.requests[0].json["trigger"] == {"after": after}
    assert listed.exit_code == 0


def test_what_goes_with_after_goes_with_nothing_else() -> None:
    result = run("jobs", "create", "b", "--every", "1h", "--after-any", "--shell", "true")
    assert (result.exit_code, "go with --after" in result.stderr) == (2, True)
