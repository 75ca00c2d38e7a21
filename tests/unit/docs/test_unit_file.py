"""The systemd unit that docs/processes.md shows."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.cli.doctor.local import FILES_WARN
from raftsched.config.work import GRACE_MS
from raftsched.worker.grace import SLACK_MS
from raftsched.worker.runner import STOP_PATIENCE_S

PAGE = Path(__file__).parents[3] / "docs" / "processes.md"


def unit() -> str:
    found = re.search(r"```ini\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_node_alone_is_asked_to_stop_and_has_the_time() -> None:
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit())
    service = parser["Service"]
    assert service["KillMode"] == "mixed"
    needed_s = (GRACE_MS[1] + SLACK_MS) / 1000 + STOP_PATIENCE_S
    assert float(service["TimeoutStopSec"]) > needed_s
    assert service["OOMPolicy"] == "continue"


def test_the_node_is_not_root_and_alone_in_its_directory() -> None:
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit())
    service = parser["Service"]
    assert service["User"] not in ("", "root")
    assert service["StateDirectoryMode"] == "0700"
    assert int(service["LimitNOFILE"]) >= FILES_WARN


def test_systemd_has_nothing_against_it(tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "raftsched.service"
    file.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", unit()))
    done = subprocess.run([command, "verify", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(file) not in done.stderr, done.stderr
