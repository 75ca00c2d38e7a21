"""Defines the cluster itself: its members, the sessions of its workers, what operators say of it, its counters. Their
rows, and the commands that change them.
"""

from __future__ import annotations

import msgspec

from raftsched.cluster_settings import Settings
from raftsched.core.model import JobState
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
    due_boundary: bytes = b""  # a key of DUE_LATER: due times before it are in DUE, the others there; empty: all in DUE
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
    """Pauses the cluster, or ends the pause: nothing is fired and nothing assigned in it; what runs goes on."""

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
