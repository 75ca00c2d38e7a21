"""Secrets: values that jobs refer to by name, and that nobody can read back.

A value lies in its row, and in the log entry that put it there; sealed with a key that the tables do not hold, when the
cluster has one. How jobs refer to it is in `references`.
"""

from __future__ import annotations

import msgspec

from raftsched.bounds import SECRET_VALUE_MAX
from raftsched.core.subjects.command import Command

SEALED_MAX = SECRET_VALUE_MAX + 64  # with what sealing adds
SECRET_NAME_MAX = 128  # bytes


class Secret(msgspec.Struct, array_like=True, kw_only=True):
    """One row of SECRETS."""

    namespace: str
    name: str
    revision: int  # greater with each change, and never used again
    value: bytes  # sealed when there is a nonce
    nonce: bytes = b""
    digest: bytes = b""  # of a sealed value under the same key: the same one again is no change
    shared: bool = False  # jobs of other namespaces may refer to it
    created_at_ms: int = 0
    modified_at_ms: int = 0

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name})"


class PutSecret(Command, frozen=True, tag=82):
    """Creates the secret or gives it another value. `shared` None: as it is, not shared when it is new."""

    namespace: str
    name: str
    value: bytes
    nonce: bytes = b""
    digest: bytes = b""
    shared: bool | None = None
    if_revision: int | None = None  # refused unless it is there, at this revision
    if_none: bool = False  # refused when it is there

    def __repr__(self) -> str:
        return f"PutSecret({self.namespace}/{self.name})"


class DeleteSecret(Command, frozen=True, tag=83):
    """Refused while jobs refer to it, unless it is forced: their runs fail then."""

    namespace: str
    name: str
    if_revision: int | None = None
    force: bool = False


def secret_name_error(namespace: str, name: str) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong. A namespace is refused only if it
    could not be a key."""
    if not 1 <= len(name.encode()) <= SECRET_NAME_MAX or "\0" in name or "/" in name:
        return f"a secret has a name of 1 to {SECRET_NAME_MAX} bytes, without / and NUL."
    if not 1 <= len(namespace.encode()) <= SECRET_NAME_MAX or "\0" in namespace:
        return "a secret is in a namespace."
    return None
