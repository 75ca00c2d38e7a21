"""Metrics of the API and of the node's place in the cluster: plain counters, formatted on request."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.auth.rates import KINDS, Rates
from raftsched.api.ports import ClusterStatus
from raftsched.core.subjects.cluster import Meta

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class RequestCounts:
    """The answers of one route by status, and how long they took."""

    __slots__ = ("buckets", "statuses", "total_s")

    def __init__(self) -> None:
        self.statuses: defaultdict[int, int] = defaultdict(int)
        self.buckets = [0] * (len(_BOUNDS_S) + 1)
        self.total_s = 0.0

    def count(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.buckets[bisect_left(_BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class ApiMetrics(Collector):
    def __init__(self, status: Callable[[], ClusterStatus], state: Callable[[], Meta], rates: Rates) -> None:
        """`state`: the counters of the replicated state, as this node has applied them."""
        self._status = status
        self._rates = rates
        self._state = state
        self._routes: dict[tuple[str, str], RequestCounts] = {}

    def route(self, method: str, path: str) -> RequestCounts:
        return self._routes.setdefault((method, path), RequestCounts())

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "raftsched_http_requests", "Requests answered.", labels=["method", "route", "status"]
        )
        seconds = HistogramMetricFamily(
            "raftsched_http_request_seconds", "Time to answer a request.", labels=["method", "route"]
        )
        for (method, path), counts in self._routes.items():
            if not counts.statuses:
                continue
            for status, number in counts.statuses.items():
                requests.add_metric([method, path, str(status)], number)
            total = 0
            buckets = []
            for bound, number in zip((*map(str, _BOUNDS_S), "+Inf"), counts.buckets, strict=True):
                total += number
                buckets.append((bound, float(total)))
            seconds.add_metric([method, path], buckets, counts.total_s)
        yield requests
        yield seconds
        words = "Requests refused (429) for coming too often, by what they were counted by."
        limited = CounterMetricFamily("raftsched_http_rate_limited", words, labels=["by"])
        for kind in KINDS:
            limited.add_metric([kind], self._rates.refused[kind])
        yield limited
        waiting = self._state().dead_letters
        yield GaugeMetricFamily("raftsched_dead_letters", "Runs that failed for good and were not dealt with.", waiting)
        cluster = self._status()
        yield GaugeMetricFamily("raftsched_raft_term", "Current Raft term.", cluster.term)
        yield GaugeMetricFamily(
            "raftsched_raft_commit_index",
            "Newest entry known to be committed.",
            cluster.commit_index,
        )
        yield GaugeMetricFamily(
            "raftsched_raft_applied_index",
            "Newest entry applied.",
            cluster.applied_index,
        )
        leads = 1 if cluster.role == "leader" else 0
        yield GaugeMetricFamily("raftsched_raft_is_leader", "1 on the node that leads.", leads)
        known = 1 if cluster.leader is not None else 0
        yield GaugeMetricFamily("raftsched_raft_has_leader", "1 when this node knows a leader.", known)
