"""Writes a notification as a CloudEvent (cloudevents.io, version 1.0, structured mode in JSON)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from raftsched.core.ids import instance_text, job_text, split_instance
from raftsched.core.model import InstanceState
from raftsched.core.rules.executors import node_name, worker_name
from raftsched.core.subjects.notices import ENDS, OF_CLUSTER, Event, Notice
from raftsched.quantities import format_duration
from raftsched.surface.plain.output import GET as OUTPUT

MEDIA_TYPE = "application/cloudevents+json"
TEST = "io.raftsched.webhook.test"

_encode = msgspec.json.Encoder().encode


def event_id(notice: Notice) -> str:
    """Returns the id of the event, the same at each attempt and for each webhook: a receiver recognises by it what it
    has seen."""
    return f"evt_{job_text(notice.id)}"


def event_type(event: Event | None) -> str:
    if event is None:
        return TEST
    about = "cluster" if event in OF_CLUSTER else "job" if event is Event.NOT_RUN_SINCE else "instance"
    return f"io.raftsched.{about}.{event.name.lower()}"


def cloud_event(notice: Notice, webhook: str, cluster_id: bytes) -> bytes:
    """Returns the event as JSON, the same bytes at each attempt."""
    if notice.event is None:
        about: dict[str, Any] = {"webhook": webhook}
    elif notice.event in OF_CLUSTER:
        about = {"node": notice.node, "before": notice.reason, "repeats": notice.repeats}
    else:
        about = _of_instance(notice) if notice.instance else _of_job(notice, notice.job_id)
    if notice.event is not None:
        about["left_out"] = notice.left_out
    return _encode(
        {
            "specversion": "1.0",
            "id": event_id(notice),
            "source": f"urn:raftsched:cluster:{cluster_id.hex()}",
            "type": event_type(notice.event),
            "subject": subject_of(notice) or webhook,
            "time": _time(notice.at_ms),
            "datacontenttype": "application/json",
            "data": about,
        }
    )


def subject_of(notice: Notice) -> str | None:
    """Returns the id of the instance, the job or the node that the event is about; None: it is a test."""
    if notice.instance:
        return instance_text(notice.instance)
    return job_text(notice.job_id) if notice.job_id else notice.node or None


def _of_job(notice: Notice, job_id: int) -> dict[str, Any]:
    found = {
        "job_id": job_text(job_id),
        "job_name": notice.job_name,
        "namespace": notice.namespace,
        "owner": notice.owner,
        "labels": dict(notice.labels),
        "queue": notice.queue,
    }
    if notice.since_ms is not None:
        found |= {"since": _time(notice.since_ms), "limit": format_duration(notice.limit_ms)}
    return found


def _of_instance(notice: Notice) -> dict[str, Any]:
    name = instance_text(notice.instance)
    nominal_at_ms, job_id, _ = split_instance(notice.instance)
    output = f"{OUTPUT.format(id=name)}?attempt={notice.attempt}" if notice.has_output else None
    return {
        **_of_job(notice, job_id),
        "instance": name,
        "state": InstanceState(notice.state).name,
        "dead_letter": notice.dead_letter,
        "attempt": notice.attempt,
        "exit_code": notice.exit_code,
        "error": notice.error,
        "reason": notice.reason,
        "skipped": notice.skipped,
        "scheduled_at": _time(nominal_at_ms),
        "started_at": None if notice.started_at_ms is None else _time(notice.started_at_ms),
        "ended_at": _time(notice.at_ms) if notice.event in ENDS else None,
        "node": node_name(notice.node),
        "worker": worker_name(notice.node),
        "output": output,
    }


def _time(at_ms: int) -> str:
    """Returns the time as RFC 3339 has it."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"
