"""Webhooks as the cluster answers them, and as they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict

import msgspec

from raftsched.client.spec import Duration, Ending


class WebhookFilter(TypedDict, total=False):
    """A filter of jobs; a field that is left out, or None, lets all through."""

    namespace: str | None
    owner: str | None
    labels: Mapping[str, str]
    queue: str | None


class WebhookFields(TypedDict, total=False):
    """A webhook as it is written; a field that is left out has its default."""

    url: str
    secret: str  # whsec_..., at creation only; one is made otherwise
    events: Sequence[Ending]
    filter: WebhookFilter | None
    headers: Mapping[str, str]
    active: bool
    timeout: Duration | None
    retry_delays: Sequence[Duration] | None
    max_running: int | None


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str
    events: list[str]
    filter: WebhookFilter
    headers: dict[str, str]
    active: bool
    gone: bool  # not active, because its receiver answered 410
    timeout: str
    retry_delays: list[str]
    max_running: int
    revision: int
    job_id: str  # its deliveries are instances of this
    waiting: int  # deliveries that are not at their end
    failures_in_a_row: int
    last_success_at: datetime | None
    dropped: int  # events that were not sent, because too many waited
    dropped_at: datetime | None
    previous_secret_until: datetime | None
    created_at: datetime
    modified_at: datetime
    secret: str | None = None  # when it was made for this request; it is not shown again

    def __repr__(self) -> str:
        """Without the secret: what is printed lands in logs."""
        return f"Webhook(name={self.name!r}, url={self.url!r}, active={self.active})"
