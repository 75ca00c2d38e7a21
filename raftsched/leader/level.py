"""Raises the cluster's level when all members know a later one (core.levels)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from raftsched.core.commands import RaiseLevel
from raftsched.core.levels import newest_level
from raftsched.core.rows import read_meta
from raftsched.core.tables import ReadView
from raftsched.leader.cluster_view import Cluster
from raftsched.leader.liveness.vitals import Vitals
from raftsched.leader.pacing import Proposals
from raftsched.system.clock import Clock

EVERY_MS = 1_000

log = logging.getLogger("raftsched.leader")


class Level:
    """The level of one leadership's cluster. It looks by the boot clock."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[ReadView]],
        cluster: Cluster,
        vitals: Vitals,
        proposals: Proposals,
        clock: Clock,
    ) -> None:
        self._read = read
        self._cluster = cluster
        self._vitals = vitals
        self._proposals = proposals
        self._clock = clock
        self._next_ms = 0

    def tick(self, now_ms: int) -> None:
        """Proposes a higher level when all members, those that do not vote too, have said lately that they know it."""
        boot_ms = self._clock.boot_ms()
        if boot_ms < self._next_ms:
            return
        self._next_ms = boot_ms + EVERY_MS
        with self._read() as view:
            meta = read_meta(view)
        if meta.level >= newest_level() or meta.settings.upgrade_hold:
            return
        known = self._vitals.levels(boot_ms)
        others = self._cluster.members - {self._cluster.leader}
        level = min((known.get(node, 0) for node in others), default=newest_level())
        level = min(level, newest_level())
        if level > meta.level:
            log.info("the level of the cluster is to be raised from %d to %d", meta.level, level)
            self._proposals.send([RaiseLevel(level)])
