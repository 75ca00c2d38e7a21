"""What the command families share: the entry's time, the counters, rows in and out, and the actions gathered."""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched.core.commands import Action, InstanceReady, InstanceTimer, JobDue, JobUnscheduled, Rejected
from raftsched.core.ids import instance_key, instance_text, job_text
from raftsched.core.intervals import jitter_ms
from raftsched.core.limits import KEY_SIZE, NOW_MAX_MS, U64_MAX
from raftsched.core.model import Instance, Job, Meta, Policy, Session, TriggerKind
from raftsched.core.tables import (
    Table,
    View,
    due_key,
    from_u64,
    held_key,
    purge_key,
    ready_key,
    timer_key,
    u64,
)

META_KEY = b"meta"

_encode = msgspec.msgpack.Encoder().encode
_meta: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Meta)
_job: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Job)
_instance: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Instance)
_session: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Session)


def decode_job(raw: bytes) -> Job:
    job: Job = _job.decode(raw)
    return job


def decode_instance(raw: bytes) -> Instance:
    instance: Instance = _instance.decode(raw)
    return instance


def decode_session(raw: bytes) -> Session:
    session: Session = _session.decode(raw)
    return session


def decode_meta(raw: bytes | None) -> Meta:
    meta: Meta = _meta.decode(raw) if raw is not None else Meta()
    return meta


class Tx:
    """One turn's worth of applying: entries share it, so that the counters are read and written once."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.meta = decode_meta(view.get(Table.META, META_KEY))
        self._meta_raw = _encode(self.meta)
        self.actions: list[Action] = []

    @property
    def now(self) -> int:
        return self.meta.now_ms

    def advance(self, now_ms: int) -> None:
        """Time of the next entry; it may go back with another leader: a clock that was wrong must not last."""
        self.meta.now_ms = min(max(0, now_ms), NOW_MAX_MS)

    def save_meta(self) -> None:
        raw = _encode(self.meta)
        if raw != self._meta_raw:
            self.view.put(Table.META, META_KEY, raw)
            self._meta_raw = raw

    def new_id(self) -> int:
        """Time-sorted and never reused: 2^20 ids fit in a millisecond before ids run ahead of time."""
        self.meta.last_id = max(self.meta.last_id + 1, self.meta.now_ms << 20)
        return self.meta.last_id

    # ------------------------------------------------------------ rows

    def job(self, job_id: int) -> Job | None:
        if not 0 <= job_id <= U64_MAX:
            return None
        raw = self.view.get(Table.JOBS, u64(job_id))
        return None if raw is None else decode_job(raw)

    def encoded(self, job: Job) -> bytes:
        return _encode(job)

    def put_job(self, job: Job) -> None:
        self.view.put(Table.JOBS, u64(job.id), _encode(job))

    def instance(self, key: bytes) -> Instance | None:
        if len(key) != KEY_SIZE:
            return None
        raw = self.view.get(Table.INSTANCES, key)
        return None if raw is None else decode_instance(raw)

    def put_instance(self, instance: Instance) -> None:
        instance.modified_at_ms = self.now
        self.view.put(Table.INSTANCES, instance.key, _encode(instance))

    def session(self, number: int) -> Session | None:
        if not 0 <= number <= U64_MAX:
            return None
        raw = self.view.get(Table.SESSIONS, u64(number))
        return None if raw is None else decode_session(raw)

    def put_session(self, session: Session) -> None:
        self.view.put(Table.SESSIONS, u64(session.id), _encode(session))

    def node_session(self, node: str) -> int:
        """The newest session of a node, 0 when it never had one."""
        raw = self.view.get(Table.NODES, node.encode())
        return 0 if raw is None else from_u64(raw)

    def kept_revision(self, job_id: int, revision: int) -> bytes:
        return u64(job_id) + u64(revision)

    def policy_of(self, job: Job, instance: Instance) -> Policy:
        """That of the revision the instance was made from."""
        if instance.job_revision != job.revision:
            raw = self.view.get(Table.REVISIONS, self.kept_revision(job.id, instance.job_revision))
            if raw is not None:
                return decode_job(raw).policy
        return job.policy

    # ------------------------------------------------------------ due, timers, retention: a row each, key in the owner

    def set_due(self, job: Job, nominal_at_ms: int | None) -> None:
        """Moves the job's DUE row to its new nominal time (None: takes it out)."""
        if job.fire_at_ms is not None:
            self.view.delete(Table.DUE, due_key(job.fire_at_ms, job.id))
        job.nominal_at_ms = nominal_at_ms
        job.fire_at_ms = None
        if nominal_at_ms is not None:
            job.fire_at_ms = nominal_at_ms + jitter_ms(job.policy.trigger, job.id, nominal_at_ms)
            self.view.put(Table.DUE, due_key(job.fire_at_ms, job.id), b"")
            self.actions.append(JobDue(job.id, job.revision, job.fire_at_ms))

    def set_unscheduled(self, job: Job, waits: bool) -> None:
        """A calendar job waits (or no longer waits) for the leader to say its next time."""
        if waits:
            self.view.put(Table.UNSCHEDULED, u64(job.id), b"")
            self.actions.append(JobUnscheduled(job.id))
        else:
            self.view.delete(Table.UNSCHEDULED, u64(job.id))

    def set_wake(self, instance: Instance, at_ms: int | None) -> None:
        if instance.wake_at_ms is not None:
            self.view.delete(Table.TIMERS, timer_key(instance.wake_at_ms, instance.key))
        instance.wake_at_ms = at_ms
        if at_ms is not None:
            key = instance.key
            self.view.put(Table.TIMERS, timer_key(at_ms, key), b"")
            self.actions.append(InstanceTimer(key, at_ms))

    def set_instance_purge(self, instance: Instance, at_ms: int | None) -> None:
        if instance.purge_at_ms is not None:
            self.view.delete(Table.PURGE, purge_key(instance.purge_at_ms, instance.job_id, instance.key))
        instance.purge_at_ms = at_ms
        if at_ms is not None:
            self.view.put(Table.PURGE, purge_key(at_ms, instance.job_id, instance.key), b"")

    def set_job_purge(self, job: Job, at_ms: int | None) -> None:
        if job.purge_at_ms is not None:
            self.view.delete(Table.PURGE, purge_key(job.purge_at_ms, job.id))
        job.purge_at_ms = at_ms
        if at_ms is not None:
            self.view.put(Table.PURGE, purge_key(at_ms, job.id), b"")

    def set_ready(self, instance: Instance) -> None:
        key = instance.key
        self.view.put(Table.READY, ready_key(instance.priority, instance.ready_at_ms, key), b"")
        self.actions.append(InstanceReady(key, instance.priority, instance.ready_at_ms))

    def clear_ready(self, instance: Instance) -> None:
        self.view.delete(Table.READY, ready_key(instance.priority, instance.ready_at_ms, instance.key))

    def set_held(self, job: Job, instance: Instance) -> None:
        instance.held = True
        job.held += 1
        self.view.put(Table.HELD, held_key(job.id, instance.ready_at_ms, instance.key), b"")

    def clear_held(self, job: Job, instance: Instance) -> None:
        instance.held = False
        job.held -= 1
        self.view.delete(Table.HELD, held_key(job.id, instance.ready_at_ms, instance.key))


def scheduled_instance(job: Job) -> bytes | None:
    """The key of a one-shot's scheduled instance, whether it was made yet or not."""
    trigger = job.policy.trigger
    if trigger.kind is TriggerKind.AT:
        return instance_key(trigger.at_ms, job.id)
    if trigger.kind is TriggerKind.IN:
        return instance_key(job.anchor_at_ms + trigger.period_ms, job.id)
    return None


def listed_by_job(job: Job, instance: Instance) -> bool:
    """Whether the instance has BY_JOB and PURGE rows. The one scheduled instance of a one-shot needs none: the job
    names it, and takes it along."""
    return bool(instance.request) or not job.policy.trigger.once or instance.key != scheduled_instance(job)


def no_job(job_id: int) -> Rejected:
    return Rejected("not-found", f"There is no job {job_text(job_id & U64_MAX)}.")


def no_instance(key: bytes) -> Rejected:
    text = instance_text(key) if len(key) == KEY_SIZE else key.hex()[:64]
    return Rejected("not-found", f"There is no instance {text}.")
