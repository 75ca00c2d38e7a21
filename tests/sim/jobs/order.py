"""Priorities within one turn of the dispatcher: nobody is given a slot that somebody more urgent could have taken.

Looked at when the dispatcher has just decided, over the same tables. What it has proposed before, what it puts aside
and what a queue holds back is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from raftsched.core.commands import Assign, Command
from raftsched.core.ids import instance_text
from raftsched.core.tables import LANE_NOBODY, ReadView, Table, from_lane
from raftsched.leader.dispatch.dispatcher import Dispatcher, waiting
from raftsched.leader.dispatch.placement import NodeLoad

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

# what a violation says
LESS_URGENT = "goes before"


class Order:
    def __init__(self, world: JobsWorld) -> None:
        self.turns = 0  # with assignments
        self._world = world

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While the run lasts."""
        real = Dispatcher.pump

        def pump(dispatcher: Dispatcher, assignable: Callable[[int], bool], now_ms: int) -> list[Command]:
            settled = {*dispatcher._proposed, *dispatcher._parked, *dispatcher._moving}
            result = real(dispatcher, assignable, now_ms)
            given = {one.instance: one.session for one in result if isinstance(one, Assign)}
            if given:
                self.turns += 1
                nodes = {n.session.id: n for n in dispatcher._nodes.values() if assignable(n.session.id)}
                raft = self._world.machines[dispatcher._leader_node].raft
                with dispatcher._read() as view:
                    if raft is None or view.applied_index > raft.applied_index:  # type: ignore[attr-defined]
                        return result  # a turn is on the disk, and the leader was not told of it yet
                    self._look(view, dispatcher, given, nodes, settled, now_ms)
            return result

        with patch.object(Dispatcher, "pump", pump):
            yield

    def _look(
        self,
        view: ReadView,
        dispatcher: Dispatcher,
        given: dict[bytes, int],
        nodes: dict[int, NodeLoad],
        settled: set[bytes],
        now_ms: int,
    ) -> None:
        # a rate unblocks it at the next tick
        blocked = {number for number, lane in dispatcher._lanes.items() if lane.blocked}
        blocked.add(LANE_NOBODY)
        rows = sorted(key[4:] for key, _ in view.scan(Table.READY) if from_lane(key) not in blocked)
        last = max((row for row in rows if row[8:] in given), default=b"")
        left = settled | dispatcher._parked.keys() | dispatcher._moving | given.keys()
        for row in rows:
            if row > last:
                return
            key = row[8:]
            if key in left:
                continue
            instance, policy, namespace = waiting(view, key)
            if instance is None or policy is None:
                continue
            limits = dispatcher._limits
            if limits.lane(policy.queue) is not None and limits.blocked_reason(policy.queue, now_ms):
                continue
            able = [n for n in nodes.values() if n.can(policy, namespace) and not n.offer.drained]
            able = [n for n in able if not n.leader] or able
            for other in (one for one in rows if one > row and one[8:] in given):
                node = nodes[given[other[8:]]]
                if node in able and instance.only_on in ("", node.node):
                    self._world.checks.fail(
                        f"{instance_text(other[8:])} {LESS_URGENT} {instance_text(key)}, which is more urgent and "
                        f"could have had its place on {node.node}"
                    )
