"""A process that is there for one node or one remote worker: its signals, SIGHUP, systemd, and its exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from raftsched.config.node import NodeConfig
from raftsched.config.worker import WorkerConfig
from raftsched.embedded.logs import configure, write_as
from raftsched.embedded.reload import Reload, Source, hear, hear_no_more
from raftsched.embedded.systemd import Systemd
from raftsched.errors import RaftschedError, StartupError
from raftsched.system import background, descriptors

Config = TypeVar("Config", bound=NodeConfig | WorkerConfig)
Taken_contra = TypeVar("Taken_contra", bound=NodeConfig | WorkerConfig, contravariant=True)


class Served(Protocol[Taken_contra]):
    """A node or a remote worker, as its process needs it."""

    def hurry(self) -> None: ...

    def take(self, config: Taken_contra, /) -> None: ...

    async def read_files_again(self) -> int: ...


class Service(Generic[Config]):
    """`async with` one for as long as the process is there: until SIGTERM or SIGINT (`asked`), of which a second one
    ends what runs at once. SIGHUP has it read its files and its configuration again. `exit_code`: at the end; an error
    of ours is said on stderr and to systemd, and goes no further."""

    def __init__(self, config: Config, name: str, source: Source | None) -> None:
        """`name`: in its log. `source`: where the configuration is from, for SIGHUP; None: it stays as it is."""
        self.exit_code = 0
        self._config = config
        self._name = name
        self._source = source
        self._handler = configure(config.log_format, name)
        self._systemd = Systemd.of(os.environ)
        descriptors.raise_limit()

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> int:
        """Runs the process, by uvloop where it is installed, and returns the exit code."""
        try:
            try:
                import uvloop
            except ImportError:
                asyncio.run(main())
            else:
                uvloop.run(main())
            return self.exit_code
        finally:
            hear_no_more()

    def of(self, served: Served[Config], taken: frozenset[str]) -> Service[Config]:
        """`taken`: the settings that it takes while it runs."""
        self._served, self._taken = served, taken
        return self

    async def __aenter__(self) -> Service[Config]:
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(background.on_unhandled)

        def on_signal() -> None:
            if asked.is_set():
                self._served.hurry()
            asked.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        files = self._served.read_files_again
        self._reload = Reload(self._source, self._taken, self._take, files, self._systemd)
        hear(self._reload.ask)
        self.asked = asyncio.create_task(asked.wait())
        self._systemd.status("starts")
        return self

    def _take(self, new: Config, names: tuple[str, ...]) -> None:
        self._config = new
        if "log_format" in names and self._handler is not None:
            write_as(self._handler, new.log_format, self._name)
        self._served.take(new)

    async def started(self, start: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Starts what is served. Returns the task that does so where it was asked to stop before; None: it serves."""
        starting = asyncio.create_task(start)
        await asyncio.wait([starting, self.asked], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            self._systemd.stopping(0)
            return starting
        starting.result()
        return None

    def ready(self, standing: Callable[[], str]) -> None:
        """Says that it serves, also where nobody else answers: they may be yet to start. `standing`: how it stands."""
        self._systemd.ready(standing)
        self._reload.start()

    def stopping(self) -> None:
        self._systemd.stopping(self._config.grace_ms / 1000)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, RaftschedError):
            self._systemd.status(error.detail)
            print(f"raftsched: {error.detail}", file=sys.stderr)
            self.exit_code = int(error.exit) if isinstance(error, StartupError) else 1
        self.asked.cancel()
        await self._reload.stop()
        self._systemd.close()
        return isinstance(error, RaftschedError)
