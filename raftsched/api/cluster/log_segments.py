"""GET /v1/cluster/log: entries of the log behind an index, for a backup that goes on from an earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.auth.callers import caller, note_as
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import stamp
from raftsched.api.http.requests import READ
from raftsched.api.openapi.operation import Reply, operation
from raftsched.core.commands import Barrier, encode
from raftsched.core.entry import time_of
from raftsched.errors import RaftschedError
from raftsched.store import LogEntry
from raftsched.store.segment import ENTRIES_BYTES, MEDIA_TYPE, label_of
from raftsched.store.segment import encode as segment

NOTE_S = 2.0  # for the note of who reads it
AT_ONCE = 2  # segments that one node makes at a time: each is in memory as entries and compressed


class Segments(Collector):
    """The segments that one node is making, and how far those who asked have kept the log, by what they say."""

    def __init__(self) -> None:
        self.under_way = 0
        self._kept_to_ms = 0  # 0: nobody has asked yet

    def kept(self, at_ms: int | None) -> None:
        """Notes that somebody has the state up to this time of the log."""
        self._kept_to_ms = max(self._kept_to_ms, at_ms or 0)

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        if self._kept_to_ms:
            words = "The log's time up to which it is kept elsewhere, as far as this node was told."
            yield GaugeMetricFamily("raftsched_backup_log_time_seconds", words, self._kept_to_ms / 1000)


SEGMENTS: web.AppKey[Segments] = web.AppKey("segments", Segments)


@operation(
    "Download a segment of the log",
    {
        200: Reply({"type": "string", "format": "binary"}, "The segment.", media=MEDIA_TYPE),
        204: Reply(None, "This node has applied nothing behind that entry."),
    },
    query=("after", *READ),
    schemas={"after": {"type": "integer", "minimum": 0, "maximum": 2**53, "default": 0}},
    codes=("overloaded", "log-gone"),
    role="admin",
    work=True,
)
async def get(ctx: ApiContext, call: Call[None]) -> web.StreamResponse:
    """The entries behind the one with the index `after`, about 8 MiB of them at most, compressed, with a checksum, and
    signed where the cluster has a key. Ask again with the index of the last one until the answer is 204. With a backup
    as of `after` they make the state after any of them. Who asks says that all up to `after` is kept elsewhere. A node
    keeps the newest part of its log: 410 `log-gone` says that the entry is older, and that another backup is needed;
    503 `behind` that this node has not applied that entry. They contain everything that was asked of the cluster: keep
    them secret."""
    after = call.query.integer("after", 0, 2**53) or 0
    applied = ctx.applied()
    if after > applied:
        raise Problem("behind", f"This node has applied the log up to entry {applied}, and not up to {after}.")
    segments = call.request.app[SEGMENTS]
    if segments.under_way >= AT_ONCE:
        raise Problem("overloaded", "This node is making other segments of the log; try again, or ask another node.")
    segments.under_way += 1
    try:
        await _note(ctx)
        kept, raw = await asyncio.to_thread(_make, ctx, after, applied, ctx.now_ms())
    finally:
        segments.under_way -= 1
    segments.kept(kept)
    response = web.Response(status=200 if raw else 204, body=raw or None)
    if raw:
        response.headers["Content-Type"] = MEDIA_TYPE
        response.headers["Cache-Control"] = "no-store"
    stamp(ctx, response.headers)
    return response


async def _note(ctx: ApiContext) -> None:
    """Notes in the audit that a caller reads the log, among what is noted by the thousand: it is asked for every few
    minutes. A cluster without a leader can note nothing, and may need it all the more."""
    note_as("log_segments_get")
    if caller().known:
        try:
            await ctx.propose((encode(Barrier()),), NOTE_S)
        except RaftschedError:
            return


def _make(ctx: ApiContext, after: int, applied: int, now_ms: int) -> tuple[int | None, bytes]:
    """Returns the time of the entry `after`, as far as it is known, and a segment of what follows it, empty where there
    is nothing. In a thread. Raises Problem."""
    copies = ctx.copies
    before_term = 0 if after == 0 else copies.term(after)
    if before_term is None:
        raise _gone(after)
    kept = next(iter(copies.entries(after, 1)), None)
    at_ms = None if kept is None else time_of(kept.data)
    if after == applied:
        return at_ms, b""
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
    return at_ms, segment(label, entries, ctx.security.keys)


def _gone(after: int) -> Problem:
    return Problem("log-gone", f"This node no longer has what follows entry {after} of the log; make another backup.")
