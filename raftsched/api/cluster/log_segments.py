"""GET /v1/cluster/log: entries of the log behind an index, for a backup that goes on from an earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.auth.callers import caller, note_as
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import stamp
from raftsched.api.serving import serves
from raftsched.core.commands import Barrier, Command, encode
from raftsched.core.entry import time_of
from raftsched.core.levels import BACKUPS_ARE_NOTED
from raftsched.core.rows import BACKUP
from raftsched.core.subjects.backups import BACKUP_KEY, BackupNote, NoteBackup
from raftsched.errors import RaftschedError
from raftsched.store import LogEntry
from raftsched.store.segment import ENTRIES_BYTES, label_of
from raftsched.store.segment import encode as segment
from raftsched.surface import cluster

NOTE_S = 2.0  # for the note of who reads it
NOTE_EVERY_MS = 60_000  # that it is kept: each note is an entry, which whoever reads up to the end is to come to
AT_ONCE = 2  # segments that one node makes at a time: each is in memory as entries and compressed


class Segments(Collector):
    """The segments that one node is making, and how far the log is kept elsewhere: as the state has it, and as those
    have said who asked this node while there was no leader, or the cluster was of an earlier level."""

    def __init__(self, ctx: ApiContext) -> None:
        self.under_way = 0
        self._ctx = ctx
        self._kept_to_ms = 0  # 0: nobody has asked yet

    def kept(self, at_ms: int | None) -> None:
        """Remembers that somebody has the state up to this time of the log."""
        self._kept_to_ms = max(self._kept_to_ms, at_ms or 0)

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._ctx.read() as view:
            row = BACKUP.get(view, BACKUP_KEY)
        at_ms = max(self._kept_to_ms, 0 if row is None else row.log_time_ms)
        if at_ms:
            words = "The log's time up to which it is kept elsewhere; before the first backup, since when none is."
            yield GaugeMetricFamily("raftsched_backup_log_time_seconds", words, at_ms / 1000)
        if row is not None:
            words = "The entry up to which the log is kept elsewhere; 0: there was no backup of this cluster yet."
            yield GaugeMetricFamily("raftsched_backup_log_index", words, row.index)


SEGMENTS: web.AppKey[Segments] = web.AppKey("segments", Segments)


@serves(cluster.LOG)
async def get(ctx: ApiContext, call: Call[None]) -> web.StreamResponse:
    after = call.query.integer("after", 0, 2**53) or 0
    applied = ctx.applied()
    if after > applied:
        raise Problem("behind", f"This node has applied the log up to entry {applied}, and not up to {after}.")
    segments = call.request.app[SEGMENTS]
    if segments.under_way >= AT_ONCE:
        raise Problem("overloaded", "This node is making other segments of the log; try again, or ask another node.")
    segments.under_way += 1
    try:
        kept_at_ms = await asyncio.to_thread(_time_of, ctx, after)
        segments.kept(kept_at_ms)
        await _note(ctx, after, kept_at_ms)
        raw = await asyncio.to_thread(_make, ctx, after, applied, ctx.now_ms())
    finally:
        segments.under_way -= 1
    response = web.Response(status=200 if raw else 204, body=raw or None)
    if raw:
        response.headers["Content-Type"] = cluster.SEGMENT
        response.headers["Cache-Control"] = "no-store"
    stamp(ctx, response.headers)
    return response


async def _note(ctx: ApiContext, after: int, kept_at_ms: int | None) -> None:
    """Notes that all up to this entry is kept elsewhere, and in the audit that a caller reads the log, among what is
    noted by the thousand: it is asked for every few minutes. A cluster without a leader can note nothing, and may need
    it all the more."""
    note_as(cluster.LOG.id)
    command: Command | None = Barrier() if caller().known else None
    with ctx.read() as view:
        row = BACKUP.get(view, BACKUP_KEY) or BackupNote()
        noted = meta(view).level >= BACKUPS_ARE_NOTED
    if noted and kept_at_ms is not None and after > row.index and _is_worth_it(row, kept_at_ms):
        command = NoteBackup(after, kept_at_ms)
    if command is not None:
        try:
            await ctx.propose((encode(command),), NOTE_S)
        except RaftschedError:
            return


def _is_worth_it(row: BackupNote, kept_at_ms: int) -> bool:
    return not row.index or abs(kept_at_ms - row.log_time_ms) >= NOTE_EVERY_MS


def _time_of(ctx: ApiContext, index: int) -> int | None:
    """Returns the time of an entry of the log; None where it is not known any more. In a thread."""
    kept = next(iter(ctx.copies.entries(index, 1)), None)
    return None if kept is None else time_of(kept.data)


def _make(ctx: ApiContext, after: int, applied: int, now_ms: int) -> bytes:
    """Returns a segment of what follows an entry, empty where there is nothing. In a thread. Raises Problem."""
    copies = ctx.copies
    before_term = 0 if after == 0 else copies.term(after)
    if before_term is None:
        raise _gone(after)
    if after == applied:
        return b""
    entries: Sequence[LogEntry] = [e for e in copies.entries(after + 1, ENTRIES_BYTES) if e.index <= applied]
    if not entries:
        raise _gone(after)
    label = label_of(
        entries,
        before_term,
        cluster_id=ctx.meta().cluster_id,
        node=ctx.node_id,
        version=ctx.version,
        at_ms=now_ms,
    )
    return segment(label, entries, ctx.security.keys)


def _gone(after: int) -> Problem:
    return Problem("log-gone", f"This node no longer has what follows entry {after} of the log; make another backup.")
