"""Control groups (version 2) for memory limits that hold for a whole run, where the node was given a subtree to itself.

A node that is alone in its cgroup, as under systemd with Delegate=yes or in a container, moves itself into `node` below
it, so that the kernel lets it hand controllers on, and makes `runs`. A run with a memory limit then gets a group of its
own there: over the limit it is killed whole, however many processes it made, and the kernel tells that it was. Without
a subtree the limits are those of limits.py alone. Rules: Linux, Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

_WANTED = ("memory", "pids")
SHARED_PROCESS = "limits.memory holds for each process of a run: the node's process is not its own to move"
_RUNS_WEIGHT = 50  # of all runs together for the processors, where the node has 100 (cgroup-v2.rst, cpu.weight)


class Unavailable(Exception):
    """There is no subtree for runs; the text says why, for the operator."""


def take(proc: str = "/proc/self") -> str:
    """Prepares the subtree, moves this process, and returns the directory for runs. Raises Unavailable.

    To be called before the process starts others: they would stay where they are."""
    own = _own(proc)
    controllers = _tell(own, "cgroup.controllers").split()
    missing = [name for name in _WANTED if name not in controllers]
    if missing:
        raise Unavailable(f"{own} has no controller for {' and '.join(missing)}")
    wanted = [name for name in controllers if name in (*_WANTED, "cpu")]
    others = set(_tell(own, "cgroup.procs").split()) - {str(os.getpid())}
    if others:
        raise Unavailable(f"{own} is shared with {len(others)} other processes; a subtree of its own is needed")
    try:
        node, runs = os.path.join(own, "node"), os.path.join(own, "runs")
        for directory in (node, runs):
            os.makedirs(directory, exist_ok=True)
        _write(node, "cgroup.procs", str(os.getpid()))
        for directory in (own, runs):
            _write(directory, "cgroup.subtree_control", " ".join(f"+{name}" for name in wanted))
        if "cpu" in wanted:
            _write(runs, "cpu.weight", str(_RUNS_WEIGHT))
    except OSError as exc:
        raise Unavailable(f"{own} was not delegated to this node: {exc.strerror}") from None
    return runs


def _own(proc: str) -> str:
    """Returns the place of this process: cgroups(7), /proc/self/cgroup, and proc(5), mountinfo."""
    place = next((line[3:] for line in _tell(proc, "cgroup").splitlines() if line.startswith("0::")), None)
    if place is None:
        raise Unavailable("this system has no cgroup version 2")
    for line in _tell(proc, "mountinfo").splitlines():
        about, _, kind = line.partition(" - ")
        fields = about.split()
        if kind.split()[:1] == ["cgroup2"] and len(fields) >= 5:
            root, mounted_at = fields[3], fields[4]
            if place == root or place.startswith(root.rstrip("/") + "/"):
                return os.path.join(mounted_at, place[len(root.rstrip("/")) :].lstrip("/")).rstrip("/")
    raise Unavailable("no cgroup version 2 is mounted")


def sweep(runs: str) -> None:
    """Ends and removes what a killed supervisor left."""
    with suppress(OSError):
        for name in os.listdir(runs):
            kill(os.path.join(runs, name))
            with suppress(OSError):
                os.rmdir(os.path.join(runs, name))


def of_run(runs: str | None, token: int) -> str | None:
    return None if runs is None else os.path.join(runs, f"{token:020d}")


def of_service(runs: str | None, keeper: int) -> str | None:
    """Returns the group of a process that serves runs one after the other, by the pid of its keeper."""
    return None if runs is None else os.path.join(runs, f"python-{keeper}")


def make(directory: str, memory: int | None, pids: int) -> None:
    """Makes the group of a run. `memory` in bytes; None: as much as there is. Raises OSError."""
    os.mkdir(directory)
    _write(directory, "pids.max", str(pids))
    if memory is not None:
        _write(directory, "memory.max", str(memory))
        _write(directory, "memory.oom.group", "1")  # the whole run, not one process in its middle
        with suppress(OSError):  # a kernel without swap accounting
            _write(directory, "memory.swap.max", "0")


def enter(directory: str, memory: int | None, pids: int) -> None:
    """The same, and puts this process there."""
    make(directory, memory, pids)
    _write(directory, "cgroup.procs", "0")


def kill(directory: str | None) -> None:
    """SIGKILL for everything there in one go, forks included; nothing happens when there is none."""
    if directory is not None:
        with suppress(OSError):
            _write(directory, "cgroup.kill", "1")


def leave(directory: str | None) -> bool:
    """Removes the group of a run of which nothing is left; True when it was killed for its memory."""
    if directory is None:
        return False
    killed = False
    with suppress(OSError):
        killed = re.search(r"^oom_kill (?!0$)", _read(directory, "memory.events"), re.MULTILINE) is not None
    with suppress(OSError):
        os.rmdir(directory)
    return killed


def _tell(directory: str, name: str) -> str:
    try:
        return _read(directory, name)
    except OSError as exc:
        raise Unavailable(f"{directory}/{name} cannot be read: {exc.strerror}") from None


def _read(directory: str, name: str) -> str:
    with open(os.path.join(directory, name)) as file:
        return file.read()


def _write(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "w") as file:
        file.write(text)


def take_or_say() -> tuple[str | None, str]:
    """Returns the group below which runs get groups of their own (None: they get none), and what that means for
    them."""
    try:
        runs = take()
    except Unavailable as why:
        return None, f"limits.memory holds for each process of a run, not for runs as a whole: {why}"
    return runs, f"limits.memory holds for runs as a whole, by control groups in {runs}"
