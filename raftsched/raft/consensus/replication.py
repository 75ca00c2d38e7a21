"""Log matching: compares an append with a follower's log, and keeps the leader's view of each follower."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from raftsched.raft.consensus.journal import Journal
from raftsched.raft.guards import Guards
from raftsched.raft.window import Window

_WALK = 4096  # entries looked at for one answer; the next probe goes on from there


class Verdict(NamedTuple):
    """`matches`: everything up to `index` agrees once `entries` replaced what is there from `truncate_from` on.
    Otherwise the sender should start at `index` or lower."""

    matches: bool
    index: int  # type: ignore[assignment]  # hides tuple.index on purpose
    truncate_from: int | None
    first_new: int  # index of entries[0]
    entries: list[tuple[int, bytes]]


def verify(
    journal: Journal,
    floor: int,
    prev_index: int,
    prev_term: int,
    entries: list[tuple[int, bytes]],
    guards: Guards,
) -> Verdict:
    """Compares a message with the log; returns what to do with it. Up to `floor` (the commit index) the log is the same
    in every later leader's log.

    Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), figure 2, AppendEntries:
    existing entries are deleted only where one conflicts, because a message may be late and the log longer than it."""
    if prev_index < floor and guards.truncate_only_at_conflict:
        entries = entries[floor - prev_index :]
        if not entries:
            vouched = floor if guards.late_append_answers_commit else journal.last_index
            return Verdict(True, vouched, None, floor + 1, [])
        prev_index = floor
    else:
        found = journal.term(prev_index)
        if found is None:
            return Verdict(False, journal.last_index + 1, None, 0, [])
        if found != prev_term and guards.previous_entry_compared:
            return Verdict(False, _start_of_term(journal, prev_index, found, floor, guards), None, 0, [])
    verified = prev_index + len(entries)
    first = prev_index + 1
    if not guards.truncate_only_at_conflict:
        cut = first if first <= journal.last_index else None
        return Verdict(True, verified, cut, first, entries)
    same = 0
    for term, _ in entries:
        if first + same > journal.last_index or journal.term(first + same) != term:
            break
        same += 1
    first += same
    conflict = first if first <= journal.last_index and same < len(entries) else None
    return Verdict(True, verified, conflict, first, entries[same:])


def _start_of_term(journal: Journal, index: int, term: int, floor: int, guards: Guards) -> int:
    """Returns the index at which the conflicting term begins, so that one answer skips all of it."""
    if not guards.lowest_probe_remembered:
        return index
    lowest = max(floor + 1, index - _WALK)
    while index > lowest and journal.term(index - 1) == term:
        index -= 1
    return max(index, floor + 1)


@dataclass(slots=True)
class Progress:
    """A follower's progress as the leader sees it, beside its next and match index."""

    window: Window
    probing: bool = True  # one message at a time until one matched
    probe_sent: bool = False  # a probe is on its way
    lowest: int | None = None  # lowest start a follower asked for since something matched
    sent_commit: int = 0  # as far as it can have learned
    inflight: deque[tuple[int, int]] = field(default_factory=deque)  # (last index, bytes)
    inflight_bytes: int = 0
    snapshot: bool = False  # a snapshot is being prepared or sent

    def commit_sent(self, commit: int, last_index: int) -> None:
        """Notes that the commit index was sent with a message up to `last_index`; the follower commits no further than
        that."""
        self.sent_commit = max(self.sent_commit, min(commit, last_index))

    def sent(self, last_index: int, size: int) -> None:
        self.inflight.append((last_index, size))
        self.inflight_bytes += size
        self.window.used(self.inflight_bytes)

    def acknowledged(self, match: int) -> None:
        while self.inflight and self.inflight[0][0] <= match:
            self.inflight_bytes -= self.inflight.popleft()[1]
        self.probing = self.probe_sent = False
        self.lowest = None

    def probe(self, index: int, guards: Guards) -> int:
        """Returns the index to go on with when the follower asks for an earlier start."""
        if guards.lowest_probe_remembered:
            self.lowest = index if self.lowest is None else min(self.lowest, index)
            index = self.lowest
            self.probing = True
        self.probe_sent = False
        self.inflight.clear()
        self.inflight_bytes = 0
        return index
