"""The JSON of webhooks. Descriptions complete the sentence "must be ..."."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from raftsched import names
from raftsched.api.jobs.schema import Duration, EndingName, Labels, Name, Namespace, Url
from raftsched.api.openapi import patterns
from raftsched.api.openapi.types import Special
from raftsched.bounds import OWNER_MAX
from raftsched.core.webhooks import DELAYS_MAX, HEADER_VALUE_MAX, HEADERS_MAX, RUNNING_MAX

WebhookName = Annotated[
    str,
    Meta(
        description=names.WEBHOOK.rule,
        extra_json_schema={"pattern": names.WEBHOOK.pattern},
    ),
]
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
                extra_json_schema={"pattern": "^[^\\x00-\\x08\\x0a-\\x1f\\x7f]*$", "maxLength": HEADER_VALUE_MAX},
            ),
        ],
    ],
    Meta(
        extra_json_schema={
            "maxProperties": HEADERS_MAX,
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


class WebhookFilterIn(msgspec.Struct, forbid_unknown_fields=True):
    """The jobs whose ends are sent to the webhook without being named in their `notify`. A field that is left out, or
    null, lets all through."""

    namespace: Namespace | None = None
    owner: (
        Annotated[str, Meta(description="a string", extra_json_schema={"minLength": 1, "maxLength": OWNER_MAX})] | None
    ) = None
    labels: Labels = {}
    queue: Name | None = None


class WebhookIn(msgspec.Struct, forbid_unknown_fields=True):
    """`events`: the ends of which it is told by itself, of all jobs that the filter lets through. Jobs that name it in
    their `notify` say for themselves what it is told."""

    name: WebhookName | None = None
    url: Url | None = None
    secret: Secret | None = None
    events: list[EndingName] = []
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
    retry_delays: Annotated[list[Duration], Meta(max_length=DELAYS_MAX)] | None = None
    max_running: (
        Annotated[int, Meta(ge=1, le=RUNNING_MAX, description=f"an integer from 1 to {RUNNING_MAX}")] | None
    ) = None


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
    `dropped`: events that were not sent, because too many waited. `previous_secret_until`: until then the secret before
    signs, too. `headers`: their values are *** for callers who may not change them."""

    name: str
    url: str
    events: list[EndingName]
    filter: WebhookFilterOut
    headers: dict[str, str]
    active: bool
    gone: bool
    timeout: str
    retry_delays: list[str]
    max_running: int
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
        return {**whole, "title": name, "description": says, "properties": properties, "required": sorted(needed)}

    return Special(name, (WebhookIn,), make)


def _change(schemas: dict[str, Any]) -> dict[str, Any]:
    """A change of a webhook (RFC 7396); null: the default."""
    null = {"type": "null"}
    properties = {}
    for name, schema in schemas["WebhookIn"]["properties"].items():
        one = {k: v for k, v in schema.items() if k != "default"}
        properties[name] = one if null in one.get("anyOf", []) else {"anyOf": [one, null]}
    (properties["url"],) = (one for one in properties["url"]["anyOf"] if one != null)
    return {
        "title": "WebhookPatch",
        "description": _change.__doc__,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


WEBHOOK_NEW = _variant("WebhookNew", "A webhook that is created.", "name", "url")
WEBHOOK_WHOLE = _variant("WebhookWhole", "All that is said about a webhook; its name is in the address.", "url")
WEBHOOK_PATCH = Special("WebhookPatch", (WebhookIn,), _change)
