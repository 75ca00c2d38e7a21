"""What the configuration of a node says of all runs there, whatever their jobs say: as whom they run, and how much they
may have. Part of config.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raftsched import names
from raftsched.core.eligibility import EVERY
from raftsched.quantities import parse_size

NAMES = ("run_as", "users_allowed", "pids_max", "memory_max", "allow_new_privileges", "nice")
PIDS = (16, 4_000_000)  # least, most
MEMORY = (16 << 20, 1 << 50)
NICE = (0, 5, 19)  # least, usual, most
ANNOUNCED_MAX = 200  # users of namespaces that a node names: they are announced to all


@dataclass(frozen=True, kw_only=True)
class RunsConfig:
    run_as: Mapping[str, str] = field(default_factory=dict)  # namespace, or "default" -> user
    users_allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # whom jobs may ask for beside that one
    pids_max: int | None = None  # processes of a run, or of a user where runs have no cgroups; None: worker.users
    memory_max: int | None = None  # bytes that a run may have at most; None: as much as there is
    allow_new_privileges: bool = False  # of programs with the set-user-ID bit, such as sudo
    nice: int = NICE[1]  # of runs, beyond that of the node


AS_IT_IS = RunsConfig()  # as the node's own user


def build_runs(settings: Mapping[str, Any]) -> RunsConfig:
    """Raises ValueError with one line for the operator."""
    run_as: dict[str, str] = {}
    for namespace, user in _pairs("run_as", settings.get("run_as", ())):
        if run_as.setdefault(namespace, user) != user:
            raise ValueError(f"run_as: {namespace} is there twice with different users; keep one")
        _check_user("run_as", user)
    allowed: dict[str, tuple[str, ...]] = {}
    for namespace, user in _pairs("users_allowed", settings.get("users_allowed", ())):
        allowed.setdefault(namespace, ())
        if user:
            _check_user("users_allowed", user)
            allowed[namespace] = tuple(dict.fromkeys((*allowed[namespace], user)))
    said = len(run_as) + sum(map(len, allowed.values()))
    if said > ANNOUNCED_MAX:
        raise ValueError(f"run_as and users_allowed name {said} users of namespaces; {ANNOUNCED_MAX} is the limit")
    return RunsConfig(
        run_as=run_as,
        users_allowed=allowed,
        pids_max=_pids(settings["pids_max"]) if "pids_max" in settings else None,
        memory_max=_memory(settings["memory_max"]) if "memory_max" in settings else None,
        allow_new_privileges=_flag("allow_new_privileges", settings.get("allow_new_privileges", False)),
        nice=_nice(settings.get("nice", NICE[1])),
    )


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    """(namespace, text) of a table, whose values may be lists, or of items NAMESPACE=TEXT: a list, or text with commas.
    Without a namespace it is for all that are not named."""
    if isinstance(value, Mapping):
        found = [
            (str(namespace), text)
            for namespace, texts in value.items()
            for text in ((texts or [""]) if isinstance(texts, (list, tuple)) else [texts])
        ]
    else:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise ValueError(f'{name} must be a table, such as {name} = {{ default = "nobody" }}, not {value!r}')
        found = []
        for item in items:
            for part in str(item).split(","):
                namespace, equals, text = part.strip().rpartition("=")
                if part.strip():
                    found.append((namespace if equals else EVERY, text))
    for namespace, text in found:
        if not names.NAMESPACE.allows(namespace):
            raise ValueError(f"{name}: {namespace[:80]!r} is no namespace; write NAMESPACE=..., such as default=...")
        if not isinstance(text, str):
            raise ValueError(f"{name}: what is said for {namespace} must be text, not {text!r}")
    return found


def _check_user(name: str, user: str) -> None:
    if not names.USER.allows(user):
        raise ValueError(f"{name}: {user[:80]!r} is no name of a user; write NAMESPACE=USER, such as default=nobody")


def _pids(value: Any) -> int:
    text = str(value)
    least, most = PIDS
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or not least <= int(text[:12]) <= most:
        raise ValueError(f"pids_max must be a whole number from {least} to {most}, not {value!r}")
    return int(text)


def _nice(value: Any) -> int:
    text = str(value)
    least, _, most = NICE
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or not least <= int(text[:12]) <= most:
        raise ValueError(f"nice must be a whole number from {least} to {most}, not {value!r}")
    return int(text)


def _memory(value: Any) -> int:
    least, most = MEMORY
    try:
        size = parse_size("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        raise ValueError(f"memory_max {value!r} {error}") from None
    if not least <= size <= most:
        raise ValueError(f"memory_max must be from {least >> 20}MiB to {most >> 40}TiB, not {value}")
    return size


def _flag(name: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        return text in ("1", "true", "yes", "on")
    raise ValueError(f"{name} must be true or false, not {value!r}")
