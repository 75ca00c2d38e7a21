"""Reads the configuration of a remote worker: flags over RAFTSCHED_* variables over a TOML file over defaults."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from raftsched import names
from raftsched.client.servers import Server, refuse_paths
from raftsched.client.token_file import read_token
from raftsched.client.trust import SYSTEM, Trust
from raftsched.config.flags import WORKER, names_of
from raftsched.config.reading import by_kind, default_of, value_of
from raftsched.config.runs import AS_IT_IS, RunsConfig, build_runs
from raftsched.config.values import ConfigError
from raftsched.config.work import EXECUTORS, UNRESTRICTED, executors_of, merged, rules_of, worker_name
from raftsched.core.rules.allowed import Allowed

SETTINGS = names_of(WORKER)


@dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """The checked configuration of a remote worker."""

    name: str
    data: Path  # directory, made when missing; of this worker alone
    servers: tuple[Server, ...]
    token: str | None = None
    token_file: Path | None = None  # where the token is from; it may get another one
    trust: Trust = SYSTEM
    slots: int  # runs at one time
    weight: int = 1  # of its slots, beside those of others
    labels: tuple[tuple[str, str], ...] = ()  # sorted
    queues: tuple[str, ...] | None = None  # whose runs it takes; None: of all that its token allows
    namespaces: tuple[str, ...] | None = None
    pythonpath: tuple[Path, ...] = ()  # for python handlers, absolute
    handlers: tuple[str, ...] = ()  # modules that register handlers by name
    grace_ms: int = default_of("grace")  # what runs have to come to an end when the worker stops
    output_max: int | None = None  # bytes of output kept of an attempt at most; None: as nodes say
    log_format: str = default_of("log_format")
    tracing: bool = False  # spans are sent as the OTEL_ variables say
    executors: tuple[str, ...] = EXECUTORS  # the handlers that it offers
    allowed: Allowed = UNRESTRICTED  # what jobs may name
    runs: RunsConfig = AS_IT_IS  # as whom, and with how much


def load_worker(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    config_file: Path | None = None,
    *,
    servers: tuple[Server, ...] = (),
    token: str | None = None,
    trust: Trust = SYSTEM,
) -> WorkerConfig:
    """Returns the configuration of all sources. `servers`, `token`: where none are said. Raises ConfigError."""
    settings = merged(SETTINGS, flags, environ, config_file)
    return build_worker(settings, environ, servers=servers, token=token, trust=trust)


def build_worker(
    settings: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    servers: tuple[Server, ...] = (),
    token: str | None = None,
    trust: Trust = SYSTEM,
) -> WorkerConfig:
    """Checks raw settings (text, or the types a TOML file has). Raises ConfigError."""
    name = worker_name(settings.get("name") or default_name())
    executors = executors_of(settings)
    token_file = None
    if "server" in settings:
        servers = value_of("server", settings)
    if "token_file" in settings:
        token_file = value_of("token_file", settings).absolute()
        token = _token(token_file)
    if not servers:
        raise ConfigError("server is missing; say --server http://host:7401, several with commas")
    try:
        refuse_paths(servers)
    except ValueError as error:
        raise ConfigError(f"server: {error}") from None
    found: dict[str, Any] = {
        "name": name,
        "data": Path(value_of("data", settings)) if settings.get("data") else default_data(name, environ),
        "servers": servers,
        "token": token,
        "token_file": token_file,
        "trust": trust,
        "executors": executors,
        "allowed": rules_of(executors, settings),
        "runs": build_runs(settings),
    }
    return WorkerConfig(**found, **by_kind((one.name for one in fields(WorkerConfig)), settings, but=found))


def default_name() -> str:
    """Returns the name of this machine, as far as a worker may have it."""
    name = re.sub(r"[^a-z0-9._-]", "-", socket.gethostname().lower())[:128]
    return name if names.WORKER.allows(name) else "worker"


def default_data(name: str, environ: Mapping[str, str]) -> Path:
    """Returns the worker's place below STATE_DIRECTORY (systemd.exec(5)), else below the user's directory for state
    (XDG Base Directory Specification), which is /var/lib for root."""
    state = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if state:
        return Path(state) / "workers" / name
    xdg = environ.get("XDG_STATE_HOME", "")
    if xdg.startswith("/"):
        base = Path(xdg)
    else:
        base = Path("/var/lib") if os.geteuid() == 0 else Path.home() / ".local" / "state"
    return base / "raftsched" / "workers" / name


def _token(file: Path) -> str:
    try:
        return read_token(file)
    except ValueError as error:
        raise ConfigError(f"token_file {error}") from None
