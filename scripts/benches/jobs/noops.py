"""A handler that does nothing, of which one process takes many runs at a time."""

from __future__ import annotations

import raftsched


@raftsched.handler("noop", concurrency=50)
async def noop() -> None:
    pass
