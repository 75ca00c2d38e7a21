"""The state of nodes, as their heartbeats say: room on their disks, and whether they can start runs.

A cache of one leadership, like all of it. Times are boot-clock milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from raftsched.core.subjects.leasing import DiskUse, Heartbeat

FRESH_MS = 5_000  # how long a node's word about itself is shown to people


class Vitals:
    """The newest word of each node to one leadership."""

    def __init__(self) -> None:
        self._short: dict[str, bool] = {}  # node -> its disk is nearly full
        self._pauses: dict[str, int] = {}  # node -> until when it is assigned nothing
        self._troubles: dict[str, tuple[str, int]] = {}  # node -> why it starts nothing, and when it said so
        self._heard: dict[str, int] = {}  # node -> when its newest heartbeat came
        self._disks: dict[str, DiskUse] = {}  # node -> of its newest heartbeat
        self._levels: dict[str, int] = {}  # node -> of its newest heartbeat
        self._zones: dict[str, str] = {}  # node -> of its newest heartbeat

    def heard(self, node: str, beat: Heartbeat, now_ms: int) -> None:
        self._heard[node] = now_ms
        self._short[node] = beat.short_of_disk
        self._levels[node] = beat.level
        self._zones[node] = beat.zones
        if beat.disk is not None:
            self._disks[node] = beat.disk
        else:
            self._disks.pop(node, None)
        if beat.pause_ms > 0:
            self._pauses[node] = now_ms + beat.pause_ms
        else:
            self._pauses.pop(node, None)
        if beat.trouble:
            self._troubles[node] = beat.trouble, now_ms
        else:
            self._troubles.pop(node, None)

    def heard_worker(self, worker: str, pause_ms: int, trouble: str, now_ms: int) -> None:
        """A remote worker (its key) asked to hold on."""
        self._heard[worker] = now_ms
        if pause_ms > 0:
            self._pauses[worker] = now_ms + pause_ms
        else:
            self._pauses.pop(worker, None)
        if trouble:
            self._troubles[worker] = trouble, now_ms
        else:
            self._troubles.pop(worker, None)

    def forget(self, worker: str) -> None:
        """A remote worker's session is over: there may never be another one under its name."""
        for words in (self._heard, self._pauses, self._troubles):
            words.pop(worker, None)

    def ages(self, now_ms: int) -> dict[str, int]:
        """Returns how long ago each node's newest heartbeat came, in ms; nodes that sent this leadership none are left
        out."""
        return {node: max(0, now_ms - at_ms) for node, at_ms in self._heard.items()}

    def levels(self, now_ms: int) -> dict[str, int]:
        """Returns the newest level that each node knows (core.levels), of those that were heard of lately: one that is
        down may come back with the version before."""
        return {node: level for node, level in self._levels.items() if now_ms - self._heard[node] < FRESH_MS}

    def zones(self, now_ms: int) -> dict[str, str]:
        """Returns the time zone data (core.subjects.zones) of the nodes that said it and were heard of lately."""
        fresh = {node: data for node, data in self._zones.items() if now_ms - self._heard[node] < FRESH_MS}
        return {node: data for node, data in fresh.items() if data}

    def is_short_of_disk(self, node: str) -> bool:
        """Returns whether a node's disk is nearly full, by its newest word."""
        return self._short.get(node, False)

    def pauses(self, node: str | None, now_ms: int) -> bool:
        """Returns whether a node is to be assigned nothing for a while: it could not start runs."""
        return node is not None and self._pauses.get(node, now_ms) > now_ms

    def troubles(self, now_ms: int) -> dict[str, str]:
        """Returns by node why it starts nothing, in its words."""
        return {node: why for node, (why, at_ms) in self._troubles.items() if now_ms - at_ms < FRESH_MS}

    def disks(self, now_ms: int) -> dict[str, DiskUse]:
        """Returns what is used and free on the disks of the nodes that were heard of lately."""
        return {node: use for node, use in self._disks.items() if now_ms - self._heard[node] < FRESH_MS}

    def short_disks(self) -> Iterable[tuple[str, bool]]:
        """Returns of each node that was heard of whether its disk is nearly full."""
        return self._short.items()

    def short_of_disk(self, voters: Set[str], leader: str) -> bool:
        """Returns whether the cluster takes no more writes from clients: the leader's disk is nearly full, or those of
        so many that no majority would be left."""
        short = self._nodes_short_of_disk(voters)
        return leader in short or 2 * len(short) >= len(voters)

    def has_room(self, voters: Set[str], leader: str, now_ms: int) -> str | None:
        """Returns the node that should lead instead of a leader whose disk is nearly full. None: its disk is not, or
        nothing would be gained: too many others' are, or no other node was heard of lately."""
        short = self._nodes_short_of_disk(voters)
        if leader not in short or 2 * len(short) >= len(voters):
            return None
        roomy = (n for n in voters - {leader, *short} if now_ms - self._heard.get(n, now_ms - FRESH_MS) < FRESH_MS)
        return min(roomy, default=None)

    def _nodes_short_of_disk(self, voters: Set[str]) -> list[str]:
        return [node for node, is_short in self._short.items() if is_short and node in voters]
