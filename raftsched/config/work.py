"""Reads the settings of whatever runs jobs, nodes and remote workers alike, from the places that settings come from."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raftsched import names
from raftsched.bounds import SERVED_MAX
from raftsched.client.servers import Server, parse_servers
from raftsched.config.flags import group
from raftsched.config.values import ConfigError, list_of, pairs_of, text_of
from raftsched.core.rules.allowed import Allowed, allowed_of
from raftsched.core.rules.eligibility import EVERY
from raftsched.handlers import KINDS
from raftsched.hosts import rule_asked_for
from raftsched.names import NameRule
from raftsched.system.regular_files import open_regular

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
ALLOWED_MAX, ALLOWED_CHARS = 100, 256  # of each list that says what jobs may name: they are announced to all nodes
LOG_FORMATS = ("text", "json")
EXECUTORS = (*KINDS, "call")
ALLOW_LISTS = group("allow")
UNRESTRICTED = Allowed()  # but for addresses that are not public


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


def modules_of(name: str, value: Any) -> tuple[str, ...]:
    modules = list_of(name, value)
    for module in modules:
        if not _MODULE.fullmatch(module):
            raise ConfigError(f"{name} {module[:80]!r} is not a module; write its dotted name, such as shop.tasks")
    return tuple(dict.fromkeys(modules))


def variables_of(name: str, value: Any) -> tuple[str, ...]:
    variables = list_of(name, value)
    for variable in variables:
        if not _VARIABLE.fullmatch(variable):
            raise ConfigError(
                f"{name} {variable[:80]!r} is no name of a variable; write the name alone, such as DATABASE_URL"
            )
    return tuple(dict.fromkeys(variables))


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


def worker_name(value: Any) -> str:
    name = text_of("name", value)
    if not names.WORKER.allows(name):
        raise ConfigError(f"name {name[:80]!r} is no name of a worker; use {names.WORKER.rule}")
    return name


def servers_of(value: Any) -> tuple[Server, ...]:
    try:
        return tuple(parse_servers(",".join(list_of("server", value))))
    except ValueError as error:
        raise ConfigError(f"server: {error}") from None


def served(name: str, value: Any, rule: NameRule) -> tuple[str, ...]:
    """Returns the names of queues or namespaces whose runs a worker takes. Raises ConfigError."""
    items = tuple(dict.fromkeys(list_of(name, value)))
    if not 1 <= len(items) <= SERVED_MAX:
        raise ConfigError(f"{name} names {len(items)}; name 1 to {SERVED_MAX}, or leave it out for all")
    for item in items:
        if not rule.allows(item):
            raise ConfigError(f"{name} {item[:80]!r} is not {rule.kind}; use {rule.rule}")
    return items


def of_namespaces(name: str, value: Any) -> list[tuple[str, str]]:
    """Returns pairs of namespace and text, of a table, whose values may be lists, or of items NAMESPACE=TEXT. An item
    without a namespace is for all that are not named."""
    if isinstance(value, Mapping):
        found = [
            (str(namespace), text)
            for namespace, texts in value.items()
            for text in ((texts or [""]) if isinstance(texts, (list, tuple)) else [texts])
        ]
    else:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise ConfigError(f'{name} must be a table, such as {name} = {{ default = "nobody" }}, not {value!r}')
        found = []
        for item in items:
            for part in str(item).split(","):
                namespace, equals, text = part.strip().rpartition("=")
                if part.strip():
                    found.append((namespace if equals else EVERY, text))
    for namespace, text in found:
        if not names.NAMESPACE.allows(namespace):
            raise ConfigError(f"{name}: {namespace[:80]!r} is no namespace; write NAMESPACE=..., such as default=...")
        if not isinstance(text, str):
            raise ConfigError(f"{name}: what is said for {namespace} must be text, not {text!r}")
    return found
