"""Sets users and limits of all runs of a node, whatever their jobs say. Part of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raftsched import names
from raftsched.config.reading import by_kind, value_of
from raftsched.config.run_options import RunOptions
from raftsched.config.values import ConfigError

ANNOUNCED_MAX = 200  # users of namespaces that a node names: they are announced to all


UNSAID = RunOptions(**by_kind(RunOptions.__struct_fields__, {}))


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
    for namespace, user in value_of("run_as", settings):
        if run_as.setdefault(namespace, user) != user:
            raise ConfigError(f"run_as: {namespace} is there twice with different users; keep one")
        _check_user("run_as", user)
    allowed: dict[str, tuple[str, ...]] = {}
    for namespace, user in value_of("users_allowed", settings):
        allowed.setdefault(namespace, ())
        if user:
            _check_user("users_allowed", user)
            allowed[namespace] = tuple(dict.fromkeys((*allowed[namespace], user)))
    said = len(run_as) + sum(map(len, allowed.values()))
    if said > ANNOUNCED_MAX:
        raise ConfigError(f"run_as and users_allowed name {said} users of namespaces; {ANNOUNCED_MAX} is the limit")
    return RunsConfig(
        run_as=run_as,
        jobs_as_node=value_of("jobs_as_node", settings),
        users_allowed=allowed,
        options=RunOptions(**by_kind(RunOptions.__struct_fields__, settings)),
    )


def _check_user(name: str, user: str) -> None:
    if not names.USER.allows(user):
        raise ConfigError(f"{name}: {user[:80]!r} is no name of a user; write NAMESPACE=USER, such as default=nobody")
