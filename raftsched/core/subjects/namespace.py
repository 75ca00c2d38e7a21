"""Namespaces: what was declared about them, and how many jobs and secrets they hold.

A namespace need not be declared. Its row is there as long as something is said about it or something is in it.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from raftsched.core.subjects.command import Command

NAMESPACE_MAX = 64  # bytes of a name
CONTENT_MAX = 16 * 1024  # bytes of what is declared
DEFAULTS_STALE = "stale-defaults"  # code of a refusal that the API answers by resolving anew


class Namespace(msgspec.Struct, array_like=True, kw_only=True):
    """One row of NAMESPACES. The bounds of its limits are in namespace_limits.py."""

    name: str
    revision: int = 0  # 0: not declared; else greater with each change, and never used again
    content: bytes = b""  # description, owner, defaults as given: canonical JSON, opaque to core
    max_jobs: int | None = None
    jobs: int = 0  # not those that are deleted
    secrets: int = 0
    created_at_ms: int = 0  # when it was declared
    modified_at_ms: int = 0
    max_running: int | None = None  # runs at one time
    max_starts_per_minute: int | None = None
    output_bytes: int | None = None  # of what its runs print, on each node
    output_max_bytes: int | None = None  # of what one attempt prints; None: as the settings have it
    output_keep_ms: int | None = None  # how long it is kept; None: as the settings have it
    output_copies: int | None = None  # on so many nodes; None: as the settings have it

    @property
    def is_needed(self) -> bool:
        return bool(self.revision or self.jobs or self.secrets)


@lru_cache(maxsize=1_024)
def namespace_error(name: str) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong."""
    if not 1 <= len(name.encode()) <= NAMESPACE_MAX or "\0" in name:
        return f"a namespace has a name of 1 to {NAMESPACE_MAX} bytes, and no NUL in it."
    return None


class PutNamespace(Command, frozen=True, tag=80):
    """Declares the namespace, or says anew all that is said about it. Jobs that exist are left as they are."""

    name: str
    content: bytes
    max_jobs: int | None = None
    if_revision: int | None = None  # refused unless it is declared, at this revision
    if_none: bool = False  # refused when it is declared
    max_running: int | None = None
    max_starts_per_minute: int | None = None
    output_bytes: int | None = None
    output_max_bytes: int | None = None
    output_keep_ms: int | None = None
    output_copies: int | None = None


class DeleteNamespace(Command, frozen=True, tag=81):
    """Nothing is said about it any more. Refused while it holds jobs or secrets."""

    name: str
    if_revision: int | None = None
