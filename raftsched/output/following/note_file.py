"""A note of what was taken of each segment, as a file beside the segments."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from raftsched.system.whole_file import replace_whole

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode

log = logging.getLogger(__name__)


class NoteFile(Generic[T]):
    """Holds the notes by segment. Who changes them, says so with `changed`."""

    def __init__(self, path: Path, store: bytes, kind: Any) -> None:
        """`store`: the id of this node's store: beside another one, the segments are others. `kind`: of a note."""
        self._path = path
        self._store = store
        self.notes: dict[int, T] = {}
        self.changed = False
        self.is_new = False  # there was no file
        try:
            written_by, notes = msgspec.msgpack.decode(path.read_bytes(), type=tuple[bytes, dict[int, kind]])
        except FileNotFoundError:
            self.is_new = True
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s cannot be read: %s; output is sent again", path, error)
        else:
            if written_by == store:
                self.notes = notes

    def write(self) -> None:
        """Brings them to the disk, if any has changed. Blocks. Raises OSError."""
        if not self.changed:
            return
        self.changed = False
        try:
            replace_whole(self._path, _encode((self._store, dict(self.notes))))
        except OSError:
            self.changed = True
            raise
