"""A node's part in second copies of output in an object store: who puts them, reads them, and deletes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from raftsched.api.context import ApiContext
from raftsched.config.node import NodeConfig
from raftsched.core.rows import read_meta
from raftsched.errors import StartupError
from raftsched.node.metrics import SINCE
from raftsched.objectstore.store import NotUsable, ObjectStore
from raftsched.output.following.copying import LOOK_S
from raftsched.output.following.places import STORE_BYTES
from raftsched.output.following.pruning import Pruner
from raftsched.output.following.sent import Sent
from raftsched.output.following.storing import Storer
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.keeping.store import OutputStore
from raftsched.output.reading.stored import StoredOutputs
from raftsched.system import background

CONFIRM_S = 10.0


def output_store_of(config: NodeConfig) -> ObjectStore | None:
    """Returns the store that the configuration names; None: it names none. Raises StartupError."""
    if not config.output_store:
        return None
    from raftsched.objectstore.opening import open_store  # and S3 with it, which most nodes start without

    try:
        return open_store(config.output_store, config.s3_endpoint, makes=False)
    except NotUsable as error:
        raise StartupError(f"output_store: {error}") from None


class StoredCopies:
    def __init__(
        self,
        config: NodeConfig,
        context: ApiContext,
        store: ObjectStore,
        output: OutputStore,
        rules: OutputRules,
        store_id: bytes,
    ) -> None:
        """`store_id`: of the node's disk. Nothing is begun yet."""
        self._context = context
        self._store = store
        self.reader = StoredOutputs(store, self._cluster, output.directory)
        self.storer = Storer(
            config.id,
            store_id[:STORE_BYTES].ljust(STORE_BYTES, b"\0"),
            output,
            Sent(output.directory / "stored", store_id),
            store=store,
            cluster=self._cluster,
            copies=rules.copies,
            clock=context.clock,
        )
        self._pruner = Pruner(
            config.id,
            store=store,
            cluster=self._cluster,
            confirm=self._confirm,
            ages=rules.ages_elsewhere,
            members=self._members,
            keep_bytes=config.output_store_bytes,
            clock=context.clock,
        )
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._running = [
            background.repeat("output-store", self.storer.store_once, LOOK_S),
            background.start("output-store", self._pruner.run()),
        ]

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._store.close()

    def _cluster(self) -> str:
        with self._context.read() as view:
            return read_meta(view).cluster_id.hex()

    async def _confirm(self) -> None:
        await self._context.log.barrier(CONFIRM_S)

    def _members(self) -> set[str] | None:
        if self._context.cluster.status().leader != self._context.node_id:
            return None
        with self._context.read() as view:
            return {member.node for member in read_meta(view).members}

    @property
    def failing(self) -> bool:
        """Returns whether there is something that this node has to do at the store and cannot."""
        return self.storer.failing or self._pruner.failing

    @property
    def deleted(self) -> int:
        """Objects, since this node started."""
        return self._pruner.deleted


def metrics_of(stored: StoredCopies | None) -> Iterator[Metric]:
    """Yields what /metrics says of it; None: this node has no store."""
    words = "1 while this node cannot put output into its object store, or cannot read, list or delete there."
    yield GaugeMetricFamily("raftsched_output_store_failing", words, 0 if stored is None else int(stored.failing))
    words = f"Objects with output that were put into the object store. {SINCE}"
    yield CounterMetricFamily("raftsched_output_store_objects", words, 0 if stored is None else stored.storer.objects)
    words = f"Objects with output that were deleted from the object store, by age or for room. {SINCE}"
    yield CounterMetricFamily("raftsched_output_store_deleted", words, 0 if stored is None else stored.deleted)
