"""Any command of a user under an Idempotency-Key, answers that are remembered as they were given, and the rows of both.

Commands that were made with a key in mind carry it themselves; for all others there is `Idempotent`.
"""

from __future__ import annotations

import msgspec

from raftsched.core.subjects.command import Command

NOTE_MAX = 32 * 1024  # bytes of an answer that is remembered


class CreatedRange(msgspec.Struct, array_like=True, gc=False):
    """Jobs made, or found, for consecutive places of a batch, whose ids are consecutive too."""

    place: int
    job_id: int
    count: int
    created: bool


class KeyUse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The result of the first request with an Idempotency-Key."""

    digest: bytes  # sha256 of the request: the same key with another one is refused
    at_ms: int
    job_id: int  # 0: it concerned none
    instance: bytes | None = None  # instance key, of a manual run
    created: bool = True
    number: int | None = None  # of a backfill: runs made
    operation: int = 0  # its id; then there is neither job nor instance
    note: bytes = b""  # the answer itself, where that is remembered
    made: list[CreatedRange] = []  # of a batch, or a part of one; then nothing else of this


class Idempotent(Command, frozen=True, tag=65):
    """The command, done once under this key: a repeat is answered as it was the first time, and does nothing. Another
    digest under the same key is refused. What was refused is not remembered."""

    key: bytes  # hash of the caller's Idempotency-Key and the kind of request
    digest: bytes  # hash of the request that goes with the key
    command: bytes  # encoded


class StoredResponse(Command, frozen=True, tag=66):
    """The answer to a request that was several commands, or none: a repeat under this key is answered with these bytes.
    Of two answers the first counts."""

    key: bytes
    digest: bytes
    answer: bytes
