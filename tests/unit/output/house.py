"""A node's output, and a receiver of it that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from raftsched.core.model import OutputRef
from raftsched.output.following.follower import NotTaken, Refused
from raftsched.output.format.segments import owner_of
from raftsched.output.format.spool import STDERR, STDOUT, pack
from raftsched.output.keeping.owner_record import OutputOwner
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.receivers.lines import Line
from raftsched.output.receivers.marks import Marks
from raftsched.output.receivers.shipper import Shipper
from raftsched.output.receivers.unshipped import Entry, Packed
from tests.support.clock import ManualClock
from tests.support.patience import within

STORE = b"disk-n1-"


def entry(text: str = "a line", stream: str = "stdout", **owner: Any) -> Entry:
    """A line, of the run that is named; 2030-01-01T00:00:00.000001Z."""
    run = {"namespace": "billing", "job": "nightly", "instance": "0d3k@1", "attempt": 1, "worker": ""}
    goes_on = owner.pop("goes_on", False)
    return Entry(OutputOwner(**{**run, **owner}), 7, 1_893_456_000_000_001_000, Line(1, stream, text, goes_on))


def packed(one: Entry, data: bytes = b"") -> Packed:
    return Packed(one, data)


class Receiver:
    """Takes what it is sent, unless `answers` says otherwise."""

    def __init__(self) -> None:
        self.taken: list[Entry] = []
        self.batches: list[int] = []
        self.tries: list[list[str]] = []
        self.answers: list[Exception] = []
        self.closed = False

    def pack(self, one: Entry) -> bytes:
        return one.line.text.encode()

    async def take(self, lines: Sequence[Packed]) -> None:
        self.tries.append([one.entry.line.text for one in lines])
        if self.answers:
            raise self.answers.pop(0)
        self.batches.append(len(lines))
        self.taken += [one.entry for one in lines]

    async def close(self) -> None:
        self.closed = True

    @property
    def texts(self) -> list[str]:
        return [one.line.text for one in self.taken]


class Origin:
    """n1, whose output is to have second copies. `own`: numbers of copies of owners that have segments of their own."""

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.clock = ManualClock()
        self.most, self.own = 2, dict[str, int]()
        self.tokens = 0

    def opened(self, directory: Path) -> OutputStore:
        return OutputStore(directory, segment_bytes=self.segment_bytes, share_of=self._share_of)

    def _share_of(self, namespace: str) -> int | None:
        return 1 << 40 if owner_of(namespace) in self.own else None

    def copies(self, owners: Collection[str]) -> tuple[int, Mapping[str, int]]:
        return self.most, self.own

    output: OutputStore

    def print(self, text: str, namespace: str = "", err: bytes = b"") -> tuple[OutputRef, int]:
        """Returns where it lies, and its token."""
        self.tokens += 1
        frames = pack(STDOUT, text.encode()) + (pack(STDERR, err) if err else b"")
        (ref,) = self.output.append([Record(self.tokens, self.clock.wall, frames, namespace=namespace)])
        assert ref is not None
        return ref, self.tokens


def damage(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


class House:
    """n1, whose output is shipped."""

    def __init__(self, directory: Path, namespaces: Collection[str] | None = None) -> None:
        self.directory = directory
        self.namespaces = namespaces
        self.clock = ManualClock()
        self.receiver = Receiver()
        self.apart: set[str] = set()  # namespaces that have segments of their own
        self.pauses: list[float] = []
        self.tokens = 0
        self.begin()

    def begin(self, *, ships: bool = True) -> None:
        """n1 starts, perhaps again."""
        self.output = OutputStore(
            self.directory, segment_bytes=4_000, keep_bytes=None, writes_owners=ships, share_of=self._share_of
        )
        if ships:
            ends = {segment.number: segment.size for segment in self.output.synced()}
            self.marks = Marks(self.directory / "shipped", STORE, ends)
            self.shipper = Shipper(
                self.output, self.marks, self.receiver, self.clock, namespaces=self.namespaces, sleep=self._sleep
            )

    def again(self, *, ships: bool = True) -> None:
        """The node is killed, and starts again."""
        self.output.close()
        self.begin(ships=ships)

    def _share_of(self, namespace: str) -> int | None:
        return 1 << 40 if namespace in self.apart else None

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    def print(self, text: str | bytes, namespace: str = "billing", err: str = "", ended_at_ms: int = 0) -> int:
        """A run ends that has printed it. Returns its token."""
        self.tokens += 1
        raw = text if isinstance(text, bytes) else text.encode()
        frames = pack(STDOUT, raw) + (pack(STDERR, err.encode()) if err else b"")
        owner = OutputOwner(namespace, "nightly", f"0d3k@{self.tokens}", 1)
        ended = ended_at_ms or self.clock.wall
        (ref,) = self.output.append([Record(self.tokens, ended, frames, namespace=namespace, owner=owner)])
        assert ref is not None
        return self.tokens

    def waits(self) -> list[int]:
        """Ships until all is taken. Returns how long it was waited, each time (ms)."""
        found = []
        self.ship()
        while self.shipper.failing:
            tries, waited = self.shipper.failures, 0
            while self.shipper.failing and self.shipper.failures == tries:
                self.clock.forward(1_000)
                waited += 1_000
                self.ship()
            found.append(waited)
        return found

    def ship(self) -> list[str]:
        """Returns the lines that were shipped now."""
        before = len(self.receiver.taken)
        run(self.shipper.look())
        run(self.shipper.measure())
        return self.receiver.texts[before:]


def run(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(within(what))


__all__ = [
    "STORE",
    "House",
    "NotTaken",
    "Origin",
    "Receiver",
    "Refused",
    "damage",
    "entry",
    "owner_of",
    "packed",
    "run",
]
