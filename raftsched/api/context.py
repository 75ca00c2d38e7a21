"""What the API is given of the node it runs on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from raftsched.api.auth.callers import proposing, reading_from, signed
from raftsched.api.auth.issuer import Issuer
from raftsched.api.auth.peer_proof import Seen
from raftsched.api.auth.rates import Rates
from raftsched.api.auth.refusals import Refusals
from raftsched.api.jobs.defaults import Space, read_space
from raftsched.clock import Clock
from raftsched.config.bounds import Bounds
from raftsched.core.access import Access, Oidc, Token
from raftsched.core.calendars import CALENDAR_NAME_MAX
from raftsched.core.cluster import Meta, Settings
from raftsched.core.commands import Answer
from raftsched.core.model import Attempt, Job, JobState
from raftsched.core.rows import META_KEY, decode_calendar, decode_instance, decode_meta
from raftsched.core.tables import ReadView, Table
from raftsched.errors import RaftschedError
from raftsched.security.keyring import Keyring

if TYPE_CHECKING:
    from pathlib import Path

    from raftsched.api.http.tls import PeerTrust
    from raftsched.raft import Change, JoinRequest, MemberStatus
    from raftsched.security.sealing import Sealer
    from raftsched.store import SnapshotMeta
    from raftsched.worker.output import OutputStore

SPACES_MAX = 1_000  # namespaces remembered
VISIBLE_WAIT_S = 1.0
CATCH_UP_S = 1.0  # before something is refused which may have been made elsewhere
SETTINGS_FRESH_S = 1.0  # how long the replicated settings are remembered; apply checks them again


Reply = Callable[[list[Answer] | None, RaftschedError | None], None]  # one of the two
Ask = Callable[[Sequence[bytes], float, Reply], None]


@dataclass(slots=True)
class AccessSeen:
    """What was read about access, as of this applied index."""

    index: int
    access: Access | None  # None: nothing was ever said
    tokens: dict[bytes, Token | None]  # by the hash of their secret
    oidc: Oidc  # whose tokens are taken beside these


@dataclass(frozen=True, slots=True)
class Peer:
    """Another member as this node sees it."""

    node_id: str
    connected: bool
    match_index: int | None = None  # known to the leader only
    clock_offset_ms: float | None = None
    http: str | None = None  # host:port of its API, when known


@dataclass(slots=True)
class ClusterStatus:
    """This node's view of the cluster."""

    node_id: str
    leader: str | None
    term: int
    role: str  # "leader", "follower", "candidate"
    commit_index: int
    applied_index: int
    formed: bool
    waits_for: str | None = None  # what a node without a leader waits for, and what its operator should do


@dataclass(slots=True)
class MembersPort:
    """The cluster's members, to be seen and changed; see raft.facade.Raft, whose methods these are. `change` and
    `transfer` raise NoLeader, UnknownOutcome and RaftschedError with codes of their own."""

    list: Callable[[], Sequence[MemberStatus]]
    join_requests: Callable[[], Sequence[JoinRequest]]
    change: Callable[[Change, str, bytes | None, float], Awaitable[None]]  # what, whom, its disk, timeout in seconds
    transfer: Callable[[str | None, float], Awaitable[str]]  # to whom, timeout in seconds; the new leader


@dataclass(slots=True)
class CopyPort:
    """`copy(file)` writes the state as of now, in any thread; it raises OSError. `directory` is where such files go;
    nothing in it outlives the process."""

    directory: Path
    copy: Callable[[Path], SnapshotMeta]


@dataclass(slots=True)
class ApiContext:
    """`propose(commands, timeout_s)` gives one answer per command, as applied on this node; it raises NoLeader,
    UnknownOutcome or Overloaded. `ask(commands, timeout_s, reply)` is the same for who has no task: what `propose`
    would raise at once it raises, all else is for `reply`, which may come before reads on this node show what was done
    (see `unapplied_ack_index`); None: by way of `propose`. After `barrier(timeout_s)` this
    node has applied all that was committed before; it raises NoLeader or Overloaded. `wait_applied(index, timeout_s)`
    is True as soon as this node has applied the index,
    False when the time is over."""

    node_id: str
    clock: Clock
    read: Callable[[], AbstractContextManager[ReadView]]
    propose: Callable[[Sequence[bytes], float], Awaitable[list[Answer]]]
    barrier: Callable[[float], Awaitable[None]]
    status: Callable[[], ClusterStatus]
    peers: Callable[[], Sequence[Peer]]  # the other members, as this node sees them
    members: MembersPort
    output: OutputStore
    copies: CopyPort
    rng: random.Random
    wait_applied: Callable[[int, float], Awaitable[bool]]
    heartbeat_ages: Callable[[], Mapping[str, int]] = dict  # ms since the newest, by node; on the leader
    troubles: Callable[[], Mapping[str, str]] = dict  # why nodes start nothing, by id: this one; on the leader all
    hosts: frozenset[str] = frozenset()  # names by which this node may be called, beside IP addresses and localhost
    version: str = ""
    propose_timeout_s: float = 10.0
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)  # /metrics shows what is registered here
    guarded: bool = False  # this node wants tokens whatever the cluster says: others than this machine reach it
    open: bool = False  # they do, and it was started to be open
    local_digest: bytes = b""  # of the secret that lies in the data directory; empty: there is none
    peer_trust: PeerTrust | None = None  # for calls to other nodes by TLS; None: as the system has it
    sealer: Sealer | None = None  # for the values of secrets; None: the cluster has no key
    keys: Keyring = field(default_factory=Keyring)  # of the cluster; empty: it has none
    peer_keys: Sequence[bytes] = ()  # see peer_proof.py; none: the cluster has no key
    peers_seen: Seen = field(default_factory=Seen)
    applied_index: Callable[[], int] | None = None  # None: as `status` has it
    # Index up to which callers have been answered, while reads do not show all of that yet; else 0.
    unapplied_ack_index: Callable[[], int] = lambda: 0
    position: Callable[[], tuple[str | None, int, int]] | None = None  # of `cluster_position`; None: as in `status`
    access_seen: AccessSeen | None = None
    issuer: Issuer = field(default_factory=Issuer)
    ask: Ask | None = None
    committed: Callable[[float], Awaitable[int | None]] | None = None  # see `catch_up_soon`; None: `applied` is all
    rates: Rates = field(init=False)  # how often somebody may ask
    strict_transport: bool = False  # browsers are told to come by TLS only
    bounds: Bounds = field(default_factory=Bounds)
    refusals: Refusals = field(default_factory=Refusals)
    _settings: Settings | None = None
    _settings_at: float = 0.0
    _propose: Callable[[Sequence[bytes], float], Awaitable[list[Answer]]] = field(init=False)

    def __post_init__(self) -> None:
        self._propose, self.propose = self.propose, self._signed
        self.rates = Rates(self.bounds.proxies)

    def propose_then(self, commands: Sequence[bytes], reply: Reply) -> None:
        """With who asked for them; `reply` comes from the event loop. Raises what `propose` would at once."""
        if self.ask is not None:
            told = signed(commands)
            proposing()
            self.ask(told, self.propose_timeout_s, reply)
        else:
            task = asyncio.ensure_future(self.propose(commands, self.propose_timeout_s))
            task.add_done_callback(partial(_tell, reply))

    async def wait_until_visible(self) -> None:
        """Waits until reads show what callers have been told, so that a caller finds the job whose creation was
        acknowledged. A second at most: a disk that hangs for longer shows an old state."""
        index = self.unapplied_ack_index()
        if index:
            await self.wait_applied(index, VISIBLE_WAIT_S)

    async def catch_up_soon(self) -> int | None:
        """Waits until this node has applied what the leader had committed when this was called, and returns the index.
        None: there is no leader, or it took too long. It costs the log nothing, and is no proof as the barrier is one
        (raft.committed)."""
        if self.committed is None:
            return self.applied()
        loop = asyncio.get_running_loop()
        until = loop.time() + CATCH_UP_S
        index = await self.committed(CATCH_UP_S)
        if index is None or not await self.wait_applied(index, max(0.0, until - loop.time())):
            return None
        return index

    def cluster_position(self) -> tuple[str | None, int, int]:
        """Returns the leader, its term, and the newest index of which callers of this node have been told. Only the
        answer to a write may give that index: reads may not show it yet."""
        if self.position is not None:
            return self.position()
        status = self.status()
        return status.leader, status.term, max(status.applied_index, self.unapplied_ack_index())

    def applied(self) -> int:
        """The newest index that reads here show, at the least."""
        return self.status().applied_index if self.applied_index is None else self.applied_index()

    def _signed(self, commands: Sequence[bytes], timeout_s: float) -> Awaitable[list[Answer]]:
        """With who asked for them."""
        told = signed(commands)
        proposing()
        return self._done(self._propose(told, timeout_s))

    async def _done(self, proposed: Awaitable[list[Answer]]) -> list[Answer]:
        answers = await proposed
        reading_from(self.applied())
        return answers

    _spaces: dict[str, Space] = field(default_factory=dict)
    _spaces_at: float = 0.0

    def now_ms(self) -> int:
        return self.clock.wall_ms()

    def meta(self) -> Meta:
        with self.read() as view:
            return meta(view)

    def calendar(self, name: str) -> bytes | None:
        """The content of a calendar."""
        key = name.encode()
        with self.read() as view:
            raw = view.get(Table.CALENDARS, key) if 0 < len(key) <= CALENDAR_NAME_MAX else None
        return None if raw is None else decode_calendar(raw).content

    def begun(self, job: Job) -> Attempt | None:
        """The attempt of a one-shot that is under way: its own row tells of it when it has ended."""
        if not job.active or not job.policy.trigger.once or job.last_instance is None:
            return None
        with self.read() as view:
            raw = view.get(Table.INSTANCES, job.last_instance)
        attempt = None if raw is None else decode_instance(raw).live
        return None if attempt is None or attempt.started_at_ms is None else attempt

    def settings(self) -> Settings:
        now = self.clock.monotonic()
        if self._settings is None or now - self._settings_at > SETTINGS_FRESH_S:
            with self.read() as view:
                self._settings = meta(view).settings
            self._settings_at = now
        return self._settings

    def forget_settings(self) -> None:
        """They were changed here."""
        self._settings = None

    def space(self, namespace: str) -> Space:
        """What is said about a namespace, as of a moment ago: apply refuses a job that was filled in from what is not
        so any more (resolving.py)."""
        now = self.clock.monotonic()
        if now - self._spaces_at > SETTINGS_FRESH_S or len(self._spaces) >= SPACES_MAX:
            self._spaces.clear()
            self._spaces_at = now
        space = self._spaces.get(namespace)
        if space is None:
            with self.read() as view:
                space = self._spaces[namespace] = read_space(view, namespace)
        return space

    def forget_spaces(self) -> None:
        """They were changed here, or elsewhere."""
        self._spaces.clear()


def _tell(reply: Reply, task: asyncio.Task[list[Answer]]) -> None:
    try:
        answers = task.result()
    except RaftschedError as error:
        reply(None, error)
    except BaseException:
        reply(None, RaftschedError("internal", "An error of this node; its log says more."))
        raise
    else:
        reply(answers, None)


def own_jobs(cluster: Meta) -> dict[JobState, int]:
    """How many jobs there are in each state, but for those that the cluster made for itself: one of each webhook."""
    counts = {state: cluster.jobs[state] for state in JobState}
    counts[JobState.SCHEDULED] -= cluster.webhooks
    return counts


def meta(view: ReadView) -> Meta:
    return decode_meta(view.get(Table.META, META_KEY))
