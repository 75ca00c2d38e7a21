"""The way of a node's own worker to its cluster: it reads what is applied on this node, and proposes what it says.

It is level-triggered. What the session is given is what the ASSIGNED table holds for it; notifications only say where
to look. There is no request on the way, and nothing is encoded but the commands of the log: a start follows in the turn
of the loop in which its assignment is applied.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import msgspec

from raftsched.core.actions import (
    AttemptAssigned,
    AttemptEnded,
    JobDue,
    KillAsked,
    NamespaceChanged,
    SessionChanged,
    SettingsChanged,
)
from raftsched.core.commands import (
    UNDECODABLE,
    CloseSession,
    Ended,
    LoseAttempt,
    OpenSession,
    ReportProgress,
    SelfReport,
    Started,
    decode,
    encode,
)
from raftsched.core.levels import newest_level
from raftsched.core.model import Outcome
from raftsched.core.rows import decode_instance, job_of, newest_session, read_meta
from raftsched.core.subjects.leasing import AttemptsFinished, DiskUse, Heartbeat, decode_grant
from raftsched.core.subjects.leasing import encode as encode_message
from raftsched.core.tables import ReadView, Table, after, assigned_key, from_u64, u64
from raftsched.errors import RaftschedError
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.system.clock import Clock
from raftsched.worker.ports import Applied, Raft
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.session.lease_holder import HEARTBEAT_MS
from raftsched.worker.session.link import Link, Unstarted, not_made
from raftsched.worker.session.reports import Report, Reports
from raftsched.worker.tasks.permits import Permits
from raftsched.worker.tasks.tasks import BadJob

RETRY_MS = 500  # between attempts to open a session
HAND_BACK_S = 1.0  # for the last word, when the node stops
SHORT_FRESH_MS = 3_000  # how long the leader's word about the disks holds
BATCH_MAX = 500  # commands in one proposal
REPEAT_MS = 2_000  # an end that is not applied by then is proposed again
_ALL = 2**63

log = logging.getLogger(__name__)


class OwnNode(Link):
    """A worker's `Link` to the node that it is part of."""

    def __init__(
        self,
        *,
        raft: Raft,
        read: Callable[[], AbstractContextManager[ReadView]],
        clock: Clock,
        opening: OpenSession,
        rng: random.Random,
        permits: Permits,
        store_moves: Callable[[], bool] = lambda: True,
        short_of_disk: Callable[[], bool] = lambda: False,
        disk_use: Callable[[], DiskUse | None] = lambda: None,
        waits_for: Callable[[], str] = str,
        output_rules: OutputRules | None = None,
        zones: str = "",
    ) -> None:
        """`opening`: what it says of itself; `boot_id` names this boot of this machine. `permits`: what jobs may do
        here. `store_moves`: False while store turns do not get through; no heartbeats then. `disk_use`: what it tells
        the leader of its disk. `waits_for`: what keeps the runner from being started, in words. `output_rules`: how
        much is kept of what runs print; None: as the runner has it. `zones`: what time zone data the node has."""
        self._node_id = opening.node
        self._raft, self._read, self._clock, self._rng = raft, read, clock, rng
        self._opening = opening
        self._permits = permits
        self._store_moves = store_moves
        self._short_of_disk, self._disk_use = short_of_disk, disk_use
        self._waits_for = waits_for
        self._output_rules = output_rules
        self._zones = zones
        self.reports: Reports[bytes] = Reports()
        self._words: list[bytes] = []  # commands that are proposed once
        self._nonce: bytes | None = None  # of the opening that is under way
        self._tell_at = 0  # without a session: when the leader is told why
        self._repeat_at = 0
        self._last_index = 0
        self._cluster_short = (False, 0)  # as the leader last said, and when (boot clock)

    def start(self) -> None:
        self._raft.on_message("grant", self._on_grant)
        self._raft.subscribe(self._on_applied)

    def waits_for(self) -> str:
        return self._waits_for()

    # ------------------------------------------------------------ the lease

    def tick(self, now: int) -> None:
        if self._lease.heartbeat_due(now):
            self.tell()
        if now >= self._repeat_at and len(self.reports):
            self._repeat_at = now + REPEAT_MS // 4
            self._repeat(now)
        if self._lease.lapsed and now >= self._tell_at:
            self._tell_at = now + HEARTBEAT_MS
            if self._worker.trouble:
                self._send_heartbeat(0, False, now)

    def tell(self) -> None:
        """Asks for more of the lease, if it may."""
        if self._lease.lapsed:
            return
        self.unrenewed = self._cannot_renew()
        if not self.unrenewed:
            now = self._clock.boot_ms()  # as late as possible: the lease counts from here
            self._lease.heartbeat(now)
            self._send_heartbeat(self._lease.session, self._lease.holds(now), now)

    def _cannot_renew(self) -> str:
        if self._raft.leader_id is None:
            return "this node hears of no leader"
        if not self._worker.may_renew:
            return "its supervisor process does not answer"
        return "" if self._store_moves() else "the disk of this node does not take what is written"

    def _send_heartbeat(self, session: int, holds: bool, now: int) -> None:
        if (leader := self._raft.leader_id) is not None:
            worker, wall_ms, short, disk = self._worker, self._clock.wall_ms(), self._short_of_disk(), self._disk_use()
            beat = Heartbeat(
                session, holds, now, wall_ms, short, worker.pause_ms, worker.trouble, disk, newest_level(), self._zones
            )
            self._raft.send(leader, "heartbeat", encode_message(beat))

    def _on_grant(self, peer: str, payload: bytes) -> None:
        try:
            grant = decode_grant(payload)
        except msgspec.DecodeError:
            log.warning("a grant from %s cannot be read", peer, extra={"peer": peer})
            return
        self._worker.granted(grant.session, grant.sent_ms, grant.d_ms)
        if grant.session == self._lease.session:
            self._cluster_short = (grant.short_of_disk, self._clock.boot_ms())

    @property
    def cluster_short_of_disk(self) -> bool:
        """Returns whether the leader said lately that the cluster has no room for more."""
        short, at_ms = self._cluster_short
        return short and self._clock.boot_ms() - at_ms < SHORT_FRESH_MS

    # ------------------------------------------------------------ the session

    def forget_opening(self) -> None:
        self._nonce = None

    async def open(self) -> float:
        """Proposes one. Whether it worked is read from the state, by the nonce."""
        retry_s = (RETRY_MS + self._rng.randrange(RETRY_MS)) / 1000
        with self._read() as view:
            newest, row = newest_session(view, self._node_id)
        if row is not None and row.open and row.boot_id != self._opening.boot_id:
            return retry_s  # another boot of this node holds it: only the leader can tell when it is over
        self._nonce = self._rng.randbytes(16)
        opening = msgspec.structs.replace(self._opening, replaces=newest, nonce=self._nonce)
        # Ends go first: with the opening, attempts of the old session that have no end yet are lost.
        await self._raft.propose([*self._all_ends(), encode(opening)])
        self._look_at_session()
        return retry_s

    def no_session(self, error: Exception) -> tuple[str, float, bool]:
        pause_s = (RETRY_MS + self._rng.randrange(RETRY_MS)) / 1000
        return f"no session yet: {error}", pause_s, isinstance(error, RaftschedError)

    def _look_at_session(self) -> None:
        """Adopts the session that was opened with our nonce; lapses when ours is not the open one any more."""
        with self._read() as view:
            newest, row = newest_session(view, self._node_id)
            is_open = row is not None and row.open
            if not self._lease.lapsed:
                if newest != self._lease.session or not is_open:
                    self._worker.lapse("it was ended")
                    return
            elif row is None or not is_open or self._nonce is None or row.nonce != self._nonce:
                self._worker.look_again()
                return
            else:
                self._nonce = None
                self._worker.adopt(newest, row.ttl_ms)
                self._take_given(view)
        self.tell()

    async def close(self, session: int, ran: Sequence[int]) -> None:
        self._lease.lapse()  # what follows is no lapse of it
        try:
            await self._raft.propose([*self._all_ends(), encode(CloseSession(session, tuple(ran)))], HAND_BACK_S)
        except RaftschedError as error:
            log.info("%s: session %d ends by time: %s", self._node_id, session, error, extra={"session": session})

    def _all_ends(self) -> list[bytes]:
        return [report.data for report in self.reports.ends()]

    # ------------------------------------------------------------ what the state gives

    def _on_applied(self, results: Sequence[Applied]) -> None:
        if not results:
            return
        gap = results[0].index != self._last_index + 1
        self._last_index = results[-1].index
        if gap:
            self.rescan()
        worker, session, look = self._worker, self._lease.session, False
        for result in results:
            for action in result.actions:
                if type(action) is JobDue:  # as most are where many jobs are made
                    continue
                if isinstance(action, AttemptAssigned):
                    if action.session == session:
                        worker.given(action.token, action.instance)
                elif isinstance(action, AttemptEnded):
                    if action.node == self._node_id:
                        self._settle(action.token)
                elif isinstance(action, KillAsked):
                    if action.session == session:
                        worker.kill(action.token)
                elif isinstance(action, SessionChanged):
                    look = look or action.node == self._node_id
                elif isinstance(action, (SettingsChanged, NamespaceChanged)):
                    self._forget_output_rules()
        if look:
            self._look_at_session()
        worker.start_given()

    def rescan(self) -> None:
        """Looks at all that concerns this node: the state came by another way than entry by entry (a snapshot)."""
        self._forget_output_rules()
        self._look_at_session()
        if not self._lease.lapsed:
            with self._read() as view:
                self._take_given(view)

    def _forget_output_rules(self) -> None:
        if self._output_rules is not None:
            self._output_rules.forget()

    def _take_given(self, view: ReadView) -> None:
        """Brings the worker to what the ASSIGNED table has, and what is asked there to end."""
        prefix = u64(self._lease.session)
        given = {from_u64(key[8:]): instance for key, instance in view.scan(Table.ASSIGNED, prefix, after(prefix))}
        for token in [token for token in self._worker.runs if token not in given]:
            self._settle(token)
        for token, key in given.items():
            self._worker.given(token, key)
            if token in self._worker.runs:
                row = view.get(Table.INSTANCES, key)
                if row is not None and decode_instance(row).kill_asked:
                    self._worker.kill(token)

    def _settle(self, token: int) -> None:
        self.reports.drop(token)
        self._worker.settled(token)

    def specs(self, session: int, todo: Mapping[int, bytes]) -> Iterator[tuple[int, RunSpec | Unstarted]]:
        with self._read() as view:
            for token, key in todo.items():
                try:
                    spec = self._spec(view, session, token, key)
                except Exception as error:
                    spec = not_made(token, error)
                if spec is not None:
                    yield token, spec

    def _spec(self, view: ReadView, session: int, token: int, key: bytes) -> RunSpec | Unstarted | None:
        raw = view.get(Table.INSTANCES, key)
        instance = decode_instance(raw) if raw is not None else None
        attempt = instance.live if instance is not None else None
        if instance is None or attempt is None or attempt.token != token or attempt.session != session:
            return None  # it ended meanwhile
        if instance.kill_asked:
            return Unstarted(Outcome.KILLED, "killed before it was started")
        job = job_of(view, instance)
        if job is None:
            return Unstarted(Outcome.FAILED, "the job's definition is gone")
        output_max = 0 if self._output_rules is None else self._output_rules.max_of(view, job.namespace)
        try:
            return self._permits.prepared(view, job, instance, attempt, self._clock, output_max)
        except BadJob as error:
            return Unstarted(Outcome.FAILED, str(error))

    # ------------------------------------------------------------ what is said of runs

    def say_started(self, session: int, token: int, started_at_ms: int) -> None:
        self._words.append(encode(Started(session, token, started_at_ms)))

    def say_progress(self, session: int, token: int, said: SelfReport) -> None:
        self._words.append(encode(ReportProgress(session, token, said)))

    def end_of(self, end: Ended | LoseAttempt, output: None = None) -> Report[bytes]:
        data = encode(end)
        return Report(end.session, end.token, data, len(data), self._clock.boot_ms(), ends=True)

    def say(self) -> None:
        self._send_finished()
        words, self._words = self._words, []
        self._submit([*words, *(report.data for report in self.reports.take(self._clock.boot_ms(), _ALL, _ALL))])

    def _submit(self, commands: Sequence[bytes]) -> None:
        try:
            for at in range(0, len(commands), BATCH_MAX):
                self._raft.submit(commands[at : at + BATCH_MAX])
        except RaftschedError as error:  # ends are proposed again by and by
            log.info("%s: reports wait: %s", self._node_id, error)

    def _send_finished(self) -> None:
        """The leader can give away the slots of what has ended while the reports are on their way through the log."""
        session, leader, runs = self._worker.session, self._raft.leader_id, self._worker.runs
        tokens = tuple(token for token in self.reports.unsent if runs.get(token) == session)
        if tokens and leader is not None:
            self._raft.send(leader, "over", encode_message(AttemptsFinished(session, tokens)))

    def _repeat(self, now: int) -> None:
        """Proposes the ends again that are not applied; what is no live attempt any more is dropped. After a start the
        tables may be older than an attempt."""
        late = self.reports.sent_before(now - REPEAT_MS)
        with self._read() as view:
            known = read_meta(view).last_token if late else 0
            for report in late:
                live = view.get(Table.ASSIGNED, assigned_key(report.session, report.token)) is not None
                if live or report.token > known:
                    report.sent_at = now
                else:
                    self.reports.drop(report.token)
        self._submit([report.data for report in late if report.sent_at == now])

    def kept(self, report: Report[bytes]) -> bytes:
        return report.data

    def restore(self, ends: Sequence[bytes]) -> None:
        for raw in ends:
            try:
                command = decode(raw)
            except UNDECODABLE:
                continue
            if isinstance(command, Ended | LoseAttempt):
                self.reports.add(self.end_of(command))
