"""The command line prints what jobs ask for that nobody offers now, each thing once, on stderr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftsched.cli.jobs.warned import print_warnings
from tests.support.stub_server import Request, serve
from tests.unit.cli.house import run

NOBODY = {"code": "no-executor", "field": "handler", "detail": "No node has it."}
JOB = {"id": "0d3k5xw2a9f4m", "name": "a", "namespace": "default", "state": "SCHEDULED", "revision": 1}
CHECKED = {"result": "created", "job": JOB, "description": "by hand", "next": [], "more": False}


def test_each_thing_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    other = {**NOBODY, "detail": "There is no queue."}
    answers: list[tuple[str, dict[str, Any]]] = [
        *((f"j{number}", {"warnings": [NOBODY]}) for number in range(5)),
        ("q", {"warnings": [other, NOBODY]}),
        ("fine", {}),
        ("of an earlier node", {"warnings": None}),
    ]
    print_warnings(answers)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "warning: j0, j1, j2 and 3 more: No node has it.\nwarning: q: There is no queue.\n"


def test_a_label_commands_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click._compat.should_strip_ansi", lambda *_: False)  # as on a terminal
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    print_warnings([("a", {"warnings": [{**NOBODY, "detail": "No node carries z=\x1b[2Jx."}]})])
    assert capsys.readouterr().err == "warning: a: No node carries z=\\x1b[2Jx.\n"


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_of_a_job_that_is_made_or_checked(words: list[str]) -> None:
    def answer(request: Request) -> tuple[int, Any]:
        whole = CHECKED if request.path.endswith(":check") else JOB
        return (200 if words else 201), {**whole, "warnings": [NOBODY]}

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "create", "a", "--manual", "--call", "x", *words)
    assert (result.exit_code, result.stderr) == (0, "warning: a: No node has it.\n")


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_of_jobs_that_are_applied(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "a.json").write_text('{"name": "a", "trigger": {"manual": true}, "handler": {"call": "x"}}')

    def answer(request: Request) -> tuple[int, Any]:
        if "jobs:compare" in request.path:
            return 200, {"items": [{"result": "created", "warnings": [NOBODY]}]}
        return 201, JOB

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", str(tmp_path / "a.json"), *words)
    assert (result.exit_code, result.stderr) == (0, "warning: a: No node has it.\n")


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_of_jobs_that_are_imported(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "tab").write_text("0 2 * * * /bin/true\n")

    def answer(request: Request) -> tuple[int, Any]:
        if "jobs:compare" in request.path:
            return 200, {"items": [{"result": "created", "warnings": [NOBODY]}]}
        return 201, {**JOB, "warnings": [NOBODY]}

    with serve(answer) as stub:
        file = str(tmp_path / "tab")
        result = run("--server", stub.url, "jobs", "import", "--from", "crontab", file, "--timezone", "UTC", *words)
    assert result.exit_code == 0, result.output
    assert ": No node has it.\n" in result.stderr
