"""Watches the free space of a node's disk."""

from __future__ import annotations

from collections.abc import Callable

from raftsched.core.subjects.leasing import DiskUse
from raftsched.store import Store
from raftsched.system.clock import Clock

RESERVE = 64 * 2**20  # bytes that stay free: below, nothing is proposed, so that a write batch never meets a full disk
LOOK_MS = 500
USE_MS = 5_000  # how long what is said to people holds


class DiskSpace:
    """The free space of the disk with the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._looked_ms = -LOOK_MS
        self._short = False
        self._use: tuple[DiskUse | None, int] = (None, -USE_MS)  # and when it was looked at
        self.output_bytes: Callable[[], int] = int  # set when there is an output

    def is_short(self) -> bool:
        """Returns True when less than RESERVE is free. Looks twice a second at most."""
        now = self._clock.boot_ms()
        if now - self._looked_ms >= LOOK_MS:
            self._looked_ms = now
            self._short = self._store.free_bytes() < RESERVE
        return self._short

    def sizes(self) -> tuple[int, int]:
        """Returns the bytes of the store, and those that are free."""
        return self._store.size_bytes(), self._store.free_bytes()

    def use(self) -> DiskUse | None:
        """Returns what is used and free, as of a few seconds ago; None: the file system does not say."""
        use, at_ms = self._use
        now = self._clock.boot_ms()
        if now - at_ms >= USE_MS:
            try:
                use = DiskUse(*self._store.room(), self._store.size_bytes(), self.output_bytes())
            except OSError:
                use = None
            self._use = use, now
        return use
