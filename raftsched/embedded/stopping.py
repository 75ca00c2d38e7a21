"""A stop that is under way comes to its end, whoever stops waiting for it."""

from __future__ import annotations

import asyncio


async def to_its_end(task: asyncio.Task[None]) -> None:
    """Waits for the end of it, and only then lets a cancellation of the waiter take effect."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
