"""The queues with limits as the leader sees them: the committed rows, read again when they changed, and the starts that
were proposed since and are not applied yet."""

from __future__ import annotations

from collections import Counter

from raftsched.core.model import Policy
from raftsched.core.rows import decode_queue
from raftsched.core.rules import admission
from raftsched.core.subjects.notices import quota_queue
from raftsched.core.subjects.queue import Queue
from raftsched.core.tables import ReadView, Table


class QueueLimits:
    """The queues of one leadership, from the tables as of `view` on. An estimate: apply decides exactly."""

    def __init__(self, view: ReadView) -> None:
        self._rows: dict[str, Queue] = {}
        self._names: dict[int, str] = {}  # by lane
        self._ahead: Counter[str] = Counter()  # starts proposed and not applied
        self._stale: set[str] = set()
        for key, raw in view.scan(Table.QUEUES):
            self._put(key.decode(), raw)

    def _put(self, name: str, raw: bytes | None) -> None:
        before = self._rows.pop(name, None)
        if before is not None:
            del self._names[before.lane]
        if raw is not None:
            queue = decode_queue(raw)
            self._rows[name] = queue
            self._names[queue.lane] = name

    @property
    def stale(self) -> bool:
        """Returns whether rows have changed since they were read."""
        return bool(self._stale)

    def changed(self, name: str) -> int | None:
        """A queue's limits changed, or what it counts. Returns the lane that it had, if any."""
        self._stale.add(name)
        return self.lane(name)

    def refresh(self, view: ReadView) -> None:
        """Reads the rows that have changed."""
        for name in self._stale:
            self._put(name, view.get(Table.QUEUES, name.encode()))
        self._stale.clear()

    def of(self, policy: Policy, namespace: str) -> tuple[str, ...]:
        """Returns the queues with limits in which a run counts: its own, and that of its namespace.

        The run waits in the lane of the first."""
        if not self._rows:
            return ()
        return tuple(name for name in (policy.queue, quota_queue(namespace)) if name in self._rows)

    def first_lane(self, names: tuple[str, ...]) -> int | None:
        """Returns the lane for queues that `of` returned, also a moment ago; None: the lane of those without limits."""
        for name in names:
            if name in self._rows:
                return self._rows[name].lane
        return None

    def lane_of(self, policy: Policy, namespace: str) -> int | None:
        """Returns the lane in which a run waits; None: that of those without limits."""
        return self.first_lane(self.of(policy, namespace)) if self._rows else None

    def lane(self, name: str) -> int | None:
        """Returns a queue's lane; None: no queue with limits."""
        queue = self._rows.get(name)
        return None if queue is None else queue.lane

    def name(self, lane: int) -> str | None:
        """Returns the queue of a lane; None: it is no queue's (any more)."""
        return self._names.get(lane)

    def blocked_reason(self, name: str, now_ms: int) -> str | None:
        """Returns why nothing more of the queue may start now (core.rules.admission); None: it may."""
        return admission.blocked_reason(self._rows[name], now_ms, self._ahead[name])

    def has_room(self, names: tuple[str, ...], now_ms: int) -> bool:
        """Returns whether one more run that counts in these may start now."""
        return all(self.blocked_reason(name, now_ms) is None for name in names)

    def unblocked_at_ms(self, name: str, now_ms: int) -> int:
        """Returns when the queue's rate lets the next run start."""
        return admission.unblocked_at_ms(self._rows[name], now_ms, self._ahead[name])

    def proposed(self, names: tuple[str, ...]) -> None:
        """Counts a start that is proposed."""
        for name in names:
            self._ahead[name] += 1

    def answered(self, name: str) -> None:
        """No longer counts a start: it is in the row now, or was refused."""
        if self._ahead[name] > 1:
            self._ahead[name] -= 1
        else:
            del self._ahead[name]
