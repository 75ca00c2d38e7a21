"""Pauses between two tries of the SDK, which pass at once in tests: its clock is further by as much."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from raftsched.client import transport


def skip_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Returns the list to which each pause is added, in seconds."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(transport, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    monkeypatch.setattr(transport, "_now", lambda: asyncio.get_running_loop().time() + sum(pauses))
    return pauses
