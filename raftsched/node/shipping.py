"""A node's part in shipping output: the shipper with its marks and its receiver, and what /metrics shows of them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.config.node import NodeConfig
from raftsched.node.metrics import SINCE
from raftsched.output.keeping.store import OutputStore
from raftsched.system.clock import Clock
from raftsched.version import __version__

if TYPE_CHECKING:
    from raftsched.output.receivers.shipper import Shipper

log = logging.getLogger("raftsched.node")


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


class ShipMetrics(Collector):
    def __init__(self, shipper: Shipper, clock: Clock) -> None:
        self._shipper = shipper
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        shipper = self._shipper
        words = f"Lines of output that the receiver took. {SINCE}"
        yield CounterMetricFamily("raftsched_output_shipped_lines", words, shipper.lines)
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
        since_ms = shipper.waiting_since_ms
        late_s = 0.0 if since_ms is None else max(0, self._clock.wall_ms() - since_ms) / 1000
        words = "How long ago the oldest attempt ended whose output is not shipped yet; 0: all is."
        yield GaugeMetricFamily("raftsched_output_unshipped_seconds", words, late_s)
