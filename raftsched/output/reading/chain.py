"""Opens an output at the first place that has it: the file that a run prints to, a segment on the node that has its
output, a second copy on this node, one on another node, an object of the store.

How another node is asked is not known here: the reader does that, and what it answers is the reader's to pass on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from raftsched.core.model import Attempt, Outcome
from raftsched.core.rules.executors import is_worker
from raftsched.errors import RaftschedError
from raftsched.output.following.places import in_order
from raftsched.output.keeping.store import GONE, NOWHERE, REMOVED, OutputStore
from raftsched.output.reading.text import Text

if TYPE_CHECKING:
    from raftsched.output.following.copies import CopyStore
    from raftsched.output.reading.stored import StoredOutputs

FRESH_S = 0.2  # a look at what is written counts for others for so long
LOOK_S = 2.0  # how often all members are asked whether they have a copy

A = TypeVar("A")  # what another node answers
A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")


class Here(NamedTuple):
    """A place that this node reads. `text`: None where nothing is there, or not yet. `stored`: it is the object
    store's."""

    text: Text | None
    stored: bool = False


class There(NamedTuple, Generic[A]):
    """Another node that has it, and its answer."""

    node: str
    answer: A


class Reader(Protocol[A_co]):
    """Reads outputs, and asks other nodes. `by_node`: it is one itself, which asks all others and the store."""

    by_node: bool

    def others(self) -> Sequence[str]:
        """Returns the other members."""

    def is_kept(self, attempt: Attempt) -> bool:
        """Returns whether the output is not older than it is to be."""

    def why_gone(self, attempt: Attempt, *, removed: bool) -> str:
        """Returns what is said of an output that this node had. `removed`: something else removed its file."""

    async def ask(self, attempt: Attempt, node: str) -> A_co:
        """Returns the answer of a node that has it. Raises RaftschedError: it has none, or does not answer."""

    async def wait(self, work: Awaitable[T]) -> T:
        """Returns the result of work that may take long."""


class Whereabouts(Protocol):
    """Remembers which other node had the output of a run on a remote worker."""

    def who_has(self, token: int) -> str | None: ...
    def note_elsewhere(self, token: int, node: str) -> None: ...


class Places(NamedTuple):
    """The places that this node can read: its own segments, and None where it has none of the others."""

    node: str
    own: OutputStore
    copied: CopyStore | None
    stored: StoredOutputs | None
    received: Whereabouts | None

    def glance(self, attempt: Attempt, stream: str | None) -> Text | None:
        """Returns an output from this node's disk for who reads all of it once: its digest is not held against it.
        None: it is not here. Blocks."""
        of, ref = node_of(attempt), attempt.output
        if ref is None:
            return None
        if of == self.node:
            try:
                return self.own.open(ref, stream, attempt.token, whole=False)
            except RaftschedError:
                return None  # it is not kept any more
        return None if self.copied is None else self.copied.open(of, ref, stream, attempt.token, whole=False)


def node_of(attempt: Attempt) -> str:
    """Returns the node that has the output of an attempt that has ended."""
    return attempt.output_node or attempt.node


def is_kept(attempt: Attempt) -> bool:
    """Returns whether the attempt has ended with an output that was kept."""
    return attempt.outcome is not None and attempt.output is not None and attempt.output.segment != NOWHERE


class Chain(Generic[A]):
    """Opens outputs for one reader."""

    def __init__(self, places: Places, reader: Reader[A]) -> None:
        self._places = places
        self._reader = reader
        self._looked_at = float("-inf")

    async def open(self, attempt: Attempt, stream: str | None) -> Here | There[A]:
        """Raises RaftschedError output-gone, output-unavailable: what is the matter with the first copy, or with the
        store."""
        try:
            return await self._first(attempt, stream)
        except RaftschedError as error:
            if error.code not in ("output-gone", "output-unavailable"):
                raise
            if not is_kept(attempt) or not self._reader.is_kept(attempt):
                raise
            return await self._second(attempt, stream, error)

    async def _first(self, attempt: Attempt, stream: str | None) -> Here | There[A]:
        node = self._holder(attempt)
        if node is not None and node != self._places.node:
            return There(node, await self._reader.ask(attempt, node))
        text = await self._own(attempt, stream)
        found = await self._sent_elsewhere(attempt) if text is None and node is None else None
        return found or Here(text)

    def _holder(self, attempt: Attempt) -> str | None:
        """Returns the node that has the output. None: an attempt on a remote worker goes on, and only who is asked
        tells whether it has a copy."""
        if attempt.output_node or not is_worker(attempt.node):
            return node_of(attempt)
        return None if attempt.outcome is None else self._places.node  # it has none, as any node knows

    async def _own(self, attempt: Attempt, stream: str | None) -> Text | None:
        """Opens what this node has first; readers of what is still written share a look at the disk."""
        own = self._places.own
        if attempt.outcome is None:
            now = asyncio.get_running_loop().time()
            text = own.being_read(attempt.token, stream)
            if text is not None and now - text.looked_at < FRESH_S:
                return text
            text = await asyncio.to_thread(own.open_live, attempt.token, stream)
            if text is not None:
                text.looked_at = now
            return text
        if attempt.output is not None:
            try:
                return await asyncio.to_thread(own.open, attempt.output, stream, attempt.token)
            except RaftschedError as error:
                if error.detail not in (GONE, REMOVED):
                    raise
                why = self._reader.why_gone(attempt, removed=error.detail == REMOVED)
                raise RaftschedError("output-gone", why) from None
        if attempt.outcome is Outcome.LOST:
            raise RaftschedError("output-gone", "The worker was lost before it could report this attempt's output.")
        return None

    async def _sent_elsewhere(self, attempt: Attempt) -> There[A] | None:
        """Returns another node's copy of what a run on a remote worker has printed; None: nobody is known to have one.
        The worker sends it to one node, which nobody else knows for certain, and may change nodes: who had it last is
        asked first, and all others now and then."""
        received, token = self._places.received, attempt.token
        if self._reader.by_node:
            raise RaftschedError("output-unavailable", f"{self._places.node} has no copy of the output.")
        known = None if received is None else received.who_has(token)
        nodes = [] if known is None else [known]
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            nodes += [node for node in self._reader.others() if node != known]
        found = await self._first_of(nodes, attempt)
        if found is not None and received is not None:
            received.note_elsewhere(token, found.node)
        return found

    async def _first_of(self, nodes: Sequence[str], attempt: Attempt) -> There[A] | None:
        for node in nodes:
            try:
                return There(node, await self._reader.ask(attempt, node))
            except RaftschedError:
                continue
        return None

    async def _second(self, attempt: Attempt, stream: str | None, why: RaftschedError) -> Here | There[A]:
        """Raises `why` where there is no second copy."""
        _, _, copied, stored, _ = self._places
        of, ref, token = node_of(attempt), attempt.output, attempt.token
        assert ref is not None
        if copied is not None:
            text = await asyncio.to_thread(copied.open, of, ref, stream, token)
            if text is not None:
                return Here(text)
        if self._reader.by_node:
            raise why
        others = [node for node in self._reader.others() if node != of]
        if (found := await self._first_of(in_order(of, ref.segment, others), attempt)) is not None:
            return found
        if stored is not None:
            text = await self._reader.wait(stored.open(of, ref, stream, token))
            if text is not None:
                return Here(text, stored=True)
        raise why
