"""The event loop that loads run in: uvloop where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

# Runs one coroutine in an event loop of its own.
Loop = Callable[[Coroutine[Any, Any, Any]], Any]


def event_loop() -> Loop:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run  # type: ignore[no-any-return]
