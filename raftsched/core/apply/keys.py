"""Requests that name themselves: the same key again is answered, not done again.

A row of KEYS remembers what the first request of a key brought about, KEY_TIMES orders them by age. Both are part of
the replicated state, so any node answers the repeat, also after a failover. Only what was done is remembered: a request
that was refused may be sent again under its key.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from raftsched.core.apply.tx import Tx, decode_job
from raftsched.core.cluster import Meta
from raftsched.core.commands import Accepted, Answer, Note, Rejected
from raftsched.core.ids import job_text
from raftsched.core.keyed import NOTE_MAX, KeyUse, Made
from raftsched.core.model import JobState
from raftsched.core.operations import decode_operation
from raftsched.core.tables import ReadView, Table, from_u64, u64

HASH_SIZE = 32  # bytes of a key, and of a digest
BATCH_PLACES = 512  # of one row
_DROPPED_AT_ONCE = 2  # of the oldest, for each new one: a lowered limit is reached in time

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(KeyUse)


def known_key(view: ReadView, meta: Meta, key: bytes) -> KeyUse | None:
    """What was done under this key (its hash), as long as it is remembered."""
    raw = view.get(Table.KEYS, key)
    if raw is None:
        return None
    use: KeyUse = _decoder.decode(raw)
    return use if use.at_ms > meta.now_ms - meta.settings.idempotency_keep_ms else None


def mismatch() -> Rejected:
    return Rejected(
        "idempotency-mismatch",
        "This Idempotency-Key came with another request before; use a new key for a new request.",
    )


def once(tx: Tx, key: bytes, digest: bytes, act: Callable[[], Answer]) -> Answer:
    """The answer of `act`; under a key that is known the first answer again, with the job as it is now."""
    if not key:
        return act()
    if len(key) != HASH_SIZE or len(digest) != HASH_SIZE:
        return Rejected("invalid-parameter", f"A key and its digest are hashes of {HASH_SIZE} bytes.")
    use = known_key(tx.view, tx.meta, key)
    if use is not None:
        tx.repeated = True
        return mismatch() if use.digest != digest or use.made else again(tx.view, use)
    answer = act()
    if isinstance(answer, Accepted):
        _remember(tx, key, _use(digest, tx.now, answer))
    return answer


def once_in_batch(tx: Tx, key: bytes, digest: bytes, place: int, act: Callable[[], Answer]) -> Answer:
    """The same for one of the jobs of a batch: they share a row, as jobs made one after the other have ids one after
    the other. It is written once in a turn (`Tx.batches`)."""
    if len(key) != HASH_SIZE or len(digest) != HASH_SIZE or not 0 <= place < BATCH_PLACES:
        return Rejected("invalid-parameter", f"A key has {HASH_SIZE} bytes, a batch under it {BATCH_PLACES} places.")
    use = tx.batches.get(key) or known_key(tx.view, tx.meta, key)
    if use is not None and use.at_ms <= tx.now - tx.meta.settings.idempotency_keep_ms:
        use = None
    if use is not None:
        if use.digest != digest or not use.made:
            return mismatch()
        known = at_place(tx.view, use, place)
        if known is not None:
            tx.repeated = True
            return known
    answer = act()
    if isinstance(answer, Accepted) and answer.job is not None:
        if use is None:
            use = KeyUse(digest, tx.now, 0, made=[Made(place, answer.job.id, 1, answer.created)])
            if not _remember(tx, key, use):
                return answer
        else:
            _add(use.made, place, answer.job.id, answer.created)
        tx.batches[key] = use
    return answer


def at_place(view: ReadView, use: KeyUse, place: int) -> Answer | None:
    """What was made at this place of a batch, as it is by now; None: nothing yet."""
    for made in reversed(use.made):
        if made.place <= place < made.place + made.count:
            job_id = made.job_id + place - made.place
            return again(view, KeyUse(use.digest, use.at_ms, job_id, created=made.created))
    return None


def _add(made: list[Made], place: int, job_id: int, created: bool) -> None:
    last = made[-1]
    if place == last.place + last.count and job_id == last.job_id + last.count and created == last.created:
        last.count += 1
    else:
        made.append(Made(place, job_id, 1, created))


def _use(digest: bytes, now_ms: int, answer: Accepted) -> KeyUse:
    if answer.operation is not None:
        return KeyUse(digest, now_ms, 0, operation=answer.operation.id)
    job_id = 0 if answer.job is None else answer.job.id
    return KeyUse(digest, now_ms, job_id, answer.instance, answer.created, answer.number, note=answer.note)


def again(view: ReadView, use: KeyUse) -> Answer:
    """What a request that was done before is answered: as then, with the job or operation as it is by now."""
    if use.operation:
        raw = view.get(Table.OPERATIONS, u64(use.operation))
        return gone(use) if raw is None else Accepted(operation=decode_operation(raw), created=True)
    job = None
    if use.job_id:
        raw = view.get(Table.JOBS, u64(use.job_id))
        job = None if raw is None else decode_job(raw)
        if use.instance is None and (job is None or job.state is JobState.DELETED):
            return gone(use)
    return Accepted(job=job, instance=use.instance, created=use.created, number=use.number, note=use.note)


def note(tx: Tx, c: Note) -> Answer:
    if not c.key or len(c.answer) > NOTE_MAX:
        return Rejected("invalid-parameter", f"An answer of at most {NOTE_MAX} bytes is remembered, under a key.")
    return once(tx, c.key, c.digest, lambda: Accepted(note=c.answer))


def gone(use: KeyUse) -> Rejected:
    if use.operation:
        return Rejected(
            "not-found",
            f"The request with this Idempotency-Key was done before; the operation {job_text(use.operation)} is not "
            "kept any more.",
        )
    return Rejected(
        "not-found",
        f"The request with this Idempotency-Key was done before; the job {job_text(use.job_id)} was deleted since.",
    )


def _remember(tx: Tx, key: bytes, use: KeyUse) -> bool:
    """False: nothing is remembered in this cluster."""
    _forget(tx, key)  # one that is too old to count
    most = tx.meta.settings.idempotency_max
    if not most:
        return False
    for row in _oldest(tx, _DROPPED_AT_ONCE) if tx.meta.keys >= most else []:
        if tx.meta.keys >= most:
            _forget(tx, row[8:])
    tx.view.put(Table.KEYS, key, _encode(use))
    tx.view.put(Table.KEY_TIMES, u64(use.at_ms) + key, b"")
    tx.meta.keys += 1
    return True


def _forget(tx: Tx, key: bytes) -> None:
    raw = tx.view.get(Table.KEYS, key)
    tx.batches.pop(key, None)
    if raw is not None:
        tx.view.delete(Table.KEYS, key)
        tx.view.delete(Table.KEY_TIMES, u64(_decoder.decode(raw).at_ms) + key)
        tx.meta.keys -= 1


def _oldest(tx: Tx, count: int) -> list[bytes]:
    return [key for key, _ in islice(tx.view.scan(Table.KEY_TIMES), count)]


def prune_keys(tx: Tx, until_ms: int, limit: int) -> int:
    """Forgets, oldest first, what is too old and what is too many; returns how many."""
    settings = tx.meta.settings
    dropped = 0
    for row in _oldest(tx, limit):
        if from_u64(row[:8]) > until_ms - settings.idempotency_keep_ms and tx.meta.keys <= settings.idempotency_max:
            break
        _forget(tx, row[8:])
        dropped += 1
    return dropped
