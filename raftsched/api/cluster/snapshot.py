"""GET /v1/cluster/snapshot: the state of this node as of one applied entry, to be kept somewhere else."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from aiohttp import web

from raftsched.api.auth.callers import caller, note_as
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import stamp
from raftsched.api.http.streams import STREAMS, send
from raftsched.api.serving import serves
from raftsched.core.commands import Barrier, encode
from raftsched.core.subjects.access import ANONYMOUS
from raftsched.errors import RaftschedError
from raftsched.store.backup import TRAILER, label_of, trailer
from raftsched.store.snapshot import SnapshotMeta
from raftsched.surface import cluster

NOTE_S = 2.0  # for the note of who takes it
PIECE = 256 * 1024  # bytes
BYTES_PER_S = 64 << 20  # all others wait for the same disks and processors
_TRIES = 3  # a store that grows under a copy breaks it off

log = logging.getLogger(__name__)


class Backups:
    """The backups of one node: one at a time."""

    def __init__(self) -> None:
        self.under_way = 0  # its number; 0: none
        self.number = 0

    def over(self, number: int) -> None:
        if self.under_way == number:
            self.under_way = 0


BACKUPS: web.AppKey[Backups] = web.AppKey("backups", Backups)


@serves(cluster.SNAPSHOT)
async def get(ctx: ApiContext, call: Call[None]) -> web.StreamResponse:
    request = call.request
    backups = request.app[BACKUPS]
    if backups.under_way:
        raise Problem("overloaded", "A backup of this node is on its way; wait for its end, or ask another node.")
    if request.method == "HEAD":
        index = str(ctx.cluster.status().applied_index)
        head = web.StreamResponse(headers={"Content-Type": cluster.BACKUP, cluster.SNAPSHOT_INDEX: index})
        stamp(ctx, head.headers)
        await head.prepare(request)  # how long it would be is not known before it is made
        return head
    await _note(ctx)
    backups.number += 1
    number = backups.under_way = backups.number
    try:
        async with _copy(ctx, number) as (file, meta):
            response, last = await _stream(ctx, request, file, meta)
        backups.over(number)  # before the end of it is seen: who has it may ask for the next one
        if last is not None:
            await send(request, response, last)
            await response.write_eof()
        return response
    finally:
        backups.over(number)


async def _note(ctx: ApiContext) -> None:
    """Notes in the audit that a caller takes a backup. A cluster without a leader can note nothing, and may need the
    backup all the more: then the node's log has it."""
    note_as(cluster.SNAPSHOT.id)
    try:
        await ctx.propose((encode(Barrier()),), NOTE_S)
    except RaftschedError as error:
        log.warning("a backup is taken by %s, which is not in the audit: %s", caller().name or ANONYMOUS, error)


@asynccontextmanager
async def _copy(ctx: ApiContext, number: int) -> AsyncIterator[tuple[BinaryIO, SnapshotMeta]]:
    """The open file; its name is gone by then, and its bytes when it is closed. Raises Problem."""
    path = ctx.copies.directory / f"backup-{number}.snap"
    ctx.copies.publish()
    work = asyncio.ensure_future(asyncio.to_thread(_take, ctx, path))
    try:
        file, meta = await asyncio.shield(work)
    except asyncio.CancelledError:
        with suppress(Problem):  # the copy cannot be called off, and must not be left behind
            (await work)[0].close()
        raise
    try:
        yield file, meta
    finally:
        await asyncio.to_thread(file.close)


def _take(ctx: ApiContext, path: Path) -> tuple[BinaryIO, SnapshotMeta]:
    for left in reversed(range(_TRIES)):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            meta = ctx.copies.copy(path)
            file = path.open("rb")
            path.unlink()
            return file, meta
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise Problem("disk-full", f"The disk has no room for the copy: {error.strerror}.") from None
            if not left:
                log.warning("no backup can be made: %s", error)
        except ValueError as error:
            if not left:
                log.warning("no backup can be made: %s", error)
    raise Problem("overloaded", "The state changes too fast to be copied now; try again, or ask another node.")


async def _stream(
    ctx: ApiContext, request: web.Request, file: BinaryIO, meta: SnapshotMeta
) -> tuple[web.StreamResponse, bytes | None]:
    """All but the trailer, which is given back; None: it was broken off."""
    response = web.StreamResponse(
        headers={
            "Content-Type": cluster.BACKUP,
            "Content-Length": str(meta.size + TRAILER),
            "Content-Disposition": f'attachment; filename="raftsched-{meta.index}.backup"',
            "Cache-Control": "no-store",
            cluster.SNAPSHOT_INDEX: str(meta.index),
        }
    )
    stamp(ctx, response.headers)
    await response.prepare(request)
    label = label_of(meta, ctx.meta(), ctx.node_id, ctx.version, ctx.now_ms())
    digest = hashlib.sha256()
    stopping = request.app[STREAMS].stopping
    began, sent = ctx.clock.monotonic(), 0
    while sent < meta.size:
        piece = await asyncio.to_thread(file.read, PIECE)
        if not piece or stopping.is_set():
            if request.transport is not None:
                request.transport.abort()  # a cut answer must not look like a whole one
            return response, None
        digest.update(piece)
        await send(request, response, piece)
        sent += len(piece)
        ahead = sent / BYTES_PER_S - (ctx.clock.monotonic() - began)
        if ahead > 0:
            await asyncio.sleep(ahead)
    return response, trailer(label, digest, ctx.security.keys)
