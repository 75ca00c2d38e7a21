"""Every error of a JSON value against its type, where decoding stops at the first.

Decoding with msgspec is the fast path; when it refuses, `examine` walks the plain value along the same types and says
at each place what is wrong and what would be right. The parts that are sound are kept, so that the checks that come
after (names, triggers, limits) can speak in the same answer.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from raftsched.api.problems import ERRORS_MAX, FieldError, Problem, pointer

T = TypeVar("T")
DEPTH_MAX = 64  # of nested objects and lists in a body

HINTS_MAX = 3  # unknown fields of an object for which a similar one is looked for: that takes a while
HINTED_MAX = 32  # characters

_BAD = object()
_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def nests_deeper(value: Any, limit: int = DEPTH_MAX) -> bool:
    """Whether objects and lists nest deeper than the limit: later readers have less stack than the first one."""
    if isinstance(value, dict):
        return limit == 0 or any(nests_deeper(v, limit - 1) for v in value.values())
    if isinstance(value, list):
        return limit == 0 or any(nests_deeper(v, limit - 1) for v in value)
    return False


def parse(raw: bytes) -> Any:
    """The plain value of a JSON text. Problem invalid-json when it is none."""
    if not raw.strip():
        raise Problem("invalid-json", "The body is empty; it must be a JSON object.")
    try:
        return msgspec.json.decode(raw)
    except UnicodeDecodeError:
        raise Problem("invalid-json", "The body is not UTF-8; JSON must be.") from None
    except RecursionError:
        raise Problem("invalid-json", f"The JSON nests too deeply; at most {DEPTH_MAX} levels are allowed.") from None
    except ValueError as error:
        raise Problem("invalid-json", f"The body is not JSON: {error}.") from None


def read(raw: bytes, model: type[T], decoder: msgspec.json.Decoder[T], code: str) -> T:
    """Decode, or a Problem with every error of the structure."""
    try:
        return decoder.decode(raw)
    except (ValueError, RecursionError):
        pass
    errors: list[FieldError] = []
    result = examine(parse(raw), model, errors)
    if errors or result is None:
        raise Problem(code, errors=errors)
    return result


def examine(value: Any, model: type[T], errors: list[FieldError], read_only: Iterable[str] = ()) -> T | None:
    """The model with what is sound in it; what is not is left out and named in `errors`. None: nothing is sound."""
    sound = _struct(value, _type_of(model), "", errors, frozenset(read_only))
    if sound is _BAD:
        return None
    try:
        return msgspec.convert(sound, model)
    except (ValueError, RecursionError) as error:  # the walk and the types disagree: say it, never fail
        errors.append(FieldError("", str(error)))
        return None


_types: dict[Any, inspect.StructType] = {}


def _type_of(model: Any) -> inspect.StructType:
    if model not in _types:
        info = inspect.type_info(model)
        assert isinstance(info, inspect.StructType)
        _types[model] = info
    return _types[model]


def _walk(value: Any, info: inspect.Type, at: str, errors: list[FieldError], says: str = "") -> Any:
    if len(errors) > ERRORS_MAX:
        return _BAD
    if isinstance(info, inspect.Metadata):
        return _walk(value, info.type, at, errors, (info.extra_json_schema or {}).get("description", says))
    match info:
        case inspect.AnyType():
            return value
        case inspect.UnionType(types=types):
            if value is None and any(isinstance(t, inspect.NoneType) for t in types):
                return None
            rest = [t for t in types if not isinstance(t, inspect.NoneType)]
            return _walk(value, rest[0], at, errors, says)
        case inspect.StructType():
            return _struct(value, info, at, errors, frozenset())
        case inspect.DictType():
            return _mapping(value, info, at, errors, says)
        case inspect.ListType():
            return _sequence(value, info, at, errors, says)
        case inspect.LiteralType(values=values):
            if isinstance(value, str) and value in values:
                return value
            choices = ", ".join(f'"{v}"' for v in values)
            return _bad(value, f"one of {choices}", at, errors)
        case inspect.StrType():
            return value if isinstance(value, str) else _bad(value, says or "a string", at, errors)
        case inspect.BoolType():
            return value if isinstance(value, bool) else _bad(value, says or "true or false", at, errors)
        case inspect.IntType(ge=low, le=high):
            sound = isinstance(value, int) and not isinstance(value, bool)
            if sound and (low is None or value >= low) and (high is None or value <= high):
                return value
            return _bad(value, says or "an integer", at, errors)
    raise AssertionError(f"no rule for {info}")


def _struct(value: Any, info: inspect.StructType, at: str, errors: list[FieldError], read_only: frozenset[str]) -> Any:
    if not isinstance(value, Mapping):
        return _bad(value, "an object", at, errors)
    fields = {f.encode_name: f for f in info.fields}
    sound = {}
    hints = HINTS_MAX
    for key, item in value.items():
        if len(errors) > ERRORS_MAX:
            break
        if key in fields:
            kept = _walk(item, fields[key].type, at + pointer(key), errors)
            if kept is not _BAD:
                sound[key] = kept
        elif key in read_only:
            errors.append(FieldError(at + pointer(key), "is set by the cluster; leave it out"))
        else:
            close = difflib.get_close_matches(key, fields, n=1) if hints > 0 and len(key) <= HINTED_MAX else []
            hints -= 1
            hint = f'did you mean "{close[0]}"?' if close else f"known are {', '.join(sorted(fields))}"
            errors.append(FieldError(at + pointer(key[:128]), f"is not a known field; {hint}"))
    return sound


def _mapping(value: Any, info: inspect.DictType, at: str, errors: list[FieldError], says: str) -> Any:
    if not isinstance(value, Mapping):
        return _bad(value, says or "an object", at, errors)
    walked = {k: _walk(v, info.value_type, at + pointer(k), errors) for k, v in value.items()}
    return {k: v for k, v in walked.items() if v is not _BAD}


def _sequence(value: Any, info: inspect.ListType, at: str, errors: list[FieldError], says: str) -> Any:
    if not isinstance(value, list):
        return _bad(value, says or "a list", at, errors)
    if info.max_length is not None and len(value) > info.max_length:
        errors.append(FieldError(at, f"has {len(value)} items; at most {info.max_length} are allowed"))
        return _BAD
    walked = [_walk(v, info.item_type, at + pointer(i), errors) for i, v in enumerate(value)]
    return [v for v in walked if v is not _BAD]


def _bad(value: Any, right: str, at: str, errors: list[FieldError]) -> Any:
    if isinstance(value, str):
        is_now = f'"{value[:40]}"' + ("..." if len(value) > 40 else "")
    elif isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 1e18):
        is_now = str(value).lower()
    else:
        is_now = _NAMES[type(value)]
    errors.append(FieldError(at, f"is {is_now}; it must be {right}"))
    return _BAD
