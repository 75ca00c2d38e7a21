"""Sessions, tokens and reports of one remote worker over nodes that are behind: what runs has not ended by the log.

The log is what it is; one node is as far as the log, the other anywhere behind. Requests and answers arrive at any time
later, any number of times, or never; a node may keep a request for as long as it likes. There is one instance, one slot
and one worker under its name; another process tries to take the name. When the leader may declare a session over is
taken from lease.py: not while the worker may hold its lease, and nobody who hears of the session later has a lease.

Not modelled: time, leaders, several runs in one answer, output, what runs on nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tests.model.search import Found, search

ENDED_ALIVE = "a run has ended by the log, and lives"
STARTED_OVER = "a run is started that has ended by the log"
STARTED_TWICE = "a run is started twice"

FOREIGN = -1  # the opening of another process
Entry = tuple[str, int, int]  # "open" opening session, "assign" token session, "done"/"back" token, "over" session
Message = tuple[str, int, int, tuple[tuple[int, str], ...]]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """False: taken out."""

    opening_rises: bool = True  # an opening ends an open session only when its number is higher
    incarnation: bool = True  # and only when it is of the same process
    token_of_report: bool = True  # a report ends the attempt of its token, and no other
    only_worker_ends: bool = True  # a node ends no run on its own, whatever it thinks of it

    newest_answer: bool = True  # the worker takes the answer to the newest opening that it sent
    fence: bool = True  # it asks for a session when nothing of the one before is left
    stays_over: bool = True  # what it gave up stays so
    of_this_session: bool = True  # it starts what was given to its own session
    cursor: bool = True  # and nothing at or below the highest token that it has taken


@dataclass(frozen=True, kw_only=True)
class Bounds:
    log: int = 6
    openings: int = 2
    tokens: int = 2
    messages: int = 4
    states: int = 3_000_000


class View(NamedTuple):
    """What a log comes to."""

    session: int = 0  # that is open
    opening: int = 0  # of it
    sessions: int = 0
    token: int = 0  # of the live attempt
    holder: int = 0  # its session
    tokens: int = 0
    over: frozenset[int] = frozenset()  # tokens
    timed_out: frozenset[int] = frozenset()  # sessions that the leader declared over
    done: bool = False


class State(NamedTuple):
    log: tuple[Entry, ...] = ()
    behind: int = 0  # what the other node has applied
    messages: frozenset[Message] = frozenset()
    # the worker
    sent: int = 0  # the newest opening
    session: int = 0
    holds: bool = False
    after: int = 0
    alive: int = 0  # token
    under: int = 0  # its session
    reports: tuple[tuple[int, str], ...] = ()
    started: frozenset[int] = frozenset()
    wrong: str | None = None


@cache
def view_of(log: tuple[Entry, ...]) -> View:
    if not log:
        return View()
    before, (what, number, other) = view_of(log[:-1]), log[-1]
    lost = before.over | {before.token} if before.token else before.over
    match what:
        case "open":
            return before._replace(session=other, opening=number, sessions=other, token=0, holder=0, over=lost)
        case "assign":
            return before._replace(token=number, holder=other, tokens=number)
        case "over":
            out = before.timed_out | {number}
            return before._replace(session=0, opening=0, token=0, holder=0, over=lost, timed_out=out)
        case _:
            return before._replace(token=0, holder=0, over=lost, done=what == "done")


def wrong(state: State) -> str | None:
    if state.wrong is None and state.alive and state.alive in view_of(state.log).over:
        return ENDED_ALIVE
    return state.wrong


def explore(rules: Rules, bounds: Bounds = Bounds()) -> Found:
    return search(State(), _Model(rules, bounds).successors, wrong, bounds.states)


class _Model:
    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules = rules
        self.bounds = bounds

    def successors(self, s: State) -> Iterator[tuple[str, State]]:
        yield from self._works(s)
        yield from self._hears(s)
        if s.behind < len(s.log):
            yield "the node that is behind applies an entry", s._replace(behind=s.behind + 1)
        if len(s.log) < self.bounds.log:
            yield from self._leads(s)
            yield from self._requests(s)
        if len(s.messages) < self.bounds.messages:
            yield from self._answers(s)

    def _say(self, s: State, *message: object) -> State:
        return s._replace(messages=s.messages | {message})  # type: ignore[arg-type]

    def _append(self, s: State, what: str, number: int, other: int = 0) -> State:
        return s._replace(log=(*s.log, (what, number, other)))

    # ------------------------------------------------------------ the worker

    def _works(self, s: State) -> Iterator[tuple[str, State]]:
        room = len(s.messages) < self.bounds.messages
        if not s.holds and s.sent < self.bounds.openings and room:
            number = s.sent + 1
            ready = s._replace(sent=number, reports=())
            if self.rules.fence:
                ready = ready._replace(alive=0, under=0)
            yield f"the worker sends opening {number}", self._say(ready, "open", number, 0, ())
        if s.holds:
            yield "its lease runs out", s._replace(holds=False, alive=0, under=0)
            yield "it gives its session up", s._replace(holds=False)
            if room:
                poll = ("poll", s.session, s.after, s.reports)
                if poll not in s.messages:
                    yield f"it polls with {s.reports} after {s.after}", self._say(s, *poll)
        if s.alive:
            report = (s.alive, "done")
            yield f"run {s.alive} ends", s._replace(alive=0, under=0, reports=(*s.reports, report))
        for report in s.reports:
            if report[0] in view_of(s.log).over:
                left = tuple(one for one in s.reports if one != report)
                yield f"it hears that {report} is in the log", s._replace(reports=left)

    def _hears(self, s: State) -> Iterator[tuple[str, State]]:
        view = view_of(s.log)
        for kind, number, other, given in s.messages:
            if kind == "opened" and not s.holds and other not in view.timed_out and other != s.session:
                if number == s.sent or not self.rules.newest_answer:
                    held = s._replace(session=other, holds=True, after=0, reports=())
                    yield f"it hears that opening {number} made session {other}", held
            elif kind == "given" and s.session:
                ((token, _),) = given
                if number != s.session and self.rules.of_this_session:
                    continue
                if not s.holds and (self.rules.stays_over or s.session in view.timed_out):
                    continue
                if token <= s.after and self.rules.cursor:
                    continue
                if s.alive or token in dict(s.reports):
                    continue
                taken = s._replace(holds=True, after=max(s.after, token))
                bad = STARTED_OVER if token in view.over else STARTED_TWICE if token in s.started else None
                run = taken._replace(alive=token, under=s.session, started=s.started | {token}, wrong=bad)
                yield f"it starts run {token}", run
                yield f"it hands run {token} back", taken._replace(reports=(*s.reports, (token, "back")))

    # ------------------------------------------------------------ the cluster

    def _leads(self, s: State) -> Iterator[tuple[str, State]]:
        view = view_of(s.log)
        if view.session and not view.token and not view.done and view.tokens < self.bounds.tokens:
            token = view.tokens + 1
            yield f"run {token} is given to session {view.session}", self._append(s, "assign", token, view.session)
        held = (s.holds and s.session == view.session) or (s.alive and s.under == view.session)
        if view.session and not held:
            yield f"session {view.session} is declared over", self._append(s, "over", view.session)
        if view.sessions <= self.bounds.openings and (not view.session or not self.rules.incarnation):
            number = view.sessions + 1
            yield "another process opens a session by the same name", self._append(s, "open", FOREIGN, number)

    def _requests(self, s: State) -> Iterator[tuple[str, State]]:
        """What comes to a node and gets into the log."""
        view = view_of(s.log)
        for kind, number, _, reports in s.messages:
            if kind == "open" and view.sessions <= self.bounds.openings:
                session = view.sessions + 1
                if view.session:
                    if view.opening == FOREIGN and self.rules.incarnation:
                        continue
                    if number <= view.opening and self.rules.opening_rises:
                        continue
                after = self._append(s, "open", number, session)
                yield f"opening {number} makes session {session}", self._say(after, "opened", number, session, ())
            elif kind == "poll" and view.token and view.holder == number:
                for token, how in reports:
                    if token == view.token or not self.rules.token_of_report:
                        yield f"the report {token} {how} ends run {view.token}", self._append(s, how, token)
        if not self.rules.only_worker_ends:
            for where in (view, view_of(s.log[: s.behind])):
                if where.token and where.token == view.token:
                    yield f"a node ends run {view.token}, which it cannot give", self._append(s, "done", view.token)

    def _answers(self, s: State) -> Iterator[tuple[str, State]]:
        for kind, number, taken, _ in s.messages:
            if kind != "poll":
                continue
            for where, log in (("a node", s.log), ("the node that is behind", s.log[: s.behind])):
                view = view_of(log)
                if view.session == view.holder == number and view.token > taken:
                    answer: Message = ("given", number, 0, ((view.token, ""),))
                    if answer not in s.messages:
                        yield f"{where} gives it run {view.token}", self._say(s, *answer)
