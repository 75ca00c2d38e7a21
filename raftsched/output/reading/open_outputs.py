"""Outputs that are open for reading: one text for all who read the same output, checked once for all of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from pathlib import Path

from raftsched.core.model import OutputRef
from raftsched.output.format.records import checked_text
from raftsched.output.reading.text import Text

_Key = tuple[Hashable, ...]  # the file, and what of it
_READ_MAX = 8  # outputs that stay open after they were read: the next reader need not check all of them again
_ONE_BY_ONE = 1024 * 1024  # bytes; larger ones are checked one at a time, so that they take one processor at most


class OpenTexts:
    """Safe for threads."""

    def __init__(self) -> None:
        self._texts: weakref.WeakValueDictionary[_Key, Text] = weakref.WeakValueDictionary()  # that are read now
        self._lock = threading.Lock()
        self._read: dict[_Key, Text] = {}  # the one that was read last is last
        self._checking = threading.Lock()

    def open(
        self, file: Hashable, path: Callable[[], Path], ref: OutputRef, token: int | None, *, whole: bool = True
    ) -> Text:
        """Returns the output at a place of a file, which is checked unless it is open. It stays so for the next reader,
        until `forget` of its file. Not `whole`: for who reads all of it once; its digest is not held against it. Raises
        FileNotFoundError, RaftschedError output-gone."""
        if not whole:
            return checked_text(path(), ref, token, whole=False)
        key = (file, ref.offset, ref.size, ref.sha256, token)
        text = self._known(key)
        if text is None:
            with self._checking if ref.size > _ONE_BY_ONE else nullcontext():
                text = self._known(key)  # another reader may have checked it meanwhile
                if text is None:
                    text = checked_text(path(), ref, token)
                    self.add(key, text)
                    self._known(key)
        return text

    def _known(self, key: _Key) -> Text | None:
        with self._lock:
            text = self._texts.get(key)
            if text is not None:
                self._read.pop(key, None)
                self._read[key] = text
                while len(self._read) > _READ_MAX:
                    del self._read[next(iter(self._read))]
            return text

    def add(self, key: _Key, text: Text) -> None:
        """Shares a text as long as somebody reads it."""
        with self._lock:
            self._texts[key] = text

    def get(self, key: _Key) -> Text | None:
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
