"""Idempotency keys: a repeated request is answered, not done again.

A row of KEYS remembers what the first request of a key brought about, KEY_TIMES orders them by age. Both are part of
the replicated state, so any node answers the repeat, also after a failover. Only requests that were done are
remembered: one that was refused may be sent again under its key.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Answer, Rejected, StoredResponse
from raftsched.core.rows import decode_key_use, encode_row
from raftsched.core.subjects.idempotency import BATCH_PLACES, item_result, key_mismatch, known_use, replay
from raftsched.core.subjects.keyed import NOTE_MAX, CreatedRange, KeyUse
from raftsched.core.tables import Table, from_u64, u64

HASH_SIZE = 32  # bytes of a key, and of a digest
_DROPPED_AT_ONCE = 2  # of the oldest, for each new one: a lowered limit is reached in time


def once(tx: Tx, key: bytes, digest: bytes, act: Callable[[], Answer]) -> Answer:
    """Returns the answer of `act`; under a key that is known the first answer again, with the job as it is now."""
    if not key:
        return act()
    if len(key) != HASH_SIZE or len(digest) != HASH_SIZE:
        return Rejected("invalid-parameter", f"A key and its digest are hashes of {HASH_SIZE} bytes.")
    use = known_use(tx.view, tx.meta, key)
    if use is not None:
        tx.repeated = True
        return key_mismatch() if use.digest != digest or use.made else replay(tx.view, use)
    answer = act()
    if isinstance(answer, Accepted):
        _remember(tx, key, _use(digest, tx.now, answer))
    return answer


def once_in_batch(tx: Tx, key: bytes, digest: bytes, place: int, act: Callable[[], Answer]) -> Answer:
    """Does the same for one item of a batch. Items share a row, as jobs made one after the other have ids one after the
    other. It is written once in a write batch (`Tx.batches`)."""
    if len(key) != HASH_SIZE or len(digest) != HASH_SIZE or not 0 <= place < BATCH_PLACES:
        return Rejected("invalid-parameter", f"A key has {HASH_SIZE} bytes, a batch under it {BATCH_PLACES} places.")
    use = tx.batches.get(key) or known_use(tx.view, tx.meta, key)
    if use is not None and use.at_ms <= tx.now - tx.meta.settings.idempotency_keep_ms:
        use = None
    if use is not None:
        if use.digest != digest or not use.made:
            return key_mismatch()
        known = item_result(tx.view, use, place)
        if known is not None:
            tx.repeated = True
            return known
    answer = act()
    if isinstance(answer, Accepted) and answer.job is not None:
        if use is None:
            use = KeyUse(digest, tx.now, 0, made=[CreatedRange(place, answer.job.id, 1, answer.created)])
            if not _remember(tx, key, use):
                return answer
        else:
            _add(use.made, place, answer.job.id, answer.created)
        tx.batches[key] = use
    return answer


def _add(made: list[CreatedRange], place: int, job_id: int, created: bool) -> None:
    last = made[-1]
    if place == last.place + last.count and job_id == last.job_id + last.count and created == last.created:
        last.count += 1
    else:
        made.append(CreatedRange(place, job_id, 1, created))


def _use(digest: bytes, now_ms: int, answer: Accepted) -> KeyUse:
    if answer.operation is not None:
        return KeyUse(digest, now_ms, 0, operation=answer.operation.id)
    job_id = 0 if answer.job is None else answer.job.id
    return KeyUse(digest, now_ms, job_id, answer.instance, answer.created, answer.number, note=answer.note)


def note(tx: Tx, c: StoredResponse) -> Answer:
    if not c.key or len(c.answer) > NOTE_MAX:
        return Rejected("invalid-parameter", f"An answer of at most {NOTE_MAX} bytes is remembered, under a key.")
    return once(tx, c.key, c.digest, lambda: Accepted(note=c.answer))


def _remember(tx: Tx, key: bytes, use: KeyUse) -> bool:
    """Stores what was done under the key. Returns False when this cluster remembers no keys."""
    _forget(tx, key)  # one that is too old to count
    limit = tx.meta.settings.idempotency_max
    if not limit:
        return False
    for row in _oldest(tx, _DROPPED_AT_ONCE) if tx.meta.keys >= limit else []:
        if tx.meta.keys >= limit:
            _forget(tx, row[8:])
    tx.view.put(Table.KEYS, key, encode_row(use))
    tx.view.put(Table.KEY_TIMES, u64(use.at_ms) + key, b"")
    tx.meta.keys += 1
    return True


def _forget(tx: Tx, key: bytes) -> None:
    raw = tx.view.get(Table.KEYS, key)
    tx.batches.pop(key, None)
    if raw is not None:
        tx.view.delete(Table.KEYS, key)
        tx.view.delete(Table.KEY_TIMES, u64(decode_key_use(raw).at_ms) + key)
        tx.meta.keys -= 1


def _oldest(tx: Tx, count: int) -> list[bytes]:
    return [key for key, _ in islice(tx.view.scan(Table.KEY_TIMES), count)]


def prune_keys(tx: Tx, until_ms: int, limit: int) -> int:
    """Forgets, oldest first, keys that are too old and too many. Returns how many."""
    settings = tx.meta.settings
    dropped = 0
    for row in _oldest(tx, limit):
        if from_u64(row[:8]) > until_ms - settings.idempotency_keep_ms and tx.meta.keys <= settings.idempotency_max:
            break
        _forget(tx, row[8:])
        dropped += 1
    return dropped
