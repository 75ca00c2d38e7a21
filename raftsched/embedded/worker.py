"""Runs a remote worker in an asyncio program: raftsched.Worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from raftsched.client.servers import parse_servers
from raftsched.client.trust import Trust
from raftsched.config.worker import SETTINGS, build_worker
from raftsched.embedded.functions import Functions, import_path
from raftsched.embedded.stopping import to_its_end

if TYPE_CHECKING:
    from raftsched.remote.process import RemoteWorker

_F = TypeVar("_F", bound=Callable[..., Any])


class Worker:
    """Runs jobs for a cluster that this program is no node of.

    worker = raftsched.Worker(servers=["http://10.0.0.1:7401"], name="mail-1", queues=["mail"], token=TOKEN)

    @worker.handler("send-invoice")
    def send_invoice(number: int) -> dict[str, str]: ...

    async with worker:
        ...

    Entering starts it, and does not wait for the cluster; leaving gives what runs the time that the setting `grace`
    says (10s), and hands back the rest. Nothing that it ran is left then."""

    def __init__(
        self,
        *,
        servers: str | Sequence[str],
        name: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        insecure: bool = False,
        **settings: Any,
    ) -> None:
        """The settings of `raftsched worker`, by the names they have in its file: slots, weight, labels (a mapping),
        queues, namespaces, data, grace, executors, ... `name` is that of this machine when it is not given. Neither the
        environment nor a file is looked at, but for the place of `data` when that is not given. As of raftsched.Node,
        shell, exec and python need `run_as`, or `jobs_as_node=True`.

        Raises ConfigError (a ValueError) for what cannot be, TypeError for an unknown setting. Nothing is opened."""
        unknown = settings.keys() - set(SETTINGS)
        if unknown:
            raise TypeError(f"Worker: {', '.join(sorted(unknown))} is no setting; known are {', '.join(SETTINGS)}")
        said = {key: value for key, value in {"name": name, **settings}.items() if value is not None}
        nodes = parse_servers(servers if isinstance(servers, str) else ",".join(servers))
        trust = Trust(ca_file, client_cert, client_key, insecure)
        config = build_worker(said, os.environ, servers=tuple(nodes), token=token, trust=trust)
        self._config = replace(config, data=config.data.absolute())  # the program may go elsewhere
        self._functions = Functions()
        self._remote: RemoteWorker | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def running(self) -> bool:
        return self._remote is not None and self._stopping is None

    @property
    def session(self) -> int:
        """The number of the session under which it works; 0 while it has none."""
        return self._remote.session if self.running and self._remote is not None else 0

    def handler(self, name: str, *, in_process: bool = False) -> Callable[[_F], _F]:
        """Gives jobs a function to call by name, {"call": name}, as raftsched.Node.handler does: in a supervised
        process beside this one, or, with `in_process`, as a coroutine of this program, for which "never two at once"
        is not promised. To be said before the worker is started. ValueError, RuntimeError."""
        if self._remote is not None:
            raise RuntimeError(f"handler {name!r}: worker {self.name} runs already, and has said which handlers it has")
        return self._functions.register(name, in_process=in_process)

    async def start(self) -> None:
        """Returns when it can run jobs, as soon as a node gives it some. Raises StartupError; nothing is left running
        then."""
        if self._remote is not None:
            raise RuntimeError(f"worker {self.name} is started already")
        from raftsched.remote.process import RemoteWorker

        config = replace(self._config, pythonpath=(*self._config.pythonpath, *import_path()))
        remote = RemoteWorker(config, calls=self._functions.calls(), inside=self._functions.inside)
        self._remote = remote
        try:
            await remote.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Takes nothing new, gives what runs its grace, ends the rest and hands it back. Returns when nothing of it is
        left, also when it is cancelled meanwhile. Nothing to do when it is not running."""
        if self._remote is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._shut(self._remote), name=f"stop of {self.name}")
        await to_its_end(self._stopping)

    async def _shut(self, remote: RemoteWorker) -> None:
        try:
            await remote.stop()
        finally:
            self._remote = self._stopping = None

    def hurry(self) -> None:
        """Gives runs no more time to end; for a `stop` that is under way."""
        if self._remote is not None:
            self._remote.hurry()

    async def run(self) -> None:
        """Starts it, and works until the task that runs this is cancelled."""
        async with self:
            await asyncio.Event().wait()

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
