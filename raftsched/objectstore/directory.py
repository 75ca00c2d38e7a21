"""A store in a directory: an object is a file below it, readable by its owner alone."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from raftsched.objectstore.store import PIECE, Found, NoSuchObject, ObjectStoreError, Source, require_key
from raftsched.system.regular_files import open_regular

_COMING = ".coming"  # in the directory: what is being written
_REASONS = {
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a file is where its directory should be",
    errno.EEXIST: "a file is where its directory should be",
}
_TRIES = 10  # an empty directory may be removed by a delete while a put is about to use it


class Directory:
    """Puts are written beside, synced and renamed; what a killed process left there is removed by the next one, which
    knows it by a lock that nobody holds."""

    def __init__(self, root: Path, *, makes: bool = True) -> None:
        """`makes`: the first put makes the directory. Else nothing is done where it is not there: it may be on a share
        that is not mounted, and would be made on the wrong disk."""
        self._root = root
        self._makes = makes
        self._swept = False

    @property
    def where(self) -> str:
        return str(self._root)

    def put(self, key: str, source: Source) -> int:
        require_key(key)
        self._look(key)
        with self._errors(key, "cannot be written"):
            coming = self._root / _COMING
            if not coming.is_dir():
                for folder in (self._root, coming):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    _sync(folder.parent)
            self._sweep(coming)
            file, beside = _created(coming)
            size = 0
            try:
                with os.fdopen(file, "wb") as out:
                    while piece := source.read(PIECE):
                        out.write(piece)
                        size += len(piece)
                    out.flush()
                    os.fsync(out.fileno())
                    self._place(beside, self._root / key)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
            return size

    def get(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        require_key(key)
        self._look(key)
        with self._errors(key, "cannot be read"):
            try:
                file = open_regular(self._root / key)
            except (FileNotFoundError, NotADirectoryError):
                raise NoSuchObject(f"{self._root / key} is not there") from None
            with file:
                file.seek(start)
                left = length
                while piece := file.read(PIECE if left is None else min(PIECE, left)):
                    left = None if left is None else left - len(piece)
                    yield piece

    def list(self, prefix: str = "") -> Iterator[Found]:
        self._look(prefix)
        with self._errors(prefix, "cannot be listed"):
            yield from self._below(prefix.rpartition("/")[0], prefix)

    def delete(self, key: str) -> None:
        require_key(key)
        self._look(key)
        with self._errors(key, "cannot be deleted"), suppress(FileNotFoundError, NotADirectoryError):
            path = self._root / key
            path.unlink()
            for parent in path.parents:
                if parent == self._root:
                    break
                try:
                    parent.rmdir()
                except OSError:  # it is not empty
                    break

    def close(self) -> None:
        pass

    def _look(self, key: str) -> None:
        """Raises ObjectStoreError where the directory has to be there and is not, or where a link stands on the way to
        the key: lists of everything pass links over, and what is behind one would be there for some and not for
        others."""
        if not self._makes and not self._root.is_dir():
            raise ObjectStoreError(f"{self._root} is no directory: make it, or mount what it is on")
        folder = self._root
        for part in key.split("/")[:-1]:
            folder /= part
            if folder.is_symlink():
                raise ObjectStoreError(f"{folder} is a symbolic link, and must be a directory: mount one there instead")

    def _below(self, folder: str, prefix: str) -> Iterator[Found]:
        """Yields what is in a folder. Links are not followed: what they lead to is not this store's."""
        try:
            with os.scandir(self._root / folder) as entries:
                there = [entry for entry in entries if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return
        named = []
        for entry in there:
            key = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            named.append((f"{key}/" if is_folder else key, entry))
        for key, entry in sorted(named, key=lambda one: one[0]):  # a folder's / sorts as it does within a key
            if key.endswith("/"):
                if key.startswith(prefix) or prefix.startswith(key):
                    yield from self._below(key[:-1], prefix)
            elif key.startswith(prefix) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    status = entry.stat(follow_symlinks=False)
                    yield Found(key, status.st_size, status.st_mtime_ns // 1_000_000)

    def _place(self, beside: Path, path: Path) -> None:
        """Gives a synced file its name, for good."""
        for left in reversed(range(_TRIES)):
            made = _make_folders(self._root, path.parent)
            try:
                beside.rename(path)
            except FileNotFoundError:
                if not left:
                    raise
                continue
            for folder in [path.parent, *made]:
                _sync(folder)
            return

    def _sweep(self, coming: Path) -> None:
        """Removes what processes left that do not live any more, once in the life of this store."""
        if self._swept:
            return
        self._swept = True
        for left in coming.iterdir():
            with suppress(OSError):
                file = os.open(left, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink(missing_ok=True)
                finally:
                    os.close(file)

    @contextmanager
    def _errors(self, key: str, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
            raise ObjectStoreError(f"{self._root / key} {what}: {why}") from None


def _created(coming: Path) -> tuple[int, Path]:
    """Returns a new file that is locked for as long as it is open, so that nobody takes it for one that was left."""
    while True:
        beside = coming / secrets.token_hex(8)
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_nlink:  # else another process took it for one that was left, before it was locked
                return file, beside
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _make_folders(root: Path, folder: Path) -> list[Path]:
    """Makes a folder below the root, and returns those whose lists of names have changed by it."""
    missing = []
    while folder != root and not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    return [one.parent for one in missing]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
