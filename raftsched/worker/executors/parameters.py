"""Builds what the parameters of a function are annotated with, dataclasses and pydantic models, from params, which are
JSON.

A function without such annotations costs a look when it is loaded, and nothing for each run. Nothing here imports
pydantic: a model is what has its methods. Params that do not fit end the run for good, for they would not fit later.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import msgspec

from raftsched.run import Fail

Build = Callable[[dict[str, Any]], dict[str, Any]]

_PLAIN: frozenset[object] = frozenset(
    {int, str, float, bool, bytes, None, Any, dict, list, *("int", "str", "float", "bool", "bytes", "None", "Any")}
    | {"dict", "list", "dict[str, Any]", "dict[str, str]", "list[str]", "list[int]", "int | None", "str | None"}
)
_VARIABLE = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS: as in inspect, which takes longer to import than all of this
_WRONG_MAX = 5  # of a model's errors that are told


def builder_of(function: Callable[..., Any]) -> Build | None:
    """Returns what makes the arguments of a call from params; None: they are as they are. Annotations that cannot be
    resolved, or read from JSON, are left alone."""
    try:
        given = getattr(function, "__annotations__", None) or {}
        if all(_is_plain(kind) for kind in given.values()):
            return None
        hints = typing.get_type_hints(function)
    except Exception:  # names that are there for type checkers only
        return None
    kinds = {name: kind for name, kind in hints.items() if name != "return" and _is_built(kind) and _is_read(kind)}
    return _Builder(function, kinds) if kinds else None


class _Builder:
    def __init__(self, function: Callable[..., Any], kinds: dict[str, Any]) -> None:
        self._name = getattr(function, "__name__", "the function")
        self._kinds = kinds
        plain: Any = function
        while hasattr(plain, "__wrapped__"):  # a decorator's, made with functools.wraps
            plain = plain.__wrapped__
        code = getattr(plain, "__code__", None)
        only = None if code is None else (code.co_argcount + code.co_kwonlyargcount, code.co_flags & _VARIABLE)
        (first, *_) = kinds
        self._only = first if only == (1, 0) and _is_model(kinds[first]) else None  # takes all params, too

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        """Raises Fail."""
        if self._only is not None and params and self._only not in params:
            return {self._only: self._built("params", params, self._kinds[self._only])}
        return {
            name: self._built(name, value, self._kinds[name]) if name in self._kinds else value
            for name, value in params.items()
        }

    def _built(self, name: str, value: Any, kind: Any) -> Any:
        why = _unknown(name, value, kind)
        if why is None:
            try:
                return msgspec.convert(value, kind, dec_hook=_of_model)
            except msgspec.ValidationError as error:
                what, _, place = str(error).partition(" - at `$")
                why = f"{name}{place.rstrip('`')}: {what.replace('`', '')}"
        raise Fail(f"params do not fit {self._name}: {why}") from None


def _unknown(place: str, value: Any, kind: Any) -> str | None:
    """Returns what a value has that the dataclass there has not, at any depth, for msgspec leaves that out; None:
    nothing."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__") and isinstance(value, dict):
        kinds = _field_kinds(kind)
        if unknown := sorted(value.keys() - kinds.keys()):
            return f"{place} has {', '.join(unknown)}, and {kind.__name__} only {', '.join(kinds)}"
        inner = [(f"{place}.{name}", one, kinds[name]) for name, one in value.items()]
    elif origin is tuple and Ellipsis not in args and isinstance(value, list):
        inner = [(f"{place}[{at}]", one, of) for at, (one, of) in enumerate(zip(value, args, strict=False))]
    elif isinstance(origin, type) and issubclass(origin, Collection):
        ones = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
        inner = [(f"{place}[{at}]", one, of) for at, one in ones for of in args if _is_built(of)]
    else:  # a union, or what is annotated
        inner = [(place, value, of) for of in args if _is_built(of)]
    return next((why for one in inner if (why := _unknown(*one)) is not None), None)


@cache
def _field_kinds(kind: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {name: hints[name] for name in kind.__dataclass_fields__}


def _is_plain(kind: object) -> bool:
    try:
        return kind in _PLAIN
    except TypeError:  # no hash
        return False


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and any(
        hasattr(kind, mark) for mark in ("__dataclass_fields__", "model_validate", "__struct_fields__")
    )


def _is_built(kind: Any) -> bool:
    return _is_model(kind) or any(map(_is_built, typing.get_args(kind)))


def _is_read(kind: Any) -> bool:
    """Returns whether values of it can be made from JSON: not those of one of several models, for one."""
    try:
        msgspec.json.Decoder(kind, dec_hook=_of_model)
    except Exception:  # NameError, too: of fields that are annotated for type checkers only
        return False
    return True


def _of_model(kind: type[Any], value: Any) -> Any:
    """Returns a pydantic model with this content. Raises ValueError, TypeError."""
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        if isinstance(value, kind):
            return value
        raise TypeError(f"a {kind.__name__} cannot be made from JSON")
    try:
        return validate(value)
    except ValueError as error:
        errors = getattr(error, "errors", None)
        if errors is None:
            raise
        found = errors()
        told = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[:_WRONG_MAX]]
        more = f"; and {len(found) - _WRONG_MAX} more" if len(found) > _WRONG_MAX else ""
        raise ValueError("; ".join(told) + more) from None
