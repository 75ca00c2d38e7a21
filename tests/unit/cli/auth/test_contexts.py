"""Clusters by a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.cli.context_file import read_contexts
from raftsched.client.contexts import contexts_file
from tests.support.stub_server import serve
from tests.unit.cli.house import run

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RAFTSCHED_SERVER", raising=False)
    monkeypatch.delenv("RAFTSCHED_CONTEXT", raising=False)


def test_a_context_is_asked_unless_something_nearer_says_otherwise() -> None:
    with serve(lambda r: (200, {"items": [], "next": None})) as stub:
        assert run("contexts", "set", "prod", stub.url, "--use").output == "set: prod, in use\n"
        assert run("contexts", "set", "dead", NOWHERE).exit_code == 0
        assert run("jobs", "list").exit_code == 0
        assert run("--context", "dead", "jobs", "list").exit_code == 6
        assert run("jobs", "list", env={"RAFTSCHED_CONTEXT": "dead"}).exit_code == 6
        assert run("jobs", "list", env={"RAFTSCHED_SERVER": NOWHERE}).exit_code == 6
        assert run("--context", "prod", "jobs", "list", env={"RAFTSCHED_SERVER": NOWHERE}).exit_code == 0
        assert run("--context", "prod", "jobs", "list", "--server", NOWHERE).exit_code == 6
        assert len(stub.requests) == 2
        listed = run("contexts")
        assert [line.split() for line in listed.stdout.splitlines()[1:]] == [
            ["dead", NOWHERE, "no"],
            ["*", "prod", stub.url, "no"],
        ]
    assert run("contexts", "use", "dead").exit_code == 0
    assert run("contexts", "delete", "dead").exit_code == 0
    assert read_contexts()[1] is None
    assert run("contexts", "list", "-o", "name").stdout == "prod\n"


def test_what_is_not_there_or_not_possible() -> None:
    assert run("--context", "x", "jobs", "list").exit_code == 3
    assert run("contexts", "use", "x").exit_code == 3
    assert run("contexts", "delete", "x").exit_code == 3
    assert run("contexts", "use").exit_code == 2
    assert run("contexts", "set", "a b", NOWHERE).exit_code == 2
    assert run("contexts", "set", "a", "ftp://x").exit_code == 2
    assert run("contexts").stderr.startswith("no contexts; make one")


def test_a_file_that_is_something_else_is_said_and_kept() -> None:
    contexts_file().parent.mkdir(parents=True)
    for text in ("contexts = 3", "[contexts.a]\nservers = 1", "current = 1", "]"):
        contexts_file().write_text(text)
        result = run("contexts", "set", "a", NOWHERE)
        assert (result.exit_code, "contexts.toml" in result.stderr) == (1, True)
        assert contexts_file().read_text() == text
