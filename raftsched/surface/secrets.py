"""Secrets: values that jobs refer to by name. No answer has one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from raftsched.bounds import SECRET_VALUE_MAX
from raftsched.surface import patterns
from raftsched.surface.kinds import action, listing
from raftsched.surface.named import Named

_BODY_MAX = 64 * 1024  # bytes: a value of the longest, each character escaped


class SecretIn(msgspec.Struct, forbid_unknown_fields=True):
    """`shared`: jobs of other namespaces may refer to it; null, or left out: as it is, not shared when it is new."""

    value: Annotated[
        str,
        Meta(
            description=f"a string of 1 to {SECRET_VALUE_MAX:,} bytes, without NUL",
            extra_json_schema={"minLength": 1, "maxLength": SECRET_VALUE_MAX, "pattern": patterns.NO_NUL},
        ),
    ]
    shared: bool | None = None


class SecretOut(msgspec.Struct):
    """A secret without its value. `sealed`: it is encrypted where it lies."""

    name: str
    namespace: str
    shared: bool
    sealed: bool
    revision: int
    created_at: str
    modified_at: str


class ResealedOut(msgspec.Struct):
    """`left`: so many are not sealed with the key in use yet, with those that are `unreadable`. `key`: by which
    `raftsched keys check` names it."""

    resealed: int
    left: int
    unreadable: list[str]
    key: str


SECRETS = Named(
    "secrets",
    "/v1/namespaces/{ns}/secrets/{name}",
    "secret",
    SecretIn,
    SecretOut,
    body_max=_BODY_MAX,
    role="editor",
    scope="",
)
LIST = listing(
    "secrets_list_all",
    "/v1/secrets",
    "List secrets",
    SecretOut,
    "A page of secrets, without their values.",
    ("namespace",),
    says="By namespace and name.",
)
GET = SECRETS.get("Read a secret's metadata")
PUT = SECRETS.put(
    "Create or replace a secret",
    "Runs that are assigned from then on get this value. The same value again is no change. Where the cluster has a "
    "key, it is sealed before it leaves this node.",
    "invalid-job",
)
DELETE = SECRETS.delete(
    "Delete a secret",
    "Refused while jobs refer to it. With `force` it is deleted all the same, and their runs fail.",
    "in-use",
    query=("force",),
)
RESEAL = action(
    "kept_reseal",
    "/v1/secrets:reseal",
    "Re-encrypt all secrets",
    {200: ResealedOut},
    codes=("not-possible",),
    role="admin",
    says="With the first key in the key file of the node that is asked: what lies there as it is, and what was sealed "
    "with another key. A part of them at a time: send it again until nothing is left. What cannot be read is named, "
    "and has to be put again.",
)
