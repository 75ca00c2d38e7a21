"""A handler as given, checked: exactly one kind, and nothing that could never be started."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from raftsched import names
from raftsched.api.http.problems import FieldError, pointer
from raftsched.api.jobs.triggers import duration_of
from raftsched.bounds import URL_MAX
from raftsched.core.rules.allowed import PATH_MAX, VARIABLE_MAX, VARIABLES_MAX
from raftsched.core.rules.hosts import target_of_url
from raftsched.core.rules.references import SECRET
from raftsched.errors import Meaning
from raftsched.handlers import handler_name_error
from raftsched.hosts import url_asked_for
from raftsched.quantities import parse_size
from raftsched.surface.content import HandlerIn, HttpIn, LimitsIn
from raftsched.surface.scalars import SecretRef
from raftsched.templates import wrong_in

MEMORY_MIN = 4 * 2**20  # bytes: with less hardly any program starts
MEMORY_MAX = 2**50

_CALLABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_RESERVED = frozenset({"connection", "content-length", "host", "transfer-encoding"})
_OURS = "raftsched-"  # tells the receiver which run this is
_ONE_OF = "exactly one of exec, shell, python, http, call"
_REFERENCE_RULE = 'write {"$secret": "name"}, or {"$secret": "namespace/name"} for one that is shared'


def capability_of(given: HandlerIn | None, errors: list[FieldError], at: str = "/handler") -> str:
    """Returns what a node must announce to run it: "exec", "shell", "python", "http" or "call:name"."""
    if given is None:
        errors.append(FieldError(at, f'is missing; give {_ONE_OF}, for example {{"exec": ["./report.sh"]}}'))
        return ""
    kinds = []
    if given.exec is not None:
        kinds.append("exec")
    if given.shell is not None:
        kinds.append("shell")
    if given.python is not None:
        kinds.append("python")
    if given.http is not None:
        kinds.append("http")
    if given.call is not None:
        kinds.append("call")
    if len(kinds) != 1:
        detail = f"has {' and '.join(kinds)}; give {_ONE_OF}" if kinds else f"says nothing to run; give {_ONE_OF}"
        errors.append(FieldError(at, detail))
        return ""
    kind = kinds[0]
    if given.exec is not None:
        _exec(given.exec, f"{at}/exec", errors)
    elif given.shell is not None:
        if not given.shell.strip():
            errors.append(FieldError(f"{at}/shell", 'is empty; give a command line such as "echo hello"'))
        _no_nul(given.shell, f"{at}/shell", errors)
    elif given.python is not None:
        if not _CALLABLE.fullmatch(given.python):
            errors.append(
                FieldError(
                    f"{at}/python",
                    'is no callable; write "package.module:function", for example "jobs.mail:send"',
                )
            )
    elif given.http is not None:
        _http(given.http, f"{at}/http", errors)
    elif given.call is not None:
        wrong = handler_name_error(given.call)
        if wrong is not None:
            errors.append(FieldError(f"{at}/call", f"is no handler by name; {wrong}"))
    if given.env or given.cwd is not None or given.limits is not None:
        _surroundings(given, kind, errors, at)
    if given.fresh and given.python is None and given.call is None:
        errors.append(FieldError(f"{at}/fresh", f"has no meaning with {kind}; it is for python and call, leave it out"))
    return kind if given.call is None else f"call:{given.call}"


def target_of(given: HandlerIn) -> str:
    """Returns what a node may refuse to touch: the program of exec, "module:function" of python, "host:port" of http;
    empty for others. At most PATH_MAX characters: no program has a longer path."""
    if given.exec:
        return given.exec[0][:PATH_MAX]
    if given.python is not None:
        return given.python[:PATH_MAX]
    return "" if given.http is None else target_of_url(url_asked_for(given.http.url))


def cwd_of(given: HandlerIn) -> str:
    """Returns the working directory as a node may refuse it: at most PATH_MAX characters; empty where it has none."""
    return "" if given.cwd is None else given.cwd[:PATH_MAX]


def env_of(given: HandlerIn) -> tuple[str, ...]:
    """Returns the variables as a node may refuse them: so many of them, by the beginnings of their names. A shell's are
    left out: a node that restricts programs has none."""
    if given.shell is not None or not given.env:
        return ()
    return tuple(name[:VARIABLE_MAX] for name in sorted(given.env)[:VARIABLES_MAX])


def _exec(command: list[str], at: str, errors: list[FieldError]) -> None:
    if not command or not command[0]:
        errors.append(FieldError(at, 'names no program; give it and its arguments, such as ["./report.sh", "--month"]'))
    for i, argument in enumerate(command):
        if "\0" in argument:
            _no_nul(argument, f"{at}/{i}", errors)


def _http(given: HttpIn, at: str, errors: list[FieldError]) -> None:
    wrong = url_error(given.url)
    if wrong is not None:
        errors.append(FieldError(f"{at}/url", wrong))
    if isinstance(given.body, SecretRef):
        check_name(given.body.name, f"{at}/body", errors)
    if len({name.lower() for name in given.headers}) < len(given.headers):
        errors.append(FieldError(f"{at}/headers", "has a header twice; their case does not matter", "repeated"))
    for name, value in given.headers.items():
        if isinstance(value, SecretRef):
            check_name(value.name, f"{at}/headers{pointer(name[:128])}", errors)
        wrong = header_error(name, "" if isinstance(value, SecretRef) else value)
        if wrong is not None:
            errors.append(FieldError(f"{at}/headers{pointer(name[:128])}", wrong))


def header_error(name: str, value: str) -> str | None:
    """Returns what is wrong and what would be right, or None."""
    if not _HEADER.fullmatch(name):
        return "is not a header name; use letters, digits, '-'"
    if name.lower() in _RESERVED or name.lower().startswith(_OURS):
        return "is set by the node itself; leave it out"
    if any((c < " " and c != "\t") or c == "\x7f" for c in value):
        return "has control characters; a header is one line"
    return None


def url_error(text: str) -> str | None:
    """Returns what is wrong and what would be right, or None."""
    if len(text) > URL_MAX:
        return f"has {len(text)} characters; at most {URL_MAX} are allowed"
    if any(c <= " " or c == "\x7f" for c in text):
        return "has a space or control character; an address has none, write %20 for a space"
    try:
        url = urlsplit(text)
        host = url.hostname
    except ValueError:
        url, host = None, None
    if url is None or url.scheme not in ("http", "https") or not host:
        return "must be an http:// or https:// address such as http://127.0.0.1:8080/hook"
    try:
        port = url.port
    except ValueError:
        port = 0
    if port == 0:
        return "has a bad port; an http:// or https:// address may name one from 1 to 65535"
    if "@" in url.netloc:
        return "has a user or password in it, which everybody would see; use a header"
    return None


def _surroundings(given: HandlerIn, kind: str, errors: list[FieldError], at: str) -> None:
    if kind == "http":
        for field in ("env", "cwd", "limits"):
            if getattr(given, field):
                errors.append(FieldError(f"{at}/{field}", "has no meaning with http; leave it out"))
        return
    for name, value in given.env.items():
        place = f"{at}/env{pointer(name[:128])}"
        if not name or "=" in name or "\0" in name:
            errors.append(FieldError(place, "is not a variable name; it must not be empty nor hold '=' or NUL"))
        if isinstance(value, SecretRef):
            check_name(value.name, place, errors)
        else:
            _no_nul(value, place, errors)
    if given.cwd is not None:
        if not given.cwd.startswith("/"):
            errors.append(FieldError(f"{at}/cwd", 'must be an absolute path such as "/srv"; nodes start anywhere'))
        _no_nul(given.cwd, f"{at}/cwd", errors)
    if given.limits is not None:
        _limits(given.limits, f"{at}/limits", errors)


def _limits(given: LimitsIn, at: str, errors: list[FieldError]) -> None:
    if given.memory is not None:
        try:
            size = parse_size(given.memory)
        except ValueError as error:
            errors.append(FieldError(f"{at}/memory", str(error)))
        else:
            if not MEMORY_MIN <= size <= MEMORY_MAX:
                errors.append(
                    FieldError(
                        f"{at}/memory",
                        f"must lie between {MEMORY_MIN >> 20}MiB and {MEMORY_MAX >> 40}TiB",
                        "out-of-range",
                    )
                )
    if given.cpu is not None:
        cpu_ms = duration_of(given.cpu, f"{at}/cpu", errors)
        if cpu_ms is not None and (cpu_ms < 1_000 or cpu_ms % 1_000):
            errors.append(
                FieldError(
                    f"{at}/cpu", "is counted in whole seconds, at least one; write 1s, 90s or 5m", "out-of-range"
                )
            )


def _no_nul(text: str, at: str, errors: list[FieldError]) -> None:
    if "\0" in text:
        errors.append(FieldError(at, "holds a NUL character, which no program can be given; take it out"))


def check_name(text: str, at: str, errors: list[FieldError], code: Meaning | None = None) -> None:
    if not names.SECRET_REFERENCE.allows(text) or len(text) > 200:
        errors.append(FieldError(at, f"names no secret; {_REFERENCE_RULE}", code))


def check_templates(given: HandlerIn, params: dict[str, Any] | None, errors: list[FieldError]) -> None:
    """Refuses templates that runs with these params could not be given values for."""
    for wrong in wrong_in(msgspec.to_builtins(given), params or {}):
        errors.append(FieldError(wrong.pointer, wrong.detail, "invalid-text"))


def check_params(params: Any, errors: list[FieldError]) -> None:
    """Refuses values that look like references to secrets and are none."""
    waiting = [(params, "/params")]
    while waiting:
        value, at = waiting.pop()
        if isinstance(value, dict):
            if SECRET in value:
                if len(value) > 1 or not isinstance(value[SECRET], str):
                    errors.append(
                        FieldError(
                            at,
                            f"is no reference to a secret; {_REFERENCE_RULE}, and nothing beside it",
                            "unknown-reference",
                        )
                    )
                else:
                    check_name(value[SECRET], at, errors, "unknown-reference")
                if at == "/params":
                    errors.append(
                        FieldError(
                            at, "cannot be a secret as a whole; give it as a value of one of them", "inconsistent"
                        )
                    )
            else:
                waiting += [(item, at + pointer(key[:128])) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(item, f"{at}/{i}") for i, item in enumerate(value)]
