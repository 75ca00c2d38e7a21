"""The settings of whatever runs jobs, nodes and remote workers alike, and the places that settings come from."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raftsched import names
from raftsched.bounds import OUTPUT_MAX_BYTES, SLOTS_MAX
from raftsched.config.values import ConfigError, Range, list_of, pairs_of, text_of
from raftsched.core.rules.allowed import Allowed, allowed_of
from raftsched.handlers import KINDS
from raftsched.hosts import rule_asked_for
from raftsched.system.regular_files import open_regular

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
GRACE_MS = Range(0, 10_000, 3_600_000)
OUTPUT_MAX = Range(OUTPUT_MAX_BYTES[0], 1 << 20, OUTPUT_MAX_BYTES[1])  # half may be in memory for each run
ALLOWED_MAX, ALLOWED_CHARS = 100, 256  # of each list that says what jobs may name: they are announced to all nodes
LOG_FORMATS = ("text", "json")
EXECUTORS = (*KINDS, "call")
ALLOW_LISTS = ("exec_allow", "env_allow", "cwd_allow", "python_allow", "http_allow", "http_deny")
UNRESTRICTED = Allowed()  # but for addresses that are not public


def default_slots() -> int:
    """Returns 32 for each CPU. Jobs mostly wait, and a slot costs nothing until it is used (about 5 MiB while a python
    function waits in it). The throughput of short runs is slots divided by the few milliseconds from one assignment to
    the next, and the more of them share a write batch, the less each of them costs."""
    return min(SLOTS_MAX, 32 * (os.cpu_count() or 1))


def merged(
    known: Sequence[str], flags: Mapping[str, Any], environ: Mapping[str, str], config_file: Path | None = None
) -> dict[str, Any]:
    """Returns the settings of all sources: flags over RAFTSCHED_* variables over a TOML file. None or empty flags are
    not given. Raises ConfigError."""
    settings: dict[str, Any] = _read_file(config_file, known) if config_file is not None else {}
    settings.update({name: value for name in known if (value := environ.get(f"RAFTSCHED_{name.upper()}"))})
    settings.update({name: value for name, value in flags.items() if value not in (None, (), False)})
    return settings


def log_format_of(value: Any) -> str:
    if value not in LOG_FORMATS:
        raise ConfigError(f"log_format must be {' or '.join(LOG_FORMATS)}, not {value!r}")
    return str(value)


def parse_labels(value: Any) -> tuple[tuple[str, str], ...]:
    """Returns sorted labels, of `k=v,k=v`, a list of such items, or a table. Raises ConfigError."""
    pairs = pairs_of("label", value, "write key=value, such as disk=ssd")
    labels: dict[str, str] = {}
    for key, item in pairs:
        text = text_of(f"label {key}", item)
        if not names.LABEL.allows(key) or len(text) > 128 or not text.isprintable():
            raise ConfigError(
                f"label {key[:80]!r}: a key has {names.LABEL.rule}; a value has at most 128 printable characters"
            )
        if labels.setdefault(key, text) != text:
            raise ConfigError(f"label {key!r} is there twice with different values; keep one")
    return tuple(sorted(labels.items()))


def _read_file(path: Path, known: Sequence[str]) -> dict[str, Any]:
    try:
        with open_regular(path) as f:
            settings = tomllib.load(f)
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {(e.strerror or str(e)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} is not TOML: {str(e).splitlines()[0]}") from None
    for name in settings:
        if name not in known:
            raise ConfigError(f"{path}: {name!r} is not a setting; known are {', '.join(known)}")
    return settings


def required(settings: Mapping[str, Any], name: str, example: str) -> Any:
    if not settings.get(name):
        raise ConfigError(
            f"{name} is missing; say {example}, set RAFTSCHED_{name.upper()}, or put it into --config FILE"
        )
    return settings[name]


def paths_of(value: Any) -> tuple[Path, ...]:
    paths = [Path(item).absolute() for item in list_of("pythonpath", value, os.pathsep)]
    for path in paths:
        if not path.is_dir():
            raise ConfigError(f"pythonpath {path} is not a directory")
    return tuple(dict.fromkeys(paths))


def modules_of(value: Any) -> tuple[str, ...]:
    modules = list_of("handlers", value)
    for module in modules:
        if not _MODULE.fullmatch(module):
            raise ConfigError(f"handlers {module[:80]!r} is not a module; write its dotted name, such as shop.tasks")
    return tuple(dict.fromkeys(modules))


def executors_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the executors that are named. Where none is named: all, but the shell where exec_allow is given."""
    if "executors" not in settings:
        return tuple(e for e in EXECUTORS if e != "shell" or "exec_allow" not in settings)
    items = tuple(dict.fromkeys(list_of("executors", settings["executors"])))
    for item in items:
        if item not in EXECUTORS:
            raise ConfigError(f"executors {item[:80]!r} is none; name some of {', '.join(EXECUTORS)}")
    return tuple(e for e in EXECUTORS if e in items)


def rules_of(executors: tuple[str, ...], settings: Mapping[str, Any]) -> Allowed:
    lists = {name: tuple(dict.fromkeys(list_of(name, settings[name]))) for name in ALLOW_LISTS if name in settings}
    for name, items in lists.items():
        if len(items) > ALLOWED_MAX or any(len(item) > ALLOWED_CHARS for item in items):
            raise ConfigError(
                f"{name} has {len(items)} items; at most {ALLOWED_MAX} of {ALLOWED_CHARS} characters each"
            )
    for name in {"http_allow", "http_deny"} & lists.keys():
        lists[name] = tuple(map(rule_asked_for, lists[name]))
    try:
        return allowed_of(executors, lists)
    except ValueError as error:
        raise ConfigError(str(error)) from None
