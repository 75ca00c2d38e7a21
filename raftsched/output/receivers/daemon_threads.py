"""Threads for what a receiver may hold up for as long as it likes, and that must not keep the process from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress


async def in_daemon_thread(do: Callable[[], None]) -> None:
    """Does it in a thread of its own. Raises what it raises; cancelled, it leaves the thread behind."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        failure: Exception | None = None
        try:
            do()
        except Exception as error:  # any: who waits would wait for ever
            failure = error
        with suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(_tell, done, failure)

    threading.Thread(target=run, name="output-shipping", daemon=True).start()
    await done


def _tell(done: asyncio.Future[None], failure: Exception | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
