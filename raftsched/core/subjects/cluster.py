"""The cluster itself: its members, the sessions of its workers, what operators say of it, its counters. Their rows, and
the commands that change them.
"""

from __future__ import annotations

import msgspec

from raftsched.core.model import DAY_MS, HOUR_MS, MINUTE_MS, JobState
from raftsched.core.rules.allowed import Allowed
from raftsched.core.subjects.command import Command


class Member(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A member. `store_id` names its disk: the same node id with another disk is not this member."""

    node: str
    raft: str  # host:port
    store_id: bytes
    voter: bool = True  # False: catching up; gets everything, counts for nothing


# Namespaces, or "default", each with the users as whom its jobs cannot run functions; "": as a job that names none.
NoPython = tuple[tuple[str, tuple[str, ...]], ...]


class Session(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """A worker's right to run. Numbers are cluster-wide and never reused."""

    id: int
    node: str  # a node id, or the key of a remote worker (core.rules.executors)
    boot_id: str
    nonce: bytes  # one per opening attempt of one process: tells the opener that the session is its own
    ttl_ms: int  # fixed at opening
    opened_at_ms: int
    slots: int  # 0: a node that runs nothing, and only votes
    labels: tuple[tuple[str, str], ...] = ()
    handlers: tuple[str, ...] = ()
    http: str = ""  # advertised host:port of the node's API
    version: str = ""
    open: bool = True
    limits_whole_runs: bool = False  # of memory; else each process of a run for itself
    users: tuple[str, ...] = ()  # as whom its jobs may ask to run: "namespace:user", see eligibility.may_run_as
    allowed: Allowed | None = None  # None: whatever a job names
    queues: tuple[str, ...] | None = None  # whose runs it takes; None: of all queues
    namespaces: tuple[str, ...] | None = None  # whose runs it takes; None: of all namespaces
    weight: int = 1  # what one of its slots counts for, beside those of others, when loads are compared
    opening: int = 0  # of a remote worker: which of its requests to open this was, see OpenWorker
    no_python: NoPython = ()


class NodeRule(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """An operator's settings for a node; None: as the node itself says."""

    drained: bool = False  # finishes what it has, takes nothing new
    slots: int | None = None
    labels: tuple[tuple[str, str], ...] | None = None
    revision: int = 0  # as of a queue; of no rule 0


class Settings(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
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
    ageing_ms: int = MINUTE_MS  # a waiting instance gains a level of priority in each
    dead_letter_keep_ms: int = 14 * DAY_MS
    clock_limit_ms: int = 500  # a leader further from the majority's clocks gives leadership away
    condition_check_ms: int = 10_000  # between two looks at the conditions of one instance
    backfill_max: int = 1_000  # times of one request
    queues_max: int = 1_000
    steps_kept: int = 40
    events_max: int = 1_000_000  # events kept to be read later; 0: none are recorded
    events_keep_ms: int = HOUR_MS
    audit_max: int = 100_000  # notes kept of who asked for what, of each kind
    audit_keep_ms: int = 90 * DAY_MS
    namespaces_max: int = 1_000  # declared
    namespaces_strict: int = 0  # 1: new jobs and secrets only in namespaces that are declared
    secrets_max: int = 1_000
    load_ahead_ms: int = 10 * MINUTE_MS  # what is due within this is in the leader's memory
    rate_per_token: int = 0  # requests a second at one node, of tokens that say nothing else; 0: as many as come
    burst_per_token: int = 0  # of these at once; 0: twice as many as in a second
    rate_per_address: int = 500  # where tokens are required: requests a second that need none
    burst_per_address: int = 0
    failures_per_address: int = 100  # refusals a second for want of a token that is good
    metrics_open: int = 0  # 1: /metrics needs no token
    worker_ttl_ms: int = 10_000  # the lease of a remote worker, which renews it four times as often
    workers_max: int = 1_000  # remote workers with an open session
    output_max_bytes: int = 2**20  # kept of what one attempt prints
    output_keep_ms: int = 7 * DAY_MS  # how long, on the disk of the node that has it
    upgrade_hold: int = 0  # 1: the cluster's level stays, whatever its members know
    output_copies: int = 1  # nodes that have what runs print


class Meta(msgspec.Struct, array_like=True, kw_only=True, gc=False):
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
    members_at: int = 0  # index of the entry that made them the members; 0: the formation
    paused: bool = False  # nothing is fired, nothing assigned
    last_lane: int = 0
    queues: int = 0  # rows of QUEUES
    unplaceable: int = 0  # READY rows in the lane of what no node there is could take
    awaited: int = 0  # rows of AWAITED
    dead_letters: int = 0  # rows of DEAD
    jobs: list[int] = msgspec.field(default_factory=lambda: [0] * (len(JobState) + 1))  # by the number of their state
    operations: int = 0  # rows of OPERATIONS
    operations_running: int = 0
    changes: int = 0  # events in CHANGES
    changes_gone: bytes = b""  # number of the newest event that is not kept any more (a key of CHANGES); empty: none
    last_revision: int = 0  # of a queue, a calendar, a rule of a node, a namespace, a secret, or the settings
    settings_revision: int = 0
    namespaces: int = 0  # declared ones
    webhooks: int = 0  # rows of WEBHOOKS
    calendars: int = 0  # rows of CALENDARS
    secrets: int = 0  # rows of SECRETS
    quotas: int = 0  # of the rows of QUEUES those that are of namespaces
    workers: int = 0  # open sessions of remote workers
    far_from: bytes = b""  # due times from this key of FAR on are stored in FAR, earlier ones in DUE; empty: all in DUE
    followers: int = 0  # jobs that follow others
    level: int = 0  # of the commands that all members know for good (core.levels); 0: of before it was kept
    zones: int = (
        0  # number of the time zone data that the leader computes with (core.subjects.zones); 0: it was not noted yet
    )


class LedTerm(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One row of TERMS: a leadership, kept under its term."""

    leader: str
    at_ms: int  # when its opening entry was made, by the leader's clock
    index: int  # of that entry


class Origin(msgspec.Struct, array_like=True):
    """The proposals of one process that were applied, see `origins`."""

    floor: int = 0
    above: bytes = b""  # little-endian bitmap; bit 0 is floor + 1
    used_at_ms: int = 0


# ---------------------------------------------------------------- commands


class Form(Command, frozen=True, tag=1):
    """The first entry of a cluster's life: its identity and its members. Refused when the cluster is formed."""

    cluster_id: bytes
    members: tuple[Member, ...]
    level: int = 0  # that the cluster begins with


class OpenLeadership(Command, frozen=True, tag=2):
    """The first entry of a leadership. What carries an older epoch is refused from here on."""

    epoch: int  # the term
    leader: str


class Barrier(Command, frozen=True, tag=3):
    """Changes nothing: who waits for it has read everything that was committed before."""


class RaiseLevel(Command, frozen=True, tag=171):
    """From here on commands and fields up to this level may be used, and no member of a version before it can go on.
    Refused when the level is not above the cluster's, and while the settings hold it."""

    level: int


class PutSettings(Command, frozen=True, tag=4):
    settings: Settings
    was: Settings | None = None  # refused unless they are these
    if_revision: int | None = None  # refused unless they are at this revision


class PauseCluster(Command, frozen=True, tag=7):
    """While paused nothing is fired and nothing assigned; what runs goes on."""

    paused: bool


class PutNodeRule(Command, frozen=True, tag=50):
    """Sets the rule for a member. None: as the node itself says."""

    node: str
    drained: bool = False
    slots: int | None = None
    labels: tuple[tuple[str, str], ...] | None = None
    was: NodeRule | None = None  # refused unless the rule is this one (none is one of defaults)
    if_revision: int | None = None  # refused unless the rule is at this revision (0: nothing is said)


class OpenSession(Command, frozen=True, tag=5):
    """A worker asks for the right to run. Refused unless `replaces` is the node's newest session (0: none yet), and
    unless that one is over or was opened under the same boot of the same machine."""

    node: str
    replaces: int
    boot_id: str
    nonce: bytes
    slots: int
    labels: tuple[tuple[str, str], ...] = ()
    handlers: tuple[str, ...] = ()
    http: str = ""
    version: str = ""
    limits_whole_runs: bool = False
    users: tuple[str, ...] = ()
    allowed: Allowed | None = None
    weight: int = 1  # as of a remote worker
    no_python: NoPython = ()


class OpenWorker(Command, frozen=True, tag=53):
    """A remote worker asks for the right to run. Refused unless `replaces` is its newest open session (0: none), and
    unless that was opened with the same `incarnation`: by showing it again the worker promises that nothing of that
    session runs any more. "": no promise. `opening` rises with each request of an incarnation: the promise of one that
    was overtaken by a later one (it was waiting in a node that stood still) is about a session before that one's."""

    worker: str  # its key, see core.rules.executors
    replaces: int
    nonce: bytes
    slots: int
    incarnation: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    handlers: tuple[str, ...] = ()
    version: str = ""
    users: tuple[str, ...] = ()
    allowed: Allowed | None = None
    queues: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    weight: int = 1
    opening: int = 0  # 0: it does not count them, and replaces no session


class BindSession(Command, frozen=True, tag=54):
    """The session of a remote worker is another token's from now on, whose owner `nonce` and `incarnation` are made of:
    the worker has shown both. Refused unless `bound` is the session's nonce. Nothing that runs is touched."""

    session: int
    bound: bytes
    nonce: bytes
    incarnation: str = ""


class EndSession(Command, frozen=True, tag=6):
    """The leader declares a session over; refused unless `epoch` is that of the newest opening entry."""

    session: int
    epoch: int


class CloseSession(Command, frozen=True, tag=33):
    """The worker itself ends its session, as its node stops: nothing of it runs any more, and nothing will. What it had
    is handed back: it is run elsewhere and does not count as lost."""

    session: int
    ran: tuple[int, ...]  # tokens of the attempts that were begun
