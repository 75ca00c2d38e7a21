"""A node's side of remote workers: opens their sessions, hands out their runs, takes reports, asks the leader for them.

Any node does that for any worker, and holds nothing that another one would miss. Which runs a session was given is read
from the tables each time (those with tokens above the highest that the worker took), and so is whether it is open;
what is applied only wakes the polls that wait. A node that does not know a session catches up before it says that it is
over: number and nonce are never used again, so that then it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from secrets import token_bytes

from raftsched.core.actions import (
    Action,
    AttemptAssigned,
    AttemptEnded,
    JobDue,
    KillAsked,
    SessionBound,
    SessionChanged,
)
from raftsched.core.commands import BindSession, CloseSession, OpenWorker, Rejected, encode
from raftsched.core.model import Instance
from raftsched.core.rows import SESSIONS, newest_session, read_meta
from raftsched.core.rules.executors import worker_key
from raftsched.core.subjects.cluster import Session
from raftsched.core.subjects.leasing import KILL_BEFORE_MS, AttemptsFinished, longest_poll_ms
from raftsched.core.subjects.leasing import encode as encode_message
from raftsched.core.tables import ReadView
from raftsched.errors import NoLeader, RaftschedError
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.raft.proposals.barrier import Barriers
from raftsched.remote.grants import Grants, Request
from raftsched.remote.held import RATE_BURST, Held, Poll
from raftsched.remote.open_polls import OpenPolls
from raftsched.remote.reports import Commands, ReportedOutputs, batches, stale
from raftsched.remote.rules import allowed_of
from raftsched.remote.runs import asked_to_end, given_runs
from raftsched.remote.session_secrets import make_secret, nonce_of, parse, session_of, speaks_for
from raftsched.security.sealing import Sealer
from raftsched.surface import worker_sessions
from raftsched.surface.worker_sessions import CloseIn, PollAnswer, PollIn, RefusedReport, Report, WorkerSessionIn
from raftsched.system.clock import Clock
from raftsched.worker.ports import Applied, Raft

POLLS_MAX = 4  # of one session at a time; of two that wait for runs the older one is answered
LINGERING_MAX = 16  # the same, with those whose worker has given up: their reports may still be on their way to the log
RATE_PER_S = 500  # polls of one session; REPORTS_OF_POLL reports count as one more
REPORTS_OF_POLL = 10
SESSIONS_MAX = 10_000  # remembered; of more, those that were not heard of for the longest are read again
OPENING_TRIES = 3  # when another opening came between
PROPOSE_S = 5.0  # for reports; the worker asks again, or another node, before its lease is over
GRANT_S = 0.25  # that an answer waits for the leader's word on the lease, when the last one is old
LOOK_S = 0.25  # between two looks for pollers that have gone

Signed = Callable[[Sequence[bytes]], Sequence[bytes]]

log = logging.getLogger(__name__)


class NameTaken(RaftschedError):
    """Another process works under this name, or did a moment ago. `after_s`: when to ask again."""

    def __init__(self, detail: str, after_s: int) -> None:
        super().__init__("name-taken", detail)
        self.after_s = after_s


def _as_they_are(commands: Sequence[bytes]) -> Sequence[bytes]:
    return commands


class Gateway:
    def __init__(
        self,
        *,
        node_id: str,
        raft: Raft,
        read: Callable[[], AbstractContextManager[ReadView]],
        clock: Clock,
        sealer: Sealer | None = None,
        outputs: ReportedOutputs,
        output_rules: OutputRules | None = None,
        trace: Callable[[Instance], Mapping[str, str]] | None = None,
        random_bytes: Callable[[int], bytes] = token_bytes,
    ) -> None:
        """`output_rules`: how much is kept of what runs print; None: as ever. `trace`: returns the headers that carry
        the context of an instance's trace; None: there are no traces. `random_bytes`: of which secrets are made."""
        self._raft = raft
        self._read = read
        self._clock = clock
        self._sealer = sealer
        given = given_runs if output_rules is None else partial(given_runs, output_max=output_rules.max_of)
        self._given_runs = given if trace is None else partial(given, trace=trace)
        self._random_bytes = random_bytes
        self._commands = Commands(node_id, read, clock, outputs)
        self._grants = Grants(raft, clock, int.from_bytes(random_bytes(7), "big"))
        self._barriers = Barriers(raft.propose)
        self._open_polls = OpenPolls(raft, clock)
        self._held: OrderedDict[int, Held] = OrderedDict()  # by number; the one that was heard of last is the last
        self._waiting = 0
        self._looking: asyncio.TimerHandle | None = None
        self._stopping = False
        self._started = False

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Takes requests from now on."""
        self._grants.start()
        self._raft.subscribe(self.on_applied)
        self._started = True

    def stop(self) -> None:
        """Answers the polls that wait, and takes no more."""
        self._stopping = True
        self._wake_all()
        self._grants.stop()
        self._open_polls.stop()
        if self._looking is not None:
            self._looking.cancel()

    def _check_running(self) -> None:
        if self._stopping:
            raise RaftschedError("stopping", "This node is stopping; another one goes on with the same session.")
        if not self._started:
            raise NoLeader("This node is starting; try again shortly.")

    # ------------------------------------------------------------ sessions

    async def open(
        self,
        worker: WorkerSessionIn,
        *,
        queues: Sequence[str] | None = None,
        namespaces: Sequence[str] | None = None,
        signed: Signed = _as_they_are,
        owner: str = "",
    ) -> worker_sessions.WorkerSessionOut:
        """Opens a session for the runs of these queues and namespaces. `signed`: adds to commands who asks for them.
        `owner`: the token's owner, who alone speaks for it. Raises NameTaken, NoLeader, UnknownOutcome, and
        RaftschedError: too-many, invalid-parameter, stopping."""
        self._check_running()
        key = worker_key(worker.name)
        for tries in range(OPENING_TRIES):
            if tries:
                await self._barriers.wait(PROPOSE_S)
            with self._read() as view:
                newest, _ = newest_session(view, key)
                level = read_meta(view).level
            secret = make_secret(self._random_bytes, level)
            command = OpenWorker(
                key,
                newest,
                nonce_of(secret, owner),
                worker.slots,
                worker.incarnation,
                tuple(sorted(worker.labels.items())),
                tuple(dict.fromkeys(worker.handlers)),
                worker.version,
                tuple(worker.users),
                None if worker.allowed is None else allowed_of(worker.allowed),
                queues=None if queues is None else tuple(queues),
                namespaces=None if namespaces is None else tuple(namespaces),
                weight=worker.weight,
                opening=worker.opening,
            )
            answer = (await self._raft.propose(signed([encode(command)]), PROPOSE_S))[0]
            if not isinstance(answer, Rejected):
                assert answer.number is not None
                return self._opened(worker.name, answer.number, secret)
            if answer.code == "name-taken":
                raise NameTaken(answer.detail, self._ttl_s())
            if answer.code != "stale":
                raise RaftschedError(answer.code, answer.detail)
        raise NameTaken("Another request opened a session under this name meanwhile.", self._ttl_s())

    def _ttl_s(self) -> int:
        """Returns after how many seconds it may be worth to ask for a name again."""
        with self._read() as view:
            ttl_ms = read_meta(view).settings.worker_ttl_ms
        return max(1, ttl_ms // 4_000)

    def _opened(self, name: str, number: int, secret: str) -> worker_sessions.WorkerSessionOut:
        with self._read() as view:
            row = SESSIONS.get(view, number)
        if row is None or not row.open:
            raise RaftschedError("session-over", "The session was replaced as soon as it was opened.")
        return worker_sessions.WorkerSessionOut(
            session=f"{number}-{secret}",
            name=name,
            lease_ms=row.ttl_ms,
            ttl_ms=row.ttl_ms,
            kill_before_ms=KILL_BEFORE_MS,
            poll_ms=longest_poll_ms(row.ttl_ms),
            queues=None if row.queues is None else list(row.queues),
            namespaces=None if row.namespaces is None else list(row.namespaces),
        )

    async def close(
        self, text: str, request: CloseIn, check: Callable[[Session], None] = lambda row: None, *, owner: str = ""
    ) -> None:
        """Ends a session; one that is over already is. `check`, `owner`: see `poll`."""
        self._check_running()
        held = await self._look(text, owner)
        if held is None:
            return
        check(held.row)
        await self._raft.propose([encode(CloseSession(held.row.id, tuple(request.ran)))], PROPOSE_S)

    async def bind(
        self,
        text: str,
        bound: str,
        incarnation: str,
        check: Callable[[Session], None] = lambda row: None,
        *,
        signed: Signed = _as_they_are,
        owner: str = "",
    ) -> None:
        """Gives a session that is this owner's of a token (`bound`) to another (`owner`); one that is theirs already
        stays so. `check`: see `poll`. Raises what `poll` does."""
        self._check_running()
        held = await self._look(text, owner) or await self._find(text, bound)
        check(held.row)
        secret = text.partition("-")[2]
        if speaks_for(held.row, secret, owner):
            return
        command = BindSession(held.row.id, nonce_of(secret, bound), nonce_of(secret, owner), incarnation)
        if isinstance((await self._raft.propose(signed([encode(command)]), PROPOSE_S))[0], Rejected):
            raise RaftschedError("session-over", "The session ended meanwhile, or is another token's.")

    async def admit(self, text: str, check: Callable[[Session], None] = lambda row: None, *, owner: str = "") -> None:
        """Raises what `poll` raises where the session is not open, or the caller may not speak for it: before what it
        says is read."""
        self._check_running()
        check((await self._find(text, owner)).row)

    async def _find(self, text: str, owner: str) -> Held:
        """Returns the session. Raises RaftschedError session-over, and NoLeader: this node may not have heard of it."""
        held = await self._look(text, owner)
        if held is None:
            raise RaftschedError(
                "session-over", "There is no such session, or not any more: end what runs under it, and open another."
            )
        return held

    async def _look(self, text: str, owner: str) -> Held | None:
        """Returns the session; None: it is over. Raises NoLeader."""
        number, secret = parse(text) or (0, "")
        held = self._held.get(number)
        if held is not None and not held.over and speaks_for(held.row, secret, owner):
            self._held.move_to_end(held.row.id)
            return held
        with self._read() as view:
            found = self._hold(view, text, owner)
            unheard = found is None and _is_later(view, number)
        if unheard:
            await self._barriers.wait(PROPOSE_S)
            with self._read() as view:
                found = self._hold(view, text, owner)
        return found

    def _hold(self, view: ReadView, text: str, owner: str) -> Held | None:
        row = session_of(view, text, owner)
        if row is None:
            return None
        held = self._held.get(row.id)
        if held is None:
            held = self._held[row.id] = Held(row, set(asked_to_end(view, row.id)))
            self._forget_some()
        return held

    def _forget_some(self) -> None:
        while len(self._held) > SESSIONS_MAX:
            number = next((number for number, held in self._held.items() if not held.polls), None)
            if number is None:
                return
            del self._held[number]

    # ------------------------------------------------------------ polls

    async def poll(
        self,
        text: str,
        request: PollIn,
        arrived_ms: int,
        *,
        refused: Sequence[RefusedReport] = (),
        check: Callable[[Session], None] = lambda row: None,
        gone: Callable[[], bool] = lambda: False,
        ended: Callable[[], bool] = lambda: False,
        owner: str = "",
    ) -> PollAnswer:
        """Answers a poll that came at this time of the boot clock. `refused`: reports of it that could not be read.
        `check`: raises when the caller may not speak for the session. `gone`: whether nobody waits for the answer any
        more. `ended`: whether the caller sends nothing more, as one does that has gone, or that only waits for the
        answer. `owner`: the token's owner. Raises NoLeader, UnknownOutcome, Overloaded, and RaftschedError:
        session-over, rate-limited, too-many, stopping, disk-full."""
        self._check_running()
        held = await self._find(text, owner)
        check(held.row)
        poll = self._enter(held, Poll(request, gone, ended), len(request.reports))
        lease = self._grants.ask(held.row.id, request.pause_ms, request.trouble, poll.event.set)
        if request.pause_ms and request.reports:  # the leader hears of it before it hears what is handed back
            self._grants.hurry(lease)
        try:
            taken = await self._take(held, request.reports) if request.reports else []
            left_ms = min(request.wait_ms, held.poll_ms) - (self._clock.boot_ms() - arrived_ms)
            until = asyncio.get_running_loop().time() + left_ms / 1000
            refused = [*refused, *taken]
            return await self._answer(held, poll, lease, until, refused, at_once=bool(request.reports or refused))
        finally:
            self._grants.forget(lease)
            held.polls.remove(poll)
            self._leave(held, poll)
            if held.over:
                self._open_polls.forget(held.row.id)

    def _enter(self, held: Held, poll: Poll, reports: int) -> Poll:
        now = self._clock.boot_ms()
        held.left = min(RATE_BURST, held.left + (now - held.left_at_ms) * RATE_PER_S / 1000)
        held.left_at_ms = now
        if held.left < 1:
            raise RaftschedError("rate-limited", f"A session is for {RATE_PER_S} polls a second; come again shortly.")
        held.left -= 1 + reports / REPORTS_OF_POLL
        if held.open_polls >= POLLS_MAX or len(held.polls) >= LINGERING_MAX:
            raise RaftschedError("too-many", f"{POLLS_MAX} polls of this session are being answered; wait for one.")
        if poll.most:
            for other in held.polls:
                if other.most:
                    other.replaced = True
                    other.event.set()
        held.polls.append(poll)
        self._open_polls.entered(held.row.id)
        return poll

    def _leave(self, held: Held, poll: Poll) -> None:
        """Nobody reads the poll's answer any more, or it is given."""
        if poll.open:
            poll.open = False
            self._open_polls.left(held.row.id, held.row.ttl_ms, gone=poll.gone() or poll.ended())

    async def _answer(
        self, held: Held, poll: Poll, lease: Request, until: float, refused: list[RefusedReport], *, at_once: bool
    ) -> PollAnswer:
        while True:
            poll.event.clear()
            if held.over:
                raise RaftschedError("session-over")
            runs = []
            if poll.most and not poll.replaced:
                with self._read() as view:
                    given = self._given_runs(view, held.row.id, poll.after, poll.most, self._sealer)
                    runs = list(given)
            # A worker is asked to end only what it took (up to `after`), or gets with this answer. A kill that came
            # before its run would count as heard, and not be repeated: ours remembers it, in other languages none need.
            highest = runs[-1].token if runs else poll.after
            kill = sorted(token for token in held.ending - poll.killing if token <= highest)
            at_once = at_once or bool(runs or kill) or poll.replaced or self._stopping or poll.gone()
            left_s = until - asyncio.get_running_loop().time()
            if at_once or left_s <= 0:
                break
            await self._wait(poll, left_s)
        # An answer at once has no grant unless the leader's came meanwhile; another poll makes up for it. A poll waits
        # a quarter of the TTL at most (longest_poll_ms): half of that without a grant means that all are in a hurry.
        if not lease.lease_ms and self._clock.boot_ms() - held.granted_at_ms > held.row.ttl_ms // 8:
            await self._wait_for_grant(held, poll, lease)
        if lease.lease_ms:
            held.granted_at_ms = self._clock.boot_ms()
        return PollAnswer(lease_ms=lease.lease_ms, runs=runs, kill=kill, refused=refused)

    async def _wait(self, poll: Poll, seconds: float) -> None:
        """Waits until there may be something for it."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, poll.event.set)
        self._waiting += 1
        if self._looking is None:
            self._looking = loop.call_later(LOOK_S, self._look_who_is_there)
        try:
            await poll.event.wait()
        finally:
            self._waiting -= 1
            timer.cancel()

    async def _wait_for_grant(self, held: Held, poll: Poll, lease: Request) -> None:
        """Waits until the leader has answered, or a moment: where all polls are in a hurry, none of them would renew
        the lease."""
        self._grants.hurry(lease)
        loop = asyncio.get_running_loop()
        until = loop.time() + GRANT_S
        while not (lease.lease_ms or held.over or self._stopping) and loop.time() < until:
            poll.event.clear()
            await self._wait(poll, until - loop.time())
        if held.over:
            raise RaftschedError("session-over")

    def _look_who_is_there(self) -> None:
        self._looking = None
        for held in self._held.values():
            for poll in held.polls:
                if poll.gone():
                    poll.event.set()
                elif poll.ended():  # it may be alive, and read the answer: that it is given as ever
                    self._leave(held, poll)
        if self._waiting:
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look_who_is_there)

    # ------------------------------------------------------------ reports

    async def _take(self, held: Held, reports: Sequence[Report]) -> list[RefusedReport]:
        """Returns those that change nothing; all others are in the log."""
        session = held.row.id
        if self._commands.may_be_behind(reports):
            await self._barriers.wait(PROPOSE_S)
        given, refused = await self._commands.of(session, held.row.opened_at_ms, reports)
        self._send_finished(session, [report.token for report, _ in given if report.outcome is not None])
        for batch in batches(given):
            answers = await self._raft.propose([command for _, command in batch], PROPOSE_S)
            refused += [
                stale(report.token)
                for (report, _), answer in zip(batch, answers, strict=True)
                if isinstance(answer, Rejected)
            ]
        return refused

    def _send_finished(self, session: int, tokens: Sequence[int]) -> None:
        """The leader can give away the slots of what has ended while the reports are on their way through the log."""
        leader = self._raft.leader_id
        if tokens and leader is not None:
            self._raft.send(leader, "over", encode_message(AttemptsFinished(session, tuple(tokens))))

    # ------------------------------------------------------------ what is applied

    def on_applied(self, results: Sequence[Applied]) -> None:
        """Wakes the polls that there may be something for."""
        if not self._held:
            return
        if not results:
            self._read_again()
            return
        for result in results:
            for action in result.actions:
                if type(action) is not JobDue:  # as most are where many jobs are made
                    self._act(action)

    def _act(self, action: Action) -> None:
        if not isinstance(action, AttemptAssigned | AttemptEnded | KillAsked | SessionChanged | SessionBound):
            return
        held = self._held.get(action.session)
        if held is None:
            return
        if isinstance(action, AttemptAssigned):
            held.wake()
        elif isinstance(action, AttemptEnded):
            held.ending.discard(action.token)
        elif isinstance(action, KillAsked):
            held.ending.add(action.token)
            held.wake()
        elif isinstance(action, SessionBound):
            self._read_again()
        elif not action.open:
            self._end(held)

    def _read_again(self) -> None:
        """Reads the sessions again: the state came by another way than entry by entry (a snapshot), or a session is
        another token's."""
        with self._read() as view:
            for number, held in list(self._held.items()):
                row = SESSIONS.get(view, number)
                if row is None or not row.open:
                    self._end(held)
                else:
                    held.row, held.ending = row, set(asked_to_end(view, number))
                    held.wake()

    def _end(self, held: Held) -> None:
        """The session is over."""
        held.over = True
        del self._held[held.row.id]
        self._open_polls.forget(held.row.id)
        held.wake()

    def _wake_all(self) -> None:
        for held in self._held.values():
            held.wake()


def _is_later(view: ReadView, number: int) -> bool:
    """Returns whether there may be a session of this number which this node has not heard of: numbers only grow."""
    return number > read_meta(view).last_session
