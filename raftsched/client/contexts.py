"""Finds the cluster to use when none is named: RAFTSCHED_SERVER, else a context, else this machine's usual ports.

Contexts are clusters with a name, in ~/.config/raftsched/contexts.toml (or $XDG_CONFIG_HOME). RAFTSCHED_CONTEXT names
one; else it is the one in use (`raftsched contexts use`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from raftsched.client.servers import DEFAULT_SERVERS
from raftsched.client.trust import Trust

FILES = ("ca_file", "client_cert", "client_key")


def contexts_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "raftsched" / "contexts.toml"


class Login(NamedTuple):
    """The source of a token, for renewing it. `use`: the kind of token that is shown to nodes. `expires_at`: of the
    token, in seconds since 1970."""

    issuer: str
    client_id: str
    scope: str
    use: str
    refresh_token: str | None = None
    expires_at: int | None = None


class Context(NamedTuple):
    server: str  # one or more
    token: str | None = None
    trust: Trust = Trust()
    login: Login | None = None


def read_contexts() -> tuple[dict[str, Context], str | None]:
    """Returns all contexts by name, and the name of the one in use. Raises ValueError when the file is malformed."""
    import tomllib

    path = contexts_file()
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    contexts = found.get("contexts", {})
    current = found.get("current")
    good = isinstance(contexts, dict) and all(
        isinstance(c, dict)
        and isinstance(c.get("server"), str)
        and all(isinstance(c.get(name, ""), str) for name in ("token", *FILES))
        and isinstance(c.get("insecure", False), bool)
        and ("login" not in c or _is_login(c["login"]))
        for c in contexts.values()
    )
    if not good or not (current is None or isinstance(current, str)):
        raise ValueError(f'{path} is not a list of contexts; write [contexts.NAME] and server = "http://host:port"')
    return {
        name: Context(
            c["server"],
            c.get("token") or None,
            Trust(**{file: c.get(file) or None for file in FILES}, insecure=c.get("insecure", False)),
            Login(**c["login"]) if "login" in c else None,
        )
        for name, c in contexts.items()
    }, current


def _is_login(found: Any) -> bool:
    if not isinstance(found, dict) or not found.keys() <= set(Login._fields):
        return False
    texts = all(isinstance(found.get(name), str) for name in ("issuer", "client_id", "scope", "use"))
    return texts and isinstance(found.get("refresh_token", ""), str) and isinstance(found.get("expires_at", 0), int)


def named_context(name: str | None) -> tuple[str, Context] | None:
    """Returns a context, or the one in use, with its name; None when none is in use. Raises LookupError, ValueError."""
    if name is None and not contexts_file().is_file():
        return None
    contexts, current = read_contexts()
    wanted = name or current
    if wanted is None:
        return None
    if wanted not in contexts:
        raise LookupError(f"there is no context {wanted!r}; see 'raftsched contexts'")
    return wanted, contexts[wanted]


def usual() -> Context:
    """Returns the context to use when no servers are given. Raises LookupError, ValueError when the one that is set is
    not there or cannot be read."""
    server = os.environ.get("RAFTSCHED_SERVER")
    if server:
        return Context(server)
    named = named_context(os.environ.get("RAFTSCHED_CONTEXT") or None)
    return Context(DEFAULT_SERVERS) if named is None else named[1]
