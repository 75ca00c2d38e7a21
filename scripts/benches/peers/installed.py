"""The peers: what each needs, how what is missing is installed, and how it is put under load."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.benches.figures import Line
from scripts.benches.peers import servers

HERE = Path(__file__).resolve().parent
ETCD_CLIENT = "go.etcd.io/etcd/client/v3"
ETCD_CLIENT_VERSION = "v3.7.3"
ETCD_CONNECTIONS = 4  # 1, 16 and 64 were slower
VALUE_BYTES = 300  # a job's row is about as large
CELERY_PROCESSES = 4  # two cores are busy with them also while one waits for the disk
MINUTES = 30  # of a load; ends one that hangs


class NotBuilt(Exception):
    """A load program that must be compiled cannot be, and why."""


@dataclass(frozen=True)
class Places:
    """Where peers are installed."""

    python: str = sys.executable
    node_modules: Path = Path("node_modules")
    programs: Path = Path()  # a directory for load programs that are built, once for all rounds


@dataclass(frozen=True)
class Peer:
    name: str
    parts: frozenset[str]  # those it can do
    missing: Callable[[Places], list[str]]  # what is not installed, each with the command that would install it
    versions: Callable[[Places], list[str]]
    # Runs these parts; the figures as they come. The directory is empty.
    measure: Callable[[Places, Mapping[str, Any], Path], Iterator[Line]]
    build: Callable[[Places], object] = lambda _: None  # its load program, where it must be compiled. NotBuilt.


# ---------------------------------------------------------------- running things


def said(*command: str | Path) -> str | None:
    """What a command prints; None when it fails or is not there."""
    with suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None
    return None


def load(
    command: list[str | Path], work: Mapping[str, Any], log: Path, environment: Mapping[str, str]
) -> Iterator[Line]:
    """The JSON lines of a load program. RuntimeError when it fails."""
    with log.open("wb") as errors:
        started = subprocess.Popen(
            [*command, json.dumps(work)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
    try:
        assert started.stdout is not None
        with started.stdout as figures:
            for line in figures:
                yield json.loads(line)
        if started.wait(MINUTES * 60):
            raise RuntimeError(f"{Path(command[-1]).name} failed:\n{servers.tail(log)}")
    finally:
        servers.end(started)


def without(work: Mapping[str, Any], *parts: str) -> dict[str, Any]:
    return {**work, "parts": [part for part in work["parts"] if part not in parts]}


def only(work: Mapping[str, Any], *parts: str) -> dict[str, Any]:
    return {**work, "parts": [part for part in work["parts"] if part in parts]}


# Creating leaves jobs for later behind; running starts with an empty server, for raftsched too.
CREATES = ("create", "bulk")


def python_packages(places: Places, install: str, *names: str) -> list[str]:
    lacking = [name for name in names if python_version(places, name) is None]
    return [f"{', '.join(lacking)}: {places.python} -m pip install {install}"] if lacking else []


def python_version(places: Places, name: str) -> str | None:
    return said(places.python, "-c", f"from importlib.metadata import version; print(version({name!r}))")


def node_packages(places: Places, install: str, *names: str) -> list[str]:
    found = [] if shutil.which("node") else ["Node.js: apt-get install nodejs npm"]
    if lacking := [name for name in names if node_version(places, name) is None]:
        found.append(
            f"{', '.join(lacking)}: npm install --prefix DIR {install}, and --peer-node-modules DIR/node_modules"
        )
    return found


def node_version(places: Places, name: str) -> str | None:
    with suppress(OSError):
        version: str = json.loads((places.node_modules / name / "package.json").read_text())["version"]
        return version
    return None


def program(name: str, package: str) -> list[str]:
    return [] if shutil.which(name) else [f"{name}: apt-get install {package}"]


def redis_version() -> str:
    return f"Redis {(said('redis-server', '--version') or '').partition('v=')[2].split(' ')[0]}"


def postgres_missing() -> list[str]:
    reason = servers.postgres_missing()
    return [reason] if reason else []


def postgres_version() -> str:
    programs = servers.postgres_programs()
    words = (said(programs / "postgres", "--version") or "").split() if programs else []
    return f"PostgreSQL {words[2] if len(words) > 2 else '?'}"


# ---------------------------------------------------------------- etcd


def etcd_missing(_: Places) -> list[str]:
    return program("etcd", "etcd-server") + program("go", "golang-go")


def etcd_versions(_: Places) -> list[str]:
    server = (said("etcd", "--version") or "").splitlines() or [""]
    return [f"etcd {server[0].rpartition(' ')[2]}", f"its Go client {ETCD_CLIENT_VERSION.removeprefix('v')}"]


def etcd_program(places: Places) -> Path:
    """The place of the load program."""
    return places.programs / "etcd" / "put"


def etcd_build(places: Places) -> None:
    """The load program, built in a module that is thrown away (Go keeps what it compiled). NotBuilt."""
    directory = etcd_program(places).parent
    directory.mkdir()
    shutil.copy(HERE / "etcd_put.go", directory / "main.go")
    for words in (
        ["mod", "init", "etcdput"],
        ["get", f"{ETCD_CLIENT}@{ETCD_CLIENT_VERSION}"],
        ["build", "-o", etcd_program(places).name, "."],
    ):
        done = subprocess.run(["go", *words], cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotBuilt(f"go {' '.join(words)}: {done.stderr.strip()[-2000:]}")


def etcd_measure(places: Places, work: Mapping[str, Any], directory: Path) -> Iterator[Line]:
    with servers.etcd(directory / "etcd") as endpoints:
        given = {**work, "endpoints": endpoints, "connections": ETCD_CONNECTIONS, "value_bytes": VALUE_BYTES}
        for line in load([etcd_program(places)], given, directory / "load.log", {}):
            yield {**line, "value_bytes": VALUE_BYTES}


# ---------------------------------------------------------------- Dkron


def dkron_missing(_: Places) -> list[str]:
    return [] if shutil.which("dkron") else ["dkron: a release of https://dkron.io, its program on the PATH"]


def dkron_versions(_: Places) -> list[str]:
    """It prints "Name: Dkron", "Version: 4.0.1" and more, a line each; one that was built by hand has no version."""
    told = dict(line.partition(": ")[::2] for line in (said("dkron", "version") or "").splitlines())
    return [f"Dkron {told.get('Version', '').strip() or '?'}"]


def dkron_measure(_: Places, work: Mapping[str, Any], directory: Path) -> Iterator[Line]:
    with servers.dkron(directory / "dkron") as port:
        # The same client as raftsched's, in this Python.
        yield from load([sys.executable, HERE / "dkron_load.py"], {**work, "port": port}, directory / "load.log", {})


# ---------------------------------------------------------------- on Redis


def bullmq_missing(places: Places) -> list[str]:
    return program("redis-server", "redis-server") + node_packages(places, "bullmq ioredis", "bullmq", "ioredis")


def bullmq_versions(places: Places) -> list[str]:
    return [f"BullMQ {node_version(places, 'bullmq')}", redis_version(), f"Node.js {said('node', '--version')}"]


def bullmq_measure(places: Places, work: Mapping[str, Any], directory: Path) -> Iterator[Line]:
    for i, part in enumerate((only(work, *CREATES), without(work, *CREATES))):
        if part["parts"]:
            with servers.redis(directory / f"redis-{i}") as port:
                environment = {"PEER_PORT": str(port), "PEER_NODE_MODULES": str(places.node_modules.resolve())}
                yield from load(["node", HERE / "bullmq_load.mjs"], part, directory / "load.log", environment)


def celery_missing(places: Places) -> list[str]:
    return program("redis-server", "redis-server") + python_packages(places, "'celery[redis]'", "celery", "redis")


def celery_versions(places: Places) -> list[str]:
    return [f"Celery {python_version(places, 'celery')}", redis_version()]


def celery_measure(places: Places, work: Mapping[str, Any], directory: Path) -> Iterator[Line]:
    command: list[str | Path] = [places.python, HERE / "celery_load.py"]
    if (creates := only(work, *CREATES))["parts"]:
        with servers.redis(directory / "redis-0") as port:
            yield from load(command, creates, directory / "load.log", {"PEER_PORT": str(port)})
    if (runs := without(work, *CREATES))["parts"]:
        with servers.redis(directory / "redis-1") as port:
            environment = {"PEER_PORT": str(port), "PYTHONPATH": str(HERE)}
            log = directory / "worker.log"
            worker = [
                *(places.python, "-m", "celery", "--app", "celery_load", "worker", "--loglevel", "WARNING"),
                *(
                    "--concurrency",
                    str(CELERY_PROCESSES),
                    "--without-gossip",
                    "--without-mingle",
                    "--without-heartbeat",
                ),
            ]
            with servers.process(worker, log, ready=lambda: "is ready" in log.read_text(), environment=environment):
                yield from load(command, runs, directory / "load.log", environment)


# ---------------------------------------------------------------- on PostgreSQL


def apscheduler_missing(places: Places) -> list[str]:
    return postgres_missing() + python_packages(
        places, "apscheduler sqlalchemy 'psycopg[binary]'", "apscheduler", "sqlalchemy", "psycopg"
    )


def apscheduler_versions(places: Places) -> list[str]:
    return [f"APScheduler {python_version(places, 'apscheduler')}", postgres_version()]


def apscheduler_measure(places: Places, work: Mapping[str, Any], directory: Path) -> Iterator[Line]:
    yield from on_postgres([places.python, HERE / "apscheduler_load.py"], work, directory, {})


def pgboss_missing(places: Places) -> list[str]:
    return postgres_missing() + node_packages(places, "pg-boss@10", "pg-boss")


def pgboss_versions(places: Places) -> list[str]:
    return [f"pg-boss {node_version(places, 'pg-boss')}", postgres_version(), f"Node.js {said('node', '--version')}"]


def pgboss_measure(places: Places, work: Mapping[str, Any], directory: Path) -> Iterator[Line]:
    environment = {"PEER_NODE_MODULES": str(places.node_modules.resolve())}
    yield from on_postgres(["node", HERE / "pgboss_load.mjs"], work, directory, environment)


def on_postgres(
    command: list[str | Path], work: Mapping[str, Any], directory: Path, environment: Mapping[str, str]
) -> Iterator[Line]:
    for i, part in enumerate((only(work, *CREATES), without(work, *CREATES))):
        if part["parts"]:
            with servers.postgres(directory / f"postgres-{i}") as port:
                yield from load(command, part, directory / "load.log", {**environment, "PEER_PORT": str(port)})


PEERS = {
    peer.name: peer
    for peer in (
        Peer("etcd", frozenset(CREATES), etcd_missing, etcd_versions, etcd_measure, etcd_build),
        Peer(
            "bullmq", frozenset({*CREATES, "run", "burst", "periodic"}), bullmq_missing, bullmq_versions, bullmq_measure
        ),
        Peer("celery", frozenset({*CREATES, "run", "burst"}), celery_missing, celery_versions, celery_measure),
        Peer(
            "apscheduler", frozenset({"create", "run", "burst", "periodic"}), apscheduler_missing, apscheduler_versions,
            apscheduler_measure,
        ),
        Peer("pgboss", frozenset({*CREATES, "run", "burst"}), pgboss_missing, pgboss_versions, pgboss_measure),
        Peer("dkron", frozenset({"create"}), dkron_missing, dkron_versions, dkron_measure),
    )
}  # fmt: skip
