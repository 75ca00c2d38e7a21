"""Says which webhooks were told of a run, and what became of each message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from raftsched.api.auth.known import knows_webhook
from raftsched.api.http.durations import format_time
from raftsched.api.rows import instances_of
from raftsched.core.ids import instance_text
from raftsched.core.model import FINAL, Instance, InstanceState
from raftsched.core.rows import JOBS, decode_instance, decode_webhook
from raftsched.core.subjects.notices import MEASURED, decode_notice
from raftsched.core.subjects.webhook import Webhook
from raftsched.core.tables import ReadView, Table
from raftsched.surface.explain import NotificationOut

LOOK_MAX = 200  # deliveries of a webhook that are looked at for what is told at no step of the run
_ALWAYS_MS = 2**62
_SAID = {
    InstanceState.SUCCEEDED: "it has the message",
    InstanceState.FAILED: "the message could not be delivered",
    InstanceState.KILLED: "the message was killed before it was delivered",
}


def notifications_of(view: ReadView, row: Instance) -> Iterator[NotificationOut]:
    """Yields the messages of a run that are still kept, those of each webhook in their order. Of webhooks that the
    caller may not see it yields none."""
    for _, raw in view.scan(Table.WEBHOOKS):
        webhook = decode_webhook(raw)
        if knows_webhook(webhook):
            found = _deliveries(view, webhook, row)
            for key in sorted(found):
                yield _told(webhook, found[key])


def _deliveries(view: ReadView, webhook: Webhook, row: Instance) -> dict[bytes, Instance]:
    """Deliveries are made by the entry of the log that also noted a step of the run: they have its time. What is told
    when a limit is reached has a time of its own, and is looked for among the newest of those made while it went on."""
    job = JOBS.get(view, webhook.job_id)
    if job is None:
        return {}
    times = {row.created_at_ms + step.after_ms for step in row.steps}
    spans = [(at_ms, at_ms + 1) for at_ms in times]
    if any(name == webhook.name and event in MEASURED for event, name in row.told):
        spans.append(
            (row.created_at_ms, max(times, default=row.created_at_ms) + 1 if row.state in FINAL else _ALWAYS_MS)
        )
    found = {}
    for low_ms, high_ms in spans:
        for key, raw in islice(instances_of(view, job, low_ms, high_ms, None), LOOK_MAX):
            delivery = decode_instance(raw)
            if delivery.notice is not None and decode_notice(delivery.notice).instance == row.key:
                found[key] = delivery
    return found


def _told(webhook: Webhook, delivery: Instance) -> NotificationOut:
    assert delivery.notice is not None
    notice = decode_notice(delivery.notice)
    event = "test" if notice.event is None else notice.event.name.lower()
    said = _SAID.get(delivery.state, f"the message waits to be delivered ({delivery.state.name})")
    return NotificationOut(
        webhook.name,
        event,
        format_time(notice.at_ms),
        instance_text(delivery.key),
        delivery.state.name,
        f'The webhook "{webhook.name}" was told ({event}): {said}.',
    )
