"""`cluster backup`, `verify` and `restore` as commands; the files themselves are in tests/unit/store/test_backup.py."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.stub_server import problem, serve
from tests.unit.cli.house import run

RAW = b"some bytes\n"
WHOLE = RAW + hashlib.sha256(RAW).hexdigest().encode() + b"\n"


def test_a_backup_is_there_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "b"
    with serve(lambda r: (200, WHOLE)) as stub:
        result = run("--server", stub.url, "cluster", "backup", str(file))
        assert result.exit_code == 0, (result.stderr, result.exception)
        assert (result.exit_code, result.output) == (0, f"backed up: entry ?, {len(WHOLE)} bytes\n")
        assert file.read_bytes() == WHOLE
        assert file.stat().st_mode & 0o077 == 0
        result = run("--server", stub.url, "cluster", "backup", "-", "--local")
        assert result.stdout_bytes == WHOLE
        assert [r.path for r in stub.requests] == [
            "/v1/cluster/snapshot?consistency=leader",
            "/v1/cluster/snapshot",
        ]
    for bad in (WHOLE[:-1], b"x" + WHOLE[1:], b"", RAW):
        with serve(lambda r, bad=bad: (200, bad)) as stub:  # type: ignore[misc]
            result = run("--server", stub.url, "cluster", "backup", str(file))
        assert (result.exit_code, "its checksum is another" in result.stderr) == (1, True)
    with serve(lambda r: problem(503, "overloaded", "One is on its way.")) as stub:
        assert run("--server", stub.url, "cluster", "backup", str(file)).exit_code == 6
    assert file.read_bytes() == WHOLE
    assert [f.name for f in tmp_path.iterdir()] == ["b"]
    with serve(lambda r: (200, WHOLE)) as stub:
        result = run("--server", stub.url, "cluster", "backup", str(tmp_path / "no" / "b"))
    assert (result.exit_code, "no such file or directory" in result.stderr) == (1, True)


def test_a_node_is_told_what_is_kept(tmp_path: Path) -> None:
    headers = {"Raftsched-Snapshot-Index": "17"}
    with serve(lambda r: (200, WHOLE if "/snapshot" in r.path else b""), headers=headers) as stub:
        result = run("--server", stub.url, "cluster", "backup", str(tmp_path / "b"))
        assert result.output.startswith("backed up: entry 17")
        assert stub.requests[-1].path == "/v1/cluster/log?after=17&consistency=leader"
        stub.requests.clear()
        run("--server", stub.url, "cluster", "backup", "-")
        assert len(stub.requests) == 1, "nobody knows whether what is read from here is kept"
    refused = problem(503, "overloaded", "Segments are being made.")
    with serve(lambda r: (200, WHOLE) if "/snapshot" in r.path else refused, headers=headers) as old:
        assert run("--server", old.url, "cluster", "backup", str(tmp_path / "b")).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [["verify", "--unsigned"], ["restore", "--unsigned", "--data", "new", "--id", "n1", "--raft", "127.0.0.1:1"]],
)
def test_what_is_no_backup_is_one_line(tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b").write_bytes(b"hello")
    result = run("cluster", words[0], "b", *words[1:])
    assert (result.exit_code, result.stderr) == (1, "raftsched: b is not a backup of raftsched\n")
    assert run("cluster", words[0], "none", *words[1:]).exit_code == 3
    assert not Path("new").exists()


@pytest.mark.parametrize("more", [["--id", "N1"], ["--raft", "0.0.0.0:1"], ["--raft", "here"]])
def test_restore_wants_an_id_and_an_address(tmp_path: Path, more: list[str]) -> None:
    file = tmp_path / "b"
    file.write_bytes(b"")
    words = [
        "restore",
        str(file),
        "--unsigned",
        "--data",
        str(tmp_path / "new"),
        "--id",
        "n1",
        "--raft",
        "127.0.0.1:1",
        *more,
    ]
    assert run("cluster", *words).exit_code == 2
