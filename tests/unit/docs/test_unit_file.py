"""The units of systemd in deploy/, and docs/systemd.md, which explains them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.config.reading import default_of
from raftsched.doctor.machines import FILES_WARN
from raftsched.embedded.systemd import STOP_SLACK_S
from raftsched.errors import Exit
from raftsched.worker.processes.runner import STOP_PATIENCE_S
from raftsched.worker.session.grace import SLACK_MS

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "deploy" / "systemd"
PAGE = (ROOT / "docs" / "systemd.md").read_text()
SERVICES = ("raftsched.service", "raftsched-worker.service")
ADDED = ("run-as.conf", "open.conf")
EXPOSED_MAX = 3.0  # as systemd-analyze rates it, of 10


def section(name: str, which: str = "Service") -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((UNITS / name).read_text())
    return parser[which]


@pytest.mark.parametrize("name", SERVICES)
def test_the_service_alone_is_asked_to_stop_and_has_the_time(name: str) -> None:
    service = section(name)
    assert service["KillMode"] == "mixed"
    grace_ms = default_of("grace")
    needed_s = (grace_ms + SLACK_MS) / 1000 + STOP_PATIENCE_S
    assert float(service["TimeoutStopSec"]) > needed_s
    assert float(service["TimeoutStopSec"]) == grace_ms / 1000 + STOP_SLACK_S, "as it says itself when it stops"
    assert service["OOMPolicy"] == "continue"


@pytest.mark.parametrize("name", SERVICES)
def test_it_comes_back_unless_its_settings_are_wrong(name: str) -> None:
    service = section(name)
    assert (service["Type"], service["Restart"]) == ("notify", "always")
    assert int(service["WatchdogSec"]) > 0
    assert service["RestartPreventExitStatus"] == str(int(Exit.USAGE))
    assert section(name, "Unit")["StartLimitIntervalSec"] == "0"


@pytest.mark.parametrize("name", SERVICES)
def test_the_service_is_not_root_and_alone_in_its_directory(name: str) -> None:
    service = section(name)
    assert service["User"] not in ("", "root")
    assert service["StateDirectoryMode"] == "0700"
    assert int(service["LimitNOFILE"]) >= FILES_WARN
    assert service["CapabilityBoundingSet"] == ""


def test_both_units_are_alike_but_for_what_they_start() -> None:
    node, worker = (section(name) for name in SERVICES)
    differ = {key for key in {*node, *worker} if node.get(key) != worker.get(key)}
    assert differ == {"ExecStart", "EnvironmentFile"}


@pytest.mark.parametrize("name", SERVICES)
def test_the_page_explains_each_line(name: str) -> None:
    plain = {"Description", "Wants", "ExecStart", "StateDirectory", "SystemCallErrorNumber", "WantedBy"}
    keys = [*section(name, "Unit"), *section(name), *section(name, "Install")]
    assert not [key for key in keys if key not in plain and not re.search(rf"`{key}\b", PAGE)]


@pytest.mark.parametrize("added", ["", "run-as.conf"])
@pytest.mark.parametrize("name", SERVICES)
def test_it_is_shut_by_default_and_the_page_says_how_much(name: str, added: str, tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not installed")
    shutil.copy(UNITS / name, tmp_path)
    if added:
        (tmp_path / f"{name}.d").mkdir()
        shutil.copy(UNITS / added, tmp_path / f"{name}.d")
    asked = [command, "security", "--offline=true", tmp_path / name]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    rated = float(re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)[0])
    assert rated <= EXPOSED_MAX
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    if version.startswith("systemd 252 "):
        assert re.search(rf"\b{rated} with `{added}`" if added else rf"rates the units {rated} ", PAGE)


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_left_open_has_its_reason(name: str) -> None:
    service, text = section(name), (UNITS / name).read_text()
    for key in ("MemoryDenyWriteExecute", "ProtectControlGroups", "PrivateNetwork", "IPAddressDeny", "PrivateUsers"):
        assert key not in service
        assert re.search(rf"^# .*\b{key}=", text, re.MULTILINE), key
    for key in ("PrivateTmp", "ProtectHome", "RestrictNamespaces", "PrivateDevices", "NoNewPrivileges"):
        assert service[key] == "yes"
    assert (service["ProtectProc"], service["ProtectSystem"]) == ("invisible", "strict")
    assert section("run-as.conf")["ProtectProc"] == "default", "else a node does not see the runs of other users"


@pytest.mark.parametrize("added", ["", *ADDED])
@pytest.mark.parametrize("name", SERVICES)
def test_systemd_has_nothing_against_it(name: str, added: str, tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / name
    file.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", (UNITS / name).read_text()))
    if added:
        beside = tmp_path / f"{name}.d"
        beside.mkdir()
        shutil.copy(UNITS / added, beside)
    done = subprocess.run([command, "verify", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stderr, done.stderr
