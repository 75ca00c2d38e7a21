"""The setting RAFTSCHED: its keys, what is wrong with it, and what it says of the cluster.

    RAFTSCHED = {
        "server": "https://10.0.0.1:7401,https://10.0.0.2:7401",
        "token_file": "/etc/shop/raftsched.token",
        "namespace": "shop",
        "environment": ["DATABASE_URL"],
        "node": {"id": "n1", "data": BASE_DIR / "data" / "n1"},
    }

Nothing is connected with here. Variables of the environment win over all of it, and flags over those.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from os import PathLike, fspath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from raftsched import names
from raftsched.client.program import Said
from raftsched.client.servers import parse_servers
from raftsched.config.flags import NODE, WORKER, names_of

NAME = "RAFTSCHED"
TIMEOUT_S = (0.1, 600.0)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
# Those that this app says itself, or that RAFTSCHED says for web processes, too.
_NOT_OF_NODES = ("python_first", "env_pass", "server")


class Problem(NamedTuple):
    """`key`: of the dict; "": all of it. `hint`: what would be right."""

    key: str
    text: str
    hint: str


def given() -> Mapping[str, Any]:
    """Returns the dict as it is; empty where there is none."""
    found = getattr(settings, NAME, None) or {}
    return found if isinstance(found, Mapping) else {}


def said() -> Said:
    """Returns what it says of the cluster. Raises ImproperlyConfigured for what cannot be."""
    found = given()
    for problem in problems((*_OF_CLIENTS, "namespace")):
        raise ImproperlyConfigured(f"{NAME}: {problem.text}. {problem.hint}")
    arguments: dict[str, Any] = {}
    for key, argument in _OF_CLIENTS.items():
        value = found.get(key)
        if value not in (None, ""):
            arguments[argument] = fspath(value) if isinstance(value, PathLike) else value
    if "servers" in arguments:
        arguments["servers"] = ",".join(_texts(arguments["servers"]))
    return Said(arguments, found.get("namespace") or None)


# Key of the dict -> argument of raftsched.Client.
_OF_CLIENTS = {
    "server": "servers",
    "token": "token",  # nosec B105
    "token_file": "token_file",  # nosec B105
    "ca_file": "ca_file",
    "client_cert": "client_cert",
    "client_key": "client_key",
    "insecure": "insecure",
    "timeout": "timeout",
}


def environment() -> tuple[str, ...]:
    """Returns the names of the variables that runs see, as the settings have them."""
    return tuple(given().get("environment") or ())


# ------------------------------------------------------------ what is wrong


def problems(only: Collection[str] = ()) -> list[Problem]:
    """Returns all that is wrong with the setting, without a look at any file or host. `only`: of these keys; empty: of
    all."""
    found = getattr(settings, NAME, None)
    if found is None:
        return []
    if not isinstance(found, Mapping):
        return [
            Problem("", f"it is a {type(found).__name__}, and has to be a dict", f'Write {NAME} = {{"server": ...}}')
        ]
    wrong = []
    for key, value in found.items():
        if only and key not in only:
            continue
        if key not in _KEYS:
            wrong.append(Problem(str(key), f"{key!r} is no key of it", _near(str(key), tuple(_KEYS))))
        elif value is not None and (why := _KEYS[key](value)) is not None:
            wrong.append(Problem(key, f"{key} {why[0]}", why[1]))
    if found.get("token") and found.get("token_file"):
        wrong.append(
            Problem("token", "token and token_file are both there", "Keep token_file: it may get another token.")
        )
    if found.get("client_key") and not found.get("client_cert"):
        wrong.append(Problem("client_key", "client_key is there without client_cert", "Name the certificate, too."))
    return wrong


_Why = tuple[str, str] | None  # what is wrong, and what would be right


def _near(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(known)}."


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _server(value: Any) -> _Why:
    if not isinstance(value, (str, list, tuple)):
        return f"is {value!r}, and no address", 'Write "http://10.0.0.1:7401", several in a list or with commas.'
    try:
        parse_servers(",".join(_texts(value)))
    except ValueError as error:
        what, _, right = str(error).partition("; ")
        return f"is wrong: {what}", f"{right[:1].upper()}{right[1:]}."
    return None


def _text(value: Any) -> _Why:
    if isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value:
        return None
    return "is no text of one line", "Write what `raftsched tokens create` printed, or name its file by token_file."


def _file(value: Any) -> _Why:
    if isinstance(value, (str, PathLike)):
        return None
    return f"is {value!r}, and no name of a file", 'Write a path, such as "/etc/shop/raftsched.token".'


def _switch(value: Any) -> _Why:
    return None if isinstance(value, bool) else (f"is {value!r}", "Write True or False.")


def _timeout(value: Any) -> _Why:
    least, most = TIMEOUT_S
    if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most:
        return None
    return f"is {value!r}", f"Write seconds, from {least:g} to {most:g}: how long a request to the cluster may take."


def _namespace(value: Any) -> _Why:
    if isinstance(value, str) and names.NAMESPACE.allows(value):
        return None
    return f"{value!r} is no namespace", f"A name has {names.NAMESPACE.rule}, like {names.NAMESPACE.example}."


def _handlers(value: Any) -> _Why:
    right = (
        'Write a list of modules, such as ["shop.tasks"]; without it, those named tasks in INSTALLED_APPS are taken.'
    )
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(one, str) and _MODULE.fullmatch(one) for one in value
    ):
        return f"is {value!r}", right
    for module in value:
        try:
            there = find_spec(module) is not None
        except (ImportError, ValueError):
            there = False
        except Exception as error:  # of the package that it is in
            return f"names {module!r}, whose package cannot be imported ({type(error).__name__}: {error})", right
        if not there:
            return f"names {module!r}, and there is no such module", right
    return None


def _environment(value: Any) -> _Why:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) and _VARIABLE.fullmatch(one) for one in value):
        return None
    right = 'Write a list of names of variables that the settings read, such as ["DATABASE_URL"].'
    return f"is {value!r}, and no list of names", right


def _page(value: Any) -> _Why:
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        parts = None
    if parts is not None and parts.scheme in ("http", "https") and parts.netloc and "@" not in parts.netloc:
        return None
    return f"is {value!r}, and no address", 'Write where browsers find the page: "https://jobs.example.com/ui/".'


def _process(command: str) -> Callable[[Any], _Why]:
    def look(value: Any) -> _Why:
        known = tuple(name for name in names_of(command) if name not in _NOT_OF_NODES)
        if not isinstance(value, Mapping):
            return f"is {value!r}, and no dict", f'Write the settings of raftsched {command}: {{"data": ...}}.'
        for name in value:
            if name in _NOT_OF_NODES:
                return f"has {name!r}", f"It is said for all: by server and environment of {NAME}."
            if name not in known:
                return f"has {name!r}, which is no setting of a {command}", _near(str(name), known)
        return None

    return look


_KEYS: Mapping[str, Callable[[Any], _Why]] = {
    "server": _server,
    "token": _text,
    "token_file": _file,
    "ca_file": _file,
    "client_cert": _file,
    "client_key": _file,
    "insecure": _switch,
    "timeout": _timeout,
    "namespace": _namespace,
    "handlers": _handlers,
    "environment": _environment,
    "page": _page,
    "node": _process(NODE),
    "worker": _process(WORKER),
}
