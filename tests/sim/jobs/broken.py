"""The product with one rule out, each as a patch for as long as a run lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from raftsched.core import commands as c
from raftsched.core.apply import dispatch
from raftsched.core.apply.cluster import membership
from raftsched.core.apply.jobs import bulk as apply_operations
from raftsched.core.apply.jobs import firing, manual, new_instances, overlap
from raftsched.core.apply.jobs.due import set_due
from raftsched.core.apply.resources import queue_edits
from raftsched.core.apply.runs import attempts, finish, run_keys
from raftsched.core.apply.tx import Tx
from raftsched.core.model import FINAL, Delivery
from raftsched.core.rows import decode_instance, read_meta
from raftsched.core.rules import admission, concurrency
from raftsched.core.tables import Table, u64
from raftsched.leader import bulk_steps, state
from raftsched.leader import cluster_view as cluster_of_leader
from raftsched.leader.dispatch import lanes, placement
from raftsched.leader.due import promotion, scheduling, window
from raftsched.leader.liveness import leases
from raftsched.raft.consensus import heartbeat
from raftsched.remote import reports
from raftsched.schedule import triggers

# ---------------------------------------------------------------- leases


@contextmanager
def quorum_age_from_receipt() -> Iterator[None]:
    """A round of heartbeats counts from when its answers came, not from when it was sent."""
    real = heartbeat.HeartbeatRounds.answered

    def answered(self: Any, peer: str, sent_ms: int, peer_wall_ms: int, now_ms: int, wall_ms: int) -> None:
        real(self, peer, sent_ms, peer_wall_ms, now_ms, wall_ms)
        self._peers[peer].sent_at_ms = now_ms

    with patch.object(heartbeat.HeartbeatRounds, "answered", answered):
        yield


@contextmanager
def whole_grants() -> Iterator[None]:
    """A leader grants the whole TTL, however long no majority has answered."""
    real = leases.Leases.heartbeat

    def granted(self: Any, session: int, node: str, holds: bool, quorum_ms: int | None, now_ms: int) -> int:
        return real(self, session, node, holds, now_ms, now_ms)

    with patch.object(leases.Leases, "heartbeat", granted):
        yield


@contextmanager
def new_leader_in_a_hurry() -> Iterator[None]:
    """A new leader takes a session for over of which it has not heard for a second."""
    real = leases.Leases.__init__

    def begin(self: Any, sessions: Any, now_ms: int) -> None:
        real(self, sessions, now_ms)
        for lease in self._leases.values():
            lease.over_at_ms = now_ms + 1_000

    with patch.object(leases.Leases, "__init__", begin):
        yield


@contextmanager
def leases_not_moved_on() -> Iterator[None]:
    """A heartbeat that holds the lease is granted, and not remembered."""
    real = leases.Leases.heartbeat

    def granted(self: Any, session: int, node: str, holds: bool, quorum_ms: int | None, now_ms: int) -> int:
        lease = self._leases.get(session)
        before = None if lease is None else lease.over_at_ms
        grant = real(self, session, node, holds, quorum_ms, now_ms)
        if lease is not None:
            lease.over_at_ms = before
        return grant

    with patch.object(leases.Leases, "heartbeat", granted):
        yield


@contextmanager
def no_margin() -> Iterator[None]:
    """Clocks are believed to run alike."""
    real = leases.Leases.opened

    def opened(self: Any, session: Any, now_ms: int) -> None:
        real(self, session, now_ms)
        self._leases[session.id].over_at_ms = now_ms + session.ttl_ms

    with (
        patch.object(leases.Leases, "opened", opened),
        patch.object(leases.Lease, "margin_ms", property(lambda self: 0)),
    ):
        yield


# ---------------------------------------------------------------- sessions


def _handler(command: type, handler: Any) -> Any:
    return patch.dict(dispatch.HANDLERS, {command: handler})


@contextmanager
def ends_of_old_leaders() -> Iterator[None]:
    """A session ends whoever says so."""

    def end(tx: Tx, command: c.EndSession) -> c.Answer:
        return membership.end_session(tx, c.EndSession(command.session, tx.meta.epoch))

    with _handler(c.EndSession, end):
        yield


@contextmanager
def assign_to_closed_sessions() -> Iterator[None]:
    """An assignment to a session that is over is accepted."""
    real = Tx.session

    def assign(tx: Tx, command: c.Assign) -> c.Answer:
        def still_open(self: Tx, number: int) -> Any:
            session = real(self, number)
            return None if session is None else msgspec.structs.replace(session, open=True)

        with patch.object(Tx, "session", still_open):
            return attempts.assign(tx, command)

    with _handler(c.Assign, assign):
        yield


# ---------------------------------------------------------------- attempts


@contextmanager
def reports_of_old_tokens() -> Iterator[None]:
    """A report ends whatever attempt of its instance is live; nodes pass on all that remote workers say."""
    real = attempts._live

    def live(tx: Tx, session: int, token: int) -> Any:
        found = real(tx, session, token)
        if found is not None:
            return found
        for key, raw in tx.view.scan(Table.INSTANCES):
            row = decode_instance(raw)
            if row.live is not None and any(attempt.token == token for attempt in row.attempts):
                return key, row, row.live
        return None

    async def passed_on(self: Any, session: int, since_ms: int, told: Any) -> Any:
        return [(report, self._command(session, since_ms, report, None)) for report in told], []

    with patch.object(attempts, "_live", live), patch.object(reports.Commands, "of", passed_on):
        yield


@contextmanager
def kill_ends() -> Iterator[None]:
    """A kill ends the attempt at once instead of asking its worker."""
    real = overlap.end_or_ask

    def end_or_ask(tx: Tx, job: Any, instance: Any, reason: str) -> None:
        real(tx, job, instance, reason)
        if instance.live is not None and instance.state not in FINAL:
            attempts.lose(tx, instance.key, instance.live.session)

    from raftsched.core.apply.runs import by_hand

    with patch.object(overlap, "end_or_ask", end_or_ask), patch.object(by_hand, "end_or_ask", end_or_ask):
        yield


@contextmanager
def keys_forgotten() -> Iterator[None]:
    """A command is done again under a key under which it was done."""

    def once(tx: Tx, key: bytes, digest: bytes, act: Callable[[], c.Answer]) -> c.Answer:
        return act()

    with patch.object(manual, "once", once):
        yield


@contextmanager
def kill_forgotten() -> Iterator[None]:
    """A run that was asked to end is given out again when its worker is lost."""
    real = attempts.lose

    def lose(tx: Tx, key: bytes, session: int) -> None:
        instance = tx.instance(key)
        if instance is not None and instance.kill_asked:
            instance.kill_asked = False
            tx.put_instance(instance)
        real(tx, key, session)

    with patch.object(membership, "lose", lose):
        yield


# ---------------------------------------------------------------- policies


@contextmanager
def retries_without_end() -> Iterator[None]:
    real = attempts._failed

    def failed(tx: Tx, job: Any, instance: Any, *args: Any) -> None:
        instance.tried = 0
        real(tx, job, instance, *args)

    with patch.object(attempts, "_failed", failed):
        yield


@contextmanager
def lost_without_end() -> Iterator[None]:
    real = attempts._lost

    def lost(tx: Tx, job: Any, instance: Any) -> None:
        instance.lost = -1
        real(tx, job, instance)

    with patch.object(attempts, "_lost", lost):
        yield


@contextmanager
def queues_without_limits() -> Iterator[None]:
    """A queue lets start whatever waits in it."""

    def blocked_reason(queue: Any, now_ms: int, ahead: int = 0) -> None:
        return None

    with (
        patch.object(admission, "blocked_reason", blocked_reason),
        patch.object(queue_edits, "blocked_reason", blocked_reason),
    ):
        yield


@contextmanager
def next_leader_knows_of_no_pause() -> Iterator[None]:
    """A new leader gives out runs while the cluster is paused, and apply lets it."""

    def at_the_beginning(leader: str, settings: Any, paused: bool) -> Any:
        return cluster_of_leader.Cluster(leader, settings, paused=False)

    def refused_now(tx: Tx, node: str) -> c.Rejected | None:
        rule = tx.node_rule(node)
        return c.Rejected("drained") if rule is not None and rule.drained else None

    with patch.object(state, "Cluster", at_the_beginning), patch.object(attempts, "_refused_now", refused_now):
        yield


@contextmanager
def next_leader_fires_in_a_pause() -> Iterator[None]:
    """A new leader fires jobs while the cluster is paused, and apply lets it."""

    def at_the_beginning(leader: str, settings: Any, paused: bool) -> Any:
        return cluster_of_leader.Cluster(leader, settings, paused=False)

    def fire(tx: Tx, command: c.Fire) -> c.Answer:
        paused, tx.meta.paused = tx.meta.paused, False
        try:
            return firing.fire(tx, command)
        finally:
            tx.meta.paused = paused

    with patch.object(state, "Cluster", at_the_beginning), _handler(c.Fire, fire):
        yield


@contextmanager
def nothing_is_drained() -> Iterator[None]:
    """A drained node is given runs, and apply lets it."""
    real = placement.offer

    def offer(session: Any, rule: Any) -> Any:
        return real(session, msgspec.structs.replace(rule, drained=False))

    def refused_now(tx: Tx, node: str) -> c.Rejected | None:
        return c.Rejected("cluster-paused") if tx.meta.paused else None

    with patch.object(placement, "offer", offer), patch.object(attempts, "_refused_now", refused_now):
        yield


@contextmanager
def at_most_once_forgotten() -> Iterator[None]:
    real = Tx.policy_of

    def policy_of(self: Tx, job: Any, instance: Any) -> Any:
        return msgspec.structs.replace(real(self, job, instance), delivery=Delivery.AT_LEAST_ONCE)

    with patch.object(Tx, "policy_of", policy_of):
        yield


@contextmanager
def always_room() -> Iterator[None]:
    """Overlap allows everything."""
    with (
        patch.object(overlap, "can_start", lambda job: True),
        patch.object(new_instances, "can_start", lambda job: True),
        patch.object(finish, "can_start", lambda job: True),
        patch.object(concurrency, "can_start", lambda job: True),
    ):
        yield


@contextmanager
def permits_without_end() -> Iterator[None]:
    """There is always one more permit of a key."""
    with patch.object(run_keys, "blocked_by", lambda row, limits, now_ms: None):
        yield


@contextmanager
def lines_for_ever() -> Iterator[None]:
    """What waits in the line of its key is not let go."""
    with patch.object(run_keys, "let_go", lambda tx: tx.lines.clear()):
        yield


@contextmanager
def held_for_ever() -> Iterator[None]:
    with patch.object(finish, "release", lambda tx, job: None):
        yield


@contextmanager
def nothing_owed() -> Iterator[None]:
    """A missed run is forbidden like one that is in time."""
    real = overlap.refused_by_overlap
    with patch.object(firing, "refused_by_overlap", lambda tx, job, may_wait=0: real(tx, job)):
        yield


@contextmanager
def less_urgent_first() -> Iterator[None]:
    """The dispatcher takes whatever is last in a lane."""
    real = lanes.LaneWalk._from

    def backwards(self: Any, place: bytes) -> Any:
        rows = list(real(self, place))
        yield from rows[:1] if len(rows) < 2 else [rows[1], rows[0], *rows[2:]]

    with patch.object(lanes.LaneWalk, "_from", backwards):
        yield


# ---------------------------------------------------------------- operations on many jobs


@contextmanager
def operations_end_with_their_leader() -> Iterator[None]:
    """A new leader goes on with no operation that was begun."""
    real = bulk_steps.Operations.__init__

    def begin(self: Any, *args: Any) -> None:
        real(self, *args)
        self._open.clear()

    with patch.object(bulk_steps.Operations, "__init__", begin):
        yield


@contextmanager
def second_step_repeated() -> Iterator[None]:
    """The second step of an operation is forgotten when it is done, and the third acts on the same jobs."""
    real = apply_operations._next_ids

    def next_ids(tx: Tx, operation: Any, rows: int, work: int) -> tuple[list[int], bool]:
        chosen, more = real(tx, operation, rows, work)
        if operation.steps == 1:
            operation.examined -= len(chosen)
        return chosen, more or operation.steps == 1

    with patch.object(apply_operations, "_next_ids", next_ids):
        yield


# ---------------------------------------------------------------- firing


@contextmanager
def fires_anything() -> Iterator[None]:
    """A fire is accepted for a nominal time that the job is not at any more."""

    def fire(tx: Tx, command: c.Fire) -> c.Answer:
        job = tx.job(command.job_id)
        if job is not None and job.nominal_at_ms is not None and not job.policy.trigger.once:
            before = job.nominal_at_ms
            if command.nominal_at_ms < before and command.revision == job.revision:
                set_due(job, command.nominal_at_ms)
                tx.put_job(job)
        return firing.fire(tx, command)

    with _handler(c.Fire, fire):
        yield


@contextmanager
def only_future_loaded() -> Iterator[None]:
    """A new leader begins with what will be due, not with what is."""
    real = window.Window.load

    def load(self: Any, now_ms: int) -> None:
        self._horizon = max(self._horizon, u64(now_ms))
        real(self, now_ms)

    with patch.object(window.Window, "load", load):
        yield


@contextmanager
def no_gaps() -> Iterator[None]:
    """Skipped times leave no record."""
    with patch.object(firing, "note_gap", lambda *args: None):
        yield


@contextmanager
def nothing_is_excluded() -> Iterator[None]:
    """Calendars exclude nothing."""
    real = triggers.exclusion
    with patch.object(triggers, "exclusion", lambda content, timezone: real(b"{}", timezone)):
        yield


@contextmanager
def calendar_from_now() -> Iterator[None]:
    """The first time of a calendar job counts from when a leader comes to it."""
    real = scheduling.schedule_command

    def schedule_command(found: Any, since_ms: int, now_ms: int, *more: Any) -> Any:
        return real(found, now_ms, now_ms, *more)

    with patch.object(scheduling, "schedule_command", schedule_command):
        yield


# ---------------------------------------------------------------- far due times


@contextmanager
def far_for_ever() -> Iterator[None]:
    """Due times are stored as far ahead, and never come near."""
    real = promotion.DuePromotion.tick

    def tick(self: Any, now_ms: int) -> None:
        with self._host.read() as view:
            begun = read_meta(view).due_boundary > b""
        if not begun:
            real(self, now_ms)

    with patch.object(promotion.DuePromotion, "tick", tick):
        yield
