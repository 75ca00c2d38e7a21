"""A handler of which one process takes several runs. It is in a module of its own: who names it announces it."""

from __future__ import annotations

import asyncio
import os

import raftsched

_here: list[int] = []
_all_here = asyncio.Event()


@raftsched.handler("meets", concurrency=5)
async def meets(count: int) -> int:
    """Goes on when `count` of these are in one process."""
    _here.append(count)
    if len(_here) == count:
        _all_here.set()
    await _all_here.wait()
    return os.getpid()
