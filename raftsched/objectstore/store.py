"""Defines the interface of a store, the rule for keys, and the errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

KEY_MAX = 512  # characters, of 1024 that S3 allows: a prefix comes before them
PIECE = 1 << 20  # bytes, that are read at a time
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=@-]{0,199}(/[A-Za-z0-9_][A-Za-z0-9._=@-]{0,199})*")


class ObjectStoreError(Exception):
    """Something could not be done; the text says in one line what, where and why."""


class NoSuchObject(ObjectStoreError):
    """There is nothing by this key."""


class NotUsable(ObjectStoreError):
    """A store cannot be opened as it was named or configured; trying again would not help."""


class Found(NamedTuple):
    """An object of a list."""

    key: str
    size: int  # bytes
    put_at_ms: int  # when it was put, by the clock of the store


class Source(Protocol):
    """Whatever is put, read once from where it is. What it raises ends the put, of which nothing is seen then."""

    def read(self, size: int, /) -> bytes:
        """Up to that many bytes; none: that was all."""


class ObjectStore(Protocol):
    """A store, below the prefix that it was opened with."""

    @property
    def where(self) -> str:
        """The place as it was named, for messages."""

    def put(self, key: str, source: Source) -> int:
        """Stores an object, and returns its bytes. It is on the disk, or at S3, when this returns. Raises
        ObjectStoreError."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yields an object in pieces, from a byte on; all that is there when `length` is longer. Raises NoSuchObject,
        ObjectStoreError, both at the first piece at the earliest."""

    def list(self, prefix: str = "") -> Iterator[Found]:
        """Yields the objects whose keys begin so, in the order of their keys; nothing where there is nothing. Raises
        ObjectStoreError."""

    def delete(self, key: str) -> None:
        """Deletes an object; none by that key is no error. Raises ObjectStoreError."""

    def close(self) -> None:
        """Closes connections. The store is not used any more."""


def require_key(key: str) -> None:
    """Raises ObjectStoreError for a key that not every store could hold, or that could lead out of a directory."""
    if len(key) > KEY_MAX or not _KEY.fullmatch(key):
        raise ObjectStoreError(
            f"{key[:80]!r} cannot be the key of an object: parts of letters, digits and ._=@- with / between them,"
            f" {KEY_MAX} characters at most"
        )
