"""The end of a process, or of the power, in the midst of a job: at one of the calls by which it changes files.

LMDB's own writes are whole or absent; what stands between them is a rename, a sync, a deletion. A rename that was not
followed by a sync of its directory may be undone by a loss of power.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

CALLS = ("rename", "replace", "unlink", "rmdir", "fsync", "fdatasync")


class Crashed(BaseException):
    """The process ends here."""


class Doom:
    """The process ends at the `calls`-th of these calls from now on; whatever it would do then does not happen."""

    def __init__(self, directory: Path, calls: int) -> None:
        self.at = ""  # the call that it ended at
        self._left = calls
        self._directory = directory  # where the old name of a renamed file is remembered
        self._undone: tuple[str, Path] | None = None  # a rename that is not synced: the target, what was there

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While a job of this process runs."""
        with mock.patch.multiple(os, **{name: self._wrapped(name, getattr(os, name)) for name in CALLS}):
            yield

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._count(name)
            if name in ("rename", "replace"):
                self._remember(str(args[1]))
            result = real(*args, **kwargs)
            if name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode):
                self._undone = None
            return result

        return call

    def _count(self, call: str) -> None:
        self._left -= 1
        if self._left <= 0:
            self.at = self.at or call
            raise Crashed

    def _remember(self, target: str) -> None:
        if os.path.exists(target):
            old = self._directory / "old-name"
            old.unlink(missing_ok=True)
            os.link(target, old)
            self._undone = (target, old)

    def power_lost(self, rng: random.Random) -> str:
        """Undoes the rename that is not on the disk yet, or not. Returns what became of it."""
        if self._undone is None or rng.random() < 0.5:
            return ""
        target, old = self._undone
        os.replace(old, target)
        return f"{Path(target).name} is the old one"
