"""The types of single values in requests and answers: what decoding checks, what OpenAPI describes.

Descriptions complete the sentence "must be ..." in error messages. Optional fields that may be `null` mean the same
as left out.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from raftsched import names
from raftsched.bounds import (
    COUNT_MAX,
    DESCRIPTION_MAX,
    LABEL_KEY_MAX,
    LABEL_VALUE_MAX,
    LABELS_MAX,
    OWNER_MAX,
    PRIORITY_MAX,
    URL_MAX,
)
from raftsched.surface import patterns
from raftsched.surface.sdk import typed_dict

Duration = Annotated[
    str,
    Meta(
        description="a duration such as 30s, 5m, 1h30m, 1d or PT5M",
        extra_json_schema={"format": "time-span", "pattern": patterns.DURATION},
    ),
]
Time = Annotated[
    str, Meta(description="a time in RFC 3339 such as 2030-01-31T02:00:00Z", extra_json_schema={"format": "date-time"})
]
# Of answers: a time that /openapi.json describes as any text, as it always did; the SDK has a datetime of it.
TimeText = Annotated[str, Meta(extra={"format": "date-time"})]


def by_rule(rule: names.NameRule, description: str = "") -> Meta:
    return Meta(description=description or rule.rule, extra_json_schema={"pattern": rule.pattern})


Name = Annotated[str, by_rule(names.JOB)]
Namespace = Annotated[str, by_rule(names.NAMESPACE)]
NodeId = Annotated[str, by_rule(names.NODE)]
StoreId = Annotated[str, by_rule(names.STORE, "32 hexadecimal digits, as GET /v1/cluster shows them under waiting")]
Argument = Annotated[str, Meta(description="a string", extra_json_schema={"pattern": patterns.NO_NUL})]
Url = Annotated[
    str,
    Meta(description="an http:// or https:// address", extra_json_schema={"format": "http-url", "maxLength": URL_MAX}),
]
JobId = Annotated[str, Meta(description="the id of a job", extra_json_schema={"pattern": patterns.JOB_ID})]
InstanceId = Annotated[
    str, Meta(description="the id of an instance", extra_json_schema={"pattern": patterns.INSTANCE_ID})
]
Text = Annotated[str, Meta(description="a string")]
Description = Annotated[str, Meta(description="a string", extra_json_schema={"maxLength": DESCRIPTION_MAX})]
Owner = Annotated[str, Meta(description="a string", extra_json_schema={"minLength": 1, "maxLength": OWNER_MAX})]
User = Annotated[str, by_rule(names.USER, "the name of a user of the nodes")]
Zone = Annotated[
    str, Meta(description="an IANA time zone such as Europe/Madrid", extra_json_schema={"format": "iana-time-zone"})
]
Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX, description=f"an integer from 0 to {PRIORITY_MAX}, higher first")]
Count = Annotated[int, Meta(ge=1, le=COUNT_MAX, description=f"an integer from 1 to {COUNT_MAX:,}")]
SmallCount = Annotated[int, Meta(ge=1, le=10_000, description="an integer from 1 to 10,000")]
Kept = Annotated[int, Meta(ge=0, le=100_000, description="an integer from 0 to 100,000")]
Lost = Annotated[int, Meta(ge=0, le=1_000, description="an integer from 0 to 1,000")]
Status = Annotated[int, Meta(ge=100, le=599, description="an HTTP status code from 100 to 599")]
TextMap = dict[str, Text]
Labels = Annotated[
    dict[str, Annotated[str, Meta(description="a string", extra_json_schema={"maxLength": LABEL_VALUE_MAX})]],
    Meta(
        extra_json_schema={
            "maxProperties": LABELS_MAX,
            "propertyNames": {"minLength": 1, "maxLength": LABEL_KEY_MAX},
        }
    ),
]
SecretName = Annotated[
    str,
    Meta(
        description='a secret as "name", or "namespace/name" of one that is shared',
        extra_json_schema={"pattern": names.SECRET_REFERENCE.pattern},
    ),
]


@typed_dict("SecretRef", null=False, needed=True)
class SecretRef(msgspec.Struct, forbid_unknown_fields=True):
    """The value of a secret, which is put in its place when a run starts."""

    name: SecretName = field(default="", name="$secret")


Environment = Annotated[
    dict[str, Argument | SecretRef], Meta(extra_json_schema={"propertyNames": {"pattern": "^[^=\\x00]+$"}})
]


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""
