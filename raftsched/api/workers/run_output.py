"""PUT /v1/worker-sessions/{session}/runs/{token}/output: what a run on a remote worker prints, a piece at a time."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import web

from raftsched.api.auth.callers import caller
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import bad_parameter
from raftsched.api.http.slices import Slices
from raftsched.api.serving import serves
from raftsched.api.workers.sessions import check_session, session_of
from raftsched.errors import RaftschedError
from raftsched.output.format.spool import STDERR, STDOUT
from raftsched.remote import frames
from raftsched.remote.frames import Piece
from raftsched.surface.worker_sessions import OFFSET_MAX, OUTPUT, RAW

FRAMES_AT_ONCE = 100  # between two looks whether others are to have their turn
TOKEN_MAX = 2**63 - 1


@serves(OUTPUT)
async def put(ctx: ApiContext, call: Call[Any]) -> web.Response:
    outputs = ctx.received
    if outputs is None:
        raise RaftschedError("stopping")
    offset = call.query.integer("offset", 0, OFFSET_MAX)
    if offset is None:
        raise bad_parameter("offset", "must be given: the bytes of both streams that were sent before")
    session, token, end = session_of(call), _token(call.path["token"]), call.query.flag("end")
    admit = partial(outputs.admit, session, token, check=check_session, owner=caller().whose)
    try:
        admit()  # what nobody may send is not read
    except RaftschedError as error:
        if error.code not in ("session-over", "not-found"):
            raise
        # The session was opened, or the run given, elsewhere; a worker that hears that it is over gives up the output.
        if await ctx.catch_up_soon() is None:
            raise Problem(
                "behind",
                f"This node does not know run {token} of this session, and cannot find out at the moment whether it is "
                "over; try again or ask another node.",
            ) from None
        admit()
    pieces, size = await _pieces(call)
    return reply_value(
        await outputs.put(session, token, offset, pieces, size=size, end=end, check=check_session, owner=caller().whose)
    )


async def _pieces(call: Call[Any]) -> tuple[list[Piece], int]:
    """Returns them, and how far they go. Raises Problem."""
    stream = call.query.choice("stream", "stdout", "stderr")
    if call.request.headers["Content-Type"].partition(";")[0].strip().lower() == RAW:
        number = STDERR if stream == "stderr" else STDOUT
        return [Piece(number, call.raw)] if call.raw else [], len(call.raw)
    if stream is not None:
        raise bad_parameter("stream", f"goes with {RAW}; each frame says its own", "inconsistent")
    pieces: list[Piece] = []
    size = 0
    slices = Slices()
    try:
        for count, piece in enumerate(frames.each(call.raw)):
            if piece.printed:
                pieces.append(piece)
                size += piece.printed
            if not count % FRAMES_AT_ONCE:
                await slices.turn()
    except ValueError as error:
        raise Problem("invalid-body", f"The frames cannot be read: {error}.") from None
    return pieces, size


def _token(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19 or not 0 < int(text) <= TOKEN_MAX:
        raise Problem("not-found", "A run's token is a number.")
    return int(text)
