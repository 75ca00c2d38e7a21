"""Writes what Python has as JSON: bodies of requests, with the times, dataclasses and pydantic models in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

import msgspec
import orjson


class Dataclass(Protocol):
    """An object of any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Model(Protocol):
    """An object of any pydantic model: what can write itself like one. Nothing here imports pydantic."""

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


Params = Mapping[str, Any] | Dataclass | Model  # arguments of a handler by name; an object's fields are such

_PLAIN = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


def _model(value: Any) -> Any:
    """Returns what a pydantic model has as JSON. Raises TypeError for anything else."""
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON; give what JSON can hold, or a dataclass")
    return dump(mode="json")


_any = msgspec.json.Encoder(enc_hook=_model).encode


def encode(value: object) -> bytes:
    """Returns a request's body as JSON. orjson encodes plain dicts in half the time; msgspec the rest of what JSON can
    hold: times, bytes, decimals, structs, dataclasses, keys that are numbers, integers of any size. TypeError for what
    is none of these, and no pydantic model; ValueError for NaN and Infinity, which both write as null."""
    try:
        raw = orjson.dumps(value, option=_PLAIN)
    except TypeError:
        raw = _any(value)
    if raw.find(b"null") >= 0:
        for place in not_finite(msgspec.to_builtins(value, enc_hook=_model)):
            raise ValueError(f"{place}, which JSON does not have; give None or a text for it")
    return raw


def not_finite(value: Any, place: str = "") -> Iterator[str]:
    """Yields where in a plain value a number is that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{place or 'it'} is {value}"
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from not_finite(one, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for at, one in enumerate(value):
            yield from not_finite(one, f"{place}[{at}]")
