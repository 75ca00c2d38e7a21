"""The JSON of secrets. Their values are in none of the answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from raftsched.api.openapi import patterns
from raftsched.bounds import SECRET_VALUE_MAX


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
