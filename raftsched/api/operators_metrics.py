"""What /metrics says about what operators set, and what comes of it: the pause, drained nodes, queues with limits, runs
that no node could take, operations on many jobs; and how many jobs there are. Read from the tables."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.context import ApiContext, meta, own_jobs
from raftsched.api.rows import node_rule
from raftsched.core.apply.tx import decode_queue
from raftsched.core.model import JobState
from raftsched.core.tables import Table


class OperatorsMetrics(Collector):
    """As many series as there are members and queues with limits (settings.queues_max)."""

    def __init__(self, ctx: ApiContext) -> None:
        self._ctx = ctx

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._ctx.read() as view:
            cluster = meta(view)
            drained = {m.node: node_rule(view, m.node).drained for m in cluster.members}
            queues = [decode_queue(raw) for _, raw in view.scan(Table.QUEUES)]
        yield GaugeMetricFamily("raftsched_cluster_paused", "1 while nothing is started on any node.", cluster.paused)
        words = "Waiting instances that no node there is could take, busy or not."
        yield GaugeMetricFamily("raftsched_instances_unplaceable", words, cluster.unplaceable)
        counts = own_jobs(cluster)
        jobs = GaugeMetricFamily("raftsched_jobs", "Jobs there are, by state.", labels=["state"])
        for state in JobState:
            if state is not JobState.DELETED:
                jobs.add_metric([state.name], counts[state])
        yield jobs
        words = "Operations on many jobs that are under way."
        yield GaugeMetricFamily("raftsched_operations_running", words, cluster.operations_running)
        nodes = GaugeMetricFamily("raftsched_node_drained", "1 for a node that is given nothing new.", labels=["node"])
        for node, is_drained in drained.items():
            nodes.add_metric([node], is_drained)
        yield nodes
        running = GaugeMetricFamily("raftsched_queue_running", "Runs of a queue with limits.", labels=["queue"])
        most = GaugeMetricFamily("raftsched_queue_max_running", "Runs that there may be of it.", labels=["queue"])
        paused = GaugeMetricFamily("raftsched_queue_paused", "1 while nothing more of it is started.", labels=["queue"])
        for queue in queues:
            running.add_metric([queue.name], queue.running)
            paused.add_metric([queue.name], queue.paused)
            if queue.max_running is not None:
                most.add_metric([queue.name], queue.max_running)
        yield from (running, most, paused)
