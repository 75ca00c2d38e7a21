"""What a terminal, a pipe that closes and Ctrl-C make of a command: progress, and no traceback ever."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from raftsched.cli.main import cli
from raftsched.cli.terminal import progress
from raftsched.cli.terminal.output import print_table
from raftsched.cli.terminal.progress import Progress
from raftsched.cli.terminal.table import Column
from tests.support.patience import patient
from tests.support.stub_server import Reply, Request, serve
from tests.unit.cli.house import ID, JOB, listening, run

MANY = {"items": [{**JOB, "name": f"{n:0100}"} for n in range(3000)], "next": None}  # more than a pipe holds
OPERATION = {
    "id": ID, "action": "pause", "state": "DONE", "examined": 7, "total": 9, "changed": 7, "unchanged": 0,
    "refused": 0, "refusals": [],
}  # fmt: skip


def command(*words: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "raftsched", *words]


@pytest.mark.parametrize("fmt", ["table", "wide", "json", "jsonl", "yaml", "name"])
def test_who_reads_no_further_gets_no_traceback(fmt: str) -> None:
    """It ends as what SIGPIPE ended, by its exit code."""
    with serve(lambda r: (200, MANY)) as stub:
        process = subprocess.Popen(
            command("--server", stub.url, "jobs", "list", "--all", "-o", fmt),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": ""},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        code = process.wait(patient(30))
    assert (said, code) == (b"", 128 + signal.SIGPIPE)


@pytest.mark.parametrize("words", [["jobs", "list"], ["events", "-f"], ["jobs", "wait", "tick"]])
def test_ctrl_c_is_quiet(words: list[str]) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def answer(request: Request) -> tuple[int, object]:
        asked.set()
        go_on.wait(patient(30))
        return 0, None

    with serve(answer) as stub:
        process = subprocess.Popen(
            listening(command("--server", stub.url, *words)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert asked.wait(patient(30))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=patient(30))
        go_on.set()
    assert (process.returncode, out, err) == (130, b"", b"")


def drawn(*words: str, answer: Callable[[Request], Reply]) -> str:
    """What comes to a terminal on stderr."""
    ours, theirs = pty.openpty()
    with serve(answer) as stub:
        process = subprocess.Popen(command("--server", stub.url, *words), stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        assert process.wait(patient(30)) == 0, seen
    os.close(ours)
    return seen.decode()


def test_progress_of_an_operation_is_drawn_on_a_terminal_and_goes() -> None:
    def answers() -> Callable[[Request], Reply]:
        states = iter(["RUNNING", "RUNNING", "DONE"])

        def answer(request: Request) -> Reply:
            return 202 if request.method == "POST" else 200, {**OPERATION, "state": next(states)}

        return answer

    seen = drawn("jobs", "pause", "--owner", "ana", answer=answers())
    assert "[###################.....]  78%" in seen
    assert "7 of 9, 7 paused" in seen
    assert seen.endswith("\r\033[K")
    assert drawn("jobs", "pause", "--owner", "ana", "--no-progress", answer=answers()) == ""


def test_nothing_is_drawn_elsewhere() -> None:
    with serve(lambda r: (202, OPERATION)) as stub:
        result = run("--server", stub.url, "jobs", "pause", "--owner", "ana")
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_line_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Progress("backup", 4 << 20, sizes=True)
    assert line._line(1 << 20, 2.0) == "backup: [######..................]  25%  1.0 MB of 4.2 MB, 524.3 kB/s"
    assert line._line(5 << 20, 0.5) == "backup: [########################] 100%  5.2 MB of 4.2 MB"
    assert Progress("import")._line(1200, 4.0) == "import: 1,200, 300/s"
    assert progress._BAR == 24


def test_help_names_every_exit_code() -> None:
    from raftsched.errors import Exit

    said = " ".join(CliRunner().invoke(cli, ["--help"]).output.split())
    for code in Exit:
        assert f"{code.value} " in said.partition("Exit codes:")[2], code


def test_what_programs_say_gives_a_terminal_no_commands(capsys: pytest.CaptureFixture[str]) -> None:
    said = "exit code 3\nE\x1b]0;owned\x07\x1b[2Jbad \u202e \u00fc"
    print_table([Column("ERROR", lambda row: row["error"], "prose")], [{"error": said}])
    printed = capsys.readouterr().out
    assert "E\\x1b]0;owned\\x07\\x1b[2Jbad \\u202e \u00fc" in printed
    assert printed.replace("\n", "").isprintable()
    assert "exit code 3\nE" in printed, "its lines are lines"
