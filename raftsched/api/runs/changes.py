"""GET /v1/changes: digests of what changed, for pages that show it.

A node makes each digest once, for all who read, and only while somebody reads: at most one in `EVERY_S`. So what its
readers cost does not grow with the load of the cluster, and hardly with their number. A reader that comes from another
node, or missed some, is told first what changed since the index it knows.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context

from aiohttp import web

from raftsched.api.auth.callers import caller
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import MIN_INDEX_WAIT_S, bad_parameter
from raftsched.api.http.slices import Slices
from raftsched.api.http.streams import STREAMS, Heartbeat, begin, frame, send
from raftsched.api.runs.digests import EVERYBODY, Digest, read_digest
from raftsched.api.serving import serves
from raftsched.surface import events as surface
from raftsched.system import background

EVERY_S = 0.25  # between two digests
LOOK_S = 0.5  # between two looks at who leads, while nothing is applied

_NUMBER = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?", re.ASCII)

log = logging.getLogger(__name__)


class Feed:
    """The digests of a node, made while somebody reads. `newest`: the one that was made last."""

    def __init__(self, ctx: ApiContext) -> None:
        self._ctx = ctx
        self._readers = 0
        self._task: asyncio.Task[None] | None = None
        self._came = asyncio.Event()
        self._turn = asyncio.Lock()
        self.upto = 0  # an index of the log: what changed up to it was told
        self.newest = Digest(0, 0, None)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Counts one more reader inside the block."""
        self._readers += 1
        if self._task is None or self._task.done():
            self.upto = self._ctx.applied()
            self._task = background.start("changes", self._run(), context=Context())  # nobody's request
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._task.cancel()
                self._task = None

    async def since(self, index: int) -> Digest:
        """Returns what changed since an index, for one reader. Many of them cost others one such digest at a time."""
        async with self._turn:
            await Slices().next()
            return read_digest(self._ctx, index)

    async def comes(self, number: int, seconds: float) -> bool:
        """Returns True as soon as there is a digest after the one of this number, False when none came for so long."""
        try:
            async with asyncio.timeout(seconds):
                while self.newest.number <= number and self._task is not None and not self._task.done():
                    await self._came.wait()
        except TimeoutError:
            return False
        return True

    async def _run(self) -> None:
        leader = self._ctx.cluster_position()[0]
        try:
            while True:
                came = await self._ctx.log.wait_applied(self.upto + 1, LOOK_S)
                if came or self._ctx.cluster_position()[0] != leader:
                    digest = read_digest(self._ctx, self.upto)
                    self.upto = digest.upto
                    if digest.leader != leader:
                        leader = digest.leader
                        digest.kinds.add(("cluster", EVERYBODY))
                    if digest.kinds:
                        digest.number = self.newest.number + 1
                        self.newest = digest
                        self._wake()
                await asyncio.sleep(EVERY_S)
        finally:
            self._wake()  # where it failed, who reads connects again, and it begins anew

    def _wake(self) -> None:
        came, self._came = self._came, asyncio.Event()
        came.set()


FEED: web.AppKey[Feed] = web.AppKey("feed", Feed)


@serves(surface.CHANGES)
async def get(ctx: ApiContext, call: Call[None]) -> web.StreamResponse:
    query = call.query
    follow = query.choice("follow", "true", "false") != "false"
    since = await _since(ctx, call)
    request, who = call.request, caller()
    streams, feed = request.app[STREAMS], request.app[FEED]
    with streams.one(request.remote, "digests"), feed.reading():
        number = feed.newest.number
        at = ctx.applied() if since is None else since
        response = await begin(ctx, request, frame(ident=str(at)))
        if request.method == "HEAD":
            return response
        beat = Heartbeat(ctx.clock)
        digest = None if since is None else await feed.since(since)
        while True:
            if digest is not None:
                at = max(at, digest.upto)
                shown = digest.shown(who)
                await send(request, response, frame(shown, str(at)))
                beat.sent()
            if not follow or streams.stopping.is_set():
                break
            digest = None
            if not await streams.unless_stopped(feed.comes(number, beat.left_s)):
                at = max(at, feed.upto)
                await send(request, response, frame(ident=str(at)))
                beat.sent()
                continue
            if feed.newest.number == number:  # it stops, or makes none
                break
            missed = feed.newest.number > number + 1
            number = feed.newest.number
            digest = await feed.since(at) if missed else feed.newest
        await response.write_eof()
        return response


async def _since(ctx: ApiContext, call: Call[None]) -> int | None:
    """Returns the index after which to begin; None: with what comes from now on. A browser that connects again says it
    in the header."""
    header = call.request.headers.get("Last-Event-ID")
    text = header or call.query.text("after")
    if text is None:
        return None
    if text == "oldest" and not header:
        return 0
    match = _NUMBER.fullmatch(text)
    if match is None:
        rule = "must be the id of a digest or of an event, or an index of the log, such as 4711"
        if header:
            raise Problem("invalid-parameter", f"Last-Event-ID {rule}.")
        raise bad_parameter("after", f'{rule}; or "oldest"')
    index = int(match[1]) if match[2] is None else max(0, int(match[1]) - 1)  # an event may be the first of its entry
    if index > ctx.applied() and not await ctx.log.wait_applied(index, MIN_INDEX_WAIT_S):
        raise Problem("behind", f"This node has not applied index {index} yet; try again or ask another node.")
    return index
