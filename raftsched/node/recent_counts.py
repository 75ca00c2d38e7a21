"""Counts of what happened within the last 15 minutes, for who has no Prometheus: `raftsched doctor` above all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

MARKS = 15  # one a minute

Counts = Mapping[tuple[str, str], float]  # of what, and whose: counters that hardly ever go back


class RecentCounts(Collector):
    """The difference between counters now and as they were some minutes ago; since the start while that is shorter."""

    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._counts = counts
        self._marks: deque[Counts] = deque([counts()], maxlen=MARKS)

    def mark(self) -> None:
        """Remembers how the counters are now; to be called once a minute."""
        self._marks.append(self._counts())

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        words = "How often something happened within 15 minutes (less after a start), for raftsched doctor."
        family = GaugeMetricFamily("raftsched_lately", words, labels=["of", "name"])
        before = self._marks[0]
        for (of, name), count in self._counts().items():
            family.add_metric([of, name], max(0.0, count - before.get((of, name), 0.0)))
        yield family
