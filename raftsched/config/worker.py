"""The configuration of a remote worker: flags over RAFTSCHED_* variables over a TOML file over defaults."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raftsched import names
from raftsched.bounds import SERVED_MAX, SLOTS_MAX
from raftsched.client.servers import Server, parse_servers, refuse_paths
from raftsched.client.token_file import read_token
from raftsched.client.trust import SYSTEM, Trust
from raftsched.config import runs as config_runs
from raftsched.config.runs import AS_IT_IS, RunsConfig, build_runs
from raftsched.config.values import (
    ConfigError,
    Range,
    duration_of,
    file_of,
    flag,
    list_of,
    size_of,
    text_of,
    whole_number,
)
from raftsched.config.work import (
    ALLOW_LISTS,
    EXECUTORS,
    GRACE_MS,
    LOG_FORMATS,
    OUTPUT_MAX,
    UNRESTRICTED,
    default_slots,
    executors_of,
    log_format_of,
    merged,
    modules_of,
    parse_labels,
    paths_of,
    rules_of,
)
from raftsched.core.limits import WEIGHT_MAX
from raftsched.core.rules.allowed import Allowed
from raftsched.names import NameRule

SETTINGS = (
    "server", "name", "data", "token_file", "slots", "weight", "labels", "queues", "namespaces", "pythonpath",
    "handlers", "grace", "python_runs_max", "python_memory_max", "output_max", "log_format", "tracing", "executors",
    *ALLOW_LISTS, *config_runs.NAMES,
)  # fmt: skip


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
    grace_ms: int = GRACE_MS.default  # what runs have to come to an end when the worker stops
    output_max: int | None = None  # bytes of output kept of an attempt at most; None: as nodes say
    log_format: str = LOG_FORMATS[0]
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
    name = _name(settings.get("name") or default_name())
    executors = executors_of(settings)
    token_file = None
    if "server" in settings:
        servers = _servers(settings["server"])
    if "token_file" in settings:
        token_file = file_of("token_file", settings["token_file"]).absolute()
        token = _token(token_file)
    if not servers:
        raise ConfigError("server is missing; say --server http://host:7401, several with commas")
    try:
        refuse_paths(servers)
    except ValueError as error:
        raise ConfigError(f"server: {error}") from None
    return WorkerConfig(
        name=name,
        data=Path(text_of("data", settings["data"])) if settings.get("data") else default_data(name, environ),
        servers=servers,
        token=token,
        token_file=token_file,
        trust=trust,
        slots=whole_number(settings, "slots", Range(1, default_slots(), SLOTS_MAX)),
        weight=whole_number(settings, "weight", Range(1, 1, WEIGHT_MAX)),
        labels=parse_labels(settings.get("labels", {})),
        queues=_served("queues", settings, names.QUEUE),
        namespaces=_served("namespaces", settings, names.NAMESPACE),
        pythonpath=paths_of(settings.get("pythonpath", ())),
        handlers=modules_of(settings.get("handlers", ())),
        grace_ms=duration_of(settings, "grace", GRACE_MS),
        output_max=size_of(settings, "output_max", OUTPUT_MAX) if "output_max" in settings else None,
        log_format=log_format_of(settings.get("log_format", LOG_FORMATS[0])),
        tracing=flag("tracing", settings.get("tracing", False)),
        executors=executors,
        allowed=rules_of(executors, settings),
        runs=build_runs(settings),
    )


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


def _name(value: Any) -> str:
    name = text_of("name", value)
    if not names.WORKER.allows(name):
        raise ConfigError(f"name {name[:80]!r} is no name of a worker; use {names.WORKER.rule}")
    return name


def _servers(value: Any) -> tuple[Server, ...]:
    try:
        return tuple(parse_servers(",".join(list_of("server", value))))
    except ValueError as error:
        raise ConfigError(f"server: {error}") from None


def _token(file: Path) -> str:
    try:
        return read_token(file)
    except ValueError as error:
        raise ConfigError(f"token_file {error}") from None


def _served(name: str, settings: Mapping[str, Any], rule: NameRule) -> tuple[str, ...] | None:
    if name not in settings:
        return None
    items = tuple(dict.fromkeys(list_of(name, settings[name])))
    if not 1 <= len(items) <= SERVED_MAX:
        raise ConfigError(f"{name} names {len(items)}; name 1 to {SERVED_MAX}, or leave it out for all")
    for item in items:
        if not rule.allows(item):
            raise ConfigError(f"{name} {item[:80]!r} is not {rule.kind}; use {rule.rule}")
    return items
