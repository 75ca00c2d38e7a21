"""Files that others may have named: no FIFO, device or socket is opened, and nothing waits for one."""

from __future__ import annotations

import ast
import os
import socket
from pathlib import Path

import pytest

from raftsched.client.errors import ClientError
from raftsched.client.trust import Trust
from raftsched.config.values import ConfigError, file_of
from raftsched.errors import StartupError
from raftsched.objectstore.opening import open_store
from raftsched.objectstore.store import ObjectStoreError
from raftsched.security.keyring import read_keyring
from raftsched.security.sealed_backup import read_identity
from raftsched.system.regular_files import open_regular, read_regular
from tests.support.authority import certificate, put
from tests.unit.cli.house import run

ROOT = Path(__file__).parents[3] / "raftsched"
ROOMS = (
    "cli",
    "client",
    "config",
    "importers",
    "doctor",
    "objectstore",
    "security",
    "store",
    "raft/transport",
    "backups/restore.py",
)
PLAIN = {  # files of these modules that are opened as they are: why
    "cli/cluster/backup.py": "what it has just made itself",
    "cli/dev/processes.py": "logs that dev writes, and /proc",
    "cli/dev/dev_command.py": "its lock",
    "cli/dev/state.py": "/proc",
    "cli/dev/tls.py": "what it has just made itself",
    "cli/doctor/machine.py": "/proc and /sys",
    "importers/hostzone.py": "/etc/timezone",
    "cli/jobs/import_report.py": "it is written",
    "importers/sources.py": "a stream on purpose; in a directory regular files alone",
    "cli/jobs/job_files.py": "a stream on purpose; in a directory regular files alone",
    "cli/jobs/diff.py": "it is written",
    "client/contexts.py": "the user's own file, in the user's own directory",
    "store/datafile.py": "/dev/null",
    "store/examination.py": "/proc",
    "store/rebuild.py": "what it has just made itself",
    "store/snapshot.py": "of members, in the node's own directory",
}


@pytest.fixture(params=["fifo", "device", "socket"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd"
    if request.param == "fifo":
        os.mkfifo(path, 0o600)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    return path


def test_what_is_no_regular_file_is_refused(odd: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(odd)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


def test_content_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(file)
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular(file, 4)


def test_what_the_process_was_started_with_is_read() -> None:
    end, other = os.pipe()
    os.write(other, b"given")
    os.close(other)
    try:
        assert read_regular(f"/dev/fd/{end}") == b"given"
    finally:
        os.close(end)


@pytest.mark.parametrize("prefix", ["/dev/fd/..", "/dev/fd/0/..", "/proc/self/fd/..", "/dev/stdin/.."])
def test_a_name_that_leads_elsewhere_is_none_of_its_own(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> None:
        raise AssertionError("it would have waited")

    monkeypatch.setattr("builtins.open", opened)
    with pytest.raises(OSError, match=r"No such|Not a directory|not a regular file"):
        open_regular(f"{prefix}/fifo")


@pytest.mark.parametrize("odd", ["fifo"], indirect=True)
def test_certificates_of_a_client_are_not_waited_for(odd: Path, tmp_path: Path) -> None:
    file, key = put(tmp_path, certificate())
    for trust in (Trust(str(odd)), Trust(client_cert=str(odd)), Trust(client_cert=str(file), client_key=str(odd))):
        with pytest.raises(ClientError, match="cannot be used: not a regular file"):
            trust.context()
    Trust(client_cert=str(file), client_key=str(key)).context()


@pytest.mark.parametrize("odd", ["fifo"], indirect=True)
def test_nothing_waits_for_a_file_of_others(odd: Path, tmp_path: Path) -> None:
    new = ["--data", str(tmp_path / "new"), "--id", "n1", "--raft", "127.0.0.1:1"]
    for words in (
        ["cluster", "verify", "--unsigned", str(odd)],
        ["cluster", "restore", "--unsigned", str(odd), *new],
        ["keys", "check", str(odd)],
        ["jobs", "list", "--token-file", str(odd)],
        ["audit", "verify", str(odd)],
    ):
        result = run(*words)
        assert result.exit_code not in {0, None}, words
        assert "Traceback" not in result.output
    with pytest.raises(StartupError, match="not a regular file"):
        read_keyring(odd)
    with pytest.raises(StartupError, match="not a regular file"):
        read_identity(odd)
    with pytest.raises(ConfigError, match="not a regular file"):
        file_of("tls_ca", str(odd))
    with pytest.raises(ObjectStoreError, match="not a regular file"):
        next(open_store(str(tmp_path)).get("odd"))


def test_doctor_waits_for_nothing_in_a_directory_of_others(tmp_path: Path) -> None:
    for name in ("cluster.key", "local.token", "local.url", "store/lock", "store/log/data.mdb", "store/data.mdb"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.mkfifo(path, 0o600)
    result = run("doctor", "--local", str(tmp_path / "data"))
    assert result.exit_code == 1, result.output
    assert "not a regular file" in result.output
    assert "Traceback" not in result.output


def test_files_by_a_name_are_opened_in_one_way() -> None:
    """A place that opens a file as it is says why, in PLAIN."""
    found = set()
    for room in ROOMS:
        place = ROOT / room
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and _reads(node):
                    found.add(str(path.relative_to(ROOT)))
    assert found == set(PLAIN)


def _reads(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    modes = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if name in {"read_bytes", "read_text"}:
        return True
    return name == "open" and any(set(mode) <= set("rwabxt+") and mode for mode in modes)
