"""Runs a member of a cluster in an asyncio program: raftsched.Node."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from raftsched.client import running_nodes
from raftsched.config.addresses import Address, parse_peers
from raftsched.config.node import SETTINGS, NodeConfig, build
from raftsched.embedded.functions import Functions, import_path
from raftsched.embedded.stopping import to_its_end
from raftsched.errors import Exit, RaftschedError, StartupError
from raftsched.system import background

if TYPE_CHECKING:
    from raftsched.client.aio import AsyncClient
    from raftsched.client.instances import DeadLetters, Instances
    from raftsched.client.jobs import Jobs
    from raftsched.node import Node as Member
    from raftsched.node import Sockets

log = logging.getLogger("raftsched.node")

_F = TypeVar("_F", bound=Callable[..., Any])

READY_S = 60.0
LOOK_S = 0.02  # between two looks whether the node is ready
CLOSE_S = 5.0  # for what was asked through `client` and is not answered when the node stops


class NodeFailed(RaftschedError):
    """The node stopped by itself, because it could not go on safely: a disk that fails, a damaged log, a bug. Started
    anew it is safe."""

    def __init__(self, detail: str) -> None:
        super().__init__("internal", detail)


class Node:
    """A member of a cluster, in this process and event loop.

    async with raftsched.Node(id="n1", data="data/n1", peers=PEERS, handlers=["shop.tasks"]) as node:
        await node.jobs.create(trigger={"in": "5m"}, handler={"call": "remind"}, params={"order": 7})

    Entering starts it, and does not wait for the others: `ready` does. Leaving stops it; nothing that it ran is left
    then. After that it may be started again. Several nodes may live in one process, each with a data directory and
    addresses of its own."""

    def __init__(
        self,
        *,
        id: str,
        data: str | Path,
        peers: str | Mapping[str, str] | None = None,
        http: str = "127.0.0.1:7401",
        raft: str | None = None,
        jobs: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """The settings of `raftsched node`, by the names they have in its file: those above, and slots, labels (a
        mapping), pythonpath, cluster_key_file, join, advertise_http, ... `raft` is what `peers` says of this node when
        it is not given; a node without peers takes a free port then, another one at each start. `jobs`: modules whose
        declared jobs (@raftsched.job) are made once there is a leader; `ready` waits for that. Neither the environment
        nor a file is looked at. Jobs may use this program's handlers (`call`) and http; shell, exec and python need
        `run_as`, or `jobs_as_node=True`, for they run as this program's user.

        Raises ConfigError (a ValueError) for what cannot be, TypeError for an unknown setting. Nothing is opened."""
        unknown = settings.keys() - set(SETTINGS)
        if unknown:
            raise TypeError(f"Node: {', '.join(sorted(unknown))} is no setting; known are {', '.join(SETTINGS)}")
        mine = raft or parse_peers(peers or {}).get(id)
        where = {} if mine is None else {"raft": str(mine)}
        config = build({"id": id, "data": str(data), "http": http, "peers": peers or {}, **where, **settings})
        modules = (jobs,) if isinstance(jobs, str) else tuple(jobs)
        self._begin(replace(config, data=config.data.absolute()), modules=modules)  # the program may go elsewhere
        self._alone = mine is None and not peers and "advertise_raft" not in settings

    @classmethod
    def of(cls, config: NodeConfig, *, own_process: bool = False) -> Node:
        """Makes a node with settings that were read and checked already. `own_process`: the process is there for this
        node alone, which may then put it into a control group; handlers are looked for where the settings say, and
        nowhere else."""
        node = cls.__new__(cls)
        node._begin(config, own_process)
        return node

    def _begin(self, config: NodeConfig, own_process: bool = False, modules: tuple[str, ...] = ()) -> None:
        self._config = config
        self._own_process = own_process
        self._member: Member | None = None
        self._started = False
        self._client: AsyncClient | None = None  # made when it is needed
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._failed: str | None = None
        self._functions = Functions()
        self._alone = False  # nobody has to find its Raft port
        self._modules = modules  # whose declared jobs are made
        self._declaring: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ handlers

    def handler(self, name: str, *, in_process: bool = False) -> Callable[[_F], _F]:
        """Gives jobs a function to call by name, {"call": name}, on this node (and on others that have one of that
        name), and leaves it as it is. To be said before the node is started.

        @node.handler("send-invoice")
        def send_invoice(number: int) -> dict[str, str]: ...

        The function is run as every job is, by a supervised process beside this one, with the params as keyword
        arguments and none of this program's objects; it may be a coroutine function. That process imports it by module
        and name. So no handler can be: a lambda, a function made inside of another, a method of an object, and what is
        in the program's main script (importing that would start the program again). What can be imported here can be
        imported there.

        With `in_process` it is a coroutine function of any kind that runs in this event loop, among the program's
        objects. Then "never two at once" is not promised for it: it is cancelled at its timeout, when it is killed and
        half a second before the node's lease ends, but whether it ends then is up to it; what blocks the loop blocks
        the node. What it prints is not kept, and a job's cwd and limits are refused.

        ValueError for a bad name, one that is taken, or a function that cannot be one; RuntimeError when the node runs.
        Raised by `start`: StartupError when something else has the function's name in its module by then."""
        if self._member is not None:
            raise RuntimeError(f"handler {name!r}: node {self.id} runs already, and has said which handlers it has")
        return self._functions.register(name, in_process=in_process)

    # ------------------------------------------------------------ start and stop

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if self._failed is not None and error is None:
            raise NodeFailed(self._failed)

    async def start(self, *, sockets: Sockets | None = None, election_timeout_ms: int | None = None) -> None:
        """Returns when the node listens and can run jobs, as soon as there is a cluster to give it some. `sockets` are
        bound to its addresses already; the node closes them. `election_timeout_ms`: see raftsched.node.Node. Raises
        StartupError; nothing is left running then."""
        if self._member is not None:
            raise RuntimeError(f"node {self.id} is started already")
        from raftsched.node import Node as Member

        self._failed = None
        config = self._config
        if not self._own_process:
            config = replace(config, pythonpath=(*config.pythonpath, *import_path()))
        calls = self._functions.calls()
        if self._alone and sockets is None:
            # Nothing may fail from here on until the member has the socket, and closes it.
            config, sockets = _with_free_port(config)
        member = self._member = Member(
            config,
            own_process=self._own_process,
            sockets=sockets,
            election_timeout_ms=election_timeout_ms,
            calls=calls,
            inside=self._functions.inside,
        )
        starting = self._starting = asyncio.create_task(member.start(), name=f"start of {self.id}")
        ended = asyncio.create_task(member.ended.wait())
        try:
            await asyncio.wait([starting, ended], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done() and member.failed is not None:
                raise member.failed
            await starting
        except BaseException as error:
            await self.stop()
            stopped = isinstance(error, asyncio.CancelledError) and not _cancelled()
            if stopped or error is member.failed or isinstance(error, OSError | StartupError):
                code = error.exit if isinstance(error, StartupError) else Exit.ERROR
                raise StartupError(_why(error, self._config), code) from error
            raise
        finally:
            ended.cancel()
        self._started = True
        self._watching = background.start("other", self._watch(member))
        running_nodes.note(self)
        if self._modules:
            self._declaring = asyncio.create_task(self._declare(), name=f"jobs of {self.id}")
            self._declaring.add_done_callback(_say_failure)

    async def stop(self) -> None:
        """Takes nothing new, gives what runs here the time that the setting `grace` says (10s) to come to an end, and
        ends the rest and hands it back to the cluster. Returns when nothing of it is left, also when it is cancelled
        meanwhile. Nothing to do when it is not running."""
        if self._member is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._shut(self._member), name=f"stop of {self.id}")
        await to_its_end(self._stopping)

    async def read_files_again(self) -> int:
        """Reads certificates, keys and other files again, as the node does by itself when they change, and says in the
        log what is new. Returns how many are. Nothing to do when it is not running."""
        return 0 if self._member is None else await self._member.read_files_again()

    def take(self, config: NodeConfig) -> None:
        """Takes from another configuration what can be taken while it runs (config.differences), and nothing else."""
        if self._member is not None:
            self._member.take(config)

    def hurry(self) -> None:
        """Gives runs no more time to end; for a `stop` that is under way."""
        if self._member is not None:
            self._member.hurry()

    async def wait(self) -> None:
        """Waits until the node has stopped. Raises NodeFailed when it did so by itself."""
        while self._watching is not None:
            await asyncio.wait([self._watching])
            if self._stopping is not None:
                await asyncio.wait([self._stopping])
        if self._failed is not None:
            raise NodeFailed(self._failed)

    async def _declare(self) -> None:
        """Makes the jobs that modules declare, once there is a leader. The modules are the program's own, and imported
        here, as it would do."""
        from raftsched.client.declared import specs_of

        specs = await asyncio.to_thread(specs_of, self._modules)
        lacking = {spec["handler"]["call"] for spec in specs} - self._functions.names()
        if lacking and not self._config.handlers:
            log.warning(
                "jobs of %s do not run on this node: it has no handler %s; give it handlers=[...], if no other has",
                ", ".join(self._modules),
                ", ".join(sorted(lacking)),
            )
        await self._led()
        for spec in specs:
            await self.jobs.put(f"{spec.get('namespace', 'default')}/{spec['name']}", spec)
        log.info("%d jobs that %s declare are made", len(specs), ", ".join(self._modules))

    async def _led(self) -> None:
        """Waits until the cluster is formed and has a leader."""
        while True:
            status = self._of_running().status()
            if status.formed and status.leader is not None:
                return
            await asyncio.sleep(LOOK_S)

    async def _shut(self, member: Member) -> None:
        running_nodes.forget(self)
        for task in (self._starting, self._watching, self._declaring):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        if self._client is not None:
            await _close(self._client)
        try:
            await member.stop()
        finally:
            self._started = False
            self._member = self._client = self._starting = self._watching = self._stopping = self._declaring = None

    async def _watch(self, member: Member) -> None:
        """Stops a node that must not go on. The program learns it from its next call."""
        await member.ended.wait()
        from raftsched.node import describe

        assert member.failed is not None
        self._failed = describe(member.failed, self._config)
        if not self._own_process:  # else it is what the process ends with
            log.error("%s", self._failed)
        self._stopping = asyncio.create_task(self._shut(member), name=f"stop of {self.id}")

    # ------------------------------------------------------------ what it is

    @property
    def id(self) -> str:
        return self._config.id

    @property
    def url(self) -> str:
        """The URL of this node's API, for other programs."""
        config = self._config
        return f"{'http' if config.tls_cert is None else 'https'}://{config.advertise_http}"

    @property
    def running(self) -> bool:
        return self._started and self._stopping is None

    @property
    def leader(self) -> str | None:
        """The id of the leader as this node sees it; None when there is none, or this node does not run."""
        return self._member.status().leader if self.running and self._member is not None else None

    @property
    def standing(self) -> str:
        """Returns a line on how the node stands: its part in the cluster, or what it waits for."""
        status = self._of_running().status()
        if not status.formed or status.leader is None:
            return f"waits: {status.waits_for or 'There is no leader.'}"
        return f"{'leads' if status.leader == self.id else f'follows {status.leader}'}, term {status.term}"

    async def ready(self, timeout: float | None = READY_S) -> None:
        """Waits until jobs can be created here: the cluster is formed and has a leader. `timeout` in seconds (None:
        waits as long as it takes); TimeoutError says what the node waits for. NodeFailed when it stops by itself
        meanwhile. With `jobs` they are made then: raises what kept them from it."""
        waits_for = "The node is starting."
        try:
            async with asyncio.timeout(timeout):
                while True:
                    status = self._of_running().status()
                    if status.formed and status.leader is not None:
                        break
                    waits_for = status.waits_for or "There is no leader."
                    await asyncio.sleep(LOOK_S)
                if self._declaring is not None:
                    waits_for = f"The jobs of {', '.join(self._modules)} are being made."
                    await asyncio.shield(self._declaring)
        except TimeoutError:
            raise TimeoutError(f"node {self.id} is not ready after {timeout:g} s: {waits_for}") from None

    def _of_running(self) -> Member:
        if self._member is None or not self.running:
            if self._failed is not None:
                raise NodeFailed(self._failed)
            raise RuntimeError(f'node {self.id} is not running; start it, or use "async with"')
        return self._member

    # ------------------------------------------------------------ what can be asked of it

    @property
    def client(self) -> AsyncClient:
        """A client of this node's own API, without a socket in between; all of raftsched.AsyncClient. A node that does
        not lead passes writes on to the one that does. Raises NodeFailed, or RuntimeError when it does not run."""
        member = self._of_running()
        if self._client is None:
            self._client = self._speak_to(member)
        return self._client

    @property
    def jobs(self) -> Jobs:
        return self.client.jobs

    @property
    def instances(self) -> Instances:
        return self.client.instances

    @property
    def dead_letters(self) -> DeadLetters:
        return self.client.dead_letters

    def _speak_to(self, member: Member) -> AsyncClient:
        from raftsched.client.aio import AsyncClient
        from raftsched.client.transport import CONNECTIONS_MAX
        from raftsched.embedded.memory import Connector

        # The address only fills the Host header: every connection leads to this node.
        return AsyncClient(
            f"http://localhost:{self._config.advertise_http.port}",
            discover=False,
            token=member.local_token.secret,  # it is this program that asks
            connector=lambda: Connector(member.accept, limit=CONNECTIONS_MAX),
        )


def _with_free_port(config: NodeConfig) -> tuple[NodeConfig, Sockets]:
    """Returns the configuration of a node without peers at a Raft port that nobody else has, and the socket. The
    cluster notes the address anew at each start."""
    from raftsched.node import Sockets

    own = socket.socket()
    own.bind(("127.0.0.1", 0))
    raft = Address(*own.getsockname())
    return replace(config, raft=raft, advertise_raft=raft, peers={config.id: raft}), Sockets(None, own)


def _say_failure(declaring: asyncio.Task[None]) -> None:
    """Logs why declared jobs were not made: not every program waits for the node to be ready."""
    if not declaring.cancelled() and (error := declaring.exception()) is not None:
        log.error("declared jobs were not made: %s", error)


def _why(error: BaseException, config: NodeConfig) -> str:
    if isinstance(error, asyncio.CancelledError):
        return f"node {config.id} was stopped while it started."
    from raftsched.node import describe

    return describe(error, config)


def _cancelled() -> bool:
    """Returns True when the current task is to end, and not only what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _close(client: AsyncClient) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    except TimeoutError:
        await client.transport.close()
