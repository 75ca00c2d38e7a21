"""Webhooks as the cluster answers them, and as they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from raftsched.client.moments import Duration
from raftsched.client.spec import ClusterEventName, EventName


class WebhookFilter(TypedDict, total=False):
    """A filter of jobs; a field that is left out, or None, lets all through."""

    namespace: str | None
    owner: str | None
    labels: Mapping[str, str]
    queue: str | None


# `from` is a word of the language, so this is not written as a class.
Smtp = TypedDict(
    "Smtp",
    {
        "host": str,
        "port": int,
        "tls": Literal["starttls", "tls", "none"],
        "user": str,
        "password": str,
        "from": str,
        "to": Sequence[str],
    },
    total=False,
)


class AtMost(TypedDict):
    """So many messages in so long a time; the next one says how many events were left out."""

    count: int
    per: Duration


class WebhookFields(TypedDict, total=False):
    """A webhook as it is written; a field that is left out has its default."""

    kind: Literal["webhook", "slack", "email"]
    url: str | None
    secret: str  # whsec_..., at creation only; one is made otherwise
    events: Sequence[EventName]
    cluster_events: Sequence[ClusterEventName]
    filter: WebhookFilter | None
    headers: Mapping[str, str]
    active: bool
    timeout: Duration | None
    retry_delays: Sequence[Duration] | None
    max_running: int | None
    page: str | None
    smtp: Smtp | None
    at_most: AtMost | None


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    url: str | None  # of slack scheme and host only, of email None
    events: list[str]
    cluster_events: list[str]
    filter: WebhookFilter
    headers: dict[str, str]
    active: bool
    gone: bool  # not active, because its receiver answered 410
    timeout: str
    retry_delays: list[str]
    max_running: int
    page: str | None
    smtp: dict[str, Any] | None  # as in Smtp; user and password are ***
    at_most: dict[str, Any] | None  # as in AtMost
    left_out: int  # events since the last message, because of `at_most`
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
