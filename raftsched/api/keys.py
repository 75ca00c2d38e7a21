"""Idempotency-Key: a request that may be sent again without being done again.

The key holds for an hour, on every node (`core.apply.keys`), for one kind of request, such as creating a job, a batch,
or a manual run. The same key with another body, other conditions or another job is refused. A request that was refused
leaves its key free. The repeat is answered like the first time, with the job as it is by then; when the job was
deleted meanwhile, with 404.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

from aiohttp import web

from raftsched.api.context import ApiContext, meta
from raftsched.api.problems import Problem, from_rejected
from raftsched.api.rows import get_job
from raftsched.core.apply.keys import gone, known_key, mismatch
from raftsched.core.commands import Accepted
from raftsched.core.operations import decode_operation
from raftsched.core.tables import Table, u64

HEADER = "Idempotency-Key"
_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")


class Named(NamedTuple):
    """A request and the name its sender gave it, as hashes; both empty when he gave none."""

    key: bytes = b""
    digest: bytes = b""


_UNNAMED = Named()


def named(request: web.Request, kind: str, *parts: bytes) -> Named:
    """`parts`: all that makes the request what it is. Raises Problem invalid-parameter."""
    given = request.headers.getall(HEADER, [])
    if not given:
        return _UNNAMED
    if len(given) > 1 or not _VISIBLE.fullmatch(given[0]):
        raise Problem("invalid-parameter", f"{HEADER} must be given once, as 1 to 255 visible ASCII characters.")
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return Named(sha256(f"{kind}\0{given[0]}".encode()).digest(), digest.digest())


def part(name: Named, place: int) -> Named:
    """Of what a request does at one of its places: named by the request and the place."""
    if not name.key:
        return name
    return Named(sha256(name.key + place.to_bytes(8, "big")).digest(), name.digest)


def done_before(ctx: ApiContext, name: Named) -> Accepted | None:
    """The answer, when this node knows that the request was done: it is not examined again, for what was right then may
    be too late by now. None: apply will say. Raises what apply would refuse."""
    if not name.key:
        return None
    with ctx.read() as view:
        cluster = meta(view)
        use = known_key(view, cluster, name.key)
        if use is None or use.at_ms <= ctx.now_ms() - cluster.settings.idempotency_keep_ms:
            return None
        if use.digest != name.digest:
            raise from_rejected(mismatch())
        if use.operation:
            raw = view.get(Table.OPERATIONS, u64(use.operation))
            if raw is None:
                raise from_rejected(gone(use))
            return Accepted(operation=decode_operation(raw), created=True)
        job = get_job(view, use.job_id)
    if job is None and use.instance is None:
        raise from_rejected(gone(use))
    return Accepted(job=job, instance=use.instance, created=use.created, number=use.number)
