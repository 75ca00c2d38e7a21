"""Whatever is sent again carries a key, and whatever carries a key is sent again as it was."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import raftsched
from tests.support.stub_server import Reply, Request, serve
from tests.unit.cli.house import run

ROOT = Path(raftsched.__file__).parent
SOURCES = [path for room in ("client", "cli") for path in sorted((ROOT / room).rglob("*.py"))]
SENDERS = ("request", "send")
JOB = {"id": "0d3k5xw2a9f4m", "name": "a", "namespace": "default", "state": "SUSPENDED", "next_fire_at": None}
NODE = {"id": "n2", "drained": True, "running": 0, "slots": 1, "labels": {}}


@pytest.mark.parametrize(
    "path", [*(ROOT / "client").rglob("*.py"), *(ROOT / "cli").rglob("*.py")], ids=lambda p: p.name
)
def test_nothing_is_posted_without_headers_of_its_own(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        first = node.args[0]
        if node.func.attr in SENDERS and isinstance(first, ast.Constant) and first.value == "POST":
            given = {word.arg for word in node.keywords}
            assert "headers" in given, f"{path}:{node.lineno} posts without an Idempotency-Key"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (["jobs", "pause", "a"], JOB),
        (["jobs", "expire", "a"], JOB),
        (["instances", "kill", "0d3k5xw2a9f4m@1763600400000"], {"state": "KILLED"}),
        (["nodes", "drain", "n2"], NODE),
        (["cluster", "pause"], {"paused": True}),
        (["dlq", "requeue", "0d3k5xw2a9f4m@1763600400000"], {"matched": 1, "requeued": 1, "refused": [], "next": None}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_node_did_not_answer_another_is_asked_for_under_the_same_key(command: list[str], answer: Reply) -> None:
    def silent(request: Request) -> Reply:
        return (200, JOB) if request.method == "GET" else (0, None)

    with serve(silent) as bad, serve(lambda r: (200, JOB if r.method == "GET" else answer)) as good:
        done = run("--server", f"{bad.url},{good.url}", *command)
    assert done.exit_code == 0, done.output
    posts = [
        (r.headers.get("idempotency-key"), r.path, r.body) for r in bad.requests + good.requests if r.method == "POST"
    ]
    assert len(posts) == 2
    assert posts[0] == posts[1]
    assert posts[0][0]
