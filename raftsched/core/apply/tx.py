"""Holds the transaction that all commands share: the entry's time, the counters, ids, rows in and out, and the actions
gathered."""

from __future__ import annotations

from collections import deque

import msgspec

from raftsched.core import rows
from raftsched.core.actions import Action
from raftsched.core.apply.change_events import Events
from raftsched.core.apply.cluster.audit_rows import Audit
from raftsched.core.apply.indexes import (
    NEW,
    NO_ROWS,
    UNLISTED,
    Indexed,
    IndexedJob,
    count_job,
    indexed,
    move,
    reindex_job,
    uncount_job,
)
from raftsched.core.apply.runs.minute_counts import Minutes
from raftsched.core.levels import HOSTS_ARE_ASCII
from raftsched.core.limits import KEY_SIZE, NOW_MAX_MS, QUEUE_NAME_MAX, U64_MAX
from raftsched.core.model import FINAL, Instance, Job, Policy
from raftsched.core.rows import (
    META_KEY,
    decode_calendar,
    decode_instance,
    decode_job,
    decode_meta,
    decode_namespace,
    decode_node_rule,
    decode_queue,
    decode_run_key,
    decode_session,
    encode_row,
)
from raftsched.core.rules.eligibility import Need, Offer
from raftsched.core.rules.hosts import ASCII, Reading
from raftsched.core.rules.run_keys import RunKey
from raftsched.core.rules.unicode_hosts import UNICODE
from raftsched.core.subjects.access import Attributed
from raftsched.core.subjects.calendar import CALENDAR_NAME_MAX, Calendar
from raftsched.core.subjects.changes import InstanceEvent
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.core.subjects.keyed import KeyUse
from raftsched.core.subjects.namespace import Namespace, namespace_error
from raftsched.core.subjects.queue import Queue
from raftsched.core.subjects.watches import not_run_at
from raftsched.core.subjects.webhook import Webhook
from raftsched.core.subjects.workflow import member_key, member_value
from raftsched.core.tables import (
    INSTANCES,
    JOBS,
    READY,
    TIMERS,
    Table,
    View,
    after,
    from_u64,
    name_key,
    ready_key,
    timer_key,
    u64,
)

NOBODY = Attributed(msgspec.Raw(b""))
_STATE = InstanceEvent.STATE
_NEWLY = FINAL | {None}  # what an instance was that begins to wait: not there, or at its end


class Tx:
    """Applies the entries of one transaction: they share it, so that the counters are read once, and written once for
    each write batch."""

    __slots__ = (
        "_meta_raw",
        "_namespaces",
        "_node_rules",
        "_queues",
        "_queues_changed",
        "_run_keys",
        "_run_keys_changed",
        "_sessions",
        "actions",
        "audit",
        "batches",
        "by",
        "changed_namespaces",
        "circle_steps",
        "ended",
        "events",
        "get_instance_row",
        "get_job_row",
        "index",
        "indexed",
        "indexed_jobs",
        "lines",
        "meta",
        "minutes",
        "now",
        "offers",
        "put_instance_row",
        "put_job_row",
        "ready_rows",
        "repeated",
        "some_can",
        "term",
        "timer_rows",
        "unwritten",
        "view",
        "webhooks",
    )

    def __init__(self, view: View) -> None:
        self.view = view
        # Of the tables that every run reads and writes
        self.get_job_row, self.put_job_row = view.getter(JOBS), view.putter(JOBS)
        self.get_instance_row, self.put_instance_row = view.getter(INSTANCES), view.putter(INSTANCES)
        raw = view.get(Table.META, META_KEY)
        self.meta = decode_meta(raw)
        self._meta_raw = encode_row(self.meta) if raw is None else raw
        self.now = self.meta.now_ms  # the time of the entry
        self.actions: list[Action] = []
        self.events = Events(view, self.meta)
        self.audit = Audit(view, self.meta)
        self.minutes = Minutes(view, self.meta)
        self.by = NOBODY  # who asked for what is applied
        self.repeated = False  # what was asked for was done before, under the same key
        self.index = 0  # of the entry that is applied
        self.term = 0
        # queues, namespaces and node rules as of now: read once in a turn, and what is counted in them written once
        self._queues: dict[str, Queue | None] = {}
        self._queues_changed: set[str] = set()
        self._namespaces: dict[str, Namespace | None] = {}
        self.changed_namespaces: set[str] = set()
        self._node_rules: dict[str, NodeRule | None] = {}
        self._sessions: dict[int, Session | None] = {}
        # Rows of READY and TIMERS to be written: what fires while a node is free is assigned at once, and needs none
        self.ready_rows: dict[bytes, None] = {}
        self.timer_rows: dict[bytes, None] = {}
        # Instances that this entry made and has not written yet: one that is assigned at once is written once.
        # Who made one gives it away, and changes it no more: `put_new` adds what it is found by, plain.fire leaves that
        # out. From then on it is this table's. It has two ways out: reading any of them writes all (`instance`), so
        # that what is read is always another object with an entry of its own in `indexed`; or attempts.assign and
        # plain.assign take the object from here, as Fire and Assign in one entry are most of the load, change it and
        # store it. Nobody else may hold on to one: a change of it would be written without its index rows. One that is
        # UNLISTED in `indexed` waits in READY, and gets its rows there and in TIMERS when it is written as it is.
        self.unwritten: dict[bytes, Instance] = {}
        # What the index rows of the instances and jobs read or stored in this entry follow from
        self.indexed: dict[bytes, Indexed] = {}
        self.indexed_jobs: dict[int, IndexedJob] = {}
        self.ended: deque[bytes] = deque()  # instances whose end jobs that follow have to be told of, in this entry
        self.circle_steps = 0  # that this entry took to look for circles
        self.batches: dict[bytes, KeyUse] = {}  # rows of KEYS that grew in this turn, written once
        # What those with an open session offer, and by what is needed whether one of them can; empty: not read yet
        self.offers: list[Offer] = []
        self.some_can: dict[Need, bool] = {}
        self.webhooks: dict[str, Webhook] | None = None  # all of them, as of now; None: not read yet
        # Rows of RUN_KEYS as of now; and those whose lines are looked at when the entry is over
        self._run_keys: dict[bytes, RunKey | None] = {}
        self._run_keys_changed: set[bytes] = set()
        self.lines: dict[bytes, None] = {}

    @property
    def reading(self) -> Reading:
        """Returns how hosts are read."""
        return ASCII if self.meta.level >= HOSTS_ARE_ASCII else UNICODE

    @property
    def actor(self) -> str:
        """The name of the caller who asked for the command; empty when it is not known."""
        return self.by.name

    def advance(self, now_ms: int) -> None:
        """Sets the time of the next entry. It may go back with another leader: a clock that was wrong must not last."""
        self.now = self.meta.now_ms = min(max(0, now_ms), NOW_MAX_MS)
        if self.minutes.open is not None:
            self.minutes.advance(self.now)

    def close_entry(self, index: int) -> None:
        """Writes what was gathered in the entry."""
        if self.unwritten:
            self.flush_new()
        self.events.close(index, self.actions)
        self.audit.close(index)
        if self.minutes.open is not None:
            self.minutes.close_entry()
        self.indexed.clear()
        self.indexed_jobs.clear()
        self.circle_steps = 0

    def save(self) -> None:
        """Writes the counters, and the rows that are written once for all entries, and forgets what was read of others:
        what a write batch comes to must not depend on those before it."""
        for table, unwritten in ((READY, self.ready_rows), (TIMERS, self.timer_rows)):
            for key in unwritten:
                self.view.put(table, key, b"")
            unwritten.clear()
        for name in sorted(self._queues_changed):
            self.view.put(Table.QUEUES, name.encode(), encode_row(self._queues[name]))
        self._queues_changed.clear()
        if self._run_keys_changed:
            self._save_run_keys()
        for name_hash, use in self.batches.items():
            self.view.put(Table.KEYS, name_hash, encode_row(use))
        self.batches.clear()
        self.audit.save()
        if self.minutes.open is not None:
            self.minutes.save()
        self._save_namespaces()
        raw = encode_row(self.meta)
        if raw != self._meta_raw:
            self.view.put(Table.META, META_KEY, raw)
            self._meta_raw = raw
        for read in (self._queues, self._namespaces, self._node_rules, self._sessions, self._run_keys):
            read.clear()
        self.forget_offers()
        self.webhooks = None

    def _save_namespaces(self) -> None:
        for name in sorted(self.changed_namespaces):
            namespace = self._namespaces[name]
            if namespace is None:
                self.view.delete(Table.NAMESPACES, name.encode())
            else:
                self.view.put(Table.NAMESPACES, name.encode(), encode_row(namespace))
        self.changed_namespaces.clear()

    def _save_run_keys(self) -> None:
        for key in sorted(self._run_keys_changed):
            row = self._run_keys[key]
            if row is None:
                self.view.delete(Table.RUN_KEYS, key)
            else:
                self.view.put(Table.RUN_KEYS, key, encode_row(row))
        self._run_keys_changed.clear()

    def new_id(self) -> int:
        """Returns an id that is sorted by time and never reused: 2^20 ids fit in a millisecond before ids run ahead of
        time."""
        meta, first = self.meta, self.now << 20
        meta.last_id = meta.last_id + 1 if meta.last_id >= first else first
        return meta.last_id

    def new_revision(self) -> int:
        """Returns a revision for a setting of operators. Jobs count their own."""
        self.meta.last_revision += 1
        return self.meta.last_revision

    # ------------------------------------------------------------ rows

    def job(self, job_id: int) -> Job | None:
        job = self.stored_job(job_id)
        if job is not None:
            self.note_job(job)
        return job

    def stored_job(self, job_id: int) -> Job | None:
        """Returns the job, of which `note_job` is to be told before it is changed and put."""
        if not 0 <= job_id <= U64_MAX:
            return None
        raw = self.get_job_row(u64(job_id))
        if raw is None:
            return None
        job = decode_job(raw)
        self.events.namespaces[job_id] = job.namespace
        return job

    def note_job(self, job: Job) -> None:
        """Notes which index rows there are of a job that was read."""
        self.indexed_jobs[job.id] = job.fire_at_ms, job.purge_at_ms, job.resume_at_ms, job.watch_at_ms

    def named(self, namespace: str, name: str) -> Job | None:
        raw = self.view.get(Table.NAMES, name_key(namespace, name))
        return None if raw is None else self.job(from_u64(raw))

    def put_job(self, job: Job) -> None:
        """Stores the job and brings its index rows in step with it."""
        if job.counted != job.state:
            self.events.job_stored(job)
            count_job(self, job)
        if job.policy.notify or job.watch_at_ms is not None:
            job.watch_at_ms = not_run_at(job)
        reindex_job(self, job)
        self.put_job_row(u64(job.id), encode_row(job))

    def drop_job(self, job: Job) -> None:
        """Deletes the job and what it is counted and found by."""
        uncount_job(self, job)
        self.view.delete(JOBS, u64(job.id))

    def instance(self, key: bytes) -> Instance | None:
        instance = self.stored_instance(key)
        if instance is not None:
            self.indexed[key] = indexed(instance)
        return instance

    def stored_instance(self, key: bytes) -> Instance | None:
        """Returns the instance, which is to be noted in `indexed` before it is changed and put."""
        if len(key) != KEY_SIZE:
            return None
        if key in self.unwritten:
            self.flush_new()
        raw = self.get_instance_row(key)
        return None if raw is None else decode_instance(raw)

    def has_instance(self, key: bytes) -> bool:
        return key in self.unwritten or self.get_instance_row(key) is not None

    def put_instance(self, instance: Instance, key: bytes | None = None) -> None:
        """Stores the instance and brings its index rows in step with it. `key`: its own, for callers who have it."""
        if key is None:
            key = instance.key
        self._follow(instance, key)
        self.unwritten.pop(key, None)
        self.put_instance_row(key, encode_row(instance))

    def put_new(self, instance: Instance, key: bytes) -> None:
        """Stores an instance that was not there before, with the end of the entry or when it is read: the caller
        changes it no more."""
        self._follow(instance, key)
        self.unwritten[key] = instance

    def flush_new(self) -> None:
        """Writes the new instances, before the rows of INSTANCES are read."""
        for key, instance in self.unwritten.items():
            if self.indexed[key] is UNLISTED:
                self._list(instance, key)
            self.put_instance_row(key, encode_row(instance))
        self.unwritten.clear()

    def _list(self, instance: Instance, key: bytes) -> None:
        """Adds the rows in READY and TIMERS of an instance that is not assigned after all."""
        self.indexed[key] = indexed(instance)
        self.ready_rows[ready_key(instance.lane, instance.score_ms, key)] = None
        if instance.wake_at_ms is not None:
            self.timer_rows[timer_key(instance.wake_at_ms, key)] = None

    def _follow(self, instance: Instance, key: bytes) -> None:
        """Brings the index rows and the events in step with the instance."""
        instance.modified_at_ms = self.now
        old_state, old_keys = self.indexed.get(key, NEW)
        state, keys = self.indexed[key] = indexed(instance)
        if keys != old_keys:
            move(self, key, instance.job_id, old_keys, keys)
        if state is not old_state:
            self.events.instance(instance, _STATE)
            if instance.root is not None and (old_state in _NEWLY or (state in FINAL and instance.telling is None)):
                self.list_in_workflow(instance)

    def list_in_workflow(self, instance: Instance) -> None:
        """Notes in its workflow, if it is of one, what a run has come to."""
        if instance.root is not None and instance.parent is None:
            self.view.put(Table.WORKFLOWS, member_key(instance.root, instance.key), member_value(instance))

    def drop_instance(self, instance: Instance) -> None:
        """Deletes the instance and its index rows, but for that of BY_JOB."""
        key = instance.key
        state, keys = self.indexed[key]
        self.indexed[key] = state, NO_ROWS
        move(self, key, instance.job_id, keys, NO_ROWS)
        self.view.delete(INSTANCES, key)
        if instance.root is not None and instance.parent is None:
            self._leave_workflow(instance.root, key)

    def _leave_workflow(self, root: bytes, key: bytes) -> None:
        """Deletes an instance's row in its workflow, and the workflow with the last of them."""
        self.view.delete(Table.WORKFLOWS, member_key(root, key))
        if self.view.first(Table.WORKFLOWS, root + b"\0", after(root)) is None:
            self.view.delete(Table.WORKFLOWS, root)

    def session(self, number: int) -> Session | None:
        if number in self._sessions:
            return self._sessions[number]
        if not 0 <= number <= U64_MAX:
            return None
        raw = self.view.get(Table.SESSIONS, u64(number))
        session = self._sessions[number] = None if raw is None else decode_session(raw)
        return session

    def put_session(self, session: Session) -> None:
        self.forget_offers()
        self._sessions[session.id] = session
        self.view.put(Table.SESSIONS, u64(session.id), encode_row(session))

    def drop_session(self, number: int) -> None:
        self.forget_offers()
        self._sessions[number] = None
        self.view.delete(Table.SESSIONS, u64(number))

    def forget_offers(self) -> None:
        """Reads again what those with an open session offer, when it is asked for next."""
        self.offers.clear()
        self.some_can.clear()

    def node_session(self, node: str) -> int:
        """Returns the number of the newest session of a node, 0 when it never had one."""
        raw = self.view.get(Table.NODES, node.encode())
        return 0 if raw is None else from_u64(raw)

    def calendar(self, name: str) -> Calendar | None:
        key = name.encode()
        raw = self.view.get(Table.CALENDARS, key) if 0 < len(key) <= CALENDAR_NAME_MAX else None
        return None if raw is None else decode_calendar(raw)

    def policy_of(self, job: Job, instance: Instance) -> Policy:
        """Returns the policy of the revision that the instance was made from."""
        if instance.job_revision != job.revision:
            earlier = rows.REVISIONS.get(self.view, job.id, instance.job_revision)
            if earlier is not None:
                return earlier.policy
        return job.policy

    def queue(self, name: str) -> Queue | None:
        """Returns the queue, None when it has no limits. Changes to it have to be put."""
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

    def run_key(self, key: bytes) -> RunKey | None:
        """Returns what is counted under a key of runs, None when it is not in use. Changes to it have to be put."""
        if key not in self._run_keys:
            raw = self.view.get(Table.RUN_KEYS, key)
            self._run_keys[key] = None if raw is None else decode_run_key(raw)
        return self._run_keys[key]

    def put_run_key(self, key: bytes, row: RunKey) -> None:
        """Stores the row, or deletes it when it is needed no more."""
        self._run_keys[key] = row if row.is_needed else None
        self._run_keys_changed.add(key)

    def namespace(self, name: str) -> Namespace | None:
        """Returns the namespace, None when it is not declared and empty. Changes to it have to be put."""
        try:
            return self._namespaces[name]
        except KeyError:
            raw = None if namespace_error(name) else self.view.get(Table.NAMESPACES, name.encode())
            namespace = self._namespaces[name] = None if raw is None else decode_namespace(raw)
            return namespace

    def put_namespace(self, namespace: Namespace) -> None:
        """Stores the namespace. One that is not needed is gone from now on, also for later entries of the write
        batch."""
        self._namespaces[namespace.name] = namespace if namespace.is_needed else None
        self.changed_namespaces.add(namespace.name)

    def node_rule(self, node: str) -> NodeRule | None:
        if node not in self._node_rules:
            raw = self.view.get(Table.NODE_RULES, node.encode())
            self._node_rules[node] = None if raw is None else decode_node_rule(raw)
        return self._node_rules[node]

    def put_node_rule(self, node: str, rule: NodeRule | None) -> None:
        """Stores the rule of a node. None deletes it."""
        self.forget_offers()
        self._node_rules[node] = rule
        if rule is None:
            self.view.delete(Table.NODE_RULES, node.encode())
        else:
            self.view.put(Table.NODE_RULES, node.encode(), encode_row(rule))
