"""Puts into the log that a node's disk is nearly full, and that it is no longer: webhooks are told of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from raftsched.core.commands import Command, NoteDisk
from raftsched.core.rows import NOTED
from raftsched.core.subjects.notices import Event
from raftsched.core.tables import ReadView, after
from raftsched.leader.cluster_view import Cluster
from raftsched.leader.liveness.vitals import Vitals
from raftsched.leader.pacing import Proposals

_PREFIX = bytes((Event.DISK_SHORT,))


class DiskNotes:
    """Holds what the log says of the nodes' disks against what their heartbeats say."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[ReadView]],
        cluster: Cluster,
        vitals: Vitals,
        proposals: Proposals,
    ) -> None:
        self._read = read
        self._cluster = cluster
        self._vitals = vitals
        self._proposals = proposals
        self._noted: set[str] = set()  # nodes that are short, as the log says or will say
        self.reload()

    def reload(self) -> None:
        """Reads the table again: it is not known what became of some proposals."""
        with self._read() as view:
            rows = [(key, NOTED.decode(raw)) for key, raw in view.scan(NOTED.table, _PREFIX, after(_PREFIX))]
        self._noted = {key[1:].decode() for key, noted in rows if noted.goes_on}

    def tick(self, now_ms: int) -> None:
        """Proposes what has changed."""
        members, words = self._cluster.members, self._vitals.short_disks()
        changed = {node: short for node, short in words if short != (node in self._noted) and node in members}
        if changed:
            self._noted ^= changed.keys()
            notes: list[Command] = [NoteDisk(node, short) for node, short in sorted(changed.items())]
            self._proposals.send(notes)
