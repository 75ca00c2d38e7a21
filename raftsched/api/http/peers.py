"""Reads what other nodes answer: an address may have become somebody else's."""

from __future__ import annotations

import aiohttp

ANSWER_MAX = 32 << 20  # bytes: the largest is that of a search, of 1,000 outputs with ten lines each
_PIECE = 64 << 10


async def read_answer(answer: aiohttp.ClientResponse, most: int = ANSWER_MAX) -> bytes:
    """Returns the body of an answer. Raises aiohttp.ClientPayloadError for one of more bytes, and closes it."""
    body = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > most:
            answer.close()
            raise aiohttp.ClientPayloadError(f"an answer of more than {most:,} bytes")
    return bytes(body)
