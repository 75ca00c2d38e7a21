"""Does a node's part in second copies of output: the store of what others send, and the sender of its own, to other
nodes or to an object store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import aiohttp
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.context import ApiContext
from raftsched.api.runs.output_copies import push
from raftsched.config.node import NodeConfig
from raftsched.core.rows import read_meta
from raftsched.node.disk import DiskSpace
from raftsched.node.metrics import SINCE
from raftsched.node.stored_copies import StoredCopies, metrics_of
from raftsched.output.following.copies import CopyStore
from raftsched.output.following.copying import LOOK_S, Copier
from raftsched.output.following.places import STORE_BYTES
from raftsched.output.following.sent import Sent
from raftsched.output.following.storing import Storer
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.keeping.store import OutputStore
from raftsched.system import background
from raftsched.system.clock import Clock


def copies_of(config: NodeConfig, rules: OutputRules, disk: DiskSpace) -> CopyStore:
    """Makes the node's store of other nodes' output."""
    most = config.output_copies_bytes
    return CopyStore(
        config.data / "output-copies",
        keep_bytes=config.output_keep_bytes if most is None else most,
        share_of=rules.share_of_owner,
        short_of_disk=disk.is_short,
    )


class SecondCopies(Collector):
    """Sends what lies on this node's disk to others, once started, and says of it what /metrics shows."""

    def __init__(
        self,
        context: ApiContext,
        output: OutputStore,
        copies: CopyStore,
        rules: OutputRules,
        store_id: bytes,
        stored: StoredCopies | None,
    ) -> None:
        """`stored`: what puts them into an object store instead."""
        self._context = context
        self._output = output
        self._copies = copies
        self._rules = rules
        self._store_id = store_id
        self._clock: Clock = context.clock
        self._stored = stored
        self._sender: Copier | Storer | None = None
        self._running: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None

    def start(self) -> None:
        if self._stored is not None:
            self._sender = self._stored.storer
            self._stored.start()
            return
        self._session = aiohttp.ClientSession()
        self._sender = copier = Copier(
            self._context.node_id,
            self._store_id[:STORE_BYTES].ljust(STORE_BYTES, b"\0"),
            self._output,
            Sent(self._output.directory / "copied", self._store_id),
            copies=self._rules.copies,
            members=self._members,
            send=partial(push, self._context, self._session),
            clock=self._clock,
        )
        self._running = background.repeat("output-copies", copier.copy_once, LOOK_S)

    async def stop(self) -> None:
        if self._stored is not None:
            await self._stored.stop()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _members(self) -> dict[str, bytes]:
        with self._context.read() as view:
            members = read_meta(view).members
        return {member.node: member.store_id for member in members if member.node != self._context.node_id}

    # ------------------------------------------------------------ metrics

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        words = "Output of other nodes that is kept on this node as a second copy."
        yield GaugeMetricFamily("raftsched_output_copies_bytes", words, self._copies.size())
        sender = self._sender
        if sender is None:
            return
        since_ms = sender.unsent.waiting_since_ms
        late_s = 0.0 if since_ms is None else max(0, self._clock.wall_ms() - since_ms) / 1000
        words = "Output on this node that is to have a second copy and has none yet."
        yield GaugeMetricFamily("raftsched_output_uncopied_bytes", words, sender.unsent.waiting_bytes)
        words = "How long ago the oldest run ended whose output is to have a second copy and has none yet; 0: all have."
        yield GaugeMetricFamily("raftsched_output_uncopied_seconds", words, late_s)
        words = f"Bytes of output that other nodes, or the object store, took as a second copy. {SINCE}"
        yield CounterMetricFamily("raftsched_output_copied_bytes", words, sender.sent_bytes)
        words = f"Times that a node, or the object store, did not take a second copy of output. {SINCE}"
        yield CounterMetricFamily("raftsched_output_copies_refused", words, sender.refused)
        yield from metrics_of(self._stored)
