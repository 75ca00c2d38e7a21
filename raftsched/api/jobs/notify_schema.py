"""The JSON of a job's notify, and of what an instance delivers. Descriptions complete the sentence "must be ..."."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from raftsched import names
from raftsched.core.notices import NOTIFY_MAX

EndingName = Literal["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost"]


class NotifyIn(msgspec.Struct, forbid_unknown_fields=True):
    """The webhook is told when a run of the job comes to one of these ends."""

    on: Annotated[list[EndingName], Meta(extra_json_schema={"minItems": 1})] = []
    webhook: (
        Annotated[str, Meta(description="the name of a webhook", extra_json_schema={"pattern": names.WEBHOOK.pattern})]
        | None
    ) = None


Notify = NotifyIn | Annotated[list[NotifyIn], Meta(max_length=NOTIFY_MAX)]


class EventShown(msgspec.Struct):
    """What an instance delivers to a webhook. `subject`: the instance that it is about; null for a test."""

    id: str
    type: str
    subject: str | None
