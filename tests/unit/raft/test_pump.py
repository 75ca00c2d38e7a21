"""When the replica is pumped, and when what it sent leaves."""

from __future__ import annotations

import asyncio
import threading

from raftsched.raft.pump import Pump


async def passed() -> None:
    """Returns after two passes of the event loop."""
    for _ in range(2):
        await asyncio.sleep(0)


async def test_it_pumps_once_however_often_it_is_woken() -> None:
    done: list[str] = []
    pump = Pump()
    pump.wake()  # nothing is there to be pumped yet
    pump.start(lambda: done.append("pump"), lambda: done.append("flush"))
    await passed()
    assert done == []
    pump.wake()
    pump.wake()
    assert pump.flushes
    assert done == []
    await passed()
    assert done == ["pump", "flush"]
    assert not pump.flushes


async def test_what_is_sent_while_it_pumps_leaves_before_the_rest_of_the_pump() -> None:
    done: list[object] = []
    pump = Pump()

    def pumped() -> None:
        done.append(pump.flushes)
        pump.flush()
        done.append(pump.flushes)

    pump.start(pumped, lambda: done.append("flush"))
    pump.wake()
    await passed()
    assert done == [True, "flush", False]


async def test_what_a_thread_brings_is_pumped_at_once() -> None:
    loop, done, over = asyncio.get_running_loop(), [], asyncio.Event()
    pump = Pump()
    pump.start(lambda: done.append("pump"), lambda: done.append("flush"))

    def written(number: int) -> None:
        done.append(number)
        pump.wake()  # as each input of the replica does
        loop.call_soon(lambda: done.append("next pass"))
        loop.call_soon(over.set)

    threading.Thread(target=pump.post, args=(written, 7)).start()
    await over.wait()
    await passed()
    assert done == [7, "pump", "flush", "next pass"]


async def test_what_was_asked_for_before_a_thread_brought_something_is_done_with_it() -> None:
    loop, done = asyncio.get_running_loop(), []
    pump = Pump()
    pump.start(lambda: done.append("pump"), lambda: None)
    pump.post(lambda: loop.call_soon(done.append, "next pass"))
    pump.wake()
    await passed()
    await passed()
    assert done == ["pump", "next pass"]


async def test_it_pumps_though_what_a_thread_brought_raises() -> None:
    loop, done = asyncio.get_running_loop(), []
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    pump = Pump()
    pump.start(lambda: done.append("pump"), lambda: None)
    error = ValueError("broken")

    def fails() -> None:
        raise error

    pump.post(fails)
    await passed()
    assert done == ["pump"]
    assert failures == [error]
    pump.wake()
    await passed()
    assert done == ["pump", "pump"]
