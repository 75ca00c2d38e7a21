"""Outputs that are open for reading: one text for all who read the same output, checked once for all of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import nullcontext

from raftsched.errors import RaftschedError
from raftsched.output.format import spool
from raftsched.output.reading.text import Text

_READ_MAX = 8  # outputs that stay open after they were read: the next reader need not check all of them again
_ONE_BY_ONE = 1024 * 1024  # bytes; larger ones are checked one at a time, so that they take one processor at most


class OpenTexts:
    """Safe for threads."""

    def __init__(self) -> None:
        self._texts: weakref.WeakValueDictionary[Hashable, Text] = weakref.WeakValueDictionary()  # that are read now
        self._lock = threading.Lock()
        self._read: dict[tuple[Hashable, Hashable], Text] = {}  # by file and key; the one that was read last is last
        self._checking = threading.Lock()

    def open(self, file: Hashable, key: Hashable, size: int, check: Callable[[], Text]) -> Text:
        """Returns an output of so many bytes, which `check` opens unless it is open. It stays so for the next reader,
        until `forget` of its file. Raises what `check` raises."""
        text = self._known(file, key)
        if text is not None:
            return text
        with self._checking if size > _ONE_BY_ONE else nullcontext():
            text = self._known(file, key)  # another reader may have checked it meanwhile
            if text is not None:
                return text
            text = check()
            self.add(key, text)
            return self._known(file, key) or text

    def _known(self, file: Hashable, key: Hashable) -> Text | None:
        with self._lock:
            text = self._texts.get(key)
            if text is not None:
                self._read.pop((file, key), None)
                self._read[file, key] = text
                while len(self._read) > _READ_MAX:
                    del self._read[next(iter(self._read))]
            return text

    def add(self, key: Hashable, text: Text) -> None:
        """Shares a text as long as somebody reads it."""
        with self._lock:
            self._texts[key] = text

    def get(self, key: Hashable) -> Text | None:
        """Returns the text of a key that somebody reads."""
        with self._lock:
            return self._texts.get(key)

    def forget(self, file: Hashable) -> None:
        """The file is deleted: nothing keeps it open but those who read it now."""
        with self._lock:
            for key in [key for key in self._read if key[0] == file]:
                del self._read[key]

    def clear(self) -> None:
        with self._lock:
            self._read.clear()


def stream_number(stream: str | None) -> int | None:
    """Returns the number of a stream in frames; None: both. Raises RaftschedError invalid-parameter."""
    if stream is None:
        return None
    try:
        return {"stdout": spool.STDOUT, "stderr": spool.STDERR}[stream]
    except KeyError:
        detail = f'stream is {stream!r}; it can be "stdout" or "stderr", or be left out for both.'
        raise RaftschedError("invalid-parameter", detail) from None
