"""Parses the templates of keys: literal text, {params.NAME} and {job}, and nothing else.

A key is what runs have in common that are limited together: a tenant, an account, a server. Its value follows from
the params of the run, and is the same on every node: texts are taken as they are, integers and numbers as JSON writes
them, and true and false.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from raftsched.bounds import KEY_TEMPLATE_MAX
from raftsched.core.rules.braces import pieces

VALUE_MAX = 200  # bytes, the name of the job not counted
JOB_MARK = "\0"  # in a value: where the name of the job goes, or its id where it has none
_JOB = "job"
_PARAMS = "params."
_WHAT = "use {params.NAME} or {job}"

Part = str | tuple[str, ...] | None  # literal text; the names of a param; None: the job


class KeyTemplateError(ValueError):
    """Says what is wrong, and what would be right. `param`: it is the params that are wrong; the way to the place."""

    def __init__(self, text: str, param: tuple[str, ...] | None = None) -> None:
        super().__init__(text)
        self.param = param


@lru_cache(maxsize=1_024)
def parse(template: str) -> tuple[Part, ...]:
    """Returns the parts of the template. Raises KeyTemplateError."""
    size = len(template.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= KEY_TEMPLATE_MAX:
        raise KeyTemplateError(f"takes {size} bytes; use 1 to {KEY_TEMPLATE_MAX}")
    parts: list[Part] = []
    for text, name in pieces(template):
        if name is not None:
            parts.append(_named(name))
        elif text[0] == "}":
            raise KeyTemplateError("has a } without a { before it; braces stand around names only")
        elif text[0] == "{":
            raise KeyTemplateError(f"has a {{ that is not closed; {_WHAT}")
        else:
            _check_text(text)
            parts.append(text)
    if parts.count(None) > 1:
        raise KeyTemplateError("names {job} more than once; once is enough")
    return tuple(parts)


def _named(name: str) -> Part:
    if name == _JOB:
        return None
    names = tuple(name.removeprefix(_PARAMS).split("."))
    if not name.startswith(_PARAMS) or not all(names):
        raise KeyTemplateError(
            f"knows no {{{name}}}; {_WHAT}, where NAME may be that of an object, a dot, a name in it"
        )
    return names


def render(template: str, params: Mapping[str, Any]) -> str:
    """Returns the value for these params, with JOB_MARK where the job goes. Raises KeyTemplateError."""
    value = "".join(_text(part, params) for part in parse(template))
    if not value:
        raise KeyTemplateError("has no characters with these params; a key has one at least")
    size = len(value.encode())
    if size > VALUE_MAX:
        raise KeyTemplateError(f"takes {size} bytes with these params; {VALUE_MAX} is the limit")
    return value


def pointer(names: tuple[str, ...]) -> str:
    """Returns the JSON pointer (RFC 6901) of these names, from the params on."""
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)


def _text(part: Part, params: Mapping[str, Any]) -> str:
    if part is None:
        return JOB_MARK
    if isinstance(part, str):
        return part
    found: Any = params
    for depth, name in enumerate(part):
        if not isinstance(found, Mapping) or name not in found:
            raise KeyTemplateError("is missing, and the key of its runs asks for it", part[: depth + 1])
        found = found[name]
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int | float):
        return repr(found)
    if not isinstance(found, str):
        raise KeyTemplateError(
            "is part of the key of its runs, so it has to be a string, a number, true or false", part
        )
    try:
        _check_text(found)
    except KeyTemplateError as error:
        raise KeyTemplateError(str(error), part) from None
    return found


def _check_text(text: str) -> None:
    # Not str.isprintable: what that says depends on the version of Python.
    if any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in text):
        raise KeyTemplateError("has control characters, which a key may not have")
