"""Notifications of what becomes of jobs and instances. In the same entry each webhook that asked for it gets a hidden
instance which delivers the event, so that none can be lost. Without webhooks nothing here runs."""

from __future__ import annotations

from msgspec.structs import replace

from raftsched.core.actions import QueueChanged
from raftsched.core.apply.resources.queue_edits import rank
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Rejected
from raftsched.core.levels import FAILING_IS_NOTED
from raftsched.core.model import Attempt, Instance, InstanceState, Job, Policy, StepKind
from raftsched.core.rows import decode_webhook, encode_row
from raftsched.core.rules.selection import content_of_body
from raftsched.core.subjects.changes import ClusterChange, ClusterEvent
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE, Event, Notice, encode_notice
from raftsched.core.subjects.webhook import Webhook, covers, queue_of
from raftsched.core.tables import Table, by_job_key

GONE = "receiver_gone"  # the reason of a delivery whose receiver wants no more
TEXT_MAX = 1_024  # characters of an error that is told
_GONE_RESULT = b'{"status":410}'  # what the worker reports of such an answer
_STARTED, _SUCCEEDED = Event.STARTED, Event.SUCCEEDED
_LOST = frozenset({"lost", "max_lost"})
_BY_STATE = {
    InstanceState.SUCCEEDED: Event.SUCCEEDED,
    InstanceState.FAILED: Event.FAILED,
    InstanceState.TIMED_OUT: Event.TIMED_OUT,
    InstanceState.KILLED: Event.KILLED,
    InstanceState.SKIPPED: Event.SKIPPED,
}
_MOST_TELLING = (Event.LOST, Event.DEAD_LETTER, *_BY_STATE.values())  # of what was asked for the first is told


def webhooks(tx: Tx) -> dict[str, Webhook]:
    """Returns all webhooks, in the order of their names: that is the order of the notifications. Changes to one have to
    be put."""
    if tx.webhooks is None:
        rows = [decode_webhook(raw) for _, raw in tx.view.scan(Table.WEBHOOKS)] if tx.meta.webhooks else []
        tx.webhooks = {row.name: row for row in rows}
    return tx.webhooks


def add_webhook(tx: Tx, webhook: Webhook) -> None:
    """Adds a webhook at the place where a node that starts behind this entry reads it."""
    tx.webhooks = dict(sorted({**webhooks(tx), webhook.name: webhook}.items()))
    tx.meta.webhooks += 1


def put_webhook_row(tx: Tx, webhook: Webhook) -> None:
    webhooks(tx)[webhook.name] = webhook
    tx.view.put(Table.WEBHOOKS, webhook.name.encode(), encode_row(webhook))


def unknown_webhook(tx: Tx, policy: Policy) -> Rejected | None:
    """Refuses a job that names a webhook that does not exist."""
    known = webhooks(tx)
    for i, one in enumerate(policy.notify):
        if one.webhook not in known:
            at = f"/notify/{i}/webhook" if len(policy.notify) > 1 else "/notify/webhook"
            text = f'names the webhook "{one.webhook[:64]}", which is not there; create it first'
            return Rejected("invalid-job", text, at, meaning="unknown-reference")
    return None


def outcomes_of(instance: Instance) -> tuple[Event, ...]:
    """Returns the outcomes of a final instance, the most telling first."""
    found = {_BY_STATE[instance.state]: True}
    if instance.dead_letter:
        found[Event.DEAD_LETTER] = True
    if instance.state is InstanceState.FAILED and instance.reason in _LOST:
        found[Event.LOST] = True
    return tuple(event for event in _MOST_TELLING if event in found)


def listens(tx: Tx, namespace: str) -> bool:
    """Returns whether a webhook may want to know that runs of a namespace start or succeed."""
    specs = (webhook.spec for webhook in webhooks(tx).values())
    there = [spec for spec in specs if spec.active and spec.namespace in (None, namespace)]
    return any(_STARTED in spec.on or _SUCCEEDED in spec.on for spec in there)


def notify_webhooks(tx: Tx, job: Job, instance: Instance) -> None:
    """Notifies webhooks of an instance that is final and complete. Deliveries cause no notifications: that would never
    end."""
    if instance.notice is not None or job.namespace == SYSTEM_NAMESPACE:
        return
    content = content_of_body(job.body)
    recipients = _recipients(tx, job, outcomes_of(instance), content)
    if not recipients:
        return
    notice = _notice(tx, job, instance, *content)
    for name, event in recipients.items():
        deliver(tx, webhooks(tx)[name], replace(notice, event=event))


def tell_started(tx: Tx, job: Job, instance: Instance) -> None:
    """Notifies webhooks of the start of an instance, each once. The caller stores the instance."""
    if instance.notice is not None or job.namespace == SYSTEM_NAMESPACE:
        return
    asked = any(_STARTED in one.on for one in job.policy.notify)
    if not asked and not any(_STARTED in webhook.spec.on for webhook in webhooks(tx).values()):
        return
    content = content_of_body(job.body)
    recipients = [n for n in _recipients(tx, job, (_STARTED,), content) if (int(_STARTED), n) not in instance.told]
    if not recipients:
        return
    notice = replace(_notice(tx, job, instance, *content), event=_STARTED, state=InstanceState.RUNNING)
    for name in recipients:
        instance.told += ((int(_STARTED), name),)
        deliver(tx, webhooks(tx)[name], notice)


def tell(tx: Tx, job: Job, instance: Instance, name: str, event: Event, since_ms: int, limit_ms: int) -> None:
    """Notifies a webhook of an instance that goes on, unless it was told that before. One that is not active is passed
    over, as with all events. The caller stores the instance."""
    what = int(event), name
    if what in instance.told:
        return
    instance.told += (what,)
    webhook = webhooks(tx).get(name)
    if webhook is not None and webhook.spec.active:
        notice = _notice(tx, job, instance, *content_of_body(job.body))
        deliver(tx, webhook, replace(notice, event=event, since_ms=since_ms, limit_ms=limit_ms))


def tell_of_job(tx: Tx, job: Job, name: str, event: Event, since_ms: int, limit_ms: int) -> None:
    """Notifies a webhook of a job."""
    webhook = webhooks(tx).get(name)
    if webhook is None or not webhook.spec.active:
        return
    owner, labels = content_of_body(job.body)
    notice = Notice(
        id=tx.new_id(),
        at_ms=tx.now,
        event=event,
        namespace=job.namespace,
        job_name=job.name,
        owner=owner,
        labels=tuple(sorted(labels.items())),
        queue=job.policy.queue,
        job_id=job.id,
        since_ms=since_ms,
        limit_ms=limit_ms,
    )
    deliver(tx, webhook, notice)


def _recipients(
    tx: Tx, job: Job, events: tuple[Event, ...], content: tuple[str | None, dict[str, str]]
) -> dict[str, Event]:
    """Returns the webhooks to notify, each with the first of these events that it wants: once, also when it is asked
    for in several ways."""
    known = webhooks(tx)
    asked: dict[str, set[Event]] = {}
    for one in job.policy.notify:
        if one.webhook in known:
            asked.setdefault(one.webhook, set()).update(one.on)
    for webhook in known.values():
        if webhook.spec.on and covers(webhook.spec, job, content):
            asked.setdefault(webhook.name, set()).update(webhook.spec.on)
    recipients: dict[str, Event] = {}
    for name, wanted in asked.items():
        event = next((event for event in events if event in wanted), None)
        if event is not None and known[name].spec.active:
            recipients[name] = event
    return recipients


def _notice(tx: Tx, job: Job, instance: Instance, owner: str | None, labels: dict[str, str]) -> Notice:
    last = instance.attempts[-1] if instance.attempts else None
    error = instance.error or (None if last is None else last.error)
    return Notice(
        id=tx.new_id(),
        at_ms=tx.now,
        instance=instance.key,
        namespace=job.namespace,
        job_name=job.name,
        owner=owner,
        labels=tuple(sorted(labels.items())),
        queue=job.policy.queue,
        state=instance.state,
        dead_letter=instance.dead_letter,
        reason=instance.reason,
        error=None if error is None else error[:TEXT_MAX],
        attempt=0 if last is None else last.number,
        node="" if last is None else last.node,
        started_at_ms=None if last is None else last.started_at_ms,
        exit_code=None if last is None else last.exit_code,
        has_output=last is not None and last.output is not None,
        skipped=instance.gap_count,
    )


def deliver(tx: Tx, webhook: Webhook, notice: Notice, *, is_test: bool = False) -> Instance | None:
    """Makes an instance of the webhook's job, ready for any worker. Returns None when as many wait as a job may have,
    or as many were sent lately as the webhook wants; that is counted."""
    if webhook.spec.most and not is_test:
        if not _has_room(tx, webhook):
            webhook.left_out += 1
            put_webhook_row(tx, webhook)
            return None
        notice = replace(notice, left_out=webhook.left_out)
    job = tx.job(webhook.job_id)
    if job is None or full(tx, job):
        webhook.dropped += 1
        webhook.dropped_at_ms = tx.now
        put_webhook_row(tx, webhook)
        return None
    if webhook.spec.most and not is_test:
        webhook.counted += 1
        webhook.left_out = 0
        put_webhook_row(tx, webhook)
    instance = Instance(
        job_id=job.id,
        nominal_at_ms=tx.now,
        request=notice.id,
        state=InstanceState.WAITING,
        job_revision=job.revision,
        priority=job.policy.priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=tx.now,
        notice=encode_notice(notice),
    )
    add_step(tx, instance, StepKind.CREATED, "event")
    job.active += 1
    job.last_instance = instance.key
    rank(tx, job, instance)
    tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
    tx.put_instance(instance)
    tx.put_job(job)
    return instance


def _has_room(tx: Tx, webhook: Webhook) -> bool:
    """Returns whether a webhook that wants only so many messages in a time was sent fewer. The time begins with the
    first of them, and anew where the clock went back."""
    since_ms = webhook.counted_from_ms
    if not since_ms <= tx.now < since_ms + webhook.spec.most_per_ms:
        webhook.counted_from_ms, webhook.counted = tx.now, 0
    return webhook.counted < webhook.spec.most


def full(tx: Tx, job: Job) -> bool:
    """Returns whether as many deliveries wait as may."""
    return job.active >= tx.meta.settings.active_max


def deactivate_if_gone(tx: Tx, job: Job, attempt: Attempt) -> bool:
    """Deactivates a webhook whose receiver answered 410: it wants no more until an operator activates it. Returns
    whether it answered that."""
    if attempt.result != _GONE_RESULT:
        return False
    webhook = webhooks(tx).get(job.name or "")
    if webhook is not None and webhook.job_id == job.id and webhook.spec.active:
        webhook.spec = replace(webhook.spec, active=False)
        webhook.gone = True
        webhook.revision = tx.new_revision()
        webhook.modified_at_ms = tx.now
        put_webhook_row(tx, webhook)
        tx.events.cluster(ClusterChange(ClusterEvent.WEBHOOK_CHANGED, webhook.name))
        limit_queue(tx, webhook)
    return True


def note_attempt(tx: Tx, job: Job, *, failed: bool) -> None:
    """Notes since when the receiver of a webhook has taken nothing: its row is put when that begins, and ends."""
    if tx.meta.level < FAILING_IS_NOTED:
        return
    webhook = webhooks(tx).get(job.name or "")
    if webhook is None or webhook.job_id != job.id or (webhook.failing_since_ms is not None) == failed:
        return
    webhook.failing_since_ms = tx.now if failed else None
    put_webhook_row(tx, webhook)


def limit_queue(tx: Tx, webhook: Webhook) -> None:
    """Sets the limits of the webhook's queue: deliveries wait there while the webhook is not active."""
    queue = tx.queue(queue_of(webhook.name))
    assert queue is not None, "each webhook has a queue"
    wanted = (webhook.spec.max_running, not webhook.spec.active)
    if (queue.max_running, queue.paused) != wanted:
        queue.max_running, queue.paused = wanted
        queue.modified_at_ms = tx.now
        queue.revision = tx.new_revision()
        tx.put_queue(queue)
        tx.actions.append(QueueChanged(queue.name))
