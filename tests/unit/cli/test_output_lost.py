"""What cannot be written is an error of the command, in one line: a file that looks whole must be whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import JOB

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.is_char_device(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [["--version"], ["jobs", "list"], ["jobs", "export"]], ids=" ".join)
def test_a_full_disk_is_said_in_one_line(command: list[str]) -> None:
    with serve(lambda _: (200, {"items": [JOB], "next": None})) as stub, FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "raftsched", "--server", stub.url, *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    says = "raftsched: the output cannot be written: no space left on device\n"
    assert (done.returncode, done.stderr) == (1, says)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_is_closed_is_written_nowhere(closed: str) -> None:
    """The connection to the server does not get its number."""
    with serve(lambda _: (200, {"items": [JOB], "next": None})) as stub:
        command = [sys.executable, "-m", "raftsched", "--server", stub.url, "jobs", "list"]
        shell = ["sh", "-c", f'"$@" {closed}', "sh", *command]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (JOB["id"] in done.stdout) == (">&-" not in closed.replace("2>&-", ""))
