"""GET /v1/instances:search: lines of output that hold a text.

The node that is asked walks through the instances, the newest first, as a list does, and parts what they printed among
the nodes that have it; those walk through the same ones, and read what is theirs. So permissions, order and cursor are
those of a list, wherever output lies.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import aiohttp
import msgspec
from aiohttp import web

from raftsched.api.auth.callers import caller, permits
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.cursors import encode_cursor
from raftsched.api.http.durations import format_time
from raftsched.api.http.peers import CLIENT, CONNECT_S, HOP, call_node, whole
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import Query, bad_parameter
from raftsched.api.rows import SCAN_MAX, instances_of, namespace_of, referred_job
from raftsched.api.runs.kept_words import is_to_be_kept
from raftsched.api.runs.output_source import places_of
from raftsched.api.runs.render import JobNames
from raftsched.api.serving import serves
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Attempt, Instance
from raftsched.core.rows import decode_instance
from raftsched.core.tables import ReadView, Table, u64
from raftsched.errors import RaftschedError
from raftsched.output.reading.chain import is_kept, node_of
from raftsched.output.reading.searching import Needle, found_in
from raftsched.surface import output as surface
from raftsched.surface.output import FoundLineOut, OutputFoundOut, OutputSearchOut, SilentNodeOut

TEXT_MAX = 1_000  # bytes that are searched for
BYTES_MAX = 64 * 2**20  # of output: after so many no other instance is begun in one answer,
OUTPUTS_MAX = 1_000  # nor after so many outputs
LINES_MAX = 10  # of one output that are answered
TIME_S = 5.0  # that a node reads for one answer; it ends the instance that it is in
_LIMIT = aiohttp.ClientTimeout(total=60.0, sock_connect=CONNECT_S)  # of another node's answer
WAIT_S = 10.0  # for the search before
WAITING_MAX = 8  # searches at one node
RANGE = "Raftsched-Search-Range"  # from node to node: which instances are meant, and whose output
_RANGE = re.compile(r"([0-9a-f]{0,64})-([0-9a-f]{2,64}) ([^ ]{1,64})")
_LISTING = "search"


class _Output(NamedTuple):
    """An attempt that has ended, with what it printed."""

    row: Instance
    attempt: Attempt

    @property
    def name(self) -> tuple[str, int]:
        return instance_text(self.row.key), self.attempt.number


class _Walk(NamedTuple):
    """The outputs to be read for one answer, and the last instance that was looked at; None: there are no more.
    `above`: the key below which it began."""

    outputs: list[_Output]
    last: bytes | None
    above: bytes | None


class _Asked:
    """A search, as the request says it."""

    def __init__(self, query: Query) -> None:
        text = query.text("q") or ""
        if not 1 <= len(text.encode()) <= TEXT_MAX or "\n" in text:
            raise bad_parameter("q", f"must have 1 to {TEXT_MAX:,} bytes, in one line", "out-of-range")
        self.needle = Needle(text, ignore_case=query.flag("ignore_case"))
        self.stream = query.choice("stream", "stdout", "stderr")
        self.job, self.namespace = query.text("job"), query.text("namespace")
        self.low_ms = query.time("from") or 0
        to_ms = query.time("to")
        self.high_ms = TIME_MAX_MS if to_ms is None else to_ms

    def walk(self, view: ReadView, before: bytes | None) -> _Walk:
        """Returns what comes next, below the key `before`. Raises Problem not-found."""
        outputs: list[_Output] = []
        size, last = 0, None
        for looked, (key, raw) in enumerate(self._rows(view, before)):
            if looked >= SCAN_MAX or len(outputs) >= OUTPUTS_MAX or size >= BYTES_MAX:
                return _Walk(outputs, last, before)
            if before is None:
                before = key + b"\0"  # what comes since is not part of this one
            found = [_Output(row, a) for row in self._kept(view, raw) for a in row.attempts if is_kept(a)]
            outputs += found
            size += sum(one.attempt.output.size for one in found if one.attempt.output is not None)
            last = key
        return _Walk(outputs, None, before)

    def _rows(self, view: ReadView, before: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if self.job is None:
            high = u64(self.high_ms) if before is None else min(u64(self.high_ms), before)
            return view.scan(Table.INSTANCES, u64(self.low_ms), high, reverse=True)
        job = referred_job(view, self.job, self.namespace)
        if job is None:
            raise Problem("not-found", f'There is no job "{self.job[:200]}"; give its id, or "namespace/name".')
        return instances_of(view, job, self.low_ms, self.high_ms, before)

    def _kept(self, view: ReadView, raw: bytes) -> Iterator[Instance]:
        """Yields the instance, if the caller may see it and it is one of those that are meant."""
        row = decode_instance(raw)
        namespace = namespace_of(view, row.key)
        if namespace is None or not permits(namespace):
            return
        if self.namespace in (None, namespace) and (row.notice is None or self.namespace is not None):
            yield row


class _Part(msgspec.Struct):
    """The finds of one node. `reached`: the key of the last instance that it came to in that time; None: it came to
    all. `read`: how many of the outputs up to there it has; `missing`: the others (None: it is an earlier version)."""

    items: list[tuple[str, int, list[FoundLineOut], bool]]  # instance, attempt, lines, more
    reached: str | None
    read: int
    bytes: int
    missing: list[tuple[str, int]] | None = None

    def lacks(self, outputs: Sequence[_Output]) -> set[tuple[str, int]]:
        """Returns which of these it does not have, of those that it came to."""
        come_to = self.come_to(outputs)
        if self.missing is not None:
            return {one.name for one in come_to}.intersection(self.missing)
        found = {(name, number) for name, number, _, _ in self.items}
        return {one.name for one in come_to} - found if self.read < len(come_to) else set()

    def come_to(self, outputs: Sequence[_Output]) -> Sequence[_Output]:
        return [one for one in outputs if self.reached is None or one.row.key.hex() >= self.reached]


class _Work:
    """A search in outputs that this node has, or copies of."""

    def __init__(self, ctx: ApiContext, asked: _Asked, outputs: Sequence[_Output]) -> None:
        self._ctx = ctx
        self._asked = asked
        self._outputs = outputs

    def run(self) -> _Part:
        """Blocks."""
        missing: list[tuple[str, int]] = []
        part = _Part([], None, 0, 0, missing)
        clock, places = self._ctx.clock, places_of(self._ctx)
        end = clock.monotonic() + TIME_S
        before: bytes | None = None
        for one in self._outputs:
            if before not in (None, one.row.key) and clock.monotonic() >= end:
                part.reached = None if before is None else before.hex()
                break
            before = one.row.key
            text = places.glance(one.attempt, self._asked.stream)
            if text is None:
                missing.append(one.name)
                continue
            part.read += 1
            part.bytes += text.size
            lines = list(islice(found_in(text, self._asked.needle), LINES_MAX + 1))
            if lines:
                shown = [FoundLineOut(*line) for line in lines[:LINES_MAX]]
                part.items.append((*one.name, shown, len(lines) > LINES_MAX))
        return part


class Searches:
    """The searches at one node: its files are read by one at a time, in a thread."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._waiting = 0

    async def read(self, work: _Work) -> _Part:
        """Raises RaftschedError too-many."""
        if self._waiting >= WAITING_MAX:
            raise RaftschedError("too-many", f"{WAITING_MAX} searches are waiting at this node; try again shortly.")
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await self._reading.acquire()
        except TimeoutError:
            raise RaftschedError("too-many", "Other searches are under way at this node; try again shortly.") from None
        finally:
            self._waiting -= 1
        try:
            return await asyncio.to_thread(work.run)
        finally:
            self._reading.release()


SEARCHES: web.AppKey[Searches] = web.AppKey("searches", Searches)


@serves(surface.SEARCH)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    asked, request = _Asked(call.query), call.request
    if HOP in request.headers and caller().peer:
        return reply_value(await _for_another(ctx, request, asked))
    before = call.query.cursor(_LISTING)
    with ctx.read() as view:
        walk = asked.walk(view, before)
    search = _Search(ctx, request, asked, walk)
    await search.run()
    return reply_value(search.answer(call.query.limit(), call.query.filters()))


async def _for_another(ctx: ApiContext, request: web.Request, asked: _Asked) -> _Part:
    """Searches in what this node has of the outputs that the other one came by."""
    said = _RANGE.fullmatch(request.headers.get(RANGE, ""))
    if said is None:
        raise Problem("invalid-parameter", f"{RANGE} must say which outputs are meant.")
    before, last = (bytes.fromhex(said[1]) or None), bytes.fromhex(said[2])
    with ctx.read() as view:
        walk = asked.walk(view, before)
    meant = [one for one in walk.outputs if one.row.key >= last and node_of(one.attempt) == said[3]]
    part = await request.app[SEARCHES].read(_Work(ctx, asked, meant))
    if part.reached is None and walk.last is not None and walk.last > last:
        part.reached = walk.last.hex()  # there are more since the other one looked
    return part


class _Search:
    """One answer: what each node has is asked for at the same time."""

    def __init__(self, ctx: ApiContext, request: web.Request, asked: _Asked, walk: _Walk) -> None:
        self._ctx = ctx
        self._request = request
        self._asked = asked
        self._walk = walk
        self._of: dict[str, list[_Output]] = {}
        for one in walk.outputs:
            self._of.setdefault(node_of(one.attempt), []).append(one)
        self._parts: dict[str, _Part] = {}
        self._silent: list[SilentNodeOut] = []

    async def run(self) -> None:
        """Raises RaftschedError too-many: this node reads for others already."""
        await asyncio.gather(*(self._search(node) for node in self._of))

    async def _search(self, node: str) -> None:
        """Searches in what a node has, and in the second copies of that where it does not answer, or has lost it."""
        outputs, silent = self._of[node], ""
        try:
            parts = [await self._look(node, node, outputs)]
            lost = self._lost(parts[0].lacks(outputs), outputs)
        except Problem as problem:
            parts, lost, silent = [], outputs, problem.detail
        members = self._ctx.meta().members if lost else ()
        for other in (member.node for member in members if member.node != node):
            try:
                parts.append(await self._look(other, node, lost))
            except RaftschedError:
                continue
        reached = max((part.reached for part in parts if part.reached is not None), default=None)
        items = {item[:2]: item for part in parts for item in part.items}
        found = _Part(list(items.values()), reached, 0, sum(part.bytes for part in parts))
        come_to = found.come_to(outputs)
        missing = {one.name for one in come_to}.intersection(*(part.lacks(come_to) for part in parts))
        found.read = len(come_to) - len(missing)
        self._parts[node] = found
        if silent and missing:
            more = "" if self._ctx.stored is None else " There is no search in the object store."
            self._silent.append(SilentNodeOut(node, len(missing), silent + more))

    def _lost(self, missing: set[tuple[str, int]], outputs: Sequence[_Output]) -> list[_Output]:
        """Returns those that a node does not have which answers, though they are to be kept yet."""
        now_ms = self._ctx.now_ms()
        with self._ctx.read() as view:
            return [one for one in outputs if one.name in missing and is_to_be_kept(view, *one, now_ms)]

    async def _look(self, node: str, of: str, outputs: Sequence[_Output]) -> _Part:
        """Has a node search in what it has of these outputs of `of`. Raises Problem output-unavailable; RaftschedError
        too-many: this node reads for others already."""
        if node == self._ctx.node_id:
            return await self._request.app[SEARCHES].read(_Work(self._ctx, self._asked, outputs))
        return await self._ask(node, of, outputs)

    async def _ask(self, node: str, of: str, outputs: Sequence[_Output]) -> _Part:
        ctx, given = self._ctx, self._request.query
        query = {name: value for name, value in given.items() if name not in ("cursor", "limit", "consistency")}
        query["min_index"] = str(ctx.cluster.status().applied_index)
        above, last = outputs[0].row.key + b"\0", outputs[-1].row.key
        headers = {HOP: ctx.node_id, RANGE: f"{above.hex()}-{last.hex()} {of}"}
        session, path = self._request.app[CLIENT], surface.SEARCH.path
        answer = await call_node(ctx, session, node, path, query, _LIMIT, headers=headers)
        raw = await whole(node, answer)
        if answer.status == 200:
            try:
                return _decode(raw)
            except msgspec.DecodeError:
                pass
        raise Problem("output-unavailable", f"Node {node} answers {answer.status}.")

    def answer(self, limit: int, filters: Mapping[str, str]) -> OutputSearchOut:
        """Returns what was found, up to the first instance that some node did not come to. Where that is the first of
        all, the next answer begins where this one did."""
        stop = self._first_left_out()
        found = {
            (name, number): (lines, more) for part in self._parts.values() for name, number, lines, more in part.items
        }
        items: list[OutputFoundOut] = []
        last, before = self._walk.last, self._walk.above
        with self._ctx.read() as view:
            names = JobNames(view)
            for one in self._walk.outputs:
                row, attempt = one
                if row.key != before and (row.key == stop or len(items) >= limit):
                    last = before
                    break
                before = row.key
                hit = found.get(one.name)
                if hit is not None:
                    items.append(_shown(names, row, attempt, *hit))
        return OutputSearchOut(
            items,
            None if last is None else encode_cursor(_LISTING, filters, last),
            sum(part.read for part in self._parts.values()),
            sum(part.bytes for part in self._parts.values()),
            self._silent,
        )

    def _first_left_out(self) -> bytes | None:
        """Returns the newest instance with an output that there was no time for; None: all was searched. Each node
        comes to its first one, so that what follows the instance before it is less than what was asked for."""
        left = [
            one.row.key
            for node, outputs in self._of.items()
            for one in outputs
            if (reached := self._parts[node].reached) is not None and one.row.key.hex() < reached
        ]
        return max(left, default=None)


def _shown(names: JobNames, row: Instance, attempt: Attempt, lines: list[FoundLineOut], more: bool) -> OutputFoundOut:
    job = names.of(row.job_id)
    return OutputFoundOut(
        instance_text(row.key),
        attempt.number,
        job_text(row.job_id),
        job.namespace,
        job.name,
        format_time(row.nominal_at_ms),
        node_of(attempt),
        lines,
        more,
    )


_decode = msgspec.json.Decoder(_Part).decode
