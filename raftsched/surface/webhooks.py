"""Webhooks: addresses and people that are told what became of runs, and of the cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from raftsched import names
from raftsched.bounds import (
    OWNER_MAX,
    RECIPIENTS_MAX,
    WEBHOOK_HEADER_MAX,
    WEBHOOK_HEADERS_MAX,
    WEBHOOK_MESSAGES_MAX,
    WEBHOOK_RETRIES_MAX,
    WEBHOOK_RUNNING_MAX,
)
from raftsched.surface import patterns
from raftsched.surface.enums import ClusterEventName, EventName
from raftsched.surface.kinds import action
from raftsched.surface.named import Named
from raftsched.surface.operation import BODIES, WRITES, Operation, Reply, Special
from raftsched.surface.runs import InstanceOut
from raftsched.surface.scalars import Duration, Labels, Name, Namespace, Url, by_rule
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict

WebhookName = Annotated[str, by_rule(names.WEBHOOK)]
Secret = Annotated[
    str,
    Meta(
        description="whsec_ and 24 to 64 bytes in base64",
        extra_json_schema={
            "pattern": "^whsec_[A-Za-z0-9+/]{32,88}={0,2}$",
            "format": "webhook-secret",
            "writeOnly": True,
        },
    ),
]
Headers = Annotated[
    dict[
        str,
        Annotated[
            str,
            Meta(
                description="a string",
                extra_json_schema={"pattern": "^[^\\x00-\\x08\\x0a-\\x1f\\x7f]*$", "maxLength": WEBHOOK_HEADER_MAX},
            ),
        ],
    ],
    Meta(
        extra_json_schema={
            "maxProperties": WEBHOOK_HEADERS_MAX,
            "propertyNames": {
                "allOf": [
                    {"pattern": patterns.HEADER},
                    {"not": {"pattern": patterns.OWN_HEADER}},
                    {"not": {"pattern": patterns.WEBHOOK_HEADER}},
                ]
            },
        }
    ),
]


HIDDEN_MAX = 512  # characters
WebhookKind = Literal["webhook", "slack", "email"]
TlsName = Literal["starttls", "tls", "none"]
Port = Annotated[int, Meta(ge=1, le=65_535, description="a port from 1 to 65,535")]
Mailbox = Annotated[
    str,
    Meta(description="a mail address such as ops@example.com", extra_json_schema={"pattern": patterns.MAILBOX}),
]
MailHost = Annotated[
    str, Meta(description="the name or address of a mail server", extra_json_schema={"pattern": patterns.MAIL_HOST})
]
Hidden = Annotated[
    str,
    Meta(
        description=f"a string of 1 to {HIDDEN_MAX} characters",
        extra_json_schema={"minLength": 1, "maxLength": HIDDEN_MAX},
    ),
]


Messages = Annotated[
    int, Meta(ge=1, le=WEBHOOK_MESSAGES_MAX, description=f"an integer from 1 to {WEBHOOK_MESSAGES_MAX:,}")
]
Running = Annotated[int, Meta(ge=1, le=WEBHOOK_RUNNING_MAX, description=f"an integer from 1 to {WEBHOOK_RUNNING_MAX}")]


@typed_dict("Smtp", null=False)
class SmtpIn(msgspec.Struct, forbid_unknown_fields=True):
    """A mail server, and who is written to. `port`: 587, 465 or 25 unless it is given, as `tls` has it. `user` and
    `password` are shown as ***; given so they mean those that are there."""

    host: MailHost | None = None
    port: Port | None = None
    tls: TlsName = "starttls"
    user: Hidden | None = None
    password: Hidden | None = None
    from_: Mailbox | None = msgspec.field(default=None, name="from")
    to: Annotated[
        list[Mailbox], Meta(max_length=RECIPIENTS_MAX, extra_json_schema={"minItems": 1, "uniqueItems": True})
    ] = []


class SmtpOut(msgspec.Struct):
    host: str
    port: int
    tls: TlsName
    user: str | None
    password: str | None
    from_: str = msgspec.field(name="from")
    to: list[str]


@typed_dict("AtMost", needed=True)
class AtMost(msgspec.Struct, forbid_unknown_fields=True):
    """So many messages in so long a time; what comes beyond is counted, and the next message says how many."""

    count: Messages
    per: Duration


@typed_dict("WebhookFilter")
class WebhookFilterIn(msgspec.Struct, forbid_unknown_fields=True):
    """The jobs whose ends are sent to the webhook without being named in their `notify`. A field that is left out, or
    null, lets all through."""

    namespace: Namespace | None = None
    owner: (
        Annotated[str, Meta(description="a string", extra_json_schema={"minLength": 1, "maxLength": OWNER_MAX})] | None
    ) = None
    labels: Labels = {}
    queue: Name | None = None


@typed_dict(
    "WebhookFields",
    without=("name",),
    types={"secret": "str", "active": "bool", "timeout": "Duration | None"},  # nosec B105
)
class WebhookIn(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook; a field that is left out has its default. `events`: of which it is told by itself, of all jobs that
    the filter lets through. Jobs that name it in their `notify` say for themselves what it is told. `cluster_events`:
    those of the cluster. `kind`: what receives them; it stays. Of `slack` the url is a secret and shown without its
    path; as it is shown it means the one that is there. `email` has `smtp` and no url. `page`: where people see the
    page of the cluster; texts link to it."""

    name: WebhookName | None = None
    kind: WebhookKind = "webhook"
    url: Url | None = None
    secret: Secret | None = None  # whsec_..., at creation only; one is made otherwise
    events: list[EventName] = []
    cluster_events: list[ClusterEventName] = []
    filter: WebhookFilterIn | None = None
    headers: Headers = {}
    active: bool | None = None
    timeout: (
        Annotated[
            str,
            Meta(
                description="a duration from 1s to 5m",
                extra_json_schema={"format": "webhook-timeout", "pattern": patterns.DURATION},
            ),
        ]
        | None
    ) = None
    retry_delays: Annotated[list[Duration], Meta(max_length=WEBHOOK_RETRIES_MAX)] | None = None
    max_running: Running | None = None
    page: Url | None = None
    smtp: SmtpIn | None = None
    at_most: AtMost | None = None


class RotateIn(msgspec.Struct, forbid_unknown_fields=True):
    """`secret`: the new one; without it one is made. `overlap`: for so long the one before signs, too."""

    secret: Secret | None = None
    overlap: Duration = "24h"


class WebhookFilterOut(msgspec.Struct):
    namespace: str | None
    owner: str | None
    labels: dict[str, str]
    queue: str | None


class WebhookOut(msgspec.Struct):
    """`gone`: it is not active because its receiver answered 410. `waiting`: deliveries that are not at their end.
    `dropped`: events that were not sent, because too many waited; `left_out`: since the last message, because of
    `at_most`. `previous_secret_until`: until then the secret before
    signs, too. `headers`: their values are *** for callers who may not change them."""

    name: str
    kind: WebhookKind
    url: str | None
    events: list[EventName]
    cluster_events: list[ClusterEventName]
    filter: WebhookFilterOut
    headers: dict[str, str]
    active: bool
    gone: bool
    timeout: str
    retry_delays: list[str]
    max_running: int
    page: str | None
    smtp: SmtpOut | None
    at_most: AtMost | None
    left_out: int
    revision: int
    job_id: str
    waiting: int
    failures_in_a_row: int
    last_success_at: str | None
    dropped: int
    dropped_at: str | None
    previous_secret_until: str | None
    created_at: str
    modified_at: str


@record(
    "Webhook",
    since={"secret": None},  # nosec B105
    types={
        "filter": "WebhookFilter",
        **dict.fromkeys(("smtp", "at_most"), "dict[str, Any] | None"),
        **dict.fromkeys(("last_success_at", "dropped_at", "previous_secret_until"), "datetime | None"),
        **dict.fromkeys(("created_at", "modified_at"), "datetime"),
    },
    base="raftsched.client.hidden:WithSecret",
    says="A webhook. `url`: of slack scheme and host only, of email None. `gone`: it is not active because its "
    "receiver answered 410. `smtp`: as in Smtp; user and password are ***. `left_out`: events since the last message, "
    "because of `at_most`. `job_id`: its deliveries are instances of this; `waiting`: those that are not at their end. "
    "`dropped`: events that were not sent, because too many waited. `secret`: when it was made for this request; it is "
    "not shown again.",
)
class WebhookMade(WebhookOut):
    """`secret`: the one that was made for this request, shown once; null when it was given, or made earlier."""

    secret: str | None


WEBHOOK_READ_ONLY = frozenset(WebhookOut.__struct_fields__) - frozenset(WebhookIn.__struct_fields__)


def _variant(name: str, says: str, *needed: str) -> Special:
    """WebhookIn for one way to send it."""

    def make(schemas: dict[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = schemas["WebhookIn"]
        properties = dict(whole["properties"])
        for field in needed:
            (properties[field],) = (one for one in properties[field]["anyOf"] if one != {"type": "null"})
        kinds = [_to_address(properties), _by_mail(properties)]
        fixed = {"title": name, "description": says, "properties": properties, "required": sorted(needed)}
        return {**whole, **fixed, "oneOf": kinds}

    return Special(name, (WebhookIn,), make)


def _to_address(properties: dict[str, Any]) -> dict[str, Any]:
    (url,) = (one for one in properties["url"]["anyOf"] if one != {"type": "null"})
    return {
        "properties": {"kind": {"enum": ["webhook", "slack"]}, "url": url, "smtp": {"type": "null"}},
        "required": ["url"],
    }


def _by_mail(properties: dict[str, Any]) -> dict[str, Any]:
    (smtp,) = (one for one in properties["smtp"]["anyOf"] if one != {"type": "null"})
    return {
        "properties": {"kind": {"const": "email"}, "url": {"type": "null"}, "smtp": smtp, "secret": {"type": "null"}},
        "required": ["kind", "smtp"],
    }


def _change(schemas: dict[str, Any]) -> dict[str, Any]:
    """A change of a webhook (RFC 7396); null: the default."""
    null = {"type": "null"}
    properties = {}
    for name, schema in schemas["WebhookIn"]["properties"].items():
        one = {k: v for k, v in schema.items() if k != "default"}
        properties[name] = one if null in one.get("anyOf", []) else {"anyOf": [one, null]}
    return {
        "title": "WebhookPatch",
        "description": _change.__doc__,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


WEBHOOK_NEW = _variant("WebhookNew", "A webhook that is created.", "name")
WEBHOOK_WHOLE = _variant("WebhookWhole", "All that is said about a webhook; its name is in the address.")
WEBHOOK_PATCH = Special("WebhookPatch", (WebhookIn,), _change)

_BODY_MAX = 64 * 1024  # bytes


def _made_or(there: str) -> dict[int, Reply]:
    """Returns the answers to a request that creates a webhook, and that to one of a webhook that is there."""
    made = "Made. A secret that was made for it is shown this one time."
    return {201: Reply(WebhookMade, made, ("ETag", "Location")), 200: Reply(WebhookMade, there, ("ETag",))}


WEBHOOKS = Named(
    "webhooks",
    "/v1/webhooks/{name}",
    "webhook",
    WebhookIn,
    WebhookOut,
    patch_body=WEBHOOK_PATCH,
    body_max=_BODY_MAX,
    scope="",
    sdk="Webhooks",
    given="fields",
    given_type="WebhookFields",
    record="Webhook",
)
CREATE = Operation(
    "webhooks_create",
    "POST",
    "/v1/webhooks",
    "Create a webhook",
    _made_or("It is there, as it was given."),
    headers=("Idempotency-Key", "If-None-Match"),
    body=WEBHOOK_NEW,
    body_max=_BODY_MAX,
    codes=(*BODIES, *WRITES, "exists", "not-possible", "idempotency-mismatch", "not-found"),
    role="operator",
    says="Under a name, which jobs refer to in their `notify`. Without a secret one is made. With an Idempotency-Key "
    "it may be sent again, and is answered with the same secret.",
    sdk=Sdk(
        "Webhooks.create",
        (Arg("name", "str"), Arg("**fields", "Unpack[WebhookFields]")),
        "Creates a webhook. A `secret` that was generated is in this answer only. Raises ConflictError: there is "
        "another one of this name.",
    ),
)
LIST = WEBHOOKS.list_all("List webhooks", "By name.", scope="checked", tells="Yields the webhooks by name")
GET = WEBHOOKS.get(
    "Read a webhook",
    "The ETag is the revision of its content; what waits changes without it.",
    scope="checked",
    tells="there is none",
)
PUT = Operation(
    "webhooks_put",
    "PUT",
    "/v1/webhooks/{name}",
    "Create or replace a webhook",
    _made_or("As it is now."),
    headers=("If-Match", "If-None-Match"),
    body=WEBHOOK_WHOLE,
    body_max=_BODY_MAX,
    codes=(*BODIES, *WRITES, "exists", "stale-revision", "not-possible"),
    role="operator",
    says="Replaces all of it; what was answered may be put back. The secret stays: it may be given again, and only "
    "POST to /rotate changes it. With If-Match the webhook must exist, with If-None-Match: * it must not.",
    sdk=WEBHOOKS.put_method("Creates the webhook, or replaces all of it but its secret."),
)
PATCH = WEBHOOKS.patch(
    "Change a webhook",
    'RFC 7396. Without If-Match, a change in between means to merge again. With {"active": false} what waits goes on '
    "waiting, and nothing new is sent.",
    "not-possible",
    tells="Changes the fields that are given; None stands for the default.",
)
DELETE = WEBHOOKS.delete(
    "Delete a webhook",
    "What waits to be sent is not sent any more. Refused while jobs name it in their `notify`.",
    "illegal-transition",
    tells="Deletes the webhook; what waits to be sent is not sent. Raises ConflictError: jobs name it.",
)
TEST = action(
    "webhooks_test",
    "/v1/webhooks/{name}/test",
    "Send a test event to a webhook",
    {202: Reply(InstanceOut, "The instance that delivers it.", ("Location",))},
    codes=("illegal-transition", "too-many"),
    role="operator",
    says="The event has the type io.raftsched.webhook.test. Its outcome, and the answer of the receiver, are in the "
    "instance and its output.",
    sdk=Sdk(
        "Webhooks.test",
        ("name",),
        "Sends a test event and returns the instance that delivers it.",
        returns="Instance",
    ),
)
ROTATE = action(
    "webhooks_rotate",
    "/v1/webhooks/{name}/rotate",
    "Rotate a webhook's secret",
    {200: Reply(WebhookMade, "A secret that was made is shown this one time.", ("ETag",))},
    body=RotateIn,
    if_match=True,
    codes=("stale-revision", "not-possible"),
    body_required=False,
    body_max=_BODY_MAX,
    role="operator",
    says="For the time of `overlap` every event is signed with both, so that receivers may change over in between.",
    sdk=Sdk(
        "Webhooks.rotate",
        ("name", "*", Arg("secret", "str | None", None), Arg("overlap", "Duration", "24h")),
        "Gives the webhook another secret; for the time of `overlap` both sign. One that was generated is in this "
        "answer only.",
    ),
)
