"""Made from surface/webhooks.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from raftsched.client.generated.enums import ClusterEventName, EventName
from raftsched.client.hidden import WithSecret
from raftsched.client.moments import Duration

WebhookKind = Literal["webhook", "slack", "email"]
TlsName = Literal["starttls", "tls", "none"]


class Webhook(WithSecret, msgspec.Struct, frozen=True, kw_only=True):
    """A webhook. `url`: of slack scheme and host only, of email None. `gone`: it is not active because its receiver
    answered 410. `smtp`: as in Smtp; user and password are ***. `left_out`: events since the last message, because of
    `at_most`. `job_id`: its deliveries are instances of this; `waiting`: those that are not at their end. `dropped`:
    events that were not sent, because too many waited. `secret`: when it was made for this request; it is not shown
    again."""

    name: str
    kind: str
    url: str | None
    events: list[str]
    cluster_events: list[str]
    filter: WebhookFilter
    headers: dict[str, str]
    active: bool
    gone: bool
    timeout: str
    retry_delays: list[str]
    max_running: int
    page: str | None
    smtp: dict[str, Any] | None
    at_most: dict[str, Any] | None
    left_out: int
    revision: int
    job_id: str
    waiting: int
    failures_in_a_row: int
    last_success_at: datetime | None
    dropped: int
    dropped_at: datetime | None
    previous_secret_until: datetime | None
    created_at: datetime
    modified_at: datetime
    secret: str | None = None


# A mail server, and who is written to. `port`: 587, 465 or 25 unless it is given, as `tls` has it. `user` and
# `password` are shown as ***; given so they mean those that are there.
Smtp = TypedDict(
    "Smtp",
    {
        "host": str,
        "port": int,
        "tls": TlsName,
        "user": str,
        "password": str,
        "from": str,
        "to": Sequence[str],
    },
    total=False,
)


class AtMost(TypedDict):
    """So many messages in so long a time; what comes beyond is counted, and the next message says how many."""

    count: int
    per: Duration


class WebhookFilter(TypedDict, total=False):
    """The jobs whose ends are sent to the webhook without being named in their `notify`. A field that is left out, or
    None, lets all through."""

    namespace: str | None
    owner: str | None
    labels: Mapping[str, str]
    queue: str | None


class WebhookFields(TypedDict, total=False):
    """A webhook; a field that is left out has its default. `events`: of which it is told by itself, of all jobs that
    the filter lets through. Jobs that name it in their `notify` say for themselves what it is told. `cluster_events`:
    those of the cluster. `kind`: what receives them; it stays. Of `slack` the url is a secret and shown without its
    path; as it is shown it means the one that is there. `email` has `smtp` and no url. `page`: where people see the
    page of the cluster; texts link to it."""

    kind: WebhookKind
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
