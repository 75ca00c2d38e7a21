"""Runs that nothing guards are found by the mark of their node, and nobody else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from raftsched.worker.processes.leftovers import VARIABLE, end_leftovers, mark_of
from tests.support.patience import patient

STAYS = "import signal; print(flush=True); signal.pause()"


def process(**more: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-Sc", STAYS], env={**os.environ, **more}, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.read(1)
    return child


def test_who_has_the_mark_is_ended_and_nobody_else(tmp_path: Path) -> None:
    marks = []
    for name in ("n1", "n2"):
        with (tmp_path / name).open("w") as file:
            marks.append(mark_of(file.fileno()))
    assert marks[0] != marks[1]
    mine = [process(**{VARIABLE: marks[0]}) for _ in range(2)]
    others = [process(**{VARIABLE: marks[1]}), process(**{VARIABLE: marks[0] + "0"}), process(OTHER=marks[0])]
    try:
        assert sorted(end_leftovers(marks[0])) == sorted(child.pid for child in mine)
        assert [child.wait(patient(30)) for child in mine] == [-signal.SIGKILL] * 2
        assert end_leftovers(marks[0]) == []
        assert [child.poll() for child in others] == [None] * 3
    finally:
        for child in [*mine, *others]:
            child.kill()
            child.communicate()
