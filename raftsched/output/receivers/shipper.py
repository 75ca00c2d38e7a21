"""Ships what lies in this node's segments: reads, sends, and moves the marks, one batch after the other.

Two loops. One ships; while the receiver does not take a batch, it tries that again, for ever, with pauses. The other
one looks once a second what there is, so that what waits, and what was deleted before it was shipped, is known then,
too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Protocol

from raftsched.output.keeping.store import OutputStore
from raftsched.output.receivers.batches import Batch, Entry, Packed, Unshipped, waiting
from raftsched.output.receivers.marks import Marks
from raftsched.system import background
from raftsched.system.clock import Clock

LOOK_S = 1.0  # how soon an output is shipped that is on the disk
BYTES_PER_S = 4 * 2**20  # in the long run, as the receiver gets them: what piled up must not take all of its machine
RETRY_S = 1.0  # after the receiver did not take a batch; each time twice as long,
RETRY_MOST_S = 60.0  # and no longer than this
WRITE_S = 1.0  # how often marks are brought to the disk while there is more to ship
SAY_MS = 60_000  # how often the log is told of what goes wrong
STOP_S = 3.0  # for what has just ended, when the node stops

log = logging.getLogger(__name__)


class NotTaken(Exception):
    """The receiver did not take a batch, and may take it later; the text says why. `after_s`: when, if it said that."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


class Refused(Exception):
    """The receiver will never take these lines; the text says why."""


class Receiver(Protocol):
    """Takes shipped output."""

    def pack(self, entry: Entry) -> bytes:
        """Returns what is sent of a line. From any thread."""

    async def take(self, lines: Sequence[Packed]) -> None:
        """Returns when it has all of them. Raises NotTaken, Refused."""

    async def close(self) -> None: ...


class Shipper:
    def __init__(
        self,
        output: OutputStore,
        marks: Marks,
        receiver: Receiver,
        clock: Clock,
        *,
        namespaces: Collection[str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`namespaces`: whose output is shipped; None: that of all."""
        self._output = output
        self._marks = marks
        self._receiver = receiver
        self._clock = clock
        self._namespaces = None if namespaces is None else frozenset(namespaces)
        self._sleep = sleep
        self._sizes: dict[int, int] = {}  # of segments, as they were seen last
        self._stopping = asyncio.Event()
        self._failing = False  # the receiver did not take what it was sent last
        self._tasks: list[asyncio.Task[None]] = []
        self._said: dict[str, int] = {}  # what the log was told, and when (boot ms)
        self._dropped_said = 0
        # for metrics
        self.lines = 0
        self.sent_bytes = 0
        self.failures = 0  # times that the receiver did not take something
        self.dropped: Counter[str] = Counter({"refused": 0, "deleted": 0, "damaged": 0})  # bytes
        self.waiting_bytes = 0
        self.waiting_since_ms: int | None = None  # when the oldest attempt ended whose output was not shipped yet

    def start(self) -> None:
        self._tasks = [
            background.start("output-shipping", self._keep(self.ship)),
            background.start("output-shipping", self._keep(self.note_waiting)),
        ]

    async def stop(self) -> None:
        """Ships what has just ended, if the receiver takes it at once."""
        self._stopping.set()
        if self._tasks and not self._failing:
            await asyncio.wait(self._tasks, timeout=STOP_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(OSError):
            await asyncio.to_thread(self._marks.write)
        await self._receiver.close()

    async def _keep(self, do: Callable[[], Awaitable[None]]) -> None:
        """Does it again and again, and once more when the node stops."""
        stopping = False
        while not stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), LOOK_S)
            stopping = self._stopping.is_set()
            try:
                await do()
            except OSError as error:  # one round that failed is made again
                self._log_rarely("error", "output could not be shipped: %s", error)
            except Exception as error:
                background.note("output-shipping", error)

    # ------------------------------------------------------------ shipping

    async def ship(self) -> None:
        """Ships all that is on the disk now; returns when the receiver has it. Raises OSError."""
        segments = await asyncio.to_thread(self._output.synced)  # it may wait for one that is being written
        now_ms = self._clock.wall_ms()
        unshipped = Unshipped(segments, self._marks.of, self._receiver.pack, namespaces=self._namespaces, now_ms=now_ms)
        loop = asyncio.get_running_loop()
        written = loop.time()
        while True:
            began = loop.time()
            batch = await asyncio.to_thread(unshipped.next)
            if batch.empty:
                break
            if batch.lines:
                await self._deliver(batch)
            self.dropped["damaged"] += batch.damaged
            self._marks.move(batch.after)
            if loop.time() - written >= WRITE_S:
                written = loop.time()
                await asyncio.to_thread(self._marks.write)
            await self._sleep(max(0.0, batch.size / BYTES_PER_S - (loop.time() - began)))
        await asyncio.to_thread(self._marks.write)

    async def _deliver(self, batch: Batch) -> None:
        """Returns when the receiver has taken it, or has refused it for good."""
        pause_s = RETRY_S
        while True:
            try:
                await self._receiver.take(batch.lines)
            except NotTaken as why:
                self.failures += 1
                self._failing = True
                self._log_rarely("not taken", "output is not taken, and waits: %s", why)
                await self._sleep(max(pause_s, min(why.after_s, RETRY_MOST_S)))
                pause_s = min(2 * pause_s, RETRY_MOST_S)
            except Refused as why:
                self._failing = False
                self.dropped["refused"] += batch.size
                self._log_rarely("refused", "output was refused, and is dropped: %s", why)
                return
            else:
                self.lines += len(batch.lines)
                self.sent_bytes += batch.size
                if self._failing:
                    log.info("output is taken again")
                self._failing = False
                return

    # ------------------------------------------------------------ looking

    async def note_waiting(self) -> None:
        """Notes what waits, and what has been deleted before it was shipped."""
        segments = await asyncio.to_thread(self._output.synced)
        there = {segment.number: segment.size for segment in segments}
        for number, size in self._sizes.items():
            if number not in there:
                self.dropped["deleted"] += max(0, size - self._marks.of(number).at)
        for number in self._marks.numbers():
            if number not in there:
                self._marks.forget(number)
        self._sizes = there
        self.waiting_bytes, self.waiting_since_ms = await asyncio.to_thread(waiting, segments, self._marks.of)
        self._log_dropped()

    def _log_dropped(self) -> None:
        new = self.dropped["deleted"] + self.dropped["damaged"] - self._dropped_said
        if new and self._log_rarely(
            "dropped", "%d bytes of output were deleted or damaged before they were shipped", new
        ):
            self._dropped_said += new

    def _log_rarely(self, what: str, words: str, *about: object) -> bool:
        """Tells the log, once a minute. Returns whether it did."""
        now_ms = self._clock.boot_ms()
        if what in self._said and now_ms - self._said[what] < SAY_MS:
            return False
        self._said[what] = now_ms
        log.warning(words, *about)
        return True
