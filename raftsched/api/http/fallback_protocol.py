"""The fallback as a connection of the fast path sees it: fallback.py implements it with aiohttp."""

from __future__ import annotations

import asyncio
from typing import Protocol


class FallbackProtocol(Protocol):
    """Answers one connection, from its first unusual request on."""

    @property
    def has_answer_due(self) -> bool: ...

    @property
    def answers_whole_request(self) -> bool:
        """Returns whether the request at hand has come in full, and none of its answer is sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
