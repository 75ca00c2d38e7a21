"""A runner with its real supervisor, and jobs that do what they can to survive."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec.structs import asdict, replace

from raftsched.config.runs import UNSAID
from raftsched.core.model import Outcome
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.output.keeping.store import OutputStore
from raftsched.system.clock import SystemClock
from raftsched.worker import native
from raftsched.worker.processes.lease import LOOK_MS
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.runner import RunEnd, Runner, RunSpec
from raftsched.worker.processes.tree import REAP_MS
from raftsched.worker.processes.wire import Exec, Python, Task
from tests.support.patience import until, within

LONG_MS = 600_000
AS_IT_IS = replace(
    Options(**asdict(UNSAID)), nice=0, confine=native.path("confine")
)  # what tests measure is not to give way
FUNCTIONS = Path(__file__).parent / "functions"  # what python runs find, if nothing else is said
MARK = "RAFTSCHED_TEST_BED"
# What a node may have in its environment that is nobody else's.
NODES_OWN = {
    "RAFTSCHED_CLUSTER_KEY_FILE": "/etc/raftsched/cluster.key",
    "RAFTSCHED_SERVER": "http://127.0.0.1:7401",
    "RAFTSCHED_ID": "n1",
    "CLUSTER_SECRET": "hidden",
    "AWS_SECRET_ACCESS_KEY": "hidden",
    "NOTIFY_SOCKET": "/run/systemd/notify",
    "INVOCATION_ID": "cafe",
    "LISTEN_FDS": "3",
    "PYTHONSTARTUP": "/root/start.py",
    "LD_PRELOAD": "",
    "https_proxy": "http://user:password@proxy.example:3128",
}

# Tells its pid, as soon as it is as hard to kill as it will be. argv[1] is a FIFO.
_TELL = """
import os, signal, sys
def tell():
    fd = os.open(sys.argv[1], os.O_WRONLY)
    os.write(fd, b"%d\\n" % os.getpid())
    os.close(fd)
def stay():
    tell()
    while True:
        signal.pause()
"""

STAYS = _TELL + "stay()"

STUBBORN = (
    _TELL
    + """
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
stay()
"""
)

# Handles TERM. The signal is blocked and waited for: one that comes between a check and a wait is not missed.
CLEANS_UP = (
    _TELL
    + """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
tell()
signal.sigwait({signal.SIGTERM})
print("cleaned up")
"""
)

# The main process, a child of its own session, and an orphan that closed every descriptor: three pids.
SCATTERED = (
    _TELL
    + """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        stay()
    stay()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 256)
        stay()
    os._exit(0)
stay()
"""
)

# Ends at once when the two it leaves behind have told their pids (argv[2] is a FIFO the test answers on).
LEAVES_BEHIND = (
    _TELL
    + """
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stay()
open(sys.argv[2]).read()
print("done")
sys.exit(int(sys.argv[3]))
"""
)

# Somebody else all the time, each in a session of its own, until killed or 20 s are over. C, because that is faster
# than anybody can list processes. argv[1]: a FIFO, which it holds open and tells that it is on its way.
COMET_C = r"""
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int held = open(argv[1], O_WRONLY);
    struct timespec end, now;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 20;
    if (fork()) for (;;) pause();
    if (write(held, "*", 1) != 1) return 1;
    do {
        setsid();
        if (fork()) _exit(0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec);
    return 0;
}
"""


class Bed:
    """`async with Bed(path) as bed`: a started runner under session 1, with a long lease."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        meeting: Path = options.pop("meeting", path)  # where runs of other users have a way to
        self.clock = SystemClock()
        self.mark = uuid.uuid4().hex
        self.output = OutputStore(
            path / "output",
            max_attempt_bytes=options.pop("max_attempt_bytes", 1 << 20),
            share_of=options.pop("share_of", lambda _: None),
        )
        places = (str(place.absolute()) for place in options.pop("pythonpath", (FUNCTIONS,)))
        options = {**options, "pythonpath": tuple(places)}
        self.runner = Runner(path, self.output, self.clock, options=replace(AS_IT_IS, **options))
        self.runner.on_ended = self._on_ended
        self.runner.on_started = lambda token, at_ms: self.started.append(token)
        self.ends: dict[int, RunEnd] = {}
        self.order: list[int] = []
        self.started: list[int] = []
        self._waiting: dict[int, asyncio.Future[RunEnd]] = {}
        self._token = 0
        self._fifo = meeting / "pids"
        os.mkfifo(self._fifo)
        self._fifo.chmod(0o622)
        self._fifo_fd = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK)
        self._told = b""

    async def __aenter__(self) -> Bed:
        await within(self.runner.start())
        self.lease()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await within(self.runner.stop())
        self.output.close()
        os.close(self._fifo_fd)
        left = self.marked()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"left running: {left}"

    def lease(self, ms: int = LONG_MS, session: int = 1) -> None:
        self.runner.set_lease(session, self.clock.boot_ms() + ms)

    def end_lease(self) -> None:
        """It is over soon, and all who watch it have looked before. What was to begin under it has begun by now,
        however long that took."""
        self.lease(KILL_BEFORE_MS + max(LOOK_MS, REAP_MS) + 50)

    async def lost(self, token: int) -> None:
        """Until the run has ended with its lease. On a busy machine the sentinel may be awake before those who are to
        end it and to tell; then it ends the supervisor, and nobody tells."""
        await until(lambda: token in self.ends or not self.runner.alive)
        assert token not in self.ends or self.ends[token].outcome is Outcome.LOST

    def python_script(self, script: str, *args: str) -> Exec:
        argv = (sys.executable, "-S", "-c", script, str(self._fifo), *args)
        return Exec(argv, {MARK: self.mark})

    def launch(
        self,
        task: Task,
        *,
        timeout_ms: int = LONG_MS,
        grace_ms: int = 5_000,
        stop_ms: int | None = None,
        session: int = 1,
        namespace: str = "",
        user: str = "",
        output_max: int = 0,
    ) -> int:
        self._token += 1
        token = self._token
        self._waiting[token] = asyncio.get_running_loop().create_future()
        if isinstance(task, Exec | Python):
            task.env[MARK] = self.mark
        spec = RunSpec(
            token=token,
            session=session,
            task=task,
            timeout_ms=timeout_ms,
            grace_ms=grace_ms,
            stop_ms=stop_ms,
            namespace=namespace,
            user=user,
            output_max=output_max,
        )
        self.runner.launch(spec)
        return token

    async def end(self, token: int) -> RunEnd:
        return await within(asyncio.shield(self._waiting[token]))

    async def run(self, task: Task, **options: Any) -> RunEnd:
        return await self.end(self.launch(task, **options))

    def text(self, end: RunEnd, stream: str | None = None) -> str:
        return self.output.read(end.output, stream).decode() if end.output is not None else ""

    async def pids(self, count: int) -> list[int]:
        """The next `count` pids that jobs tell."""
        while self._told.count(b"\n") < count:
            await within(readable(self._fifo_fd))
            self._told += os.read(self._fifo_fd, 4096)
        *lines, rest = self._told.split(b"\n")
        self._told = b"\n".join([*lines[count:], rest])
        return [int(line) for line in lines[:count]]

    def marked(self) -> list[int]:
        """Processes that carry this bed's mark in their environment: jobs, wherever they went."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    environ = Path(f"/proc/{name}/environ").read_bytes()
                except OSError:
                    continue
                if f"{MARK}={self.mark}".encode() in environ:
                    found.append(int(name))
        return found

    def _on_ended(self, token: int, end: RunEnd) -> None:
        assert token not in self.ends, f"token {token} ended twice"
        self.ends[token] = end
        self.order.append(token)
        self._waiting[token].set_result(end)


async def readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def on_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, on_ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def children(pid: int | None) -> list[int]:
    """Returns those that are more than an entry that nobody has waited for."""
    assert pid is not None
    with suppress(OSError):
        found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return [child for child in found if state(child) not in ("Z", "")]
    return []


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


async def death(*pids: int) -> None:
    """Until each of these is dead."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            await within(readable(fd))
        finally:
            os.close(fd)
