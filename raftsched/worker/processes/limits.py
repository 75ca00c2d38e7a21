"""Resource limits of a run: set in the process that becomes it, named again when it fails for them.

They are those of setrlimit(2), so they hold for each process of the run and are inherited by its children. Memory is
RLIMIT_DATA, what a process may have of private writable memory: runtimes that only reserve address space are not
refused for it. Where cgroup.py has a subtree, the memory of a run is also limited as a whole. A limit is never above
what the node itself may have.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator

import msgspec

from raftsched.worker.processes import cgroup
from raftsched.worker.processes.wire import Limits

OOM_SCORE = 500  # of a run: without memory the kernel takes it rather than its keeper, its node or a neighbour
CPU_GRACE_S = 5  # from SIGXCPU, which a program may catch to end well, to SIGKILL
_NO_MEMORY = ("memoryerror", "cannot allocate memory", "bad_alloc", "out of memory", "outofmemory", "memory exhausted")
_NO_FILES = (os.strerror(errno.EMFILE).lower(), "emfile")


def capped(limits: Limits | None, memory_max: int | None) -> Limits | None:
    """Returns them with no more memory than the node gives a run."""
    if memory_max is None:
        return limits
    limits = limits or Limits()
    if limits.memory is not None and limits.memory <= memory_max:
        return limits
    return msgspec.structs.replace(limits, memory=memory_max)


def enter_group(group: str | None, memory: int | None, pids: int, *, own_user: bool) -> None:
    """Puts this process into a control group of this name, with so much memory (bytes) and so many processes. Where it
    cannot have one, the processes of its user are counted together, unless that is the node's own."""
    if group is not None:
        try:
            cgroup.enter(group, memory, pids)
        except OSError as exc:
            note_no_group(2, memory, exc)
        else:
            return
    if not own_user:
        _set(resource.RLIMIT_NPROC, pids, pids)


def note_no_group(stderr: int, memory: int | None, why: OSError) -> None:
    """Says in the run's own output that a memory limit does not hold for it as a whole."""
    if memory is not None:
        note = f"raftsched: limits.memory holds for each process only: no cgroup for the run ({why.strerror})\n"
        os.write(stderr, note.encode())


def resource_limits(limits: Limits, used_cpu_s: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yields (resource, soft, hard) as setrlimit(2) has them. `used_cpu_s`: CPU time that the process has used for
    others."""
    if limits.memory is not None:
        yield resource.RLIMIT_DATA, limits.memory, limits.memory
    if limits.cpu_s is not None:
        soft_s = used_cpu_s + limits.cpu_s
        yield resource.RLIMIT_CPU, soft_s, soft_s + CPU_GRACE_S
    if limits.open_files is not None:
        yield resource.RLIMIT_NOFILE, limits.open_files, limits.open_files


def confine(limits: Limits, used_cpu_s: int = 0) -> None:
    """Sets them for this process, which cannot raise them again."""
    for number, soft, hard in resource_limits(limits, used_cpu_s):
        _set(number, soft, hard)


def _set(number: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(number)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(number, (soft, hard))


def blamed(
    limits: Limits | None,
    exit_code: int | None,
    said: str,
    used_cpu_s: float = 0.0,
    killed_for_memory: bool = False,
    memory_max: int | None = None,
) -> str | None:
    """Returns which limit a failed run met, in words; None: none that can be seen. `said` is the end of what it
    printed.

    CPU time is certain, and so is what the kernel killed for its memory. A refused allocation or descriptor is known to
    the program alone, so there its own words count, and the answer says "probably". `memory_max`: what the node gives a
    run."""
    own = limits.memory if limits is not None else None
    if killed_for_memory and memory_max is not None and (own is None or memory_max < own):
        return f"it used more memory than this node gives a run, {_size(memory_max)}"
    if limits is None:
        return None
    if killed_for_memory and limits.memory is not None:
        return f"it used more memory than limits.memory, {_size(limits.memory)}"
    if limits.cpu_s is not None:
        stopped = exit_code == 128 + signal.SIGXCPU
        if stopped or (exit_code == 128 + signal.SIGKILL and used_cpu_s >= limits.cpu_s):
            return f"it used more CPU time than limits.cpu, {limits.cpu_s} s"
    words = said.lower()
    if limits.memory is not None and any(word in words for word in _NO_MEMORY):
        return f"probably for limits.memory, {_size(limits.memory)}"
    if limits.open_files is not None and any(word in words for word in _NO_FILES):
        return f"probably for limits.open_files, {limits.open_files}"
    return None


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size % 2**20 == 0 else f"{size:,} bytes"
