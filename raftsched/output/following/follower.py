"""Follows what is written to this node's segments, and brings it somewhere else: the one loop of all second copies
(copier.py) and of receivers (receivers/shipper.py).

What there is to send is found by comparing the segments with a note of what was taken. So there is no queue to lose, a
restart finds what was not sent, and no run waits. How one piece is sent is a sink's. The loop does what is the same for
all: it looks, sends piece after piece at a bounded pace, asks again later whoever did not take one, has the notes
written, counts, and tells the log.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from raftsched.output.following.note_file import NoteFile
from raftsched.output.keeping.store import OutputStore
from raftsched.system import background
from raftsched.system.clock import Clock

LOOK_S = 1.0  # how soon an output is sent that is on the disk
WRITE_S = 1.0  # how often notes are brought to the disk while there is more to send
SAY_MS = 60_000  # how often the log is told of one thing that goes wrong
STOP_S = 3.0  # for what has just ended, when the node stops

log = logging.getLogger(__name__)


class NotTaken(Exception):
    """A sink did not take a piece, and may take it later; the text says why. `after_s`: when, if it said that."""

    def __init__(self, why: object, after_s: float = 0.0) -> None:
        super().__init__(str(why))
        self.after_s = after_s


class Refused(Exception):
    """A sink will never take this piece; the text says why."""


@dataclass(slots=True)
class Piece:
    """Is sent at once. `targets`: who may take it, the first that does has it; "": the only place there is."""

    targets: Sequence[str]
    number: int = 0  # of the segment that it is of; 0: of several
    size: int = 0  # bytes, as the sink gets them
    cost: int = 0  # bytes that it counts as, when it is paced
    items: int = 1  # objects or lines, for the metrics


P = TypeVar("P", bound=Piece)


class Backoff:
    """Says when whatever did not take something is asked again."""

    def __init__(self, clock: Clock, first_ms: int, most_ms: int) -> None:
        """`first_ms`: the first pause; each one is twice as long as that before, and no longer than `most_ms`."""
        self._clock = clock
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._waits: dict[str | int, tuple[int, int]] = {}  # until when, and for how long

    def until(self, key: str | int) -> int:
        return self._waits.get(key, (0, 0))[0]

    def is_over(self, key: str | int) -> bool:
        return self.until(key) <= self._clock.boot_ms()

    def failing(self) -> set[str | int]:
        """Returns those that did not take what they were sent last."""
        return self._waits.keys() - {""}

    def begin(self, key: str | int, at_least_s: float) -> None:
        before_ms = self._waits.get(key, (0, 0))[1]
        pause_ms = min(2 * before_ms or self._first_ms, self._most_ms)
        wait_ms = max(pause_ms, int(min(1000 * at_least_s, self._most_ms)))
        self._waits[key] = (self._clock.boot_ms() + wait_ms, pause_ms)

    def end(self, *keys: str | int) -> None:
        for key in keys:
            self._waits.pop(key, None)

    def keep_only(self, keys: Collection[str | int]) -> None:
        self.end(*(self.failing() - set(keys)))
        if not self.failing():
            self.end("")


class Follower(ABC, Generic[P]):
    name: background.TaskName
    bytes_per_s: int  # that are sent in the long run: what piled up must not take all of a network, or of a machine
    retry_ms: int  # after something was not taken; each time twice as long,
    retry_most_ms: int  # and no longer than this
    stop_s = 0.0  # for what has just ended, when the node stops

    def __init__(
        self,
        output: OutputStore,
        notes: NoteFile[Any],
        clock: Clock,
        *,
        where: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`where`: the place that all goes to, for the log; "": it goes to nodes."""
        self._output = output
        self._notes = notes
        self._clock = clock
        self._where = where
        self._sleep = sleep
        # By node, or by segment where there is one place; and of that as a whole: "".
        self._backoff = Backoff(clock, self.retry_ms, self.retry_most_ms)
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._unwritten = False  # this node's disk did not take the notes
        self._said: dict[str, int] = {}  # what the log was told, and when (boot ms)
        self._dropped_said = 0
        # for metrics
        self.items = 0  # that were taken
        self.sent_bytes = 0
        self.failures = 0  # times that something was not taken
        self.dropped = Counter[str]()  # bytes that are never sent, by why
        self.waiting_bytes = 0
        self.waiting_since_ms: int | None = None  # when the oldest run ended whose output waits

    @property
    def late_s(self) -> float:
        """Returns how long ago the oldest run ended whose output waits."""
        since_ms = self.waiting_since_ms
        return 0.0 if since_ms is None else max(0, self._clock.wall_ms() - since_ms) / 1000

    @property
    def failing(self) -> bool:
        """Returns whether there is something that was not taken when it was sent last."""
        return bool(self._backoff.failing())

    # ------------------------------------------------------------ what each of them does

    @abstractmethod
    async def _find(self) -> None:
        """Looks what there is to send now. Raises OSError."""

    @abstractmethod
    async def _next(self) -> P | None:
        """Returns the next piece of that; None: that was all. Raises OSError."""

    @abstractmethod
    async def _take(self, piece: P, target: str) -> Any:
        """Sends it, and returns what was taken. Raises NotTaken, Refused, FileNotFoundError: it is gone."""

    @abstractmethod
    def _note(self, piece: P, taken: Any) -> None:
        """Notes what `_take` returned; None: it was refused."""

    @abstractmethod
    async def _waiting(self) -> tuple[int, int | None]:
        """Returns how many bytes wait, and since when (UTC ms) the oldest of them. Raises OSError."""

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Begins two loops: to send may take long, and what waits meanwhile is to be known."""
        self._tasks = [background.start(self.name, self._keep(do)) for do in (self.look, self.measure)]

    async def stop(self) -> None:
        """Sends what has just ended, where there is time for that and it is taken at once."""
        self._stopping.set()
        if self._tasks and self.stop_s and not self.failing:
            await asyncio.wait(self._tasks, timeout=self.stop_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._write()

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
                self._say("error", "output could not be sent: %s", error)
            except Exception as error:
                background.note(self.name, error)

    # ------------------------------------------------------------ sending

    async def look(self) -> None:
        """Sends all that is to be sent now, as far as it is taken; to be called each LOOK_S. Raises OSError."""
        await self._find()
        await self._write()
        loop = asyncio.get_running_loop()
        written = loop.time()
        while self._backoff.is_over(""):
            began = loop.time()
            piece = await self._next()
            if piece is None or not await self._send(piece):
                break
            if loop.time() - written >= WRITE_S:
                written = loop.time()
                await self._write()
            await self._sleep(max(0.0, piece.cost / self.bytes_per_s - (loop.time() - began)))
        await self._write()

    async def _send(self, piece: P) -> bool:
        """Returns whether more can be sent now."""
        for target in piece.targets:
            key = target or piece.number
            try:
                taken = await self._take(piece, target)
            except NotTaken as why:
                self._not_taken(key, why)
                continue
            except Refused as why:
                self._say("refused", "output was refused, and is dropped: %s", why)
                self.dropped["refused"] += piece.size
                taken = None
            except FileNotFoundError:  # it has been deleted meanwhile
                return True
            except Exception as error:  # of one segment it is not the others' fault
                background.note(self.name, error, f"segment {piece.number}" if piece.number else "")
                return piece.number > 0
            else:
                self.items += piece.items
                self.sent_bytes += piece.size
            self._note(piece, taken)
            self._taken_again(key)
            return True
        return False  # nobody takes anything at the moment

    def _not_taken(self, key: str | int, why: NotTaken) -> None:
        self.failures += 1
        where = self._where or str(key)
        if where not in self._failing():
            self._say(f"not taken: {where}", "%s does not take output, which waits: %s", where, why)
        self._backoff.begin(key, why.after_s)
        if self._where:
            self._backoff.begin("", why.after_s)

    def _taken_again(self, key: str | int) -> None:
        before = self._failing()
        self._backoff.end(key, "")
        for where in before - self._failing():
            log.warning("%s takes output again", where)

    def _failing(self) -> set[str]:
        """Returns where something was not taken."""
        return {self._where or str(key) for key in self._backoff.failing()}

    async def _write(self) -> None:
        """Has the notes written. Where the disk does not take them, what was sent since is sent again after a restart:
        nothing that the sink waits for, and not its fault."""
        if not self._notes.changed:
            return
        try:
            await asyncio.to_thread(self._notes.write)
        except OSError as error:
            if not self._unwritten:
                log.warning("what was sent of output cannot be noted on this node's disk: %s", error)
            self._unwritten = True
        else:
            self._unwritten = False

    # ------------------------------------------------------------ what waits

    async def measure(self) -> None:
        """Looks what waits, and tells the log of what is never sent. Raises OSError."""
        self.waiting_bytes, self.waiting_since_ms = await self._waiting()
        gone = self.dropped["deleted"] + self.dropped["damaged"] - self._dropped_said
        if gone and self._say("dropped", "%d bytes of output were deleted or damaged before they were shipped", gone):
            self._dropped_said += gone

    def _say(self, what: str, words: str, *about: object) -> bool:
        """Tells the log, once a minute. Returns whether it did."""
        now_ms = self._clock.boot_ms()
        if what in self._said and now_ms - self._said[what] < SAY_MS:
            return False
        self._said[what] = now_ms
        log.warning(words, *about)
        return True
