"""Backups that are sealed for somebody, and signed with the cluster's key, as the commands make and read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raftsched.security.keyring import KEY_FILE, Keyring, new_key, write_new
from raftsched.security.sealed_backup import MAGIC
from tests.support.memory_view import World
from tests.support.stub_server import serve
from tests.unit.cli.house import run
from tests.unit.store.test_backup import Saved

KEY, OTHER = new_key(), new_key()


@pytest.fixture
def backup(tmp_path: Path) -> Any:
    made = Saved(tmp_path / "old")
    made.apply(World())
    yield made.save(tmp_path / "clear", Keyring(KEY))
    made.store.close()


def identity(file: Path) -> str:
    result = run("keys", "recipient", "--file", str(file))
    assert result.exit_code == 0, result.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("keys", "recipient", "--file", str(file)).output == result.output, "made once"
    return result.output.strip()


def sealed(backup: Path, recipient: str, file: Path) -> None:
    with serve(lambda r: (200, backup.read_bytes())) as stub:
        result = run("--server", stub.url, "cluster", "backup", "--recipient", recipient, str(file))
    assert result.exit_code == 0, result.stderr
    assert file.read_bytes().startswith(MAGIC)
    assert file.stat().st_mode & 0o077 == 0


def restored(file: Path, data: Path, *more: str) -> Any:
    origin = [] if "--cluster-key-file" in more else ["--unsigned"]
    return run(
        "cluster", "restore", *origin, str(file), "--data", str(data), "--id", "n1", "--raft", "127.0.0.1:1", *more
    )  # fmt: skip


def test_only_the_identity_opens_it(tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work))
    own, file = tmp_path / "own", tmp_path / "sealed"
    sealed(backup, identity(own), file)
    result = run("cluster", "verify", "--unsigned", str(file), "--identity", str(own), "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.output)["signed"] == f"{Keyring(KEY).ids()[0]}, not checked"
    identity(tmp_path / "other")
    for more, words in (
        ([], f"{file} is sealed; say --identity FILE"),
        (["--identity", str(tmp_path / "other")], "another recipient"),
        (["--identity", str(tmp_path / "none")], "cannot be read"),
    ):
        for result in (
            run("cluster", "verify", "--unsigned", str(file), *more),
            restored(file, tmp_path / "new", *more),
        ):
            assert (result.exit_code, words in result.stderr) == (1, True), result.stderr
    raw = file.read_bytes()
    for broken, words in ((raw[:-1], ""), (raw[:-1000], ""), (raw + b"x", ""), (raw[:40], "cut off")):
        file.write_bytes(broken)
        result = run("cluster", "verify", "--unsigned", str(file), "--identity", str(own))
        assert (result.exit_code, words in result.stderr) == (1, True), result.stderr
    assert not (tmp_path / "new").exists()
    file.write_bytes(raw)
    assert restored(file, tmp_path / "new", "--identity", str(own)).exit_code == 0
    assert (tmp_path / "new" / "store").is_dir()
    assert list(work.iterdir()) == []


def test_a_recipient_is_looked_at_before_anything_is_asked(tmp_path: Path) -> None:
    with serve(lambda r: (200, b"")) as stub:
        result = run("--server", stub.url, "cluster", "backup", "--recipient", "age1xyz", str(tmp_path / "b"))
    assert (result.exit_code, stub.requests, list(tmp_path.iterdir())) == (2, [], [])
    assert "rsr_" in result.stderr


def test_what_is_signed_is_told_from_what_somebody_made(tmp_path: Path, backup: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    write_new(right, OTHER + b"\n" + KEY)
    write_new(wrong, OTHER)
    result = run("cluster", "verify", str(backup), "--cluster-key-file", str(right), "-o", "json")
    assert json.loads(result.output)["signed"] == f"{Keyring(KEY).ids()[0]}, ok"
    for file, words in (
        (backup, "which is not among these"),
        (unsigned(tmp_path), "is not signed"),
    ):
        for result in (
            run("cluster", "verify", str(file), "--cluster-key-file", str(wrong)),
            restored(file, tmp_path / "new", "--cluster-key-file", str(wrong)),
        ):
            assert (result.exit_code, words in result.stderr) == (1, True), result.stderr
    assert not (tmp_path / "new").exists()
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    write_new(data / KEY_FILE, KEY)  # of the cluster of that time: what is sealed in it can be read again
    assert restored(backup, data, "--cluster-key-file", str(right)).exit_code == 0
    assert (data / KEY_FILE).exists()


def test_who_made_it_is_asked_for_and_said(tmp_path: Path, backup: Path) -> None:
    key, new = tmp_path / "key", ["--id", "n1", "--raft", "127.0.0.1:1"]
    write_new(key, KEY)
    for words in (["verify"], ["restore", "--data", str(tmp_path / "a"), *new]):
        result = run("cluster", words[0], str(backup), *words[1:])
        assert (result.exit_code, "say --cluster-key-file FILE" in result.stderr) == (2, True)
        both = run("cluster", words[0], str(backup), *words[1:], "--unsigned", "--cluster-key-file", str(key))
        assert (both.exit_code, "--unsigned" in both.stderr) == (2, True)
    assert "anybody may have made" in restored(backup, tmp_path / "a").stdout
    data = tmp_path / "b"
    data.mkdir(mode=0o700)
    write_new(data / KEY_FILE, KEY)
    result = run("cluster", "restore", str(backup), "--data", str(data), *new)  # its key is there
    assert f"signed with the cluster key {Keyring(KEY).ids()[0]}" in result.stdout, result.stderr
    other = tmp_path / "c"
    other.mkdir(mode=0o700)
    write_new(other / KEY_FILE, OTHER)
    assert "which is not among these" in run("cluster", "restore", str(backup), "--data", str(other), *new).stderr


def unsigned(directory: Path) -> Path:
    made = Saved(directory / "without")
    made.apply(World())
    try:
        return made.save(directory / "unsigned")
    finally:
        made.store.close()


def test_whoever_mends_the_checksum_of_what_he_changed_is_found_out(tmp_path: Path, backup: Path) -> None:
    from raftsched.store.backup import NotABackup, verify
    from tests.unit.store.test_backup import hashlib

    raw = bytearray(backup.read_bytes())
    raw[5_000] ^= 1
    raw[-65:] = hashlib.sha256(raw[:-65]).hexdigest().encode() + b"\n"
    backup.write_bytes(raw)
    verify(backup)
    with pytest.raises(NotABackup, match="was changed since it was signed"):
        verify(backup, keys=Keyring(KEY))
