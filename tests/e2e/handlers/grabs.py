"""What a job tries that would be more than it may: each step for itself, and what came of it.

Also a program: `grabs.py PORT NODE PID ...` prints the same as JSON. Nothing is imported that the processes of a node
have not got already: its installation may lie where only its own user has a way to.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

OF_A_PROCESS = ("environ", "mem", "maps", "auxv", "syscall", "stack")
LINKS = ("root", "cwd", "exe")
_READ = 1 << 16
_PTRACE_ATTACH, _PTRACE_SEIZE = 16, 0x4206
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438  # the same on all architectures
_libc = ctypes.CDLL(None, use_errno=True)


def tries(node: int, pids: list[int], raft_port: int = 0) -> dict[str, Any]:
    """`node`: its pid; `pids`: of it and of the processes between it and its runs.

    {"got": {step: what}, "refused": [step, ...], "uid": ..., "data": ...}"""
    data, key_file = told_by(node)
    keepers = [pid for pid in ancestors(node) if pid not in pids]
    got: dict[str, str] = {}
    refused: list[str] = []
    for name, step in steps(data, key_file, [*pids, *keepers], raft_port):
        try:
            got[name] = str(step())[:2_000]
        except OSError as exc:
            refused.append(f"{name}: {exc.strerror or exc}")
    return {"got": got, "refused": refused, "uid": os.getuid(), "data": data, "keepers": keepers}


def told_by(node: int) -> tuple[str, str]:
    """Its data directory and the file with its cluster key, which its command line names to anybody."""
    with open(f"/proc/{node}/cmdline", "rb") as file:
        words = file.read().decode().split("\0")
    return words[words.index("--data") + 1], words[words.index("--cluster-key-file") + 1]


def ancestors(node: int) -> list[int]:
    """Of this process, as far as they are below the node."""
    found: list[int] = []
    pid = os.getppid()
    while pid not in (0, 1, node):
        found.append(pid)
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    return found


def steps(data: str, key_file: str, pids: list[int], raft_port: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    for path in (
        f"{data}/local.token",
        f"{data}/cluster.key",
        key_file,
        f"{data}/store/log/data.mdb",
        f"{data}/store/tables-1/data.mdb",
        f"{data}/node.lock",
    ):
        yield f"read {path}", lambda path=path: read(path)
    for path in (data, f"{data}/store", f"{data}/output", f"{data}/output/live", f"{data}/logs"):
        yield f"list {path}", lambda path=path: os.listdir(path)
        yield f"write into {path}", lambda path=path: write(f"{path}/planted")
    yield "move the data directory", lambda: os.rename(data, data + ".taken")
    yield "open the data directory to all", lambda: os.chmod(data, 0o777)
    yield "put a link there", lambda: os.symlink("/tmp", f"{data}/planted")
    yield "become root", lambda: os.setuid(0)
    yield "become another", lambda: os.setresuid(1, 1, 1)
    yield "join a group", lambda: os.setgroups([0])
    yield "more privileges", more_privileges
    for pid in pids:
        for name in OF_A_PROCESS:
            yield f"read {name} of {pid}", lambda pid=pid, name=name: read(f"/proc/{pid}/{name}")
        for name in LINKS:
            yield f"follow {name} of {pid}", lambda pid=pid, name=name: os.readlink(f"/proc/{pid}/{name}")
        yield f"data by the root of {pid}", lambda pid=pid: read(f"/proc/{pid}/root{data}/local.token")
        yield f"descriptors of {pid}", lambda pid=pid: os.listdir(f"/proc/{pid}/fd")
        for fd in range(3, 12):
            yield f"descriptor {fd} of {pid}", lambda pid=pid, fd=fd: read(f"/proc/{pid}/fd/{fd}")
        yield f"memory of {pid}", lambda pid=pid: read_memory(pid)
        yield f"take a descriptor of {pid}", lambda pid=pid: take_descriptor(pid)
        yield f"attach to {pid}", lambda pid=pid: trace(_PTRACE_ATTACH, pid)
        yield f"seize {pid}", lambda pid=pid: trace(_PTRACE_SEIZE, pid)
        yield f"limit {pid}", lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, 8))
        yield f"slow {pid} down", lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, 19)
        yield f"bind {pid} to a processor", lambda pid=pid: os.sched_setaffinity(pid, {0})
        yield f"have {pid} killed first", lambda pid=pid: write(f"/proc/{pid}/oom_score_adj", "1000")
    yield "a socket that was inherited", inherited_socket
    if raft_port:
        yield "the Raft port", lambda: greet(raft_port)
    for number in (19, 15, 9):
        for pid in pids:
            yield f"signal {number} to {pid}", lambda pid=pid, number=number: os.kill(pid, number)


def read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, _READ)
    finally:
        os.close(fd)


def write(path: str, text: str = "planted") -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o666)
    try:
        return os.write(fd, text.encode())
    finally:
        os.close(fd)


def _called(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
    return result


def trace(request: int, pid: int) -> int:
    return _called(_libc.ptrace(request, pid, None, None), "ptrace")


def read_memory(pid: int) -> bytes:
    """process_vm_readv(2), from where a program's own image usually begins."""

    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))

    room = ctypes.create_string_buffer(64)
    here, there = Part(ctypes.addressof(room), 64), Part(0x400000, 64)
    _called(_libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0), "process_vm_readv")
    return room.raw


def take_descriptor(pid: int) -> int:
    fd = _called(_libc.syscall(_PIDFD_OPEN, pid, 0), "pidfd_open")
    try:
        return _called(_libc.syscall(_PIDFD_GETFD, fd, 3, 0), "pidfd_getfd")
    finally:
        os.close(fd)


def more_privileges() -> str:
    """Fails where a program with the set-user-ID bit gets no more rights."""
    with open("/proc/self/status") as file:
        status = file.read()
    if "NoNewPrivs:\t1" in status and "CapPrm:\t0000000000000000" in status:
        raise PermissionError(1, "there are none, and none can be had")
    return status


def inherited_socket() -> list[str]:
    """Of a process of its own; one that stays has the socket by which it is told what to run."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.append(name)
        except OSError:  # that of the list
            pass
    if not found:
        raise FileNotFoundError(2, "there is none")
    return found


def greet(port: int) -> bytes:
    """What somebody without the key is told of the cluster, by the port of Raft."""
    with socket.socket() as connection:
        connection.settimeout(5)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"\0\0\0\x08\x93\x01\x02\x03\0\0\0\0")
        said = connection.recv(_READ)
    if not said:
        raise PermissionError(1, "hung up")
    return said


def babble(others: list[int]) -> str:
    """Says that runs have ended which are others', on whatever socket there is."""
    told = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                for token in others:
                    os.write(int(name), b"\0" + b"\x93\xa4done" + token.to_bytes(8, "little"))
                    told += 1
        except OSError:
            pass
    return f"told {told}"


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    print(json.dumps(tries(numbers[1], numbers[1:], numbers[0])))
