"""Templates: names in braces, in the handler of a job that says `"template": true`, filled in when a run starts.

    {"exec": ["./report.sh", "--day", "{due:%Y-%m-%d}", "{params.region}"], "template": true}

Templates are read in the arguments of `exec`, the values of `env`, and the address, headers and body of `http`. A value
is inserted as text and never read again. It stays within its place: an argument stays one argument, an address gets it
percent-encoded, a header stays one line, and a JSON body has it within a string. `{{` and `}}` are braces. In a JSON
body templates are read within its strings only, so that its own braces are left alone.

What a node may refuse to touch by its name (the program, the host) has no templates, nor has anything that a shell or
an interpreter reads as its program: a value would become code there.

Pure: the API fills in the longest values that there may be to see what is wrong, the worker those of the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

import msgspec

from raftsched.bounds import URL_MAX
from raftsched.core.limits import RUN_MAX
from raftsched.core.rules.braces import pieces
from raftsched.core.rules.references import SECRET

TEMPLATE = b'"template"'  # is in every handler that has any
FORMAT_MAX = 64  # characters

_CODES = "YymdjHMSGVuzFT%"  # of strftime: digits, in any locale. Beside them there is %s
_FORMAT = re.compile(rf"(?:%[{_CODES}s]|[^%\\\x00-\x1f\x7f])+")
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ONE_WORDS = ("attempt", "token", "job", "namespace", "instance")
_NAMES = "due, due:FORMAT, attempt, token, job, namespace, instance and params.NAME"
_KNOWN = re.compile(rf"(?<!\$)\{{(?:due|params\.[^{{}}]+|{'|'.join(_ONE_WORDS)})(?::[^{{}}]*)?\}}")
_READS_CODE = re.compile(r"(?:ba|da|a|k|z|fi|c|tc)?sh|busybox|python[0-9.]*|perl|ruby|node|php")
_CODE_FOLLOWS = re.compile(r"-[A-Za-z]*[ceErp]|--eval|--command|--run|--print")
_CODE_WITHIN = re.compile(r"(?:-[A-Za-z]*[ceErp]|--(?:eval|command|run|print)=).+", re.DOTALL)
_RUNS_ANOTHER = re.compile(r"env|timeout|nice|ionice|nohup|setsid|stdbuf|time|xargs|sudo|doas|flock|chrt|taskset")


class Facts(NamedTuple):
    """Holds what a run is told of itself."""

    due_ms: int  # its nominal time
    timezone: str  # of its trigger
    attempt: int
    token: int
    job: str  # its name, else its id
    namespace: str
    instance: str


LONGEST = Facts(2**42, "UTC", 10**9, 2**64 - 1, "j" * 128, "n" * 64, "i" * 48)


class Wrong(NamedTuple):
    """A place in a job, and what is wrong there and would be right."""

    pointer: str
    detail: str


class _Refused(Exception):
    """The text says what is wrong with one template, and what would be right."""


@lru_cache(maxsize=256)
def utc_text(at_ms: int) -> str:
    """Returns a time in RFC 3339, in UTC, with milliseconds. Runs that are due together ask for the same one."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def wrong_in(handler: Any, params: Any) -> list[Wrong]:
    """Returns what would keep runs of this handler with these params from being filled in. Both are decoded JSON."""
    return filled(handler, params, LONGEST)[1]


def filled(handler: Any, params: Any, facts: Facts) -> tuple[dict[str, Any], list[Wrong]]:
    """Returns the handler with values in place of templates, and what is wrong. With anything wrong it is of no use."""
    filling = _Filling(params, facts)
    found = dict(handler)
    for name in ("shell", "python", "call", "cwd"):
        if isinstance(found.get(name), str):
            filling.plain(found[name], f"/handler/{name}", _PLAIN[name])
    if found.get("exec"):
        found["exec"] = _command(filling, found["exec"])
    if isinstance(found.get("env"), dict):
        found["env"] = {
            name: filling.text(value, f"/handler/env{_part(name)}", _without_nul)
            for name, value in found["env"].items()
        }
    if isinstance(found.get("http"), dict):
        found["http"] = _request(filling, found["http"])
    wrong = filling.wrong
    if not wrong:
        size = len(msgspec.json.encode(found)) + len(msgspec.json.encode(params))
        if size > RUN_MAX:
            wrong.append(Wrong("/handler", f"with params takes {size:,} bytes filled in; a run is given {RUN_MAX:,}"))
    return found, wrong


_PLAIN = {
    "shell": 'which the shell would read as its own; put it into env, {"DAY": "{due:%F}"}, and write "$DAY"',
    "python": "and names a function as it is; give values in params",
    "call": "and names a handler as it is; give values in params",
    "cwd": "which a node may refuse by its name; write it as it is",
    "exec": "and names the program, which a node may refuse; write it as it is",
}


def _command(filling: _Filling, command: list[str]) -> list[str]:
    filling.plain(command[0], "/handler/exec/0", _PLAIN["exec"])
    reader = command[0] if _named(command[0], _READS_CODE) else ""
    runs_another = _named(command[0], _RUNS_ANOTHER)
    found = [command[0]]
    code_next = False
    for i, argument in enumerate(command[1:], 1):
        at = f"/handler/exec/{i}"
        option = bool(reader) and _CODE_FOLLOWS.fullmatch(argument) is not None
        within = bool(reader) and not option and _CODE_WITHIN.fullmatch(argument) is not None
        if within or (code_next and not argument.startswith("-")):
            code_next = False
            detail = f'that {reader[:64]} would run; give it as an argument of its own, {{params.x}}, to read as "$1"'
            filling.plain(argument, at, detail)
            found.append(argument)
            continue
        if runs_another and not reader and _named(argument, _READS_CODE):
            reader = argument
        code_next = code_next or option
        found.append(filling.text(argument, at, _without_nul))
    return found


def _named(program: str, programs: re.Pattern[str]) -> bool:
    return programs.fullmatch(program.rpartition("/")[2]) is not None


def _request(filling: _Filling, http: dict[str, Any]) -> dict[str, Any]:
    found = dict(http)
    kind = ""
    if isinstance(http.get("headers"), dict):
        found["headers"] = {}
        for name, value in http["headers"].items():
            at = f"/handler/http/headers{_part(name)}"
            if name.lower() == "content-type" and isinstance(value, str):
                filling.plain(value, at, "and says how the body is filled in; write it as it is")
                kind = value.partition(";")[0].strip().lower()
                found["headers"][name] = value
            else:
                found["headers"][name] = filling.text(value, at, _one_line)
    if isinstance(http.get("url"), str):
        found["url"] = _address(filling, http["url"])
    body, at = http.get("body"), "/handler/http/body"
    if not isinstance(body, str):
        return found  # none, or that of a secret
    if kind == "application/json" or kind.endswith("+json"):
        found["body"] = _json_body(filling, body, at)
    else:
        form = kind == "application/x-www-form-urlencoded"
        found["body"] = filling.text(body, at, _percent if form else _as_it_is)
    return found


def _address(filling: _Filling, url: str) -> str:
    at = "/handler/http/url"
    scheme, _, rest = url.partition("://")
    server = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if "{" in scheme or "{" in server:
        filling.refuse(at, "has a template for its server, which a node may refuse by its name; write that as it is")
        return url
    found: str = filling.text(url, at, _percent)
    if len(found) > URL_MAX:
        filling.refuse(at, f"has {len(found):,} characters filled in; at most {URL_MAX:,} are allowed")
    elif _dots(found) != _dots(url):
        filling.refuse(at, 'has a part of its path that is filled in as "." or "..", which leads elsewhere')
    return found


def _dots(url: str) -> int:
    return sum(part in (".", "..") for part in urlsplit(url).path.split("/"))


def _json_body(filling: _Filling, body: str, at: str) -> str:
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        filling.refuse(at, 'is no JSON, which its Content-Type says; templates stand within its strings: "{params.x}"')
        return body
    return _JSON_STRING.sub(lambda found: str(filling.text(found[0], at, _json_escaped)), body)


class _Filling:
    """One handler as it is filled in: the values, and what is wrong so far."""

    def __init__(self, params: Any, facts: Facts) -> None:
        self.wrong: list[Wrong] = []
        self._params = params
        self._facts = facts
        self._room = RUN_MAX  # characters that may yet be inserted

    def refuse(self, at: str, detail: str) -> None:
        self.wrong.append(Wrong(at, detail))

    def plain(self, text: str, at: str, why: str) -> None:
        """Refuses templates in a text that has none."""
        found = _KNOWN.search(text)
        if found is not None:
            self.refuse(at, f"has the template {found[0][:80]}, {why}")

    def text(self, text: Any, at: str, put: Callable[[str], str]) -> Any:
        """Returns the text with values in place of templates, each as `put` makes it fit. What is no text stays."""
        if not isinstance(text, str) or ("{" not in text and "}" not in text):
            return text
        try:
            return "".join(self._inserted(piece, name, put) for piece, name in pieces(text))
        except _Refused as why:
            self.refuse(at, str(why))
            return text

    def _inserted(self, piece: str, name: str | None, put: Callable[[str], str]) -> str:
        if name is None:
            if piece in ("{", "}"):
                raise _Refused(f"has a single {piece}; write {piece * 2} for a brace, or a template such as {{due}}")
            return piece[0] if piece in ("{{", "}}") else piece
        value = put(self._value(name))
        self._room -= len(value)
        if self._room < 0:
            raise _Refused(f"is too long filled in; templates of one run may insert {RUN_MAX:,} characters in all")
        return value

    def _value(self, said: str) -> str:
        name, colon, form = said.partition(":")
        if name == "due":
            return _moment(self._facts, form) if colon else utc_text(self._facts.due_ms)
        if name.startswith("params.") and not colon:
            return self._param(name)
        if colon and (name in _ONE_WORDS or name.startswith("params.")):
            raise _Refused(f"has a format in {{{said[:80]}}}; only due takes one, such as {{due:%Y-%m-%d}}")
        if name in _ONE_WORDS:
            return str(getattr(self._facts, name))
        raise _Refused(f"has {{{said[:80]}}}, which is no template; there are {_NAMES}, and {{{{ for a brace")

    def _param(self, name: str) -> str:
        value = self._params
        for part in name.split(".")[1:]:
            if not isinstance(value, dict) or part not in value:
                raise _Refused(f"has {{{name[:80]}}}, which params do not have; give it there")
            if SECRET in value:
                break
            value = value[part]
        if isinstance(value, dict) and SECRET in value:
            raise _Refused(f'has {{{name[:80]}}}, which is a secret; write {{"{SECRET}": ...}} in env or headers')
        if isinstance(value, str):
            return value
        if value is None or isinstance(value, dict | list):
            kind = "null" if value is None else "an object" if isinstance(value, dict) else "a list"
            raise _Refused(f"has {{{name[:80]}}}, which is {kind}; a template takes a text, a number or a boolean")
        return msgspec.json.encode(value).decode()


def _moment(facts: Facts, form: str) -> str:
    if not _FORMAT.fullmatch(form) or "%" not in form or len(form) > FORMAT_MAX:
        codes = " ".join(f"%{code}" for code in f"{_CODES}s")
        raise _Refused(f"has the format {form[:80]!r}; write at most {FORMAT_MAX} characters, with codes of {codes}")
    at = datetime.fromtimestamp(facts.due_ms // 1000, ZoneInfo(facts.timezone))
    return re.sub("%.", lambda code: str(facts.due_ms // 1000) if code[0] == "%s" else at.strftime(code[0]), form)


def _as_it_is(value: str) -> str:
    return value


def _percent(value: str) -> str:
    return quote(value, safe="")


def _json_escaped(value: str) -> str:
    return msgspec.json.encode(value)[1:-1].decode()


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise _Refused("is given a NUL character, which no program can be given; take it out of params")
    return value


def _one_line(value: str) -> str:
    if _CONTROL.search(value):
        raise _Refused("is given control characters; a header is one line: take them out of params")
    return value


def _part(name: str) -> str:
    return "/" + name[:128].replace("~", "~0").replace("/", "~1")
