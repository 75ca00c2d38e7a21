"""Which cluster is meant when nobody says so: RAFTSCHED_SERVER, else a context, else this machine's usual ports.

Contexts are clusters by a name, in ~/.config/raftsched/contexts.toml (or $XDG_CONFIG_HOME); RAFTSCHED_CONTEXT names
one, else it is the one in use (`raftsched contexts use`).
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


class Context(NamedTuple):
    server: str  # one or more
    token: str | None = None
    trust: Trust = Trust()


def read_contexts() -> tuple[dict[str, Context], str | None]:
    """(name -> context, the one in use). Raises ValueError when the file is not what it should be."""
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
        for c in contexts.values()
    )
    if not good or not (current is None or isinstance(current, str)):
        raise ValueError(f'{path} is not a list of contexts; write [contexts.NAME] and server = "http://host:port"')
    return {
        name: Context(
            c["server"],
            c.get("token") or None,
            Trust(**{file: c.get(file) or None for file in FILES}, insecure=c.get("insecure", False)),
        )
        for name, c in contexts.items()
    }, current


def context_of(name: str | None) -> Context | None:
    """A context, or the one in use; None: none is in use. Raises LookupError, ValueError."""
    if name is None and not contexts_file().is_file():
        return None
    contexts, current = read_contexts()
    wanted = name or current
    if wanted is None:
        return None
    if wanted not in contexts:
        raise LookupError(f"there is no context {wanted!r}; see 'raftsched contexts'")
    return contexts[wanted]


def usual() -> Context:
    """Raises LookupError, ValueError: what is set is not there, or not to be read. A token is that of its context."""
    server = os.environ.get("RAFTSCHED_SERVER")
    if server:
        return Context(server)
    return context_of(os.environ.get("RAFTSCHED_CONTEXT") or None) or Context(DEFAULT_SERVERS)
