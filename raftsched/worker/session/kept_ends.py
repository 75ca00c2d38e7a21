"""The ends of runs that the log does not have yet, on the disk of the node that ran them.

An end is told by a command, again and again until the tables show it. Where that takes long (there is no leader, or no
majority that hears it), the node may be stopped or killed meanwhile: it tells them when it has started again. They name
a session and a token, of which neither is used twice, so that one which comes too late changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from raftsched.system.whole_file import replace_whole

KEPT_MAX = 10_000  # ends
KEPT_BYTES = 16 * 1024 * 1024  # of them all

log = logging.getLogger(__name__)


class _File(msgspec.Struct, array_like=True, frozen=True):
    store_id: bytes
    commands: tuple[bytes, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_File).decode


class KeptEnds:
    def __init__(self, path: Path, store_id: bytes) -> None:
        """`store_id`: of the store beside it. What was kept beside another one is of another life of this node, in
        which the same numbers may mean other runs."""
        self._path = path
        self._store_id = store_id

    def read(self) -> tuple[bytes, ...]:
        """Returns the commands that were kept; none where they cannot be read."""
        try:
            found = _decode(self._path.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s cannot be read: %s; runs whose ends it holds count as lost", self._path, error)
            return ()
        return found.commands if found.store_id == self._store_id else ()

    def write(self, commands: Sequence[bytes]) -> None:
        """Keeps these in place of the others, the first of them where there is no room for all; returns when they are
        on the disk. Where it does not take them, a restart loses them as it would without this."""
        kept, size = [], 0
        for command in commands[:KEPT_MAX]:
            size += len(command)
            if size > KEPT_BYTES:
                break
            kept.append(command)
        try:
            if not kept:
                self._path.unlink(missing_ok=True)
                return
            replace_whole(self._path, _encode(_File(self._store_id, tuple(kept))))
        except OSError as error:
            log.warning("%d ends of runs could not be kept: %s", len(kept), error.strerror)
