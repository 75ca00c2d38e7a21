"""The context of a handler: the node's parts, and what the API remembers between requests."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from raftsched.api.auth.callers import note_proposed, note_read_index, request_state, signed
from raftsched.api.auth.issuer import Issuer
from raftsched.api.auth.peer_proof import Seen
from raftsched.api.auth.rates import Rates
from raftsched.api.auth.refusals import Refusals
from raftsched.api.http.failures import failed
from raftsched.api.jobs.defaults import NamespaceDefaults, read_defaults
from raftsched.api.ports import ClusterPort, CopyPort, LogPort, Reply, Security
from raftsched.cluster_settings import Settings
from raftsched.config.bounds import Bounds
from raftsched.core.commands import Answer
from raftsched.core.model import Attempt, Job, JobState
from raftsched.core.rows import META_KEY, decode_calendar, decode_instance, decode_meta
from raftsched.core.subjects.access import Access, Oidc, Token
from raftsched.core.subjects.calendar import CALENDAR_NAME_MAX
from raftsched.core.subjects.cluster import Meta
from raftsched.core.tables import ReadView, Table
from raftsched.errors import RaftschedError
from raftsched.system.clock import Clock

if TYPE_CHECKING:
    from raftsched.output.following.copies import CopyStore
    from raftsched.output.keeping.store import OutputStore
    from raftsched.output.reading.stored import StoredOutputs
    from raftsched.remote.gateway import Gateway
    from raftsched.remote.outputs import Outputs
    from raftsched.tracing.requests import RequestTrace, RequestTraces

log = logging.getLogger(__name__)

NAMESPACES_SEEN_MAX = 1_000
CATCH_UP_S = 1.0  # before something is refused which may have been made elsewhere
# How long settings and the defaults of namespaces are remembered. Old ones do no harm for so long. What they let
# through is checked again by apply, in the order of the log: sizes of bodies and params and the longest timeout by the
# settings, and the revision of the defaults that a job was filled in from (lifecycle.py and manual.py of apply). What
# they refuse is refused a second longer than need be. Who changes them here sees that at once (`forget_settings`).
FRESH_S = 1.0


@dataclass(slots=True)
class AccessSeen:
    """Rows about access that were read, as of this applied index."""

    index: int
    access: Access | None  # None: it was never set
    tokens: dict[bytes, Token | None]  # by the hash of their secret
    oidc: Oidc  # the issuer whose tokens are accepted, too


@dataclass(slots=True)
class WarningsSeen:
    """Remembers for a moment what jobs are warned of, by what they need (`jobs.warnings`)."""

    at: float = float("-inf")  # of the monotonic clock
    nodes: list[Any] = field(default_factory=list)  # who could be given runs
    found: dict[Any, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class ApiContext:
    """The node that answers. What is proposed through it says who asked for it (`auth.callers`)."""

    node_id: str
    clock: Clock
    read: Callable[[], AbstractContextManager[ReadView]]
    log: LogPort
    cluster: ClusterPort
    output: OutputStore
    copies: CopyPort
    rng: random.Random
    security: Security = field(default_factory=Security)
    hosts: frozenset[str] = frozenset()  # names by which this node may be called, beside IP addresses and localhost
    version: str = ""
    bounds: Bounds = field(default_factory=Bounds)
    propose_timeout_s: float = 10.0
    received: Outputs | None = None  # what remote workers send to this node; None: it takes nothing
    copied: CopyStore | None = None  # other nodes' output; None: it takes none
    stored: StoredOutputs | None = None  # outputs in an object store; None: there is none
    output_keep_most_ms: int | None = None  # for how long this node keeps output at most; None: as the settings say
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)  # /metrics shows what is registered here
    traces: RequestTraces | None = None  # None: requests have none
    workers: Gateway = field(init=False)  # remote ones
    # Remembered between requests.
    rates: Rates = field(init=False)
    refusals: Refusals = field(default_factory=Refusals)
    issuer: Issuer = field(default_factory=Issuer)
    peers_seen: Seen = field(default_factory=Seen)
    access_seen: AccessSeen | None = None
    warnings_seen: WarningsSeen = field(default_factory=WarningsSeen)
    _settings: Settings | None = None
    _settings_at: float = 0.0
    _defaults: dict[str, NamespaceDefaults] = field(default_factory=dict)
    _defaults_at: float = 0.0

    def __post_init__(self) -> None:
        self.rates = Rates(self.bounds.proxies)

    def propose(self, commands: Sequence[bytes], timeout_s: float) -> Awaitable[list[Answer]]:
        """Returns one answer for each command, as applied on this node. Raises NoLeader, UnknownOutcome, Overloaded."""
        return self._answered(self.log.propose(self._signed(commands), timeout_s), len(commands))

    async def _answered(self, proposed: Awaitable[list[Answer]], commands: int) -> list[Answer]:
        trace = request_state().trace
        answers = await (proposed if trace is None else self._traced(trace, proposed, commands))
        note_read_index(self.applied())
        return answers

    async def _traced(self, trace: RequestTrace, proposed: Awaitable[list[Answer]], commands: int) -> list[Answer]:
        ended = trace.log_entry(commands, self.cluster_position)
        try:
            answers = await proposed
        except BaseException as error:
            ended(None, error if isinstance(error, RaftschedError) else RaftschedError("internal"))
            raise
        ended(answers, None)
        return answers

    def propose_then(self, commands: Sequence[bytes], reply: Reply) -> None:
        """Calls `reply` from the event loop, once. Raises at once what `propose` would raise at once. Who
        answers a request with it notes how far the answer reads (`note_read_index`)."""
        if self.log.propose_then is not None:
            signed, trace = self._signed(commands), request_state().trace
            if trace is None:
                self.log.propose_then(signed, self.propose_timeout_s, reply)
                return
            ended = trace.log_entry(len(commands), self.cluster_position)
            try:
                self.log.propose_then(signed, self.propose_timeout_s, _both(ended, reply))
            except RaftschedError as error:
                ended(None, error)
                raise
        else:
            task = asyncio.ensure_future(self.propose(commands, self.propose_timeout_s))
            task.add_done_callback(partial(_tell, reply))

    def _signed(self, commands: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the commands with who asked for them, and notes that they are on their way."""
        told = signed(commands)
        note_proposed()
        return told

    async def catch_up_soon(self) -> int | None:
        """Waits until this node has applied what the leader had committed when this was called, and returns the index.
        None: there is no leader, or it took too long. It costs the log nothing, and is no proof as the barrier is one
        (raft.committed)."""
        if self.log.committed is None:
            return self.applied()
        loop = asyncio.get_running_loop()
        until = loop.time() + CATCH_UP_S
        index = await self.log.committed(CATCH_UP_S)
        if index is None or not await self.log.wait_applied(index, max(0.0, until - loop.time())):
            return None
        return index

    def cluster_position(self) -> tuple[str | None, int, int]:
        """Returns the leader, its term, and the newest index that is applied here. Only the answer to a write may give
        that index: what a read shows may be older by the time of its answer."""
        if self.log.position is not None:
            return self.log.position()
        status = self.cluster.status()
        return status.leader, status.term, status.applied_index

    def applied(self) -> int:
        """Returns an index that reads here show at the least."""
        return self.cluster.status().applied_index if self.log.applied_index is None else self.log.applied_index()

    def now_ms(self) -> int:
        return self.clock.wall_ms()

    def meta(self) -> Meta:
        with self.read() as view:
            return meta(view)

    def calendar(self, name: str) -> bytes | None:
        """Returns the content of a calendar; None: there is none of this name."""
        key = name.encode()
        with self.read() as view:
            raw = view.get(Table.CALENDARS, key) if 0 < len(key) <= CALENDAR_NAME_MAX else None
        return None if raw is None else decode_calendar(raw).content

    def live_attempt(self, job: Job) -> Attempt | None:
        """Returns the attempt of a one-shot that is under way. The job's row has it only when it has ended."""
        if not job.active or not job.policy.trigger.once or job.last_instance is None:
            return None
        with self.read() as view:
            raw = view.get(Table.INSTANCES, job.last_instance)
        attempt = None if raw is None else decode_instance(raw).live
        return None if attempt is None or attempt.started_at_ms is None else attempt

    def settings(self) -> Settings:
        now = self.clock.monotonic()
        if self._settings is None or now - self._settings_at > FRESH_S:
            with self.read() as view:
                self._settings = meta(view).settings
            self._settings_at = now
        return self._settings

    def forget_settings(self) -> None:
        """Reads them again when they are asked for next: they were changed here."""
        self._settings = None

    def defaults_of(self, namespace: str) -> NamespaceDefaults:
        """Returns the defaults of a namespace as of a moment ago. Apply refuses a job that was filled in from defaults
        which have changed since (resolving.py)."""
        now = self.clock.monotonic()
        if now - self._defaults_at > FRESH_S or len(self._defaults) >= NAMESPACES_SEEN_MAX:
            self._defaults.clear()
            self._defaults_at = now
        defaults = self._defaults.get(namespace)
        if defaults is None:
            with self.read() as view:
                defaults = self._defaults[namespace] = read_defaults(view, namespace)
        return defaults

    def forget_defaults(self) -> None:
        """Reads them again when they are asked for next: they were changed, here or elsewhere."""
        self._defaults.clear()


def _both(first: Reply, then: Reply) -> Reply:
    def reply(answers: list[Answer] | None, error: RaftschedError | None) -> None:
        first(answers, error)
        then(answers, error)

    return reply


def _tell(reply: Reply, task: asyncio.Task[list[Answer]]) -> None:
    try:
        answers = task.result()
    except RaftschedError as error:
        reply(None, error)
    except Exception as error:
        reply(None, failed(log, {}, error, "a proposal failed"))
    except BaseException:
        reply(None, RaftschedError("internal", "This node stopped meanwhile."))
        raise
    else:
        reply(answers, None)


def own_jobs(cluster: Meta) -> dict[JobState, int]:
    """Returns the number of jobs in each state, without those that the cluster made for itself: one of each webhook."""
    counts = {state: cluster.jobs[state] for state in JobState}
    counts[JobState.SCHEDULED] -= cluster.webhooks
    return counts


def meta(view: ReadView) -> Meta:
    return decode_meta(view.get(Table.META, META_KEY))
