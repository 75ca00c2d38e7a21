"""The API on a real store, without Raft: what is proposed is applied at once, in one turn, by the caller's thread."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from raftsched.api.auth.peer_proof import PURPOSE
from raftsched.api.context import ApiContext
from raftsched.api.http.server import ApiServer
from raftsched.api.ports import ClusterPort, ClusterStatus, CopyPort, LogPort, MembersPort, Peer, Security
from raftsched.api.routes import ROUTES
from raftsched.config.bounds import Bounds
from raftsched.core.apply.cluster.audit_rows import RING_OF
from raftsched.core.commands import (
    Answer,
    Attributed,
    Command,
    Form,
    OpenLeadership,
    OpenSession,
    StepOperation,
    StoredResponse,
    decode,
    encode,
    unwrap,
)
from raftsched.core.entry import encode_configuration, encode_entry
from raftsched.core.levels import newest_level
from raftsched.core.rows import decode_operation
from raftsched.core.subjects.cluster import Member
from raftsched.core.subjects.keyed import Idempotent
from raftsched.core.subjects.leasing import DiskUse
from raftsched.core.tables import Table
from raftsched.errors import RaftschedError
from raftsched.output.following.copies import CopyStore
from raftsched.output.keeping.store import OutputStore
from raftsched.raft import Change, JoinRequest, MemberStatus
from raftsched.raft.membership.configuration import Members, added, removed
from raftsched.raft.proposals.barrier import Barriers
from raftsched.remote.gateway import Gateway
from raftsched.remote.outputs import Outputs
from raftsched.security.keyring import Keyring
from raftsched.security.sealing import Sealer
from raftsched.store.store import Store
from raftsched.store.write_batch import LogEntry
from raftsched.tracing.requests import RequestTraces
from raftsched.worker.ports import Applied
from tests.support.clock import ManualClock
from tests.support.documented import check
from tests.support.local_raft import LocalRaft
from tests.support.stores import commit


class LocalCluster:
    """Several nodes' APIs over one store: all see every write at once. `failure` is raised by the next proposals."""

    def __init__(self, directory: Path, nodes: Sequence[str] = ("n1",), level: int = newest_level()) -> None:
        self.store = Store.open(directory / "store", sync=False)
        self.directory = directory
        self.clock = ManualClock()
        self.rng = random.Random()
        self.nodes = list(nodes)
        self.keys = Keyring(b"of these tests, as many bytes as others have")
        self.leader: str | None = self.nodes[0]
        self.failure: RaftschedError | None = None
        self.before: Callable[[], None] | None = None  # called once, before the next proposal is applied
        self.carries_out = True  # operations on many jobs; else they stay where they are
        self.refused: Callable[[], None] = lambda: None  # called whenever `failure` was raised
        self.proposals = 0
        self.bounds = Bounds()
        self.traces: RequestTraces | None = None  # of requests to all nodes
        self.quiet = False  # who waits for an index waits until it is there, however long
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._seq = 0
        self._index = self.store.applied_index
        self.sessions: dict[str, int] = {}
        self.outputs: dict[str, OutputStore] = {}
        self.copied: dict[str, CopyStore] = {}  # of other nodes' output
        self.received: dict[str, Outputs] = {}  # what remote workers send
        self.subscribers: list[Callable[[Sequence[Applied]], None]] = []
        self.announced: dict[str, str] = {}  # where members say that they are, if the others have another address
        self.http: dict[str, str] = {}  # where the nodes' APIs are, as they announced it
        members = tuple(Member(n, f"127.0.0.1:{9000 + i}", n.encode()) for i, n in enumerate(self.nodes))
        self.members: Members = members
        self.join_requests: list[JoinRequest] = []
        self.changes: list[tuple[str, str, bytes | None]] = []
        self.waits_for: str | None = None
        self.heartbeat_ages: dict[str, int] = {}  # as the leader counts them, in ms
        self.away: set[str] = set()  # members that nobody is connected with
        self.troubles: dict[str, str] = {}  # as the leader knows them
        self.quiet_workers: dict[str, int] = {}  # as nodes have told the leader, in ms
        self.levels: dict[str, int] = {}
        self.disks: dict[str, DiskUse] = {}  # as nodes have told the leader
        self.apply(Form(b"\1" * 16, members, level))
        self.apply(OpenLeadership(1, self.nodes[0]))

    def apply(self, *commands: Command) -> list[Answer]:
        return self.apply_raw([encode(c) for c in commands])

    def apply_raw(self, commands: Sequence[bytes]) -> list[Answer]:
        self._seq += 1
        self._index += 1
        data = encode_entry(self.clock.wall, [(1, self._seq, list(commands))])
        entry = LogEntry(self._index, 1, data)
        applied = commit(self.store, entry, hard_state=(1, None))
        answers = applied[0].batches[0].answers
        assert answers is not None
        for on_applied in self.subscribers:
            on_applied(applied)
        for index, reached in self.waiting:
            if index <= self._index and not reached.done():
                reached.set_result(None)
        return answers

    async def propose(self, commands: Sequence[bytes], timeout_s: float) -> list[Answer]:
        self.proposals += 1
        if self.failure is not None:
            self.refused()
            raise self.failure
        if self.before is not None:
            before, self.before = self.before, None
            before()
        await asyncio.sleep(0)
        for raw in commands:
            judge_ring(raw)
        answers = self.apply_raw(commands)
        if self.carries_out:
            self.carry_out()
        return answers

    def carry_out(self) -> None:
        """What a leader does with operations on many jobs."""
        while True:
            with self.store.read() as view:
                row = next(iter(view.scan(Table.OPERATIONS_RUNNING)), None)
                if row is None:
                    return
                raw = view.get(Table.OPERATIONS, row[0])
            assert raw is not None
            operation = decode_operation(raw)
            self.apply(StepOperation(operation.id, operation.steps, 2_000, 3))

    async def wait_applied(self, index: int, timeout_s: float) -> bool:
        if self.store.applied_index >= index:
            return True
        if not self.quiet:
            return False  # at once: nothing comes by itself
        waiter = (index, asyncio.get_running_loop().create_future())
        self.waiting.append(waiter)
        try:
            await waiter[1]
        finally:
            self.waiting.remove(waiter)
        return True

    def status(self, node: str) -> ClusterStatus:
        index = self.store.applied_index
        return ClusterStatus(
            node_id=node,
            leader=self.leader,
            term=1,
            role="leader" if node == self.leader else "follower",
            commit_index=index,
            applied_index=index,
            formed=True,
            waits_for=self.waits_for,
            log_index=index,
            log_term=1,
        )

    def configure(self, members: Members) -> None:
        """A configuration entry, committed and applied."""
        self._index += 1
        entry = LogEntry(self._index, 1, encode_configuration(self.clock.wall, members))
        commit(self.store, entry)
        self.members = members

    async def change_members(self, change: Change, node: str, store_id: bytes | None, timeout_s: float) -> None:
        self.changes.append((change, node, store_id))
        if self.failure is not None:
            raise self.failure
        if change == "remove":
            self.configure(removed(self.members, node))
        else:
            request = next((k for k in self.join_requests if k.node == node), None)
            if request is None and any(m.node == node for m in self.members):
                return  # let in before
            if request is None:
                raise RaftschedError("not-waiting", f"No node {node!r} asks the leader to be let in.")
            self.join_requests.remove(request)
            self.configure(added(self.members, Member(node, request.raft, request.store_id)))

    async def transfer(self, to: str | None, timeout_s: float) -> str:
        if self.failure is not None:
            raise self.failure
        self.leader = to or next(m.node for m in self.members if m.voter and m.node != self.leader)
        return self.leader

    def open_session(self, node: str, http: str, users: tuple[str, ...] = ()) -> int:
        """The node may run jobs from now on."""
        (answer,) = self.apply(
            OpenSession(node, self.sessions.get(node, 0), "boot", b"nonce", 4, (), ("exec",), http, "1", users=users)
        )
        number: int | None = getattr(answer, "number", None)
        assert number is not None, answer
        self.sessions[node] = number
        return number

    def context(self, node: str) -> ApiContext:
        if node not in self.outputs:
            self.outputs[node] = OutputStore(self.directory / node / "output")
            self.copied[node] = CopyStore(self.directory / node / "output-copies", keep_bytes=1 << 30)
        self.received[node] = self._received(node)
        members = MembersPort(
            lambda: [
                MemberStatus(m.node, m.raft, m.store_id, m.voter, self.announced.get(m.node)) for m in self.members
            ],
            lambda: self.join_requests,
            self.change_members,
            self.transfer,
        )
        context = ApiContext(
            node_id=node,
            clock=self.clock,
            read=self.store.read,
            log=LogPort(self.propose, Barriers(self.propose).wait, self.wait_applied),
            cluster=ClusterPort(
                status=lambda: self.status(node),
                peers=lambda: [
                    Peer(m.node, m.node not in self.away, self.store.applied_index, 0.0, self.http.get(m.node))
                    for m in self.members
                    if m.node != node
                ],
                members=members,
                heartbeat_ages=lambda: self.heartbeat_ages if node == self.leader else {},
                troubles=lambda: self.troubles if node == self.leader else {},
                quiet_workers=lambda: self.quiet_workers if node == self.leader else {},
                levels=lambda: self.levels if node == self.leader else {},
                disks=lambda: {n: use for n, use in self.disks.items() if node in (n, self.leader)},
            ),
            security=Security(
                sealer=Sealer(self.keys) if self.keys else None,
                keys=self.keys,
                peer_keys=self.keys.derive_all(PURPOSE),
            ),
            output=self.outputs[node],
            copies=CopyPort(
                self.directory / node / "snapshots",
                self.store.publish,
                self.store.copy,
                self.store.log_entries,
                self.store.log_term,
            ),
            rng=self.rng,
            hosts=frozenset({"node.example"}),
            version="0",
            bounds=self.bounds,
            received=self.received[node],
            traces=self.traces,
            copied=self.copied[node],
        )
        context.workers = Gateway(
            node_id=node,
            raft=LocalRaft(self),
            read=self.store.read,
            clock=self.clock,
            sealer=context.security.sealer,
            outputs=self.received[node],
        )
        context.workers.start()
        return context

    def _received(self, node: str) -> Outputs:
        def tell(message: bytes) -> None:
            for other, received in self.received.items():
                if other != node:
                    received.on_elsewhere(node, message)

        return Outputs(node, self.outputs[node], self.store.read, self.clock, tell=tell)

    def close(self) -> None:
        for output in self.outputs.values():
            output.close()
        self.store.close()


_ROLES = {route.operation_id: route.operation.role for route in ROUTES}
_MANY = ("open", "worker", "viewer", "editor")  # roles of callers who must not push out what operators and admins did


def judge_ring(raw: bytes) -> None:
    """Raises AssertionError for a command that many may propose, and that is noted among what few may."""
    command = decode(raw)
    if isinstance(command, Attributed) and not command.work and _ROLES.get(command.operation) in _MANY:
        asked = unwrap(command)
        kind = type(decode(asked.command) if isinstance(asked, Idempotent) else asked)
        assert kind in RING_OF or kind is StoredResponse, f"{command.operation} proposes a {kind.__name__}"


class Client:
    """HTTP against one node; answers come as (status, JSON or text)."""

    def __init__(self, session: aiohttp.ClientSession, url: str, cluster: LocalCluster, context: ApiContext) -> None:
        self.session = session
        self.url = url
        self.context = context
        self.cluster = cluster
        self.headers: Any = {}
        self.checked = True  # that answers are as documented: not of rows that nobody could have written

    async def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """`body`: bytes go as they are, anything else as JSON. What is answered must be as it is documented."""
        if path == "/metrics":
            self.cluster.clock.forward(1_000)  # what was told a moment ago is told again
        given = {"Content-Type": "application/json"} if body is not None else {}
        given.update(headers or {})
        data: Any = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        if data is not None and len(data) > 1_000_000:
            data = io.BytesIO(data)  # aiohttp warns of large bytes
        async with self.session.request(
            method, self.url + path, data=data, headers=given, allow_redirects=False
        ) as answer:
            self.headers = answer.headers
            raw = await answer.read()
            value: Any = raw.decode(errors="replace")
            if raw and "json" in answer.headers.get("Content-Type", ""):
                value = msgspec.json.decode(raw)
            if self.checked:
                check(method, path, answer.status, answer.headers, value)
            return answer.status, value


@asynccontextmanager
async def serving(cluster: LocalCluster, node: str, *, guarded: bool = False) -> AsyncIterator[Client]:
    """The API of a node on a free port. `guarded`: as if others than this machine could reach it."""
    context = cluster.context(node)
    context.security.guarded = guarded
    server = await ApiServer.start(context, "127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=["Content-Type"]) as session:
            yield Client(session, f"http://127.0.0.1:{server.port}", cluster, context)
    finally:
        await server.stop()
        await cluster.received[node].stop()


@asynccontextmanager
async def one_node(
    directory: Path,
    bounds: Bounds = Bounds(),  # noqa: B008 immutable
    *,
    guarded: bool = False,
    level: int = newest_level(),
) -> AsyncIterator[Client]:
    """The API of a cluster of one node. `level`: of the cluster."""
    cluster = LocalCluster(directory, level=level)
    cluster.bounds = bounds
    try:
        async with serving(cluster, "n1", guarded=guarded) as client:
            yield client
    finally:
        cluster.close()


@asynccontextmanager
async def several_nodes(directory: Path, names: Sequence[str]) -> AsyncIterator[list[Client]]:
    """The APIs of nodes, each of which may run jobs."""
    cluster = LocalCluster(directory, names)
    try:
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(serving(cluster, name)) for name in names]
            for name, node in zip(names, nodes, strict=True):
                cluster.open_session(name, node.url.removeprefix("http://"))
            yield nodes
    finally:
        cluster.close()


def run(
    directory: Path,
    test: Callable[[Client], Awaitable[None]],
    bounds: Bounds = Bounds(),  # noqa: B008 immutable
    **how: Any,
) -> None:
    """One test against one node. A test that is a coroutine takes the fixture `call` instead."""

    async def main() -> None:
        async with one_node(directory, bounds, **how) as client:
            await test(client)

    asyncio.run(main())
