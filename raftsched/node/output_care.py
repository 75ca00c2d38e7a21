"""Cares for the output on a node's disk once a minute: looks whether all of it is there, and drops what is older than
it is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.errors import RaftschedError
from raftsched.node.metrics import SINCE
from raftsched.output.following.copies import CopyStore
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.keeping.store import OutputStore
from raftsched.system.clock import Clock

log = logging.getLogger("raftsched.node")


class OutputCare(Collector):
    def __init__(
        self,
        output: OutputStore,
        copies: CopyStore,
        rules: OutputRules,
        clock: Clock,
        *,
        knows_leader: Callable[[], bool],
    ) -> None:
        self._stores: dict[str, OutputStore | CopyStore] = {"output": output, "copies": copies}
        self._rules = rules
        self._clock = clock
        self._knows_leader = knows_leader

    async def scan(self) -> None:
        """Finds out what others removed, and drops what is old. To be called once a minute."""
        for store in self._stores.values():
            try:
                await asyncio.to_thread(store.scan)
            except OSError as error:
                log.warning("the files of output could not be looked at: %s", error)
        await self.drop_old()

    async def drop_old(self) -> None:
        """Drops output that is older than it is kept, in whole segments. Instances may stay for longer, dead letters
        too; the tail of a failed one's output is in the log. A node that knows of no leader, or has just started, may
        have settings that are not in force any more: it deletes nothing by them."""
        if not self._knows_leader():
            return
        for store in self._stores.values():
            try:
                owners = await asyncio.to_thread(store.owners)
                keep_ms, own = self._rules.ages(owners)  # in a thread it would not be sure to see what was applied last
                await asyncio.to_thread(store.drop_old, self._clock.wall_ms(), keep_ms, own)
            except (OSError, RaftschedError) as error:
                log.warning("old outputs could not be deleted: %s", error)

    def counts(self) -> dict[tuple[str, str], float]:
        """Returns the counters of which `recent_counts.RecentCounts` shows how they have grown."""
        return {("output_lost", of): float(store.lost) for of, store in self._stores.items()}

    # ------------------------------------------------------------ metrics

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        words = "Files with output, or with copies of it (of), that something else removed, hid or cut off."
        lost = CounterMetricFamily("raftsched_output_segments_lost", f"{words} {SINCE}", labels=["of"])
        for of, store in self._stores.items():
            lost.add_metric([of], store.lost)
        yield lost
