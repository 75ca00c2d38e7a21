"""Checkpoints of the tables: when one is made, and that the log keeps what they do not have yet.

Nobody waits for one. It bounds what has to be applied again after a crash, and what the log has to keep for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from raftsched.raft.writer import Writer
from raftsched.system.clock import Clock

EVERY_S = 1.0  # between the begins of two, and at the least as long as the last one took

log = logging.getLogger(__name__)


class CheckpointStore(Protocol):
    def begin_checkpoint(self) -> Any: ...
    def write_checkpoint(self, pending: Any) -> None: ...
    def end_checkpoint(self, pending: Any) -> None: ...


class Checkpoints:
    """Begins them on the event loop, and has them written by another thread."""

    def __init__(
        self, store: CheckpointStore, writer: Writer, clock: Clock, *, on_fatal: Callable[[BaseException], None]
    ) -> None:
        """`on_fatal` is called when one cannot be written."""
        self._store = store
        self._writer = writer
        self._clock = clock
        self._on_fatal = on_fatal
        self._pending: Any = None
        self._began_s = clock.monotonic()
        self._next_s = self._began_s + EVERY_S

    @property
    def busy(self) -> bool:
        return self._pending is not None

    def tick(self) -> None:
        """Begins one, if it is time and there is something in it."""
        now = self._clock.monotonic()
        if self._pending is not None or now < self._next_s:
            return
        pending = self._store.begin_checkpoint()
        self._next_s = now + EVERY_S
        if pending is None:
            return
        self._pending, self._began_s = pending, now
        self._writer.submit(lambda: self._store.write_checkpoint(pending), self._written)

    def _written(self, _: None, error: BaseException | None) -> None:
        pending, self._pending = self._pending, None
        if error is not None:
            self._on_fatal(error)
            return
        self._store.end_checkpoint(pending)
        now = self._clock.monotonic()
        self._next_s = max(self._next_s, now + (now - self._began_s))
