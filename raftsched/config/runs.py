"""Users and limits of all runs of a node, whatever their jobs say. Part of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raftsched import names
from raftsched.config.run_options import RunOptions
from raftsched.config.values import ConfigError, Range, flag, size_of, whole_number
from raftsched.core.rules.eligibility import EVERY

NAMES = ("run_as", "jobs_as_node", "users_allowed", "pids_max", "memory_max", "allow_new_privileges", "nice")
PYTHON_RUNS = Range(1, 10_000, 1_000_000_000)
PYTHON_MEMORY = Range(32 << 20, 512 << 20, 1 << 50)
PIDS = Range(16, 4_096, 4_000_000)  # what makes more processes makes them without end
MEMORY = Range(16 << 20, 1 << 50, 1 << 50)
NICE = Range(0, 5, 19)
ANNOUNCED_MAX = 200  # users of namespaces that a node names: they are announced to all


def build_options(settings: Mapping[str, Any]) -> RunOptions:
    """Raises ConfigError."""
    return RunOptions(
        python_runs_max=whole_number(settings, "python_runs_max", PYTHON_RUNS),
        python_memory_max=size_of(settings, "python_memory_max", PYTHON_MEMORY),
        pids_max=whole_number(settings, "pids_max", PIDS),
        memory_max=size_of(settings, "memory_max", MEMORY) if "memory_max" in settings else None,
        allow_new_privileges=flag("allow_new_privileges", settings.get("allow_new_privileges", False)),
        nice=whole_number(settings, "nice", NICE),
    )


UNSAID = build_options({})


@dataclass(frozen=True, kw_only=True)
class RunsConfig:
    """The users and limits of all runs."""

    run_as: Mapping[str, str] = field(default_factory=dict)  # namespace, or "default" -> user
    jobs_as_node: bool = False  # programs of jobs may run as the node's own user, who reaches its data and its keys
    users_allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # users that jobs may name, too
    options: RunOptions = UNSAID


AS_IT_IS = RunsConfig()  # as the node's own user


def build_runs(settings: Mapping[str, Any]) -> RunsConfig:
    """Raises ConfigError."""
    run_as: dict[str, str] = {}
    for namespace, user in _pairs("run_as", settings.get("run_as", ())):
        if run_as.setdefault(namespace, user) != user:
            raise ConfigError(f"run_as: {namespace} is there twice with different users; keep one")
        _check_user("run_as", user)
    allowed: dict[str, tuple[str, ...]] = {}
    for namespace, user in _pairs("users_allowed", settings.get("users_allowed", ())):
        allowed.setdefault(namespace, ())
        if user:
            _check_user("users_allowed", user)
            allowed[namespace] = tuple(dict.fromkeys((*allowed[namespace], user)))
    said = len(run_as) + sum(map(len, allowed.values()))
    if said > ANNOUNCED_MAX:
        raise ConfigError(f"run_as and users_allowed name {said} users of namespaces; {ANNOUNCED_MAX} is the limit")
    return RunsConfig(
        run_as=run_as,
        jobs_as_node=flag("jobs_as_node", settings.get("jobs_as_node", False)),
        users_allowed=allowed,
        options=build_options(settings),
    )


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
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


def _check_user(name: str, user: str) -> None:
    if not names.USER.allows(user):
        raise ConfigError(f"{name}: {user[:80]!r} is no name of a user; write NAMESPACE=USER, such as default=nobody")
