"""The keys of the cluster: what a key file may say, who may read it, and how a node makes its own."""

import base64
import os
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.errors import StartupError
from raftsched.security.keyring import (
    KEY_FILE,
    KEYS_MAX,
    Keyring,
    derive,
    new_key,
    own_key,
    parse_keyring,
    read_keyring,
    write_new,
    wrong_in_key,
)

HEX = b"00112233445566778899aabbccddeeff"
BASE64 = base64.b64encode(bytes(range(40, 72)))


def key_file(directory: Path, text: bytes, mode: int = 0o600) -> Path:
    file = directory / "key"
    file.write_bytes(text)
    file.chmod(mode)
    return file


def test_one_key_a_line_with_comments_in_order(tmp_path: Path) -> None:
    text = b"# the new one\n  " + HEX + b"  # since Monday\r\n\n" + BASE64 + b"\n" + HEX + b"\n"
    ring = read_keyring(key_file(tmp_path, text))
    assert list(ring) == [HEX, BASE64]
    assert (ring.first, len(ring), bool(ring)) == (HEX, 2, True)
    assert repr(HEX) not in repr(ring) and HEX.decode() not in repr(ring)  # noqa: PT018
    assert len(set(ring.ids())) == 2


def test_an_empty_ring_is_false_and_derives_nothing() -> None:
    assert not Keyring()
    assert Keyring().first == b""
    assert list(Keyring()) == []
    assert Keyring().derive_all("peer") == ()
    with pytest.raises(ValueError, match="no key"):
        Keyring().derive("peer")
    with pytest.raises(ValueError, match="empty"):
        Keyring(b"")


def test_derive_is_hkdf_sha256() -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    expected = HKDF(hashes.SHA256(), 32, b"raftsched", b"peer").derive(HEX)
    assert derive(HEX, "peer") == Keyring(HEX, BASE64).derive("peer") == expected
    assert Keyring(HEX, BASE64).derive_all("peer") == (expected, derive(BASE64, "peer"))
    assert derive(HEX, "backup") != expected


@pytest.mark.parametrize(
    ("key", "word"),
    [
        (b"correct-horse-battery", "neither hex nor base64"),
        (b"correct-horse-battery-staple", "words"),
        (b"CORRECTHORSEBATTERYSTAPLE000", "words"),
        (b"hunter2 hunter2 hunter2 hunter2", "neither hex nor base64"),
        (b"0123456789abcdef", "64 bits"),
        (HEX[:31], "124 bits"),
        (b"0" * 64, "repeats"),
        (b"Aa" * 16, "repeats"),
        (base64.b64encode(bytes(range(40, 52))), "96 bits"),
        (b"\xff" * 32, "neither"),
    ],
)
def test_what_somebody_thought_up_is_refused_without_quoting_it(tmp_path: Path, key: bytes, word: str) -> None:
    assert word in (wrong_in_key(key) or "")
    with pytest.raises(StartupError) as refused:
        read_keyring(key_file(tmp_path, BASE64 + b"\n" + key + b"\n"))
    assert "line 2" in refused.value.detail
    assert "raftsched keys new --file" in refused.value.detail
    assert key.decode("latin-1") not in refused.value.detail


def test_random_keys_are_accepted_in_each_spelling() -> None:
    rng = random.Random(7)
    for size in (16, 20, 32, 64):
        for _ in range(200):
            made = rng.randbytes(size)
            for text in (base64.b64encode(made), base64.urlsafe_b64encode(made).rstrip(b"="), made.hex().encode()):
                if size >= 32 or not text.isalnum():
                    assert wrong_in_key(text) is None, text
    assert wrong_in_key(new_key()) is None


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# only words\n"])
def test_a_file_without_a_key(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(StartupError, match="has no key in it"):
        read_keyring(key_file(tmp_path, text))


def test_more_keys_than_are_accepted() -> None:
    keys = [new_key() for _ in range(KEYS_MAX)]
    assert len(parse_keyring(b"\n".join(keys))) == KEYS_MAX
    with pytest.raises(ValueError, match="at most"):
        parse_keyring(b"\n".join([*keys, new_key()]))


def owned(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """Every file is this user's from here on: tests run as one user only."""
    real = os.fstat

    def fstat(fd: int) -> os.stat_result:
        fields = list(real(fd))
        fields[stat.ST_UID] = uid
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", fstat)


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600, 0o640])
def test_the_group_may_read_what_is_of_root(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = key_file(tmp_path, HEX, mode)
    owned(monkeypatch, 0)
    assert read_keyring(file).first == HEX


@pytest.mark.parametrize("mode", [0o460, 0o604, 0o620, 0o644, 0o666])
def test_nobody_else_may_and_none_may_write_it(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = key_file(tmp_path, HEX, mode)
    owned(monkeypatch, 0)
    with pytest.raises(StartupError, match="by others"):
        read_keyring(file)


@pytest.mark.parametrize("mode", [0o440, 0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_file_that_others_can_read_is_refused_with_what_mends_it(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = key_file(tmp_path, HEX, mode)
    owned(monkeypatch, 10001)
    with pytest.raises(StartupError) as refused:
        read_keyring(file)
    assert f"chmod 600 {file}" in refused.value.detail
    subprocess.run(["chmod", "600", str(file)], check=True)
    assert read_keyring(file).first == HEX


def test_what_is_no_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(StartupError, match="cannot be read"):
        read_keyring(tmp_path / "missing")
    with pytest.raises(StartupError, match="Is a directory"):
        read_keyring(tmp_path)
    with pytest.raises(StartupError, match="larger than"):
        read_keyring(key_file(tmp_path, b"#" * 70_000))


def test_a_node_makes_its_own_once(tmp_path: Path) -> None:
    made = own_key(tmp_path)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert len(made.first) == 64
    (tmp_path / f".{KEY_FILE}.1.left").write_bytes(b"of a killed process")
    assert own_key(tmp_path) == made
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]


def test_a_key_file_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write_new(file, HEX)
    with pytest.raises(FileExistsError):
        write_new(file, BASE64)
    assert file.read_bytes() == HEX + b"\n"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.slow
def test_killed_at_any_line_it_is_whole_or_not_there(tmp_path: Path) -> None:
    from raftsched.security import keyring

    for line in range(1_000):
        data = tmp_path / str(line)
        data.mkdir()
        pid = os.fork()
        if pid == 0:  # pragma: no cover
            _make_and_die(data, line, str(keyring.__file__))
        _, status = os.waitpid(pid, 0)
        if (data / KEY_FILE).exists():
            before = read_keyring(data / KEY_FILE)
            assert own_key(data) == before
        assert own_key(data).first
        assert own_key(data) == own_key(data)
        assert [file.name for file in data.iterdir()] == [KEY_FILE]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
    assert line > 20


def _make_and_die(data: Path, left: int, where: str) -> None:  # pragma: no cover
    def trace(frame, event, arg):  # type: ignore[no-untyped-def]
        nonlocal left
        if frame.f_code.co_filename != where:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    try:
        sys.settrace(trace)
        own_key(data)
        os._exit(0)
    except BaseException:
        os._exit(1)
