"""Servers that peers need, each on a free port of the loopback with fresh data in a directory that is thrown away.

All of them write through to the disk before they acknowledge, as raftsched does. Each process is started in a session
of its own, so that Ctrl-C reaches it through `end` alone, and what it started ends with it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.support.cluster import free_ports

READY_S = 60.0
STOP_S = 15.0
CONNECTIONS = 300  # PostgreSQL: more than any load opens


@contextmanager
def process(
    command: Sequence[str | Path],
    log: Path,
    *,
    ready: Callable[[], bool],
    stop: signal.Signals = signal.SIGTERM,
    environment: dict[str, str] | None = None,
    user: str | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs it until the end of the block. RuntimeError with the end of its log when it does not get ready."""
    with log.open("ab") as out:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log.parent, start_new_session=True,
            env={**os.environ, **(environment or {})}, user=user, group=user and pwd.getpwnam(user).pw_gid,
            extra_groups=[] if user else None,
        )  # fmt: skip
    try:
        wait(Path(command[0]).name, ready, {log: started})
        yield started
    finally:
        end(started, stop)


def wait(name: str, ready: Callable[[], bool], started: Mapping[Path, subprocess.Popen[bytes]]) -> None:
    """Until it is ready. RuntimeError with the end of a log when that takes too long, or a process has ended."""
    deadline = time.monotonic() + READY_S
    while not ready():
        ended = [log for log, process in started.items() if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not get ready:\n{tail((ended or list(started))[0])}")
        time.sleep(0.05)


def end(started: subprocess.Popen[bytes], by: signal.Signals = signal.SIGTERM) -> None:
    """The process is asked to end, and killed with all of its session when it does not."""
    if started.poll() is None:
        started.send_signal(by)
        with suppress(subprocess.TimeoutExpired):
            started.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


# ---------------------------------------------------------------- Redis


@contextmanager
def redis(directory: Path) -> Iterator[int]:
    """Its port. Each write is in the append-only file, and that on disk, before it is answered; no snapshots."""
    (port,) = free_ports(1)
    directory.mkdir()
    command = [
        *("redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", ""),
        *("--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"),
    ]
    with process(command, directory / "log", ready=lambda: listens(port)):
        yield port


# ---------------------------------------------------------------- PostgreSQL


def postgres_programs() -> Path | None:
    """The directory of initdb and postgres: distributions keep them off the PATH."""
    found = shutil.which("postgres")
    places = [Path(found).resolve()] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return places[-1].parent if places else None


def postgres_user() -> str | None:
    """PostgreSQL does not run as root: then as the user that its package makes. None: as who this is."""
    return "postgres" if os.geteuid() == 0 else None


def postgres_missing() -> str | None:
    """Why it cannot be started."""
    if postgres_programs() is None:
        return "PostgreSQL: apt-get install postgresql"
    with suppress(KeyError):
        if (user := postgres_user()) is not None:
            pwd.getpwnam(user)
        return None
    return "PostgreSQL does not run as root, and there is no user postgres: adduser --system postgres"


@contextmanager
def postgres(directory: Path) -> Iterator[int]:
    """Its port; user and database are called bench. fsync and synchronous_commit are on, as by default."""
    programs, user = postgres_programs(), postgres_user()
    assert programs is not None
    (port,) = free_ports(1)
    directory.mkdir()
    if user is not None:
        shutil.chown(directory, user)
    data, log = directory / "data", directory / "log"
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
        cwd=directory, user=user, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise RuntimeError(f"initdb: {made.stderr}")
    os.sync()
    settings = {
        "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "max_connections": CONNECTIONS,
        "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "256MB",
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", "bench"]

    def ready() -> bool:
        asked = [programs / "pg_isready", *address, "-d", "postgres", "-q"]
        return subprocess.run(asked, check=False).returncode == 0

    command = [programs / "postgres", "-D", data, *words]
    with process(command, log, ready=ready, stop=signal.SIGINT, user=user):
        subprocess.run([programs / "createdb", *address, "bench"], check=True)
        yield port


# ---------------------------------------------------------------- etcd


@contextmanager
def etcd(directory: Path) -> Iterator[list[str]]:
    """The endpoints of three nodes, all with etcd's own defaults but for transactions as large as the batches."""
    ports = free_ports(6)
    nodes = {f"e{i}": (ports[2 * i], ports[2 * i + 1]) for i in range(3)}
    members = ",".join(f"{node}=http://127.0.0.1:{peer}" for node, (_, peer) in nodes.items())
    directory.mkdir()
    started = {}
    with ExitStack() as running:
        for node, (port, peer) in nodes.items():
            urls = {
                "listen-client-urls": port, "advertise-client-urls": port, "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
            }  # fmt: skip
            command = ["etcd", "--name", node, "--data-dir", str(directory / node), "--initial-cluster", members]
            command += [word for name, at in urls.items() for word in (f"--{name}", f"http://127.0.0.1:{at}")]
            command += ["--max-txn-ops", "1000", "--log-level", "warn"]
            # The first gets ready when there is a majority only: all are started, then all are waited for.
            log = directory / f"{node}.log"
            started[log] = running.enter_context(process(command, log, ready=lambda: True))
        wait("etcd", lambda: all(_healthy(port) for port, _ in nodes.values()), started)
        yield [f"127.0.0.1:{port}" for port, _ in nodes.values()]


def _healthy(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
        return b'"true"' in answer.read()
    return False


# ---------------------------------------------------------------- Dkron


@contextmanager
def dkron(directory: Path) -> Iterator[int]:
    """The leader's port for HTTP. Three servers with Dkron's own defaults, on the loopback."""
    free = free_ports(9)
    nodes = {f"d{i}": free[3 * i : 3 * i + 3] for i in range(3)}  # HTTP, gossip, RPC
    joined = ",".join(f"127.0.0.1:{gossip}" for _, gossip, _ in nodes.values())
    directory.mkdir()
    started = {}
    with ExitStack() as running:
        for node, (http, gossip, rpc) in nodes.items():
            options = {
                "node-name": node, "data-dir": directory / node, "http-addr": f"127.0.0.1:{http}",
                "bind-addr": f"127.0.0.1:{gossip}", "advertise-addr": f"127.0.0.1:{gossip}", "rpc-port": rpc,
                "retry-join": joined, "retry-interval": "1s", "bootstrap-expect": 3, "log-level": "warn",
            }  # fmt: skip
            command = ["dkron", "agent", "--server", "--disable-usage-stats"]
            command += [f"--{name}={value}" for name, value in options.items()]
            log = directory / f"{node}.log"
            started[log] = running.enter_context(
                process(command, log, ready=lambda: True, environment={"GIN_MODE": "release"})
            )
        leader = None

        def ready() -> bool:
            nonlocal leader
            leader = _leader_of([http for http, _, _ in nodes.values()])
            return leader is not None

        wait("dkron", ready, started)
        assert leader is not None
        yield leader


def _leader_of(ports: Sequence[int]) -> int | None:
    """The port of the server that says it leads; None while one of them does not know who does."""
    leaders = [port for port in ports if _answers(port, "isleader")]
    known = all(_answers(port, "leader") for port in ports)
    return leaders[0] if len(leaders) == 1 and known else None


def _answers(port: int, path: str) -> bool:
    """Says whether the answer is a success."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/{path}", timeout=2):
        return True
    return False
