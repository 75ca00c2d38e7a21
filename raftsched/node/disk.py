"""Watches the free space of a node's disk."""

from __future__ import annotations

from raftsched.clock import Clock
from raftsched.store import Store

RESERVE = 64 * 2**20  # bytes that stay free: below, nothing is proposed, so that a write batch never meets a full disk
LOOK_MS = 500


class DiskSpace:
    """The free space of the disk with the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._looked_ms = -LOOK_MS
        self._short = False

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
