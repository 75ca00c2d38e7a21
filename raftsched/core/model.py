"""What the replicated tables hold: jobs, triggers, instances, attempts, sessions, members.

All are msgspec structs encoded as msgpack arrays. The encoding only grows: new fields go last and have a default.
Times are integer UTC milliseconds (`*_at_ms`), durations integer milliseconds (`*_ms`); `None` means "not set".
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from raftsched.core.ids import instance_key

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class JobState(IntEnum):
    NEW = 1  # created suspended, never scheduled yet
    SCHEDULED = 2
    SUSPENDED = 3
    EXPIRED = 4
    DELETED = 5  # name freed, invisible; the row stays until its last attempt ended


class InstanceState(IntEnum):
    WAITING = 1
    LAUNCHED = 2  # assigned to a session, the start is not reported yet
    RUNNING = 3
    RETRYING = 4  # between attempts
    SUCCEEDED = 5
    FAILED = 6
    TIMED_OUT = 7
    KILLED = 8
    SKIPPED = 9


FINAL = frozenset(
    {
        InstanceState.SUCCEEDED,
        InstanceState.FAILED,
        InstanceState.TIMED_OUT,
        InstanceState.KILLED,
        InstanceState.SKIPPED,
    }
)


class Outcome(IntEnum):
    """How an attempt ended."""

    SUCCEEDED = 1
    FAILED = 2
    TIMED_OUT = 3
    KILLED = 4
    LOST = 5  # its session ended before it reported


class TriggerKind(IntEnum):
    AT = 1  # once, at `at_ms`
    IN = 2  # once, `period_ms` after acceptance
    EVERY = 3  # each `period_ms`
    CRON = 4  # calendar: `expr` in `timezone`
    RRULE = 5  # calendar: RFC 5545 rule in `expr`
    MANUAL = 6  # only when asked to run


class EveryMode(IntEnum):
    FIXED_RATE = 1  # anchor + k * period
    FIXED_DELAY = 2  # period after the previous run ended


class Overlap(IntEnum):
    FORBID = 1
    ALLOW = 2
    QUEUE_ONE = 3
    QUEUE_ALL = 4
    REPLACE = 5


class MisfirePolicy(IntEnum):
    SKIP = 1
    ONCE = 2
    ALL = 3


class Delivery(IntEnum):
    AT_LEAST_ONCE = 1
    AT_MOST_ONCE = 2


class Trigger(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """When a job is due. Exactly one kind; fields of other kinds keep their defaults."""

    kind: TriggerKind
    at_ms: int = 0  # AT
    period_ms: int = 0  # IN, EVERY
    mode: EveryMode = EveryMode.FIXED_RATE  # EVERY
    expr: str = ""  # CRON, RRULE
    dialect: str = ""  # CRON: "" (Vixie) or "quartz"
    timezone: str = "UTC"  # IANA name; calendar kinds
    jitter_ms: int = 0  # each fire is delayed by a fixed pseudo-random part of this
    starts_at_ms: int | None = None  # inclusive bound on nominal times
    ends_at_ms: int | None = None  # inclusive bound on nominal times
    max_runs: int | None = None
    calendar: str | None = None  # name of an exclusion calendar

    @property
    def once(self) -> bool:
        return self.kind in (TriggerKind.AT, TriggerKind.IN)

    @property
    def needs_calendar(self) -> bool:
        """True when only the schedule room (leader, API) can compute fire times."""
        return self.kind in (TriggerKind.CRON, TriggerKind.RRULE)


class Retry(msgspec.Struct, array_like=True, frozen=True):
    delays_ms: tuple[int, ...] = ()  # one level each; empty: no retry
    on: tuple[Outcome, ...] = (Outcome.FAILED, Outcome.TIMED_OUT)


class Misfire(msgspec.Struct, array_like=True, frozen=True):
    policy: MisfirePolicy = MisfirePolicy.ONCE
    grace_ms: int = 15 * MINUTE_MS  # how late is still on time


class Retention(msgspec.Struct, array_like=True, frozen=True):
    """Of recurring jobs: whichever bites first."""

    succeeded: int = 200
    failed: int = 100  # also of those killed, and of those skipped with the gaps, which are counted for themselves
    max_age_ms: int = 7 * DAY_MS


class Policy(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The part of a job that apply and the leader look at."""

    trigger: Trigger
    priority: int = 5  # 0..9, higher first
    queue: str = "default"
    timeout_ms: int = 5 * MINUTE_MS
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    max_lost: int = 3
    suspend_after: int | None = None
    retry: Retry = Retry()
    overlap: Overlap = Overlap.FORBID
    misfire: Misfire = Misfire()
    max_concurrency: int = 1
    handler_need: str = ""  # what a node must announce to be eligible: "exec", "shell", "python", "http", "call:name"
    node_labels: tuple[tuple[str, str], ...] = ()  # placement: labels a node must carry
    retention: Retention = Retention()


class Job(msgspec.Struct, array_like=True, kw_only=True):
    """One row of the JOBS table. `body` is the rest of the job as given (canonical JSON), opaque to core."""

    id: int
    namespace: str
    name: str | None
    revision: int
    state: JobState
    policy: Policy
    body: bytes
    created_at_ms: int
    modified_at_ms: int
    anchor_at_ms: int  # EVERY counts from here; kept over edits that leave the trigger alone
    nominal_at_ms: int | None = None  # next nominal time; None: none, or a calendar trigger not yet scheduled
    fire_at_ms: int | None = None  # nominal + jitter: the key of the DUE index
    runs: int = 0  # scheduled fires that made an instance (max_runs counts these)
    active: int = 0  # instances not final
    held: int = 0  # of these, waiting for another run of this job to end
    failures_in_a_row: int = 0
    succeeded: int = 0  # instances kept, by outcome (retention counts these)
    failed: int = 0
    last_start_at_ms: int | None = None
    last_end_at_ms: int | None = None
    last_node: str | None = None
    last_instance: bytes | None = None  # instance key
    error: str | None = None  # why it was suspended
    gap: bytes | None = None  # the SKIPPED record that the next skipped fire extends
    purge_at_ms: int | None = None  # the key of its PURGE row (one-shots that are done, deleted jobs)
    others: int = 0  # instances kept that were killed or skipped


class OutputRef(msgspec.Struct, array_like=True, frozen=True):
    """Where the output of an attempt lies on the node that ran it, and what is served of it: size and digest are those
    of the text, both streams as they came. Empty output has no reference."""

    segment: int
    offset: int  # bytes from the start of the segment
    size: int  # bytes of the text
    sha256: bytes  # of the text
    truncated: int = 0  # bytes taken out of the middle


class Attempt(msgspec.Struct, array_like=True, kw_only=True):
    number: int
    node: str
    session: int
    token: int  # fencing token: raised at each assignment, cluster-wide
    assigned_at_ms: int
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    error: str | None = None
    output: OutputRef | None = None
    result: bytes | None = None  # JSON


class Instance(msgspec.Struct, array_like=True, kw_only=True):
    """One row of the INSTANCES table: one due time (or one request to run) of one job."""

    job_id: int
    nominal_at_ms: int  # scheduled time before jitter; for manual runs the time of acceptance
    request: int  # 0: scheduled; else the number that tells manual and backfill runs apart
    state: InstanceState
    job_revision: int
    priority: int
    created_at_ms: int
    modified_at_ms: int
    ready_at_ms: int  # since when it waits (FIFO within a priority)
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    tried: int = 0  # attempts that ended by themselves (retry levels used: tried - 1)
    lost: int = 0
    kill_asked: bool = False
    reason: str | None = None  # why skipped, waiting or given up: a stable code
    error: str | None = None
    params: bytes | None = None  # JSON given with "run now", replaces the job's
    dead_letter: bool = False
    wake_at_ms: int | None = None  # the key of its TIMERS row (retry due, or start deadline)
    gap_count: int = 0  # SKIPPED records: fires this record stands for,
    gap_until_ms: int | None = None  # the last of them
    ended_at_ms: int | None = None
    purge_at_ms: int | None = None  # the key of its PURGE row
    held: bool = False  # waits for another run of its job to end (its row is in HELD, not in READY)

    @property
    def key(self) -> bytes:
        return instance_key(self.nominal_at_ms, self.job_id, self.request)

    @property
    def live(self) -> Attempt | None:
        """The attempt that has not ended, if any."""
        if self.attempts and self.attempts[-1].outcome is None:
            return self.attempts[-1]
        return None


class Member(msgspec.Struct, array_like=True, frozen=True):
    """A voting member. `store_id` names its disk: the same node id with another disk is not this member."""

    node: str
    raft: str  # host:port
    store_id: bytes


class Session(msgspec.Struct, array_like=True, kw_only=True):
    """A worker's right to run. Numbers are cluster-wide and never reused."""

    id: int
    node: str
    boot_id: str
    nonce: bytes  # one per opening attempt of one process: tells the opener that it is his
    ttl_ms: int  # fixed at opening
    opened_at_ms: int
    slots: int
    labels: tuple[tuple[str, str], ...] = ()
    handlers: tuple[str, ...] = ()
    http: str = ""  # advertised host:port of the node's API
    version: str = ""
    open: bool = True


class KeyUse(msgspec.Struct, array_like=True, frozen=True):
    """What the first request with an Idempotency-Key brought about."""

    digest: bytes  # sha256 of the request: the same key with another one is refused
    at_ms: int
    job_id: int
    instance: bytes | None = None  # instance key, of a manual run
    created: bool = True


class Settings(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Replicated limits and defaults; apply and every node read them here, never from a node's own flags."""

    session_ttl_ms: int = 5_000
    timeout_ceiling_ms: int = DAY_MS
    body_max_bytes: int = 64 * 1024
    params_max_bytes: int = 32 * 1024
    start_deadline_ms: int = 15 * MINUTE_MS  # of recurring instances nobody can take
    once_succeeded_keep_ms: int = HOUR_MS
    once_failed_keep_ms: int = 7 * DAY_MS
    catch_up_max: int = 100
    queue_all_max: int = 100
    attempts_kept: int = 20
    active_max: int = 10_000  # instances of one job not at their end: a bound on what deleting it has to end
    idempotency_keep_ms: int = HOUR_MS  # how long an Idempotency-Key is remembered
    idempotency_max: int = 2_000_000  # keys remembered; beyond that the oldest go early


class Meta(msgspec.Struct, array_like=True, kw_only=True):
    """The counters of the cluster: one row, written once per entry."""

    now_ms: int = 0  # the latest entry's time; may go back with another leader or a clock that is set right
    last_id: int = 0
    last_token: int = 0
    last_session: int = 0
    epoch: int = 0  # term of the newest opening entry
    leader: str = ""
    cluster_id: bytes = b""
    members: tuple[Member, ...] = ()
    settings: Settings = Settings()
    keys: int = 0  # rows of KEYS
