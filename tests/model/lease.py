"""The lease of a remote worker over time, in whole numbers: no end of its session is committed while a run may live.

A leads from the start and is cut off when C votes for B; it may come back in a third term before B's opening entry is
committed. Time is one clock for both leaders; the worker's may stand still once in a lease, which is what the margin is
for. Requests, grants and answers arrive at any time later, any number of times, by any node, or never. Of requests and
grants only the best for mischief is kept: the one sent last, and the one that ends last. A leader may be stopped
between reading its clock and using it, a worker at any time. A lease is taken for a run: it lives as long as the rules
allow.

Not modelled: the log but for ends and openings, more than three leaderships, members that come and go, leaders that
resign, TTLs that change, the time that a commit takes. Sessions that follow one another are in sessions.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import Found, search

NONE, OVER = -1, -2
ALIVE = "the session's end is committed, and a run of it may live"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Of the leader, then of the worker. False: taken out."""

    quorum_age: bool = True  # a grant is shorter by the age of the newest round that a majority answered
    age_from_sending: bool = True  # of that round; else from when the answer came
    new_leader_waits: bool = True
    opening_counts: bool = True  # over_at counts from the session's opening, where that is later than the election
    beats_move_over_at: bool = True
    margin: bool = True
    nothing_after_declaring: bool = True
    end_of_newest_epoch: bool = True
    opened_first: bool = True  # no grants before the own opening entry is committed
    fresh_clock: bool = True
    grant_of_its_request: bool = True  # else it counts for whichever request the node has of this session

    from_sending: bool = True  # the lease of a poll counts from when it was sent
    opening_from_sending: bool = True
    stays_over: bool = True  # a lease that ran out: it asks no more, and takes no grant
    kill_before_end: bool = True
    keepers: bool = True  # what kills needs nobody's help


@dataclass(frozen=True, kw_only=True)
class Bounds:
    ttl: int = 3
    time: int = 8
    kill: int = 1  # how long killing may take
    states: int = 3_000_000


class State(NamedTuple):
    now: int = 0
    lag: int = 0  # how far the worker's clock is behind
    even: int = 99  # ticks since it stood still
    # leaders
    a: int = 1  # the term that A leads, or believes to lead
    a_round: int = 0  # when A's newest round that a majority answered was sent
    a_over: int = NONE  # over_at
    a_ended: bool = False  # A has declared the session over
    a_clock: int = NONE  # what A read before it was stopped
    voted: bool = False  # C votes for B: no majority answers A any more
    answer: bool = False  # C's last answer to A is on its way
    b: int = 0  # 1: elected, 2: its opening entry is committed
    b_over: int = NONE
    b_ended: bool = False
    # the session
    asked: int = NONE  # the worker's clock when it asked to open one
    opened: bool = False
    ended: bool = False  # committed
    # the worker
    until: int = NONE  # its lease's end, by its clock
    stopped: bool = False
    poll: int = NONE  # the newest that was sent
    grant: int = NONE  # the best that is on its way: its end, or its length where that is what counts


def wrong(state: State) -> str | None:
    return ALIVE if state.ended and state.until >= 0 else None


def explore(rules: Rules, bounds: Bounds = Bounds()) -> Found:
    return search(State(), _Model(rules, bounds).successors, wrong, bounds.states)


class _Model:
    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules = rules
        self.bounds = bounds
        self.wait = bounds.ttl + (1 if rules.margin else 0)
        self.as_length = not rules.from_sending or not rules.grant_of_its_request

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        if self._done(state):
            return
        for what, after in (*self._time(state), *self._votes(state), *self._leads(state), *self._works(state)):
            yield f"{state.now}: {what}", after

    def _done(self, s: State) -> bool:
        """Whether it can hold no lease any more."""
        late = s.until == NONE and s.asked != NONE and s.asked + self.bounds.ttl <= s.now - s.lag
        return (s.until == OVER and self.rules.stays_over) or (late and self.rules.opening_from_sending)

    # ------------------------------------------------------------ time

    def _time(self, s: State) -> Iterator[tuple[str, State]]:
        if s.now == self.bounds.time:
            return
        yield "tick", self._tick(s, 0)
        if s.even > self.bounds.ttl:
            yield "tick, the worker's clock stands still", self._tick(s, 1)

    def _tick(self, s: State, still: int) -> State:
        now, lag = s.now + 1, s.lag + still
        until = s.until
        late = 0 if self.rules.kill_before_end else self.bounds.kill
        if until >= 0 and now - lag >= until + late and (self.rules.keepers or not s.stopped):
            until = OVER
        even = 0 if still else min(s.even + 1, self.bounds.ttl + 1)
        return s._replace(
            now=now,
            lag=lag,
            even=even,
            until=until,
            a_round=now if s.a == 3 or (s.a == 1 and not s.voted) else s.a_round,
        )

    # ------------------------------------------------------------ leaderships

    def _votes(self, s: State) -> Iterator[tuple[str, State]]:
        if not s.voted:
            yield "C votes for B; an answer to A is on its way", s._replace(voted=True, answer=True)
        if s.answer:
            sent = s.a_round if self.rules.age_from_sending else s.now
            yield "C's last answer comes to A", s._replace(answer=False, a_round=sent)
        if s.voted and s.b == 0 and s.a == 1:
            over = NONE if not s.opened else s.now + (self.wait if self.rules.new_leader_waits else 0)
            yield "B is elected", s._replace(b=1, b_over=over)
        if s.b == 1 and s.a == 1:
            yield "B's opening entry is committed", s._replace(b=2)
            back = s._replace(a=3, b=0, a_round=s.now, a_over=max(s.a_over, s.now + self.wait) if s.opened else NONE)
            if s.a_ended:
                yield "A is elected again, the old end is committed with its opening", back._replace(ended=True)
            else:
                yield "A is elected again", back
        if s.a and self.rules.fresh_clock is False and s.a_clock == NONE:
            yield "A reads its clock and is stopped", s._replace(a_clock=s.now)
        if s.a_clock != NONE:
            yield "A reads its clock anew", s._replace(a_clock=NONE)

    def _a_commits(self, s: State) -> bool:
        return s.a == 3 or (s.a == 1 and not s.voted)

    # ------------------------------------------------------------ what leaders do

    def _leads(self, s: State) -> Iterator[tuple[str, State]]:
        a_now = s.now if s.a_clock == NONE else s.a_clock
        if s.asked != NONE and not s.opened:
            over = s.now + self.wait
            if self._a_commits(s):
                a_over = over if self.rules.opening_counts else self.wait
                yield "A commits the session's opening", s._replace(opened=True, a_over=a_over)
            if s.b == 2:
                yield "B commits the session's opening", s._replace(opened=True, b_over=over)
        if not s.opened:
            return
        if s.poll != NONE:
            if s.a and s.a_over != NONE and not (s.a_ended and self.rules.nothing_after_declaring):
                yield from self._grants(s, "A", a_now, s.a_round, s.a_over)
            known = s.b == 2 or (s.b == 1 and not self.rules.opened_first)
            if known and s.b_over != NONE and not (s.b_ended and self.rules.nothing_after_declaring):
                yield from self._grants(s, "B", s.now, s.now, s.b_over)
        if s.a and not s.a_ended and s.a_over != NONE and a_now >= s.a_over:
            yield "A declares the session over", s._replace(a_ended=True)
        if s.a_ended and not s.ended:
            if self._a_commits(s):
                yield "A's end is committed", s._replace(ended=True)
            elif s.b == 2 and not self.rules.end_of_newest_epoch:
                yield "A's old end comes to B and is committed", s._replace(ended=True)
        if s.b == 2 and not s.b_ended and s.b_over != NONE and s.now >= s.b_over:
            yield "B declares the session over", s._replace(b_ended=True)
        if s.b_ended and not s.ended:
            yield "B's end is committed", s._replace(ended=True)

    def _grants(self, s: State, leader: str, now: int, quorum: int, over: int) -> Iterator[tuple[str, State]]:
        length = self.bounds.ttl - (now - quorum if self.rules.quorum_age else 0)
        if length <= 0:
            return
        if self.rules.beats_move_over_at:
            over = max(over, now + self.wait)
        grant = max(s.grant, length if self.as_length else s.poll + length)
        after = s._replace(grant=grant, a_over=over) if leader == "A" else s._replace(grant=grant, b_over=over)
        if after != s:
            yield f"{leader} grants {length} to the poll sent at {s.poll}", after

    # ------------------------------------------------------------ the worker

    def _works(self, s: State) -> Iterator[tuple[str, State]]:
        clock = s.now - s.lag
        if not self.rules.keepers:
            if s.stopped:
                over = s.until >= 0 and clock >= s.until
                yield "the worker goes on", s._replace(stopped=False, until=OVER if over else s.until)
            else:
                yield "the worker is stopped", s._replace(stopped=True)
        if s.stopped:
            return
        if s.asked == NONE:
            yield "the worker asks for a session", s._replace(asked=clock)
        if s.opened and s.until == NONE:
            until = (s.asked if self.rules.opening_from_sending else clock) + self.bounds.ttl
            if until > clock:
                yield f"the worker hears of its session: lease to {until}", s._replace(until=until)
        if s.until > clock or (s.until == OVER and not self.rules.stays_over):
            if s.poll != clock:
                yield "the worker polls", s._replace(poll=clock)
            if s.grant != NONE:
                until = s.grant
                if not self.rules.from_sending:
                    until += clock
                elif not self.rules.grant_of_its_request:
                    until += s.poll
                if until > max(s.until, clock):
                    yield f"the grant comes: lease to {until}", s._replace(until=until)
