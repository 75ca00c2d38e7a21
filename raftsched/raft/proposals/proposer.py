"""Brings proposals from the caller to an entry of the log, and from its local apply back to the caller.

Calls that arrive together become one batch with a number of its own (origin, seq). A batch goes to the leader, and
again after each change of leader, until it is applied here or its callers' time is over: apply takes it once only. The
leader gathers batches of all nodes (queue.py) and makes one entry of them per write batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from raftsched.core.commands import UNKNOWN, Answer, check
from raftsched.core.entry import BatchResult
from raftsched.errors import NoLeader, Overloaded, RaftschedError, UnknownOutcome
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions

log = logging.getLogger(__name__)

Batch = tuple[int, int, list[bytes]]  # origin, seq, encoded commands
Reply = Callable[[list[Answer] | None, RaftschedError | None], None]

_BACKLOG = 1024 * 1024  # bytes that wait: below that nobody waits long
_RATE_S, _SAMPLE_S = 1.5, 0.25
_DEADLINE_SHARE = 0.8  # share of the time until its deadline that a call may be expected to wait

OVERHEAD = 64  # bytes counted per call and per batch beside the commands


def check_all(commands: Sequence[bytes]) -> None:
    """Raises ValueError for bytes that are no command: they must never get into the log."""
    for raw in commands:
        check(raw)


def settle(future: asyncio.Future[list[Answer]], answers: list[Answer] | None, error: RaftschedError | None) -> None:
    """A Reply that sets a future."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif answers is not None:
        future.set_result(answers)


def contained(reply: Reply, answers: list[Answer] | None, error: RaftschedError | None) -> None:
    """Calls the reply; its exceptions are logged, except MemoryError."""
    try:
        reply(answers, error)
    except MemoryError:
        raise
    except Exception:
        log.exception("a caller's reply failed")


@dataclass(slots=True)
class _Call:
    commands: Sequence[bytes]
    size: int
    deadline: float  # monotonic seconds
    reply: Reply | None  # None: no caller waits, or it was answered already
    leader_by: float = 0.0  # monotonic seconds: when it gives up waiting for a leader; 0: there is one


@dataclass(slots=True)
class _Sealed:
    """A batch that has its number; a leader may have appended it."""

    seq: int
    commands: list[bytes]
    size: int
    calls: list[_Call] = field(default_factory=list)
    deadline: float = 0.0  # the latest of its calls
    sent: int = 0  # times it was sent


class Proposer:
    """This node's own proposals."""

    def __init__(self, origin: int, options: RaftOptions, guards: Guards) -> None:
        self.origin = origin
        self._options = options
        self._guards = guards
        self._waiting: deque[_Call] = deque()  # have no number yet: were never sent
        self._sealed: dict[int, _Sealed] = {}  # by seq, ascending
        self._seq = 0
        self._sent = 0  # highest seq sent over the present route
        self._bytes = 0
        self._next_deadline = float("inf")
        self._answered = 0  # bytes, since this node started
        self._samples: deque[tuple[float, int]] = deque()  # (when, answered) while more than _BACKLOG waited
        self._rate: float | None = None  # bytes a second, while so much waits

    def add(
        self,
        commands: Sequence[bytes],
        deadline: float,
        reply: Reply | None,
        *,
        now: float = 0.0,
    ) -> None:
        """Takes a call; `now` and `deadline` in monotonic seconds.

        Raises Overloaded, also when it would not be done by its deadline, and RaftschedError("too-large") when it
        fits no entry."""
        size = sum(map(len, commands)) + OVERHEAD
        options = self._options
        too_large = size > options.entry_max_bytes or len(commands) > options.entry_max_commands
        if too_large and self._guards.entries_below_batch:
            raise RaftschedError(
                "too-large",
                f"{len(commands)} commands of {size} bytes do not fit one entry: at most "
                f"{options.entry_max_commands} commands and {options.entry_max_bytes} bytes.",
            )
        if self._bytes + size > options.waiting_max_bytes:
            raise Overloaded()
        if self._rate is not None and (self._bytes + size) / self._rate > _DEADLINE_SHARE * (deadline - now):
            raise Overloaded(
                f"{self._bytes} bytes wait here, and {int(self._rate)} a second get through; try again in a while."
            )
        self._bytes += size
        self._waiting.append(_Call(commands, size, deadline, reply))
        self._next_deadline = min(self._next_deadline, deadline)

    def sample(self, now: float) -> None:
        """Measures how fast waiting proposals get through; to be called on every tick, as long as there is a leader."""
        if self._bytes < _BACKLOG:
            self.forget_rate()
            return
        samples = self._samples
        if not samples or now - samples[-1][0] >= _SAMPLE_S:
            samples.append((now, self._answered))
            while now - samples[0][0] > 2 * _RATE_S:
                samples.popleft()
            since, answered = samples[0]
            done = self._answered - answered
            self._rate = done / (now - since) if done and now - since >= _RATE_S else None

    def forget_rate(self) -> None:
        self._samples.clear()
        self._rate = None

    @property
    def unanswered(self) -> bool:
        """Something was not applied yet, or is not known to be."""
        return self._bytes > 0

    @property
    def waiting(self) -> bool:
        """Something has not been sent over the present route."""
        return bool(self._waiting) or self._sent < self._seq

    def rerouted(self) -> None:
        """Sends everything unanswered again, in order: there is another leader, term or connection."""
        self._sent = min(self._sealed) - 1 if self._sealed else self._seq

    def batches(self, max_bytes: int, batch_bytes: int | None = None) -> list[Batch]:
        """Returns the batches to send now, at most about `max_bytes`; calls are gathered into batches of `batch_bytes`,
        or up to the size of an entry."""
        limit = self._options.entry_max_bytes
        if batch_bytes is not None:
            limit = min(limit, batch_bytes)
        chosen: list[Batch] = []
        size = 0
        if self._sent < self._seq:
            for seq, sealed in self._sealed.items():
                if seq <= self._sent:
                    continue
                if chosen and size + sealed.size > max_bytes:
                    return chosen
                chosen.append((self.origin, seq, sealed.commands))
                size += sealed.size
                sealed.sent += 1
                self._sent = seq
            self._sent = self._seq
        while self._waiting and size < max_bytes:
            sealed = self._seal(limit)
            chosen.append((self.origin, sealed.seq, sealed.commands))
            size += sealed.size
        return chosen

    def _seal(self, max_bytes: int) -> _Sealed:
        options = self._options
        self._seq += 1
        self._sent = self._seq
        sealed = _Sealed(self._seq, [], OVERHEAD)
        waiting = self._waiting
        while waiting:
            call = waiting[0]
            if sealed.calls and (
                sealed.size + call.size > max_bytes
                or len(sealed.commands) + len(call.commands) > options.entry_max_commands
            ):
                break
            waiting.popleft()
            sealed.commands.extend(call.commands)
            sealed.size += call.size
            sealed.calls.append(call)
            sealed.deadline = max(sealed.deadline, call.deadline)
        sealed.sent = 1
        self._sealed[self._seq] = sealed
        return sealed

    def applied(self, result: BatchResult) -> None:
        """A batch of this node was applied here: answers its calls."""
        sealed = self._sealed.pop(result.seq, None)
        if sealed is None:
            return
        answers = result.answers
        if answers is None:
            self._fail(sealed.calls, UnknownOutcome())
            return
        position = 0
        for call in sealed.calls:
            end = position + len(call.commands)
            self._bytes -= call.size
            self._answered += call.size
            if call.reply is not None:
                call.reply(answers[position:end], None)
            position = end

    def rejected(self, seq: int, places: Collection[int]) -> None:
        """The leader did not take this batch: it does not accept the commands at `places`. Their calls are refused, and
        nothing of them is done; the other calls go out again, in another batch."""
        sealed = self._sealed.pop(seq, None)
        if sealed is None:
            return
        if sealed.sent > 1:  # an earlier leader may have taken it
            self._fail(sealed.calls, UnknownOutcome())
            return
        position = 0
        again = []
        for call in sealed.calls:
            end = position + len(call.commands)
            if any(position <= place < end for place in places):
                self._bytes -= call.size
                if call.reply is not None:
                    call.reply([UNKNOWN] * len(call.commands), None)
            else:
                again.append(call)
            position = end
        self._waiting.extendleft(reversed(again))

    def jumped(self) -> None:
        """A snapshot skipped entries that are not known here: the outcome of everything sent is unknown."""
        sealed, self._sealed = self._sealed, {}
        self._sent = self._seq
        for batch in sealed.values():
            self._fail(batch.calls, UnknownOutcome())

    def expire(self, now: float, has_leader: bool = True) -> None:
        """Answers the calls whose time is over, and those that have waited for a leader for long enough and were
        never sent. `has_leader`: there is one now. A batch is no longer sent when all of its callers are gone."""
        patience = 0.0 if has_leader else self._options.leader_wait_ms / 1000
        if now < self._next_deadline and not (patience and self._waiting):
            return
        late = [call for call in self._waiting if call.deadline <= now or (patience and _gives_up(call, now, patience))]
        if late:
            gone = set(map(id, late))
            self._waiting = deque(call for call in self._waiting if id(call) not in gone)
        unknown: list[_Call] = []
        for seq, sealed in list(self._sealed.items()):
            if sealed.deadline <= now:
                del self._sealed[seq]
            for call in sealed.calls:
                if call.deadline <= now and call.reply is not None:
                    unknown.append(_Call(call.commands, 0, 0.0, call.reply))
                    call.reply = None
            if sealed.deadline <= now:
                self._bytes -= sum(call.size for call in sealed.calls)
        deadlines = [call.deadline for call in self._waiting]
        for sealed in self._sealed.values():
            deadlines.extend(call.deadline for call in sealed.calls if call.deadline > now)
        self._next_deadline = min(deadlines, default=float("inf"))
        self._fail(late, NoLeader())
        self._fail(unknown, UnknownOutcome())

    def stop(self, unsent: RaftschedError) -> None:
        """Answers every call, because the node stops."""
        waiting, self._waiting = list(self._waiting), deque()
        self._fail(waiting, unsent)
        self.jumped()

    def _fail(self, calls: Sequence[_Call], error: RaftschedError) -> None:
        for call in calls:
            self._bytes -= call.size
            if call.reply is not None:
                call.reply(None, error)


def _gives_up(call: _Call, now: float, patience: float) -> bool:
    """Returns whether a call stops waiting for a leader. One without a reply has time until its deadline."""
    call.leader_by = call.leader_by or now + patience
    return call.reply is not None and call.leader_by <= now
