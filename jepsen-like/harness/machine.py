"""What this machine can do, and why not where it cannot; and the namespaces that a run as root lives in."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.end_with import end_with
from harness.processes import children, send

INSIDE = "RAFTSCHED_HARNESS_INSIDE"  # set in the environment once the namespaces are there
SHIM = Path(__file__).parent / "nemesis" / "unsynced.c"
CLOCK = SHIM.with_name("wallclock.c")
ATTACH_S = 5.0


@dataclass(frozen=True)
class Machine:
    """Each field is a path or True when it can be done; else a text in `missing` says what is not there."""

    namespaces: bool
    clock: str | None  # compiled: a wall clock that can be set wrong
    shim: str | None  # compiled: keeps what was written and not synced
    strace: str | None
    missing: dict[str, str]

    def lacks(self, *wanted: str) -> str | None:
        """Why something cannot be done here; None: it can."""
        return next((self.missing[name] for name in wanted if name in self.missing), None)


def look(directory: Path) -> Machine:
    """Tries each thing; what is compiled lies in `directory`."""
    missing: dict[str, str] = {}

    def found(name: str, value: str | None, why: str) -> str | None:
        if value is None:
            missing[name] = why
        return value

    namespaces = os.environ.get(INSIDE) == "1"
    if not namespaces:
        missing["namespaces"] = "not run as root, or with --network loopback"
    clock = found("clock", _compiled(CLOCK, directory), "no C compiler (cc) that builds its shim")
    shim = found("shim", _compiled(SHIM, directory), "no C compiler (cc) that builds its shim")
    strace = found("strace", _strace(), "strace is not installed, or may not trace here")
    return Machine(namespaces, clock, shim, strace, missing)


def _compiled(source: Path, directory: Path) -> str | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    out = directory / f"{source.stem}.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-Wall", "-o", str(out), str(source), "-ldl"]
    return str(out) if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


def _strace() -> str | None:
    found = shutil.which("strace")
    if found is None:
        return None
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        tracer = subprocess.Popen([found, "-f", "-qq", "-o", os.devnull, "-p", str(cat.pid)], stderr=subprocess.DEVNULL)
        end = time.monotonic() + ATTACH_S
        while not (attached := traced(cat.pid)) and tracer.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        cat.kill()
        tracer.terminate()
        tracer.wait()
    return found if attached else None


def traced(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as status:
            return any(line.startswith("TracerPid:") and int(line.split()[1]) for line in status)
    except OSError:
        return False


def can_have_namespaces() -> str | None:
    """Why not; None: a run may have namespaces of its own."""
    if os.geteuid() != 0:
        return "not run as root"
    for tool in ("unshare", "nsenter", "ip", "mount"):
        if shutil.which(tool) is None:
            return f"there is no {tool} command"
    script = "ip link add hub type bridge && ip link add va type veth peer name vb && mount -t tmpfs none /mnt"
    tried = subprocess.run([*_UNSHARE, "sh", "-ec", script], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["unshare fails"])[-1]


_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


def enter(argv: list[str]) -> NoReturn:
    """Starts this program again in namespaces of its own, and ends with its exit code: no process, mount or address
    that it makes outlives it."""
    os.environ[INSIDE] = "1"
    harness, outer = os.getpid(), os.fork()
    if outer == 0:
        end_with(harness)
        os.execvp(_UNSHARE[0], [*_UNSHARE, sys.executable, *argv])

    def pass_on(number: int, frame: Any) -> None:  # unshare itself is deaf to it
        send(signal.Signals(number), children(outer))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(outer, 0)[1]))


def settle() -> None:
    """Inside: the names of network namespaces are kept out of the machine's own list."""
    Path("/run/netns").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True)


def scratch(parent: str | None) -> Path:
    return Path(tempfile.mkdtemp(prefix="raftsched-faults-", dir=parent))
