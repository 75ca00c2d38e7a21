"""A store in a directory: rights, what is left by a kill, links, errors."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from raftsched.objectstore.directory import Directory
from raftsched.objectstore.store import NoSuchObject, ObjectStoreError

KILLED = """\
import os, signal, sys
from pathlib import Path
from raftsched.objectstore.directory import Directory

class Source:
    def read(self, size):
        if os.listdir(sys.argv[1] + "/.coming") and getattr(self, "began", False):
            os.kill(os.getpid(), signal.SIGKILL)
        self.began = True
        return b"half"

Directory(Path(sys.argv[1])).put("k", Source())
"""


def test_files_are_their_owners(tmp_path: Path) -> None:
    root = tmp_path / "new" / "vault"
    Directory(root).put("a/b", io.BytesIO(b"x"))
    assert [oct((root / part).stat().st_mode & 0o777) for part in (".", "a", "a/b")] == ["0o700", "0o700", "0o600"]


def test_what_a_killed_put_left_is_removed_by_the_next_and_what_is_written_is_not(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert ended.returncode == -signal.SIGKILL
    coming = tmp_path / ".coming"
    left = os.listdir(coming)
    assert len(left) == 1
    assert list(Directory(tmp_path).list()) == []

    class Meanwhile:
        """A source during which another store of the same directory puts."""

        def __init__(self) -> None:
            self.pieces = [b"one", b"two", b""]

        def read(self, size: int, /) -> bytes:
            if len(self.pieces) == 2:
                Directory(tmp_path).put("other", io.BytesIO(b"o"))
            return self.pieces.pop(0)

    Directory(tmp_path).put("k", Meanwhile())
    assert os.listdir(coming) == []
    assert [found[:2] for found in Directory(tmp_path).list()] == [("k", 6), ("other", 1)]


def test_links_are_not_followed_and_empty_folders_go(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"s")
    store = Directory(tmp_path / "vault")
    store.put("a/b/c", io.BytesIO(b"x"))
    (tmp_path / "vault" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "vault" / "file").symlink_to(tmp_path / "outside" / "secret")
    assert [found.key for found in store.list()] == ["a/b/c"]
    tries: list[Callable[[], object]] = [
        lambda: store.put("link/new", io.BytesIO(b"x")),
        lambda: list(store.list("link/")),
        lambda: b"".join(store.get("link/secret")),
        lambda: store.delete("link/secret"),
    ]
    for one in tries:
        with pytest.raises(ObjectStoreError, match="vault/link is a symbolic link, and must be a directory"):
            one()
    assert os.listdir(tmp_path / "outside") == ["secret"]
    store.delete("a/b/c")
    assert not (tmp_path / "vault" / "a").exists()
    store.put("a/b", io.BytesIO(b"x"))
    assert [found.key for found in store.list()] == ["a/b"]


def test_errors_name_the_file_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ObjectStoreError, match="file/k cannot be written: a file is where its"):
        Directory(tmp_path / "file").put("k", io.BytesIO(b""))
    store = Directory(tmp_path / "vault")
    store.put("a/b", io.BytesIO(b""))
    with pytest.raises(ObjectStoreError, match="a cannot be read: it is a directory"):
        next(store.get("a"))
    with pytest.raises(ObjectStoreError, match="a cannot be written: it is a directory"):
        store.put("a", io.BytesIO(b""))
    with pytest.raises(NoSuchObject):
        next(store.get("a/b/c"))
    store.delete("a/b/c")


def test_a_directory_that_must_be_there_is_never_made(tmp_path: Path) -> None:
    """A share that is not mounted is no empty store: what it has is not gone, and nothing is put beside it."""
    share = tmp_path / "share"
    store = Directory(share, makes=False)
    tries: list[Callable[[], object]] = [
        lambda: store.put("k", io.BytesIO(b"x")),
        lambda: list(store.list()),
        lambda: b"".join(store.get("k")),
        lambda: store.delete("k"),
    ]
    for attempt in tries:
        with pytest.raises(ObjectStoreError, match="share is no directory: make it, or mount what it is on") as said:
            attempt()
        assert type(said.value) is ObjectStoreError, "it is not said to be gone"
    assert not share.exists()
    share.mkdir()
    assert store.put("k", io.BytesIO(b"x")) == 1
    assert b"".join(store.get("k")) == b"x"
