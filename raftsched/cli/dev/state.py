"""Keeps `DIR/dev.json` for `raftsched dev`: which processes run, for status, kill-leader and stop, and which nodes a
command asks that was given no servers.

A pid alone says nothing, for pids are reused: a process is a pid together with its start time (field 22 of
/proc/PID/stat, see proc(5)), and it is signalled through a pidfd, so that it cannot be mistaken for another one.
"""

from __future__ import annotations

import json
import os
import select
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path

from raftsched.security.files import write_private
from raftsched.system.regular_files import read_regular

CA_FILE = "tls/ca.pem"  # in the directory of the cluster
DEFAULT_DIR = Path(".raftsched/dev")


@dataclass(frozen=True)
class Process:
    pid: int
    start: int  # clock ticks after boot

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process with this pid now; None when there is none, or only a zombie."""
        found = _stat(pid)
        return None if found is None or found[0] in ("Z", "X") else cls(pid, found[1])

    def alive(self) -> bool:
        return Process.of(self.pid) == self

    def send(self, number: signal.Signals) -> bool:
        """Signals the process. Returns False where it is gone, and nothing was signalled."""
        fd = self._open()
        if fd is None:
            return False
        try:
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True

    def wait(self, timeout_s: float) -> bool:
        """Returns True when the process has ended after at most this many seconds."""
        fd = self._open()
        if fd is None:
            return True
        try:
            return bool(select.select([fd], [], [], timeout_s)[0])
        finally:
            os.close(fd)

    def _open(self) -> int | None:
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.alive():  # checked after opening: from here on the descriptor means this process
            return fd
        os.close(fd)
        return None


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()  # the name before it may hold anything
    return fields[0].decode(), int(fields[19])


@dataclass
class Member:
    id: str
    http_port: int
    raft_port: int
    process: Process | None = None
    tls: bool = False

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.http_port}"


@dataclass
class DevState:
    port: int
    members: list[Member] = field(default_factory=list)
    supervisor: Process | None = None

    @classmethod
    def new(cls, nodes: int, port: int, *, tls: bool = False) -> DevState:
        members = [Member(f"n{i + 1}", port + i, port + 100 + i, tls=tls) for i in range(nodes)]
        return cls(port, members)

    @property
    def tls(self) -> bool:
        return any(member.tls for member in self.members)

    def ca_file(self, directory: Path) -> Path | None:
        """The authority of the nodes' certificates; None: they speak plain HTTP."""
        return (directory / CA_FILE).absolute() if self.tls else None

    @classmethod
    def load(cls, directory: Path) -> DevState | None:
        """None: there is none. ValueError: the file is not what save() writes."""
        try:
            raw = json.loads(read_regular(directory / "dev.json"))
            members = [Member(**{**m, "process": _process(m["process"])}) for m in raw["members"]]
            return cls(raw["port"], members, _process(raw["supervisor"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise ValueError(
                f"{directory / 'dev.json'} cannot be read ({e}); remove it if no cluster runs there"
            ) from None

    def runs(self) -> bool:
        """Returns True while anything of it is alive; otherwise the file only tells of a cluster that was."""
        return any(p is not None and p.alive() for p in (self.supervisor, *(m.process for m in self.members)))

    def save(self, directory: Path) -> None:
        """Writes the file in one step: a reader sees the old one or the new one."""
        write_private(directory / "dev.json", (json.dumps(asdict(self), indent=2) + "\n").encode())


def _process(raw: dict[str, int] | None) -> Process | None:
    return None if raw is None else Process(int(raw["pid"]), int(raw["start"]))
