"""Makes what follows the output of a node: the sender of second copies, to other nodes or into an object store, and the
shipper to a receiver; and says what /metrics shows of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.context import ApiContext
from raftsched.api.runs.output_copies import push
from raftsched.config.node import NodeConfig
from raftsched.core.rows import read_meta
from raftsched.errors import StartupError
from raftsched.node.disk import DiskSpace
from raftsched.node.metrics import SINCE
from raftsched.objectstore.store import NotUsable, ObjectStore
from raftsched.output.following.copier import Copier, Sink
from raftsched.output.following.copies import CopyStore, Piece
from raftsched.output.following.places import STORE_BYTES
from raftsched.output.following.pruning import Pruner
from raftsched.output.following.sent import Sent
from raftsched.output.following.to_nodes import ToNodes
from raftsched.output.following.to_store import ToStore
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.keeping.store import OutputStore
from raftsched.output.reading.stored import StoredOutputs
from raftsched.system import background
from raftsched.system.clock import Clock
from raftsched.version import __version__

if TYPE_CHECKING:
    from raftsched.output.receivers.shipper import Shipper

CONFIRM_S = 10.0

log = logging.getLogger("raftsched.node")


def copies_of(config: NodeConfig, rules: OutputRules, disk: DiskSpace) -> CopyStore:
    """Makes the node's store of other nodes' output."""
    most = config.output_copies_bytes
    return CopyStore(
        config.data / "output-copies",
        keep_bytes=config.output_keep_bytes if most is None else most,
        share_of=rules.share_of_owner,
        short_of_disk=disk.is_short,
    )


def output_store_of(config: NodeConfig) -> ObjectStore | None:
    """Returns the store that the configuration names; None: it names none. Raises StartupError."""
    if not config.output_store:
        return None
    from raftsched.objectstore.opening import open_store  # and S3 with it, which most nodes start without

    try:
        return open_store(config.output_store, config.s3_endpoint, makes=False)
    except NotUsable as error:
        raise StartupError(f"output_store: {error}") from None


def shipper_of(config: NodeConfig, output: OutputStore, store_id: bytes, clock: Clock) -> Shipper | None:
    """Makes it before anything is written to the store of output. None: nothing is shipped. Raises StartupError,
    OSError."""
    ship = config.output_ship
    if ship is None:
        return None
    # Most nodes ship nothing, and start without it.
    from raftsched.output.receivers.marks import Marks
    from raftsched.output.receivers.opening import receiver_of
    from raftsched.output.receivers.shipper import Shipper

    receiver = receiver_of(ship, config.id, socket.gethostname(), f"raftsched/{__version__}")
    ends = {segment.number: segment.size for segment in output.synced()}
    log.info("output is shipped to %s", ship.to)
    marks = Marks(output.directory / "shipped", store_id, ends)
    return Shipper(output, marks, receiver, clock, namespaces=ship.namespaces)


def given_up(shipper: Shipper | None) -> dict[tuple[str, str], float]:
    """Returns the bytes that were not shipped since the node started, as RecentCounts counts them: by why."""
    return {} if shipper is None else {("output_dropped", why): float(size) for why, size in shipper.dropped.items()}


class OutputFollowers(Collector):
    """All of a node's. Nothing is begun yet."""

    def __init__(
        self,
        config: NodeConfig,
        context: ApiContext,
        output: OutputStore,
        copies: CopyStore,
        rules: OutputRules,
        store_id: bytes,
        store: ObjectStore | None,
        shipper: Shipper | None,
    ) -> None:
        """`store_id`: of the node's disk. `store`: second copies are put there, and not to other nodes."""
        self._context = context
        self._copies = copies
        self._store = store
        self._shipper = shipper
        self._session: aiohttp.ClientSession | None = None
        self._pruning: asyncio.Task[None] | None = None
        self._pruner: Pruner | None = None
        self.reader: StoredOutputs | None = None  # of what is in the store
        disk, clock = store_id[:STORE_BYTES].ljust(STORE_BYTES, b"\0"), context.clock
        sent = Sent(output.directory / ("copied" if store is None else "stored"), store_id)
        sink: Sink
        if store is None:
            sink = ToNodes(config.id, disk, self._members, self._send)
        else:
            self.reader = StoredOutputs(store, self._cluster, output.directory)
            sink = ToStore(config.id, disk, sent, store, self._cluster, clock)
            self._pruner = Pruner(
                config.id,
                store=store,
                cluster=self._cluster,
                confirm=partial(context.log.barrier, CONFIRM_S),
                ages=rules.ages_elsewhere,
                members=self._members_as_leader,
                keep_bytes=config.output_store_bytes,
                clock=clock,
            )
        self._copier = Copier(output, sent, sink, rules.copies, clock)

    def start(self) -> None:
        self._session = aiohttp.ClientSession()
        self._copier.start()
        if self._pruner is not None:
            self._pruning = background.start("output-store", self._pruner.run())
        if self._shipper is not None:
            self._shipper.start()

    async def stop(self) -> None:
        if self._shipper is not None:
            await self._shipper.stop()
        await self._copier.stop()
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.gather(self._pruning, return_exceptions=True)
        if self._store is not None:
            self._store.close()
        if self._session is not None:
            await self._session.close()

    async def _send(self, node: str, piece: Piece) -> None:
        assert self._session is not None
        await push(self._context, self._session, node, piece)

    def _members(self) -> dict[str, bytes]:
        with self._context.read() as view:
            members = read_meta(view).members
        return {member.node: member.store_id for member in members if member.node != self._context.node_id}

    def _members_as_leader(self) -> set[str] | None:
        if self._context.cluster.status().leader != self._context.node_id:
            return None
        return {*self._members(), self._context.node_id}

    def _cluster(self) -> str:
        with self._context.read() as view:
            return read_meta(view).cluster_id.hex()

    # ------------------------------------------------------------ metrics

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        copier, pruner = self._copier, self._pruner
        stored = self._store is not None
        words = "Output of other nodes that is kept on this node as a second copy."
        yield GaugeMetricFamily("raftsched_output_copies_bytes", words, self._copies.size())
        words = "Output on this node that is to have a second copy and has none yet."
        yield GaugeMetricFamily("raftsched_output_uncopied_bytes", words, copier.waiting_bytes)
        words = "How long ago the oldest run ended whose output is to have a second copy and has none yet; 0: all have."
        yield GaugeMetricFamily("raftsched_output_uncopied_seconds", words, copier.late_s)
        words = f"Bytes of output that other nodes, or the object store, took as a second copy. {SINCE}"
        yield CounterMetricFamily("raftsched_output_copied_bytes", words, copier.sent_bytes)
        words = f"Times that a node, or the object store, did not take a second copy of output. {SINCE}"
        yield CounterMetricFamily("raftsched_output_copies_refused", words, copier.failures)
        failing = stored and (copier.failing or (pruner is not None and pruner.failing))
        words = "1 while this node cannot put output into its object store, or cannot read, list or delete there."
        yield GaugeMetricFamily("raftsched_output_store_failing", words, int(failing))
        words = f"Objects with output that were put into the object store. {SINCE}"
        yield CounterMetricFamily("raftsched_output_store_objects", words, copier.items if stored else 0)
        words = f"Objects with output that were deleted from the object store, by age or for room. {SINCE}"
        yield CounterMetricFamily("raftsched_output_store_deleted", words, 0 if pruner is None else pruner.deleted)
        if self._shipper is not None:
            yield from _shipped(self._shipper)


def _shipped(shipper: Shipper) -> Iterator[Metric]:
    words = f"Lines of output that the receiver took. {SINCE}"
    yield CounterMetricFamily("raftsched_output_shipped_lines", words, shipper.items)
    words = f"Bytes of output, as the receiver took them. {SINCE}"
    yield CounterMetricFamily("raftsched_output_shipped_bytes", words, shipper.sent_bytes)
    words = f"Times that the receiver did not take output, which was tried again. {SINCE}"
    yield CounterMetricFamily("raftsched_output_ship_failures", words, shipper.failures)
    words = "Bytes of output that were not shipped: refused by the receiver, deleted before, or damaged."
    dropped = CounterMetricFamily("raftsched_output_ship_dropped_bytes", f"{words} {SINCE}", labels=["why"])
    for why, size in shipper.dropped.items():
        dropped.add_metric([why], size)
    yield dropped
    words = "Output on this node that is not shipped yet."
    yield GaugeMetricFamily("raftsched_output_unshipped_bytes", words, shipper.waiting_bytes)
    words = "How long ago the oldest attempt ended whose output is not shipped yet; 0: all is."
    yield GaugeMetricFamily("raftsched_output_unshipped_seconds", words, shipper.late_s)
