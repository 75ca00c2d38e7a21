"""Closes a session as the last word of its worker."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from raftsched.remote.server_port import NoAnswer, Refused, SessionOver
from raftsched.remote.server_rotation import Turns
from raftsched.surface.worker_sessions import CloseIn

log = logging.getLogger(__name__)


async def close_session(name: str, turns: Turns, session: str, request: CloseIn, within_s: float) -> None:
    """Nothing of the session is left, and nothing of it will start. Where this does not get through, the session ends
    when its lease has run out for certain, and its runs count as lost."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while True:
                server = turns.first
                try:
                    async with asyncio.timeout(within_s / (turns.number + 1)):
                        await server.close(session, request)
                    return
                except SessionOver:
                    return
                except (NoAnswer, Refused, TimeoutError) as exc:
                    pause = turns.failed(server)
                    why = f"{server.name} did not close the session: {str(exc) or 'no answer'}"
                    log.info("%s: %s; %s is asked next", name, why, turns.first.name)
                    await asyncio.sleep(pause)
    log.warning("%s: no node closed its session, which ends when its lease has; what it had counts as lost then", name)
