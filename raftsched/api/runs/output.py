"""GET /v1/instances/{id}/output: as text, or as events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext

from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import stamp
from raftsched.api.http.requests import instance_key_of
from raftsched.api.http.streams import STREAMS, send
from raftsched.api.runs import output_stream
from raftsched.api.runs.output_reading import Answer, Reading
from raftsched.api.runs.output_source import Asked
from raftsched.api.serving import serves
from raftsched.core.model import Attempt
from raftsched.errors import RaftschedError
from raftsched.output.reading.chain import Here, There
from raftsched.output.reading.text import PIECE, Text
from raftsched.surface import output as surface

STORE = "object store"  # as who served it; no node is called so
_CHUNK = 64 * 1024
_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
_RELAYED = (
    "Content-Type",
    "Content-Length",
    "Content-Range",
    "Accept-Ranges",
    surface.ATTEMPT,
    surface.OFFSET,
    surface.TRUNCATED,
)


@serves(surface.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.StreamResponse:
    request = call.request
    asked = Asked(request, call.query)
    key = instance_key_of(call)
    if request.method == "HEAD" and not asked.events:
        asked.follow = False  # there is nothing to wait for
    if asked.events:
        return await output_stream.follow(ctx, request, key, asked)
    with request.app[STREAMS].one(request.remote) if asked.follow else nullcontext():
        return await _PlainText(ctx, request, key, asked).answer()


class _PlainText(Reading):
    def __init__(self, ctx: ApiContext, request: web.Request, key: bytes, asked: Asked) -> None:
        super().__init__(ctx, request, key, asked)
        self.stream = asked.stream
        self._response = web.StreamResponse()

    async def answer(self) -> web.StreamResponse:
        try:
            await self.run()
        except RaftschedError as error:
            if not self._response.prepared:
                raise
            if self.by_node and error.code == "output-unavailable":
                self.cut_off("it is elsewhere now")  # who asked finds by itself where
            await self._response.write(f"\n[{error.detail}]\n".encode())
        if self._response.prepared:
            await self._response.write_eof()
        return self._response

    async def send_none(self) -> None:
        self._response = web.Response(body=b"", headers=_PLAIN)

    async def over(self) -> bool:
        if await super().over():
            if self._response.prepared:
                self.cut_off("the node stops")
            return True
        return False

    async def _begin(self, headers: Mapping[str, str], status: int = 200, size: int | None = None) -> None:
        self._response = web.StreamResponse(status=status, headers=headers)
        if size is not None:
            self._response.content_length = size
        stamp(self.ctx, self._response.headers)
        await self._response.prepare(self.request)

    async def _write(self, piece: bytes) -> None:
        await send(self.request, self._response, piece)
        self.asked.go_on(self.asked.offset + len(piece))

    # ------------------------------------------------------------ from here

    async def send(self, attempt: Attempt, place: Here) -> bool:
        text, asked = place.text, self.asked
        if not asked.resumed:
            asked.go_on(await _start_in(text, asked))
        if not self._response.prepared:
            headers = {**_PLAIN, surface.ATTEMPT: str(attempt.number), surface.OFFSET: str(asked.offset)}
            if not self.goes_on(attempt):
                await self._send_part(attempt, place, headers)
                return True
            await self._begin(headers)
        while piece := (await _piece_of(text, asked.offset))[: asked.left]:
            await self._write(piece)
        return not self.goes_on(attempt) or asked.left == 0

    async def _send_part(self, attempt: Attempt, place: Here, headers: dict[str, str]) -> None:
        """All of it from there on, or `limit_bytes`, or the one range of this that was asked for (RFC 9110, section
        14)."""
        text, offset, request = place.text, self.asked.offset, self.request
        size = 0 if text is None else max(0, text.size - offset)
        if self.asked.limit_bytes is not None:
            size = min(size, self.asked.limit_bytes)
        headers["Accept-Ranges"] = "bytes"
        if place.stored:
            headers[surface.SERVED_BY] = STORE
        if attempt.output is not None and attempt.output.truncated:
            headers[surface.TRUNCATED] = str(attempt.output.truncated)
        status, start, stop = 200, 0, size
        if "Range" in request.headers:
            try:
                start, stop, _ = request.http_range.indices(size)
                status = 206
            except ValueError:
                pass  # what is not understood is ignored
        if status == 206:
            if start >= stop:
                raise Problem(
                    "unsatisfiable-range",
                    f"The output has {size} bytes.",
                    headers={"Content-Range": f"bytes */{size}"},
                )
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        at, end = offset + start, offset + stop
        if text is None or end - at <= PIECE:
            body = b"" if text is None else await asyncio.to_thread(text.read, at, end - at)
            self._response = web.Response(body=body, status=status, headers=headers)
            return
        await self._begin(headers, status, end - at)
        while at < end and request.method != "HEAD":
            piece = await asyncio.to_thread(text.read, at, min(PIECE, end - at))
            if not piece:
                self.cut_off("its file was cut off")
            await send(request, self._response, piece)
            at += len(piece)

    # ------------------------------------------------------------ from another node

    async def pass_on(self, attempt: Attempt, place: There[Answer]) -> None:
        answer = place.answer
        if not self._response.prepared:
            headers = {name: answer.headers[name] for name in _RELAYED if name in answer.headers}
            await self._begin({**headers, surface.SERVED_BY: place.node}, answer.status)
            self.asked.go_on(int(answer.headers.get(surface.OFFSET, "0")))
        if self.request.method == "HEAD":
            answer.close()
            return
        async for part in answer.content.iter_chunked(_CHUNK):
            await self._write(part)


async def _start_in(text: Text | None, asked: Asked) -> int:
    if asked.tail is None:
        return asked.offset if asked.tail_bytes is None or text is None else max(0, text.size - asked.tail_bytes)
    return 0 if text is None else await asyncio.to_thread(text.start_of, asked.tail)


async def _piece_of(text: Text | None, at: int) -> bytes:
    """Returns what comes next, at most PIECE bytes; empty: nothing at the moment."""
    if text is None or at >= text.size:
        return b""
    piece = text.has_read(at)
    return piece if piece is not None else await asyncio.to_thread(text.read, at)
