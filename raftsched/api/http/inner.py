"""aiohttp's protocol, as a connection sees it: what ordinary.py is to fastpath.py."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Inner(Protocol):
    """Of one connection, from its first unusual request on."""

    @property
    def has_answer_due(self) -> bool: ...

    @property
    def answers_whole_request(self) -> bool:
        """What it answers has come in full, and none of the answer is sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
