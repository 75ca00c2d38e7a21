"""Defines rows of the replicated tables: jobs, triggers, instances, attempts. Members, sessions and settings are in
`cluster`, other rows beside the commands that change them.

All are msgspec structs encoded as msgpack arrays. The encoding only grows: new fields go last and have a default.
Times are integer UTC milliseconds (`*_at_ms`), durations integer milliseconds (`*_ms`); `None` means "not set".
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from raftsched.bounds import DAY_MS, HOUR_MS, MINUTE_MS
from raftsched.core.ids import pack_instance
from raftsched.core.rules.run_keys import Concurrency, Permit
from raftsched.core.subjects.notices import Notify
from raftsched.core.subjects.zones import Moved

GRACE_MS = 5_000  # from SIGTERM to SIGKILL, where a job does not say


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
    """The end of an attempt."""

    SUCCEEDED = 1
    FAILED = 2
    TIMED_OUT = 3
    KILLED = 4
    LOST = 5  # its session ended before it reported
    SNOOZED = 6  # by itself: the instance goes on later, and no retry is used for that
    CANCELLED = 7  # by itself: there is nothing to do, now or later


class Verdict(IntEnum):
    """Says what is to become of an instance whose attempt ended by itself: the word of the run, or of its job's
    `outcomes`."""

    SUCCEED = 1
    RETRY = 2  # it failed, as any
    FAIL = 3  # it failed, and no retry would help
    CANCEL = 4
    SNOOZE = 5


class TriggerKind(IntEnum):
    AT = 1  # once, at `at_ms`
    IN = 2  # once, `period_ms` after acceptance
    EVERY = 3  # each `period_ms`
    CRON = 4  # calendar: `expr` in `timezone`
    RRULE = 5  # calendar: RFC 5545 rule in `expr`
    MANUAL = 6  # only when asked to run
    SEVERAL = 7  # when the first of `Policy.triggers` is; of its own it has `max_runs`
    AFTER = 8  # by the end of other jobs' runs, see `Trigger.after`


_AT, _IN = _ONCE = (TriggerKind.AT, TriggerKind.IN)
_CALENDAR_KINDS = (TriggerKind.CRON, TriggerKind.RRULE)


class AfterOn(IntEnum):
    """The ends of another job's run that start a job which follows it."""

    SUCCEEDED = 1
    FAILED = 2  # or timed out. Whoever killed a run, or replaced it by another, did not find out that it fails
    ENDED = 3  # whichever


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


class ConditionKind(IntEnum):
    PATH = 1  # a file that matches the glob exists on the node that is to run it
    HTTP = 2  # a GET answers with the status
    JOB = 3  # another job succeeded lately


class StepKind(IntEnum):
    """A transition of an instance, recorded so that people can ask why it runs or waits."""

    CREATED = 1
    HELD = 2  # waits for another run of its job
    RELEASED = 3
    CONDITIONS = 4  # waits for its conditions
    CONDITIONS_MET = 5
    UNPLACEABLE = 6  # no node there is could take it, busy or not
    ASSIGNED = 7
    STARTED = 8
    ENDED = 9  # an attempt, by its worker's report
    LOST = 10  # an attempt, by its session's end
    RETRY = 11  # waits for the delay of its retry level
    READY = 12  # may run (again)
    KILL_ASKED = 13
    RERUN = 14
    FINAL = 15
    SPLIT = 16  # into its parts
    SNOOZED = 21  # waits until it goes on, as the run or its job's outcomes said
    RESULT_LEFT_OUT = 19  # results that were to be passed on are larger than params may be
    RESULT_DROPPED = 27  # results that were to be passed on could not be kept
    IN_LINE = 25  # waits for a permit of its key
    PERMIT = 26  # got one, after it waited


PART = "part"
FOLLOWED = "after"
# Details of CREATED; else its time came (None, "missed").
ASKED_FOR = frozenset({"manual", "backfill", "event", PART, FOLLOWED})


class Delivery(IntEnum):
    AT_LEAST_ONCE = 1
    AT_MOST_ONCE = 2


class After(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The jobs that a job follows: the end of their runs starts it."""

    jobs: tuple[str, ...]  # namespace/name each; they need not exist
    on: AfterOn = AfterOn.SUCCEEDED
    any_of: bool = False  # the first of them that comes to such an end; else all have to
    passes: bool = False  # their results are among the params of the run


class Trigger(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """Says when a job is due. It is of exactly one kind; fields of other kinds keep their defaults."""

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
    id: str = ""  # of one of several: its name in the job
    after: After | None = None  # AFTER
    calendar_moves: bool = False  # what it excludes is due when the excluded time ends, once; else not at all

    @property
    def once(self) -> bool:
        return self.kind in _ONCE

    @property
    def needs_calendar(self) -> bool:
        """Returns whether only the schedule room (leader, API) can compute fire times."""
        return self.kind in _CALENDAR_KINDS or self.calendar is not None


class Retry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    delays_ms: tuple[int, ...] = ()  # one level each; empty: no retry
    on: tuple[Outcome, ...] = (Outcome.FAILED, Outcome.TIMED_OUT)
    jitter_percent: int = 0  # each delay is lengthened by a fixed pseudo-random part of it, up to so much


class Condition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A condition that must hold, beside the time, before a run may start."""

    kind: ConditionKind
    target: str  # PATH: a glob; HTTP: a URL; JOB: namespace/name
    within_ms: int = 0  # JOB: how long ago its last success may be
    status: int = 0  # HTTP: the status that is wanted; 0: any of 200 to 299


class Mapped(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The meaning of some codes."""

    first: int
    last: int  # included
    verdict: Verdict
    delay_ms: int = 0  # SNOOZE: how long; 0: as long as the answer asks for


class Outcomes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The codes that mean something else than success or failure. The first one that has a code decides."""

    exit: tuple[Mapped, ...] = ()  # exit codes
    status: tuple[Mapped, ...] = ()  # of HTTP answers


class Misfire(msgspec.Struct, array_like=True, frozen=True, gc=False):
    policy: MisfirePolicy = MisfirePolicy.ONCE
    grace_ms: int = 15 * MINUTE_MS  # how late is still on time


class Retention(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Bounds on the finished runs that are kept of a recurring job; the first one reached decides."""

    succeeded: int = 200
    failed: int = 100  # also of those killed, and of those skipped with the gaps, which are counted for themselves
    max_age_ms: int = 7 * DAY_MS


class Policy(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
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
    max_concurrency: int = 0  # runs active at one time; 0: as overlap has it, one, or any number where it allows them
    required_capability: str = ""  # a node must announce it: "exec", "shell", "python", "http", "call:name"
    node_labels: tuple[tuple[str, str], ...] = ()  # placement: labels a node must carry
    retention: Retention = Retention()
    conditions: tuple[Condition, ...] = ()
    conditions_timeout_ms: int = HOUR_MS  # from when they are first looked at
    notify: tuple[Notify, ...] = ()
    grace_ms: int | None = None  # from SIGTERM to SIGKILL; None: GRACE_MS, or as its node says when that stops
    user: str = ""  # as whom it runs, as "namespace:user": what a node must announce; "": whom its node runs it as
    # What a node may refuse to touch (rules.allowed). exec: the program; python: "module:function"; http: "host:port".
    target: str = ""  # empty: nothing that has a rule, or made before this was written down
    cwd: str = ""  # the working directory that the job names
    prefer: tuple[tuple[str, str], ...] = ()  # placement: of the free ones those that carry most of these come first
    shards: int = 0  # placement: so many parts make up a run; 0: a run is one
    on_all: bool = False  # placement: a part for each node and worker that can take it
    triggers: tuple[Trigger, ...] = ()  # of a job that has several; `trigger` is of the kind SEVERAL then
    expires_ms: int = 0  # a run that has not started so long after it was due is skipped; 0: it waits on
    outcomes: Outcomes | None = None  # None: an exit code or a status means what it usually does
    concurrency: Concurrency | None = None  # limits by key
    env: tuple[
        str, ...
    ] = ()  # variables that the job sets, as far as core.rules.allowed looks at them; from level 6 on

    @property
    def all_triggers(self) -> tuple[Trigger, ...]:
        return self.triggers or (self.trigger,)

    @property
    def calendars(self) -> tuple[str, ...]:
        """The names of the calendars that its triggers have."""
        return tuple(dict.fromkeys(t.calendar for t in self.all_triggers if t.calendar is not None))

    def trigger_of(self, instance: Instance) -> Trigger:
        """Returns the trigger that the instance came from."""
        if instance.trigger:
            for trigger in self.triggers:
                if trigger.id == instance.trigger:
                    return trigger
        return self.trigger


class TriggerState(msgspec.Struct, array_like=True, gc=False):
    """The state of one of several triggers. One without a time that is not over waits: for the leader
    (`unscheduled_since_ms`), for another calendar (`never_fires`), for the end of a run (a fixed delay), or until the
    job is scheduled again."""

    anchor_at_ms: int  # as Job.anchor_at_ms
    nominal_at_ms: int | None = None
    fire_at_ms: int | None = None
    unscheduled_since_ms: int | None = None  # the leader owes it the next time after this one
    skipped_until_ms: int | None = None  # its times up to here are left out, or were run as those of another trigger
    never_fires: bool = False  # it has no next time because its calendar excludes all there are
    over: bool = False  # it has no time any more
    zones: int = 0  # as Job.zones


class Job(msgspec.Struct, array_like=True, kw_only=True, gc=False):
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
    last_success_at_ms: int | None = None
    skipped_until_ms: int | None = None  # nominal times up to here are left out: somebody asked for that
    counted: int = 0  # the state in which Meta.jobs counts it; 0: not yet
    tags: bytes = b""  # of its content (core.rules.selection): the keys of its TAGS rows, but for that of its state
    by: str = ""  # name of the token with which this revision was made
    never_fires: bool = False  # it has no next time because its calendar excludes all there are
    triggers: tuple[TriggerState, ...] = ()  # of those in Policy.triggers; its times above are those of the first due
    resume_at_ms: int | None = None  # the key of its RESUMES row: it was paused until then
    watch_at_ms: int | None = None  # the key of its WATCHES row (it has not succeeded for so long then)
    not_run_told_ms: int = 0  # up to this time its watches were told; 0: none since its last success
    recent_ms: tuple[int, ...] = ()  # what its last successes took, where it asks for that (core.subjects.watches)
    follows: bool = False  # Meta.followers counts it
    seed: int = 0  # what `H` in its cron expressions is hashed from: its namespace and name; 0: its id
    zones: int = (
        0  # number of the time zone data that its next time was computed with, if a leader did (core.subjects.zones)
    )
    moved: Moved | None = None  # when new time zone data last gave it another next time
    dropped_ms: int = 0  # the newest of its due times whose row was dropped from history; from level 6 on
    last_state: InstanceState | None = None  # of the run that ended last, whether it is kept or not; from level 6 on
    last_duration_ms: int | None = None  # of that run's last attempt; None: it never started

    @property
    def hash_id(self) -> int:
        """The number that `H` in its cron expressions is hashed from."""
        return self.seed or self.id


def scheduled_ms(job: Job) -> int | None:
    """Returns the nominal time of a one-shot, None of any other job."""
    trigger = job.policy.trigger
    if trigger.kind is _AT:
        return trigger.at_ms
    return job.anchor_at_ms + trigger.period_ms if trigger.kind is _IN else None


def scheduled_instance(job: Job) -> bytes | None:
    """Returns the key of a one-shot's scheduled instance, whether it was made yet or not; None of any other job."""
    at_ms = scheduled_ms(job)
    return None if at_ms is None else pack_instance(at_ms, job.id, 0)


class PastRevision(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job's content before an edit."""

    name: str | None
    body: bytes
    until_ms: int  # when the edit took place
    by: str = ""  # whose token it was


class OutputRef(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The place of an attempt's output on the node that ran it, and a description of what is served: size and digest
    are those of the text, both streams as they came. Empty output has no reference."""

    segment: int
    offset: int  # bytes from the start of the segment
    size: int  # bytes of the text
    sha256: bytes  # of the text
    truncated: int = 0  # bytes taken out of the middle


class Placement(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Why there: what the dispatcher saw when it chose the node."""

    running: int  # on the chosen node, before this one
    slots: int
    eligible: int  # nodes with its handler and labels that were given runs
    nodes: int  # nodes that were given runs
    avoided: str = ""  # the node of the attempt before, which was free too


class Step(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One transition of an instance. The end of its last attempt is not noted beside its own end."""

    kind: StepKind
    index: int  # of the log entry
    term: int
    after_ms: int  # since the instance was created
    detail: str | None = None  # a stable code, or the words of who reported it
    token: int = 0  # of the attempt that it concerns; 0: none


class Attempt(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    number: int
    node: str  # or the key of a remote worker (core.rules.executors)
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
    queue: str = ""  # the limited queue in which it counts as running
    placement: Placement | None = None
    quota: str = ""  # and that of its namespace
    output_node: str = ""  # that has its output; "": the one that ran it


class Progress(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Says how far the newest attempt is, by its own word."""

    percent: int | None
    text: str
    at_ms: int  # when the log had it


class PartsTask(IntEnum):
    """The work that remains to be done with the parts of a run, in steps."""

    NONE = 0
    MAKE = 1  # and let those run again that did not succeed
    KILL = 2


class Parts(msgspec.Struct, array_like=True, gc=False):
    """The parts of a run, as their parent counts them."""

    first: int  # the number of the request of the first part; those of the others follow
    total: int
    made: int = 0
    succeeded: int = 0
    failed: int = 0  # timed out as well
    killed: int = 0
    task: PartsTask = PartsTask.NONE
    next: int = 0  # the first part that the task has not come to
    anew: bool = False  # those that succeeded run again, too
    targets: tuple[str, ...] = ()  # on which the parts are to be made, until all are
    error: str | None = None  # of the first part that failed

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.killed

    def key(self, parent: Instance, index: int) -> bytes:
        """Returns the key of a part."""
        return pack_instance(parent.nominal_at_ms, parent.job_id, self.first + index)

    def count(self, state: InstanceState, change: int) -> None:
        """Counts one part more or less in its final state."""
        if state is InstanceState.SUCCEEDED:
            self.succeeded += change
        elif state is InstanceState.KILLED:
            self.killed += change
        else:
            self.failed += change


class Instance(msgspec.Struct, array_like=True, kw_only=True, gc=False):
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
    lane: int = 0  # with the score the key of its READY row
    score_ms: int = 0
    checking: bool = False  # waits for its conditions (no row in READY; its TIMERS row says when to look again)
    checks_end_at_ms: int | None = None  # when it is given up with conditions that are not met
    only_on: str = ""  # it runs there: the node that saw the paths of its conditions, or that a part is for
    dead_at_ms: int | None = None  # the key of its DEAD row
    steps: list[Step] = msgspec.field(default_factory=list)
    jitter_ms: int = 0  # by which its fire was put off after the nominal time
    handed_back: int = 0  # by nodes that stopped
    notice: bytes | None = None  # it delivers this to a webhook (core.subjects.notices)
    overdue_ms: int = 0  # by which its time was past when the job was taken: a one-shot with a time `at` in the past
    parent: bytes | None = None  # it is a part of the run with this key
    shard_index: int = 0  # of a part: its place, from 0 on
    shard_count: int = 0  # of a part: how many there are; 0: it is there because of the node that it runs on
    parts: Parts | None = None  # it was split into these; it has no attempts then
    trigger: str = ""  # id of the one that it came from, of a job with several
    watch_at_ms: int | None = None  # the key of its WATCHES row (it is late, or runs long, then)
    told: tuple[tuple[int, str], ...] = ()  # (event, webhook) of what was told while it goes on: each once
    expires_at_ms: int | None = None  # it is skipped unless something of it starts before; None: it may start whenever
    snoozes: int = 0  # attempts that ended SNOOZED, since it was made or asked to run again
    progress: Progress | None = None
    kept: bytes | None = None  # JSON that a run keeps for its next attempts
    permit: Permit | None = None  # its key, of a job with limits by key; a part has none, its parent has
    cause: bytes | None = None  # the instance by whose end it was started (core.subjects.workflow)
    root: bytes | None = None  # the first of its workflow, itself included; None: it is of none
    joined: tuple[bytes, ...] = ()  # of one that waited for several: the ends that it waited for
    passed: bytes | None = None  # JSON: their results, by the names of their jobs
    followed: int = 0  # the ends that jobs which follow were told of, a bit for each AfterOn
    telling: int | None = None  # it ended, and of the jobs that follow those up to this id were told
    rerun_id: int = 0  # of the newest rerun "from here on" that it was started by; later ones have higher ones

    @property
    def key(self) -> bytes:
        return pack_instance(self.nominal_at_ms, self.job_id, self.request)

    @property
    def due_at_ms(self) -> int:
        """Returns when it could have been fired at the earliest: what comes after that is lateness."""
        return self.nominal_at_ms + self.jitter_ms + self.overdue_ms

    @property
    def live(self) -> Attempt | None:
        """The attempt that has not ended, if any."""
        if self.attempts and self.attempts[-1].outcome is None:
            return self.attempts[-1]
        return None
