"""Metrics of what operators set, and of its effects: the pause, drained nodes, queues with limits, runs that no node
could take, operations on many jobs; the number of jobs; what is overdue; whether the audit is cut short. Read from the
tables."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.auth.audit_kept import cut_short
from raftsched.api.cluster.ready import oldest_wait_ms
from raftsched.api.context import ApiContext, meta, own_jobs
from raftsched.api.rows import get_job, node_rule
from raftsched.core.model import Job, JobState
from raftsched.core.rows import decode_queue, decode_webhook
from raftsched.core.subjects.access import RINGS
from raftsched.core.subjects.notices import QUOTA_QUEUE
from raftsched.core.subjects.queue import Queue
from raftsched.core.subjects.webhook import Webhook, queue_of
from raftsched.core.tables import Table, from_u64


class OperatorsMetrics(Collector):
    """Yields one series for each member, queue with limits (settings.queues_max) and webhook."""

    def __init__(self, ctx: ApiContext) -> None:
        self._ctx = ctx

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._ctx.read() as view:
            cluster = meta(view)
            drained = {m.node: node_rule(view, m.node).drained for m in cluster.members}
            rows = [decode_queue(raw) for _, raw in view.scan(Table.QUEUES)]
            webhooks = [decode_webhook(raw) for _, raw in view.scan(Table.WEBHOOKS)]
            queues = [one for one in rows if not one.name.startswith(QUOTA_QUEUE)]
            quotas = [one for one in rows if one.name.startswith(QUOTA_QUEUE)]
            due = next(view.scan(Table.DUE), None)
            short = cut_short(view, cluster.settings, self._ctx.now_ms())
            jobs_of = {webhook.name: get_job(view, webhook.job_id) for webhook in webhooks}
            lanes = {one.name: one.lane for one in rows}
            waits_ms = {
                webhook.name: oldest_wait_ms(view, lanes[queue_of(webhook.name)], self._ctx.now_ms())
                for webhook in webhooks
            }
        yield GaugeMetricFamily("raftsched_cluster_paused", "1 while nothing is started on any node.", cluster.paused)
        words = "How long ago the earliest due time was that was not fired yet; 0: all were."
        late_ms = 0 if due is None else max(0, self._ctx.now_ms() - from_u64(due[0][:8]))
        yield GaugeMetricFamily("raftsched_due_overdue_seconds", words, late_ms / 1000)
        words = "Waiting instances that no node there is could take, busy or not."
        yield GaugeMetricFamily("raftsched_instances_unplaceable", words, cluster.unplaceable)
        counts = own_jobs(cluster)
        jobs = GaugeMetricFamily("raftsched_jobs", "Jobs there are, by state.", labels=["state"])
        for state in JobState:
            if state is not JobState.DELETED:
                jobs.add_metric([state.name], counts[state])
        yield jobs
        words = "By how much notes of the audit go before audit_keep says so, because audit_max lets be no more."
        audit = GaugeMetricFamily("raftsched_audit_short_seconds", words, labels=["kind"])
        for kind in RINGS:
            lacks_ms = cluster.settings.audit_keep_ms - short[kind] if kind in short else 0
            audit.add_metric([kind], lacks_ms / 1000)
        yield audit
        words = "Operations on many jobs that are under way."
        yield GaugeMetricFamily("raftsched_operations_running", words, cluster.operations_running)
        nodes = GaugeMetricFamily("raftsched_node_drained", "1 for a node that is given nothing new.", labels=["node"])
        for node, is_drained in drained.items():
            nodes.add_metric([node], is_drained)
        yield nodes
        running = GaugeMetricFamily("raftsched_queue_running", "Runs of a queue with limits.", labels=["queue"])
        most = GaugeMetricFamily("raftsched_queue_max_running", "Runs that there may be of a queue.", labels=["queue"])
        paused = GaugeMetricFamily("raftsched_queue_paused", "1 while nothing more of it is started.", labels=["queue"])
        for queue in queues:
            running.add_metric([queue.name], queue.running)
            paused.add_metric([queue.name], queue.paused)
            if queue.max_running is not None:
                most.add_metric([queue.name], queue.max_running)
        yield from (running, most, paused)
        yield from _of_namespaces(quotas)
        yield from _of_webhooks(webhooks, jobs_of, waits_ms, self._ctx.now_ms())


def _of_namespaces(quotas: list[Queue]) -> Iterator[Metric]:
    labels = ["namespace"]
    words = "Runs of a namespace that has limits of them."
    running = GaugeMetricFamily("raftsched_namespace_running", words, labels=labels)
    most = GaugeMetricFamily("raftsched_namespace_max_running", "Runs that there may be of a namespace.", labels=labels)
    for quota in quotas:
        name = quota.name.removeprefix(QUOTA_QUEUE)
        running.add_metric([name], quota.running)
        if quota.max_running is not None:
            most.add_metric([name], quota.max_running)
    yield from (running, most)


def _of_webhooks(
    webhooks: list[Webhook], jobs: dict[str, Job | None], waits_ms: dict[str, int], now_ms: int
) -> Iterator[Metric]:
    labels = ["webhook"]
    active = GaugeMetricFamily("raftsched_webhook_active", "1 while events are sent to it.", labels=labels)
    words = "1 while nothing is sent to it because its receiver answered 410, until somebody activates it."
    gone = GaugeMetricFamily("raftsched_webhook_gone", words, labels=labels)
    words = "How long the delivery has waited that waits the longest to be sent, for the first time or again."
    oldest = GaugeMetricFamily("raftsched_webhook_oldest_wait_seconds", words, labels=labels)
    words = "Deliveries that are not at their end."
    waiting = GaugeMetricFamily("raftsched_webhook_waiting", words, labels=labels)
    words = "Deliveries that failed for good since the last success."
    failures = GaugeMetricFamily("raftsched_webhook_failures_in_a_row", words, labels=labels)
    words = "Events that were not sent, because too many waited."
    dropped = CounterMetricFamily("raftsched_webhook_dropped", words, labels=labels)
    words = (
        "For how long attempts to send something have failed, and none succeeded; 0: there are none, or the newest did."
    )
    failing = GaugeMetricFamily("raftsched_webhook_failing_seconds", words, labels=labels)
    for webhook in webhooks:
        job = jobs[webhook.name]
        active.add_metric([webhook.name], webhook.spec.active)
        gone.add_metric([webhook.name], webhook.gone)
        oldest.add_metric([webhook.name], waits_ms[webhook.name] / 1000)
        waiting.add_metric([webhook.name], 0 if job is None else job.active)
        failures.add_metric([webhook.name], 0 if job is None else job.failures_in_a_row)
        dropped.add_metric([webhook.name], webhook.dropped)
        since_ms = webhook.failing_since_ms
        failing.add_metric([webhook.name], 0 if since_ms is None else max(0, now_ms - since_ms) / 1000)
    yield from (active, gone, oldest, waiting, failures, dropped, failing)
