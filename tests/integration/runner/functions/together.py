"""Coroutine functions of which a process takes several runs at a time."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

import raftsched

_arrived = 0
_all_here = asyncio.Event()


async def meets(count, name):
    """Goes on when `count` of these are in one process."""
    global _arrived
    print(f"{name} came")
    _arrived += 1
    if _arrived == count:
        _all_here.set()
    await _all_here.wait()
    print(f"{name} went", file=sys.stderr)
    await asyncio.to_thread(print, f"{name} in a thread")
    raftsched.progress(50, name)
    return [os.getpid(), name, raftsched.run_variables()["NAME"]]


async def waits(fifo):
    tell(fifo)
    await asyncio.Event().wait()


async def holds_on(fifo):
    """Does not end when it is cancelled."""
    tell(fifo)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("not me")


async def blocks(fifo):
    tell(fifo)
    signal.pause()


async def either(what, fifo="", path="", text=""):
    """One function, for runs of several kinds in one process."""
    if what == "prints":
        print(text)
        os.write(1, b"by descriptor\n")
        threading.Thread(target=print, args=("by a thread of its own",)).start()
        return os.getpid()
    if what == "floods":
        for _ in range(20_000):
            print("x" * 100)
            if _ % 100 == 0:
                await asyncio.sleep(0)
        return os.getpid()
    if what == "begins":
        task = asyncio.create_task(_goes_on(path))
        task.set_name("left behind")
        await asyncio.sleep(0)
        return os.getpid()
    if what == "forks":
        if os.fork() == 0:
            time.sleep(600)
        return os.getpid()
    if what == "forks and comes back":
        await asyncio.sleep(0)
        os.fork()
        await asyncio.sleep(0)
        return os.getpid()
    if what == "writes":
        while not os.path.exists(text):
            with open(path, "a") as file:
                file.write(f"{os.getpid()}\n")
            await asyncio.sleep(0)
        return os.getpid()
    if what == "a task exits":
        await asyncio.create_task(_exits())
    if what == "raises":
        raise LookupError(text)
    if what == "exits":
        sys.exit(3)
    if what == "fails":
        raise raftsched.Fail(text)
    if what == "crashes":
        print("last words")
        os._exit(9)
    return await {"waits": waits, "holds on": holds_on, "blocks": blocks}[what](fifo)


async def _exits():
    sys.exit(4)


async def _goes_on(path):
    try:
        await asyncio.Event().wait()
    finally:
        Path(path).write_text("ended")


def tell(fifo):
    fd = os.open(fifo, os.O_WRONLY)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)
