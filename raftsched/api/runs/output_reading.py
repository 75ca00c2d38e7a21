"""One answer that is output: what there is, and with `follow` what comes until the attempt ends, from whichever place
has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import NoReturn, TypeVar

import aiohttp
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.peers import HOP
from raftsched.api.runs import output_source
from raftsched.api.runs.kept_words import is_to_be_kept, namespace_of, why_gone
from raftsched.api.runs.output_source import Asked, find, pause, places_of
from raftsched.core.model import FINAL, Attempt
from raftsched.core.rules.executors import is_worker
from raftsched.core.rules.kept_output import kept_of
from raftsched.output.reading.chain import Chain, Here, There

T = TypeVar("T")
Answer = aiohttp.ClientResponse


class Reading(ABC):
    """A reader of one attempt. Its worker may change nodes in the middle: the new node's copy holds the same bytes, and
    is read on from where this has come."""

    stream: str | None = None  # whose text is read; None: that of both

    def __init__(self, ctx: ApiContext, request: web.Request, key: bytes, asked: Asked) -> None:
        self.ctx = ctx
        self.request = request
        self.asked = asked
        self.by_node = HOP in request.headers
        self._key = key
        self.row, self.attempt = find(ctx, key, asked)
        self.chain: Chain[Answer] = Chain(places_of(ctx), self)

    # ------------------------------------------------------------ what differs

    @abstractmethod
    async def send(self, attempt: Attempt, place: Here) -> bool:
        """Sends what is here. True: nothing follows that was asked for."""

    @abstractmethod
    async def pass_on(self, attempt: Attempt, place: There[Answer]) -> None:
        """Sends what another node answers. Raises aiohttp.ClientError, TimeoutError: it does not go on."""

    @abstractmethod
    async def send_none(self) -> None:
        """Says that there is no attempt."""

    async def over(self) -> bool:
        """Waits a little; True when the reader has gone or the node stops."""
        return await pause(self.request)

    async def wait(self, work: Awaitable[T]) -> T:
        """Returns the result of work that may take long, such as a question to a node that hangs."""
        return await work

    # ------------------------------------------------------------ one after the other

    async def run(self) -> None:
        """Raises RaftschedError."""
        while self.attempt is None and self.asked.follow and self.row.state not in FINAL:
            if await self.over():
                break
            self._look()
        if self.attempt is None:
            await self.send_none()
            return
        self.asked.attempt = self.attempt.number
        try:
            while not await self.step(self.attempt):
                self._look()
        except ConnectionResetError as error:
            # Whoever gets it may keep it for a while, and with its frames the files that are open in them.
            raise error.with_traceback(None) from None

    def _look(self) -> None:
        self.row, found = find(self.ctx, self._key, self.asked)
        self.attempt = found or self.attempt

    async def step(self, attempt: Attempt) -> bool:
        """Sends what there is. False: more is to come, perhaps from elsewhere."""
        place = await self.chain.open(attempt, self.stream)
        if isinstance(place, Here):
            return await self.send(attempt, place) or await self.over()
        async with place.answer:
            try:
                await self.pass_on(attempt, place)
            except (aiohttp.ClientError, TimeoutError):
                if not self.goes_on(attempt) or not is_worker(attempt.node):
                    self.cut_off("the node that has it fell silent")
                return await self.over()
            return True

    def goes_on(self, attempt: Attempt) -> bool:
        """Returns whether the reader waits for what the attempt prints yet."""
        return self.asked.follow and attempt.outcome is None

    def cut_off(self, why: str) -> NoReturn:
        """An answer that is not whole must not look like a whole one, and an event may be cut in two: nothing may
        follow it."""
        if self.request.transport is not None:
            self.request.transport.abort()
        raise ConnectionResetError(why)

    # ------------------------------------------------------------ what the chain asks

    def others(self) -> Sequence[str]:
        return [member.node for member in self.ctx.meta().members if member.node != self.ctx.node_id]

    def is_kept(self, attempt: Attempt) -> bool:
        with self.ctx.read() as view:
            return is_to_be_kept(view, self.row, attempt, self.ctx.now_ms())

    def why_gone(self, attempt: Attempt, *, removed: bool) -> str:
        ctx = self.ctx
        with ctx.read() as view:
            namespace = namespace_of(view, self.row)
            kept = kept_of(view, namespace)
        return why_gone(attempt, kept, namespace, ctx.node_id, ctx.output_keep_most_ms, ctx.now_ms(), removed=removed)

    async def ask(self, attempt: Attempt, node: str) -> Answer:
        asking = output_source.ask(self.ctx, self.request, self.row, attempt, self.asked, node)
        return await self.wait(asking)
