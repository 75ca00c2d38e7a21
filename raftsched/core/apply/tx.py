"""What the command families share: the entry's time, the counters, rows in and out, and the actions gathered."""

from __future__ import annotations

import msgspec

from raftsched.core import rows
from raftsched.core.access import By
from raftsched.core.actions import Action, InstanceReady, InstanceTimer, JobDue, JobUnscheduled
from raftsched.core.apply.audit import Audit
from raftsched.core.apply.events import Events
from raftsched.core.calendars import CALENDAR_NAME_MAX, Calendar
from raftsched.core.cluster import NodeRule, Session
from raftsched.core.commands import Rejected
from raftsched.core.ids import instance_text, job_text
from raftsched.core.intervals import jitter_ms
from raftsched.core.keyed import KeyUse
from raftsched.core.limits import KEY_SIZE, NOW_MAX_MS, PRIORITY_MAX, QUEUE_NAME_MAX, U64_MAX
from raftsched.core.model import Instance, Job, JobState, Policy, Step, StepKind, scheduled_ms
from raftsched.core.namespaces import Namespace, wrong_in_namespace
from raftsched.core.notices import SYSTEM_NAMESPACE, quota_queue
from raftsched.core.queues import Queue
from raftsched.core.rows import (
    META_KEY,
    decode_calendar,
    decode_instance,
    decode_job,
    decode_namespace,
    decode_node_rule,
    decode_queue,
    decode_session,
    encode_row,
    read_meta,
)
from raftsched.core.selection import TAGGED_STATES, split_tags, state_tag, tags_of
from raftsched.core.tables import (
    DUE,
    INSTANCES,
    JOBS,
    LANE_FREE,
    LANE_NOBODY,
    PURGE,
    READY,
    TIMERS,
    Table,
    View,
    dead_key,
    due_key,
    from_u64,
    held_key,
    purge_key,
    ready_key,
    timer_key,
    u64,
)
from raftsched.core.webhooks import Webhook

NOBODY = By(msgspec.Raw(b""))
_DELETED = JobState.DELETED
_UNCOUNTED = frozenset({0, _DELETED})  # such jobs are in no namespace


class Tx:
    """One turn's worth of applying: entries share it, so that the counters are read and written once."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.meta = read_meta(view)
        self._meta_raw = encode_row(self.meta)
        self.now = self.meta.now_ms  # the time of the entry
        self.actions: list[Action] = []
        self.events = Events(view, self.meta)
        self.audit = Audit(view, self.meta)
        self.by = NOBODY  # who asked for what is applied
        self.repeated = False  # what was asked for was done before, under the same key
        self.index = 0  # of the entry that is applied
        self.term = 0
        # queues, namespaces and node rules as of now: read once in a turn, and what is counted in them written once
        self._queues: dict[str, Queue | None] = {}
        self._queues_changed: set[str] = set()
        self._namespaces: dict[str, Namespace | None] = {}
        self._namespaces_changed: set[str] = set()
        self._node_rules: dict[str, NodeRule | None] = {}
        self._sessions: dict[int, Session | None] = {}
        # Rows of READY and TIMERS to be written: what fires while a node is free is assigned at once, and needs none
        self._waits: dict[tuple[Table, bytes], None] = {}
        self.batches: dict[bytes, KeyUse] = {}  # rows of KEYS that grew in this turn, written once
        self.webhooks: dict[str, Webhook] | None = None  # all of them, as of now; None: not read yet

    @property
    def actor(self) -> str:
        """The name of who asked for what is applied; empty: nobody knows."""
        return self.by.name

    def advance(self, now_ms: int) -> None:
        """Time of the next entry; it may go back with another leader: a clock that was wrong must not last."""
        self.now = self.meta.now_ms = min(max(0, now_ms), NOW_MAX_MS)

    def save(self) -> None:
        """Writes the counters, and the rows that go with the turn's end only."""
        for table, row in self._waits:
            self.view.put(table, row, b"")
        self._waits.clear()
        for name in sorted(self._queues_changed):
            self.view.put(Table.QUEUES, name.encode(), encode_row(self._queues[name]))
        self._queues_changed.clear()
        for key, use in self.batches.items():
            self.view.put(Table.KEYS, key, encode_row(use))
        self.batches.clear()
        self.audit.save()
        self._save_namespaces()
        raw = encode_row(self.meta)
        if raw != self._meta_raw:
            self.view.put(Table.META, META_KEY, raw)
            self._meta_raw = raw

    def _save_namespaces(self) -> None:
        for name in sorted(self._namespaces_changed):
            namespace = self._namespaces[name]
            if namespace is None:
                self.view.delete(Table.NAMESPACES, name.encode())
            else:
                self.view.put(Table.NAMESPACES, name.encode(), encode_row(namespace))
        self._namespaces_changed.clear()

    def new_id(self) -> int:
        """Time-sorted and never reused: 2^20 ids fit in a millisecond before ids run ahead of time."""
        meta, first = self.meta, self.now << 20
        meta.last_id = meta.last_id + 1 if meta.last_id >= first else first
        return meta.last_id

    def new_revision(self) -> int:
        """Of what operators say; jobs count their own."""
        self.meta.last_revision += 1
        return self.meta.last_revision

    # ------------------------------------------------------------ rows

    def job(self, job_id: int) -> Job | None:
        if not 0 <= job_id <= U64_MAX:
            return None
        raw = self.view.get(JOBS, u64(job_id))
        if raw is None:
            return None
        job = decode_job(raw)
        self.events.job_read(job)
        return job

    def put_job(self, job: Job) -> None:
        if job.counted != job.state:
            self.events.job_stored(job)
            self._count_job(job)
        self.view.put(JOBS, u64(job.id), encode_row(job))

    def _count_job(self, job: Job) -> None:
        """It has come into another state since it was stored: the counts, and the tag of a state that is looked for."""
        counts = self.meta.jobs
        before, state = job.counted, job.state
        was, now = before not in _UNCOUNTED, state not in _UNCOUNTED
        if was != now:
            self._count_in_namespace(job.namespace, 1 if now else -1)
        if before:
            counts[before] -= 1
            if before in TAGGED_STATES:
                self.view.delete(Table.TAGS, state_tag(JobState(before)) + u64(job.id))
        counts[state] += 1
        if state in TAGGED_STATES:
            self.view.put(Table.TAGS, state_tag(state) + u64(job.id), b"")
        elif state is _DELETED:
            self._put_tags(job, b"")
        job.counted = state

    def tag_job(self, job: Job) -> None:
        """Its content is new: its TAGS rows follow. The caller stores it."""
        tags = tags_of(job.namespace, job.body, job.policy)
        if tags != job.tags:
            self._put_tags(job, tags)

    def _put_tags(self, job: Job, tags: bytes) -> None:
        before, now = split_tags(job.tags), split_tags(tags)
        for tag in before:
            if tag not in now:
                self.view.delete(Table.TAGS, tag + u64(job.id))
        for tag in now:
            if tag not in before:
                self.view.put(Table.TAGS, tag + u64(job.id), b"")
        job.tags = tags

    def drop_job(self, job: Job) -> None:
        """Its row goes, and what is counted and found by it."""
        if job.tags:
            self._put_tags(job, b"")
        if job.counted not in _UNCOUNTED:
            self._count_in_namespace(job.namespace, -1)
        if job.counted:
            self.meta.jobs[job.counted] -= 1
            if job.counted in TAGGED_STATES:
                self.view.delete(Table.TAGS, state_tag(JobState(job.counted)) + u64(job.id))
        self.view.delete(JOBS, u64(job.id))

    def instance(self, key: bytes) -> Instance | None:
        if len(key) != KEY_SIZE:
            return None
        raw = self.view.get(INSTANCES, key)
        if raw is None:
            return None
        instance = decode_instance(raw)
        self.events.instance_read(key, instance)
        return instance

    def put_instance(self, instance: Instance, key: bytes | None = None) -> None:
        """`key`: its own, from who has it at hand."""
        instance.modified_at_ms = self.now
        if key is None:
            key = instance.key
        self.view.put(INSTANCES, key, encode_row(instance))
        self.events.instance_stored(key, instance)

    def session(self, number: int) -> Session | None:
        if not 0 <= number <= U64_MAX:
            return None
        if number not in self._sessions:
            raw = self.view.get(Table.SESSIONS, u64(number))
            self._sessions[number] = None if raw is None else decode_session(raw)
        return self._sessions[number]

    def put_session(self, session: Session) -> None:
        self._sessions[session.id] = session
        self.view.put(Table.SESSIONS, u64(session.id), encode_row(session))

    def drop_session(self, number: int) -> None:
        self._sessions[number] = None
        self.view.delete(Table.SESSIONS, u64(number))

    def node_session(self, node: str) -> int:
        """The newest session of a node, 0 when it never had one."""
        raw = self.view.get(Table.NODES, node.encode())
        return 0 if raw is None else from_u64(raw)

    def calendar(self, name: str) -> Calendar | None:
        key = name.encode()
        raw = self.view.get(Table.CALENDARS, key) if 0 < len(key) <= CALENDAR_NAME_MAX else None
        return None if raw is None else decode_calendar(raw)

    def policy_of(self, job: Job, instance: Instance) -> Policy:
        """That of the revision the instance was made from."""
        if instance.job_revision != job.revision:
            earlier = rows.REVISIONS.get(self.view, job.id, instance.job_revision)
            if earlier is not None:
                return earlier.policy
        return job.policy

    def queue(self, name: str) -> Queue | None:
        """None: it has no limits. What is changed in it has to be put."""
        if not self.meta.queues:
            return None
        if name not in self._queues:
            key = name.encode()
            raw = self.view.get(Table.QUEUES, key) if 0 < len(key) <= QUEUE_NAME_MAX else None
            self._queues[name] = None if raw is None else decode_queue(raw)
        return self._queues[name]

    def put_queue(self, queue: Queue) -> None:
        self._queues[queue.name] = queue
        self._queues_changed.add(queue.name)

    def delete_queue(self, name: str) -> None:
        self._queues[name] = None
        self._queues_changed.discard(name)
        self.view.delete(Table.QUEUES, name.encode())

    def namespace(self, name: str) -> Namespace | None:
        """None: nothing is said about it, and nothing is in it. What is changed in it has to be put."""
        try:
            return self._namespaces[name]
        except KeyError:
            raw = None if wrong_in_namespace(name) else self.view.get(Table.NAMESPACES, name.encode())
            namespace = self._namespaces[name] = None if raw is None else decode_namespace(raw)
            return namespace

    def put_namespace(self, namespace: Namespace) -> None:
        """One that is not needed is gone from now on, whether the turn ends here or not."""
        self._namespaces[namespace.name] = namespace if namespace.is_needed else None
        self._namespaces_changed.add(namespace.name)

    def _count_in_namespace(self, name: str, more: int) -> None:
        namespace = self.namespace(name) or Namespace(name=name)
        jobs = namespace.jobs + more
        namespace.jobs = jobs if jobs > 0 else 0
        if jobs <= 1 or name not in self._namespaces_changed:  # else it is written anyway
            self.put_namespace(namespace)

    def node_rule(self, node: str) -> NodeRule | None:
        if node not in self._node_rules:
            raw = self.view.get(Table.NODE_RULES, node.encode())
            self._node_rules[node] = None if raw is None else decode_node_rule(raw)
        return self._node_rules[node]

    def put_node_rule(self, node: str, rule: NodeRule | None) -> None:
        """None: nothing is said about the node any more."""
        self._node_rules[node] = rule
        if rule is None:
            self.view.delete(Table.NODE_RULES, node.encode())
        else:
            self.view.put(Table.NODE_RULES, node.encode(), encode_row(rule))

    # ------------------------------------------------------------ due, timers, retention: a row each, key in the owner

    def set_due(self, job: Job, nominal_at_ms: int | None) -> None:
        """Moves the job's DUE row to its new nominal time (None: takes it out)."""
        if job.fire_at_ms is not None:
            self.view.delete(DUE, due_key(job.fire_at_ms, job.id))
        job.nominal_at_ms = job.fire_at_ms = nominal_at_ms
        job.shut_out = False
        if nominal_at_ms is not None:
            trigger = job.policy.trigger
            fire_at_ms = nominal_at_ms
            if trigger.jitter_ms:
                job.fire_at_ms = fire_at_ms = nominal_at_ms + jitter_ms(trigger, job.id, nominal_at_ms)
            self.view.put(DUE, due_key(fire_at_ms, job.id), b"")
            self.actions.append(JobDue(job.id, job.revision, fire_at_ms))

    def set_unscheduled(self, job: Job, waits: bool, since_ms: int | None = None) -> None:
        """A calendar job waits (or no longer waits) for the leader to say its next time. That is counted from now, or
        from `since_ms`, and not from when a leader comes to it: what is due in between is not missed."""
        if not waits:
            self.view.delete(Table.UNSCHEDULED, u64(job.id))
            return
        if self.view.get(Table.UNSCHEDULED, u64(job.id)) is None:
            self.view.put(Table.UNSCHEDULED, u64(job.id), u64(self.now if since_ms is None else since_ms))
        self.actions.append(JobUnscheduled(job.id))

    def set_wake(self, instance: Instance, at_ms: int | None) -> None:
        if instance.wake_at_ms is not None:
            self._drop_wait(TIMERS, timer_key(instance.wake_at_ms, instance.key))
        instance.wake_at_ms = at_ms
        if at_ms is not None:
            key = instance.key
            self._waits[TIMERS, timer_key(at_ms, key)] = None
            self.actions.append(InstanceTimer(key, at_ms))

    def set_instance_purge(self, instance: Instance, at_ms: int | None) -> None:
        if instance.purge_at_ms is not None:
            self.view.delete(Table.PURGE, purge_key(instance.purge_at_ms, instance.job_id, instance.key))
        instance.purge_at_ms = at_ms
        if at_ms is not None:
            self.view.put(Table.PURGE, purge_key(at_ms, instance.job_id, instance.key), b"")

    def set_dead(self, instance: Instance, at_ms: int | None) -> None:
        """It is a dead letter since then; None: no longer."""
        if instance.dead_at_ms is not None:
            self.view.delete(Table.DEAD, dead_key(instance.dead_at_ms, instance.key))
            self.meta.dead_letters -= 1
        instance.dead_at_ms = at_ms
        instance.dead_letter = at_ms is not None
        if at_ms is not None:
            self.view.put(Table.DEAD, dead_key(at_ms, instance.key), b"")
            self.meta.dead_letters += 1

    def set_job_purge(self, job: Job, at_ms: int | None) -> None:
        if job.purge_at_ms is not None:
            self.view.delete(PURGE, purge_key(job.purge_at_ms, job.id))
        job.purge_at_ms = at_ms
        if at_ms is not None:
            self.view.put(PURGE, purge_key(at_ms, job.id), b"")

    def step(self, instance: Instance, kind: StepKind, detail: str | None = None, token: int = 0) -> None:
        """Notes what happened, for whoever asks why; of too many the oldest but the first go."""
        steps = instance.steps
        steps.append(Step(kind, self.index, self.term, self.now - instance.created_at_ms, detail, token))
        surplus = len(steps) - self.meta.settings.steps_kept
        if surplus > 0:
            del steps[1 : 1 + surplus]

    def in_limits(self, instance: Instance) -> bool:
        """Whether its queue may be one with limits. Those of webhooks are for deliveries alone."""
        meta = self.meta
        return meta.queues > meta.webhooks or (instance.notice is not None and meta.queues > 0)

    def lane_of(self, job: Job, instance: Instance) -> int:
        """The part of READY in which the instance has to wait."""
        if not self.in_limits(instance):
            return LANE_FREE
        queue = self.queue(self.policy_of(job, instance).queue) or self.queue(quota_queue(job.namespace))
        return LANE_FREE if queue is None else queue.lane

    def set_ready(self, job: Job, instance: Instance) -> None:
        """Waits for a worker, behind what is more urgent: a level of priority is worth `ageing_ms` of waiting."""
        ageing_ms = self.meta.settings.ageing_ms
        instance.score_ms = instance.ready_at_ms + (PRIORITY_MAX - instance.priority) * ageing_ms
        instance.lane = self.lane_of(job, instance) if self.meta.queues else LANE_FREE
        self._put_ready(instance)

    def _put_ready(self, instance: Instance) -> None:
        key = instance.key
        self._waits[READY, ready_key(instance.lane, instance.score_ms, key)] = None
        if instance.lane == LANE_NOBODY:
            self.meta.unplaceable += 1
        else:
            self.actions.append(InstanceReady(key, instance.lane, instance.score_ms))

    def move_ready(self, instance: Instance, lane: int) -> None:
        """Goes on waiting in another lane, as long as it has waited."""
        self.clear_ready(instance)
        instance.lane = lane
        self._put_ready(instance)

    def clear_ready(self, instance: Instance) -> None:
        if instance.lane == LANE_NOBODY:
            self.meta.unplaceable -= 1
        self._drop_wait(READY, ready_key(instance.lane, instance.score_ms, instance.key))

    def _drop_wait(self, table: Table, key: bytes) -> None:
        if (table, key) in self._waits:
            del self._waits[table, key]
        else:
            self.view.delete(table, key)

    def set_held(self, job: Job, instance: Instance) -> None:
        instance.held = True
        job.held += 1
        self.view.put(Table.HELD, held_key(job.id, instance.ready_at_ms, instance.key), b"")

    def clear_held(self, job: Job, instance: Instance) -> None:
        instance.held = False
        job.held -= 1
        self.view.delete(Table.HELD, held_key(job.id, instance.ready_at_ms, instance.key))


def listed_by_job(job: Job, instance: Instance) -> bool:
    """Whether the instance has BY_JOB and PURGE rows. The one scheduled instance of a one-shot needs none: the job
    names it, and takes it along."""
    return bool(instance.request) or instance.nominal_at_ms != scheduled_ms(job)


def no_job(job_id: int) -> Rejected:
    return Rejected("not-found", f"There is no job {job_text(job_id & U64_MAX)}.")


def kept(job: Job) -> Rejected | None:
    """Refused to everybody: the cluster made it for itself."""
    if job.namespace != SYSTEM_NAMESPACE:
        return None
    return Rejected(
        "illegal-transition", f"The job belongs to the webhook {job.name}; change it at /v1/webhooks/{job.name}."
    )


def no_instance(key: bytes) -> Rejected:
    text = instance_text(key) if len(key) == KEY_SIZE else key.hex()[:64]
    return Rejected("not-found", f"There is no instance {text}.")
