"""What `raftsched doctor` reads in a node's log, and that what jobs print is not looked at."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from raftsched.cli.doctor import log_lines
from raftsched.output.receivers.standard_output import StandardOutput
from raftsched.system import machine
from tests.unit.cli.house import run
from tests.unit.output.house import entry

SAYS = "No space left on device"
PRINTED = StandardOutput("n1").pack(entry(SAYS)).decode().removesuffix("\n")


@pytest.fixture(autouse=True)
def no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_journal", lambda: None)
    monkeypatch.setattr(machine, "clock_synchronised", lambda: None)


def look(*words: object) -> dict[str, tuple[str, str]]:
    items = json.loads(run("doctor", *map(str, words), "-o", "json").stdout)["items"]
    return {item["check"]: (item["state"], item["detail"]) for item in items}


def test_troubles_that_the_log_names(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    log.write_text(
        "2026 INFO n1 leads term 7\n"
        "2026 This node is too old for this cluster, which is of level 9\n"
        "2026 [Errno 28] No space left on device: first\n"
        "2026 [Errno 28] No space left on device: second\n"
        "raftsched.service: Failed with result 'oom-kill'.\n" + "x" * 300 + "\n"
    )
    result = run("doctor", "--local", str(tmp_path / "data"), "--log", str(log), "-o", "json")
    found = [(i["check"], i["detail"]) for i in json.loads(result.stdout)["items"]]
    assert [says for check, says in found if check == "log-lines"] == [
        "2026 This node is too old for this cluster, which is of level 9",
        "2026 [Errno 28] No space left on device: second",
    ]
    assert any("oom-kill" in says for check, says in found if check == "killed")
    log.write_text("2026 INFO n1 leads term 7\n")
    states = look("--local", tmp_path / "data", "--log", log)
    assert (states["killed"][0], states["log-lines"][0]) == ("ok", "ok")
    assert "cannot be read" in run("doctor", "--local", str(tmp_path), "--log", str(tmp_path / "none")).stderr
    assert run("doctor", "--log", str(log)).exit_code == 2


def test_what_is_known_of_lines_is_said_by_the_code() -> None:
    """So that a sentence that is written otherwise one day is missed here."""
    source = Path(log_lines.__file__).parents[2]
    texts = "\n".join(path.read_text() for path in source.rglob("*.py") if path.name != "log_lines.py")
    for said in (
        "too old for this cluster",
        "must not take part with it",
        "is in use by another node process",
        "the port is in use",
        "cannot listen there",
        "speaks protocol",
        "went back to an earlier state",
    ):
        assert said in texts
        assert any(pattern.search(said) for pattern, _ in log_lines.KNOWN)


def test_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def ran(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, b"one\ntwo\n")

    monkeypatch.undo()
    monkeypatch.setattr(log_lines.subprocess, "run", ran)
    assert log_lines.last_lines(None) == ["one", "two"]
    assert asked[0][:3] == ["journalctl", "--unit", "raftsched"]

    def none(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        raise FileNotFoundError

    monkeypatch.setattr(log_lines.subprocess, "run", none)
    assert log_lines.last_lines(None) is None
    assert list(log_lines.look_at_log(None)) == []


OF_JOBS = [
    [PRINTED],
    [f"Nov 28 12:00:00 h raftsched[7]: {PRINTED}"],
    [StandardOutput("n1").pack(entry(f"a\u2028{SAYS}")).decode().removesuffix("\n")],
    [f"2026-11-28T12:00:00.1Z stdout F {PRINTED}"],
    [f"2026-11-28T12:00:00.1Z stdout P {PRINTED[:99]}", f"2026-11-28T12:00:00.2Z stdout F {PRINTED[99:]}"],
    [json.dumps({"log": PRINTED + "\n", "stream": "stdout"})],
    [json.dumps({"message": PRINTED})],
    [PRINTED[:80], PRINTED[80:200], PRINTED[200:]],
]


@pytest.mark.parametrize("lines", OF_JOBS)
def test_what_jobs_print_is_left_out(lines: list[str], tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    log.write_text("\n".join(["before", *lines, "after"]) + "\n")
    assert log_lines.last_lines(log) == ["before", "after"]
    assert look("--local", tmp_path / "data", "--log", log)["log-lines"][0] == "ok"


def test_a_line_of_output_that_never_ends_takes_not_all_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_OUTPUT_MAX", 400)
    lines = [PRINTED[:-9], *["x" * 99] * 9, PRINTED, "after"]
    assert log_lines.without_output(lines)[-1] == "after"
    assert 0 < len(log_lines.without_output(lines)) < 9


def test_the_rest_of_a_line_that_began_before_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "node.log"
    log.write_text(f"{PRINTED}\nafter\n")
    monkeypatch.setattr(log_lines, "BYTES", 40)
    assert log_lines.last_lines(log) == ["after"]
    monkeypatch.undo()
    pieces = "\n".join([*["piece"] * log_lines.PIECES, *["line"] * log_lines.LINES])

    def ran(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 0, pieces.encode())

    monkeypatch.setattr(log_lines.subprocess, "run", ran)
    assert log_lines.last_lines(None) == ["line"] * log_lines.LINES
