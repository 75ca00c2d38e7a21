"""The nodes of `raftsched dev` as child processes: started, watched, restarted, and never left behind.

Ctrl-C and SIGTERM end them in order (TERM, some time, KILL). If this process is itself killed, the kernel kills them
(PR_SET_PDEATHSIG); and whatever a node leaves behind is adopted here (PR_SET_CHILD_SUBREAPER), reaped, and at the end
killed too. All of this runs in the main thread: the parent-death signal follows the thread that forked.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from raftsched.cli.dev.state import DevState, Member, Process
from raftsched.cli.dev.tls import flags_of, make_certificates
from raftsched.errors import StartupError
from raftsched.security.keyring import KEY_FILE, own_key
from raftsched.system.clock import Clock

STOP_S = 10.0  # from TERM to KILL
LEFT_S = 2.0  # the same for what the nodes left behind, once they have ended
GRACE = "2s"  # for what runs
READY_S = 60.0
RESTART_S = 3.0  # first pause before a restart; doubled up to RESTART_MAX_S for a node that keeps ending
RESTART_MAX_S = 30.0
STEADY_S = 30.0  # a node that ran so long starts again with the first pause
_STEP_S = 0.2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)

# What is tried out runs as who tries it out: that, and root, has to be asked for.
AS_MYSELF = ("--run-as=root",) if os.geteuid() == 0 else ("--jobs-as-node",)


class Interrupted(Exception):
    """The user asked for the end."""


class _Node:
    def __init__(self, member: Member) -> None:
        self.member = member
        self.child: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        self.restart_at: float | None = None
        self.pause = RESTART_S


class DevCluster:
    """Use as a context manager; leaving it leaves no process."""

    def __init__(
        self,
        state: DevState,
        directory: Path,
        clock: Clock,
        say: Callable[[str], None],
        command: Sequence[str] = (sys.executable, "-m", "raftsched", "node"),
        *,
        umask: int = -1,
        flags: Sequence[str] = (),
    ) -> None:
        """`umask`: of the nodes; -1: that of this process. `flags`: of all nodes, beside their own."""
        self.state = state
        self.directory = directory
        self._clock = clock
        self._say = say
        self._command = list(command)
        self._umask = umask
        self._flags = tuple(flags)
        self._nodes = [_Node(member) for member in state.members]
        self._asked = 0
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._before: dict[signal.Signals, object] = {}
        self._old_wakeup = -1

    def __enter__(self) -> DevCluster:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._ask)
        self._old_wakeup = signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        signal.set_wakeup_fd(self._old_wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._wake_in.close()
        self._wake_out.close()

    def start(self) -> None:
        """StartupError: a port is taken, or the key of the cluster or its certificates cannot be kept."""
        check_ports(self.state)
        own_key(self.directory)
        if self.state.tls:
            make_certificates(self.directory, [m.id for m in self.state.members], self._clock.wall_ms())
        self.state.supervisor = Process.of(os.getpid())
        for node in self._nodes:
            self._spawn(node)
        self.state.save(self.directory)

    def wait_ready(self, ready: Callable[[Member], bool], progress: Callable[[int], None]) -> None:
        """Waits until every node is ready. StartupError: one ended, or READY_S passed. Interrupted."""
        deadline = self._clock.monotonic() + READY_S
        missing = list(self._nodes)
        while missing:
            self.pause(_STEP_S)
            for node in missing:
                if node.child is not None and node.child.poll() is not None:
                    raise StartupError(
                        f"{node.member.id} ended with {describe_end(node.child.returncode)} while starting;"
                        f" see {self.log(node.member)}{self._last_line(node.member)}"
                    )
            missing = [node for node in missing if not ready(node.member)]
            progress(len(self._nodes) - len(missing))
            if missing and self._clock.monotonic() > deadline:
                names = ", ".join(node.member.id for node in missing)
                raise StartupError(f"not ready after {READY_S:g} s: {names}; see {self.log(missing[0].member)}")

    def run(self, tick: Callable[[], None]) -> None:
        """Restarts nodes that end, and calls `tick` about once a second, until Interrupted."""
        next_tick = self._clock.monotonic()
        while True:
            self._watch()
            now = self._clock.monotonic()
            if now >= next_tick:
                next_tick = now + 1.0
                tick()
            self.pause(_STEP_S)

    def pause(self, seconds: float) -> None:
        """Raises Interrupted as soon as a signal asks for the end."""
        if not self._asked:
            select.select([self._wake_in], [], [], seconds)
            self._drain()
        if self._asked:
            raise Interrupted

    def log(self, member: Member) -> Path:
        return self.directory / f"{member.id}.log"

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1

    def _drain(self) -> None:
        try:
            while self._wake_in.recv(64):
                pass
        except BlockingIOError:
            pass

    def _spawn(self, node: _Node) -> None:
        member = node.member
        peers = ",".join(f"{m.id}=127.0.0.1:{m.raft_port}" for m in self.state.members)
        flags = [
            f"--id={member.id}",
            f"--data={self.directory / member.id}",
            f"--http=127.0.0.1:{member.http_port}",
            f"--raft=127.0.0.1:{member.raft_port}",
            f"--peers={peers}",
            f"--cluster-key-file={self.directory / KEY_FILE}",
            f"--grace={GRACE}",
            *(flags_of(self.directory, member.id) if member.tls else ()),
            "--http-allow=any",  # what is tried out here runs on this machine and its network
            *AS_MYSELF,
            *self._flags,
        ]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
        with self.log(member).open("ab") as log:
            node.child = subprocess.Popen(  # our own interpreter, a list of arguments  # nosec B603
                [*self._command, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                umask=self._umask,
                process_group=0,  # Ctrl-C is for this process, which then ends them in order
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 (there are no other threads)
            )
        node.started, node.restart_at = self._clock.monotonic(), None
        member.process = Process.of(node.child.pid)

    def _watch(self) -> None:
        now = self._clock.monotonic()
        for node in self._nodes:
            if node.restart_at is not None and now >= node.restart_at:
                self._spawn(node)
                self.state.save(self.directory)  # before it is said: who reads the news may look there
                self._say(f"{node.member.id} is started again")
            elif node.child is not None and node.child.poll() is not None:
                pause = RESTART_S if now - node.started >= STEADY_S else node.pause
                ended = describe_end(node.child.returncode)
                node.restart_at, node.pause = now + pause, min(2 * pause, RESTART_MAX_S)
                node.child, node.member.process = None, None
                self.state.save(self.directory)
                self._say(
                    f"{node.member.id} ended with {ended}; it is started again in"
                    f" {pause:g} s (log: {self.log(node.member)})"
                )
        self._reap_adopted()

    def _stop(self) -> None:
        children = [node.child for node in self._nodes if node.child is not None]
        for child in children:
            child.terminate()
        self._wait_for_all(children, STOP_S)
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
        # what they left behind: their own processes end with their pipes; what does not is killed here
        deadline = self._clock.monotonic() + (0.0 if self._asked > 1 else LEFT_S)
        while self._reap_adopted() and self._clock.monotonic() < deadline:
            select.select([], [], [], 0.05)
        while adopted := self._reap_adopted():
            for pid in adopted:
                os.kill(pid, signal.SIGKILL)  # a child of ours that is not reaped: the pid cannot be another's
            select.select([], [], [], 0.02)
        for node in self._nodes:
            node.child, node.member.process = None, None
        if self.state.supervisor is not None:
            self.state.supervisor = None
            self.state.save(self.directory)

    def _wait_for_all(self, children: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
        """A second Ctrl-C ends the waiting."""
        deadline, asked = self._clock.monotonic() + seconds, max(self._asked, 1)
        while any(child.poll() is None for child in children):
            if self._asked > asked or self._clock.monotonic() > deadline:
                return
            select.select([self._wake_in], [], [], 0.05)
            self._drain()

    def _reap_adopted(self) -> list[int]:
        """Living children that this process did not start; those that ended are reaped."""
        own = {node.child.pid for node in self._nodes if node.child is not None}
        living = []
        for pid in _children():
            if pid not in own:
                try:
                    ended, _ = os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue
                if not ended:
                    living.append(pid)
        return living

    def _last_line(self, member: Member) -> str:
        try:
            lines = self.log(member).read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1][:300]}" if lines else ""


def check_ports(state: DevState) -> None:
    """StartupError when one is taken by another process."""
    for member in state.members:
        for port in (member.http_port, member.raft_port):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    raise StartupError(
                        f"port {port} is taken; stop what listens there, or say --port P (needed are P.. for HTTP and"
                        " P+100.. for Raft, one of each for every node)"
                    ) from None


def describe_end(returncode: int) -> str:
    """Returns the end of a process in words; a negative code of `subprocess` is a signal."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def _die_with(parent: int) -> Callable[[], None]:
    """Lets the child die when the parent dies, also when it just did. Runs between fork and exec."""

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in text.split()]
