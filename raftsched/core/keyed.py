"""Any command of a user under an Idempotency-Key, and answers that are remembered as they were given.

Commands that were made with a key in mind carry it themselves; for all others there is `Keyed`.
"""

from __future__ import annotations

import msgspec

NOTE_MAX = 32 * 1024  # bytes of an answer that is remembered


class Keyed(msgspec.Struct, array_like=True, frozen=True, tag=65):
    """The command, done once under this key: a repeat is answered as it was the first time, and does nothing. Another
    digest under the same key is refused. What was refused is not remembered."""

    key: bytes  # hash of the caller's Idempotency-Key and the kind of request
    digest: bytes  # hash of the request that goes with the key
    command: bytes  # encoded


class Note(msgspec.Struct, array_like=True, frozen=True, tag=66):
    """What a request under this key was answered, when it was more than one command, or none of these: who repeats it
    is answered with these bytes. Of two notes the first counts."""

    key: bytes
    digest: bytes
    answer: bytes
