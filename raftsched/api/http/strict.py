"""Every error of a JSON value against its type, where decoding stops at the first.

Decoding with msgspec is the fast path; when it refuses, `examine` walks the plain value along the same types and says
at each place what is wrong and what would be right. The parts that are sound are kept, so that the checks that come
after (names, triggers, limits) can speak in the same answer.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from raftsched.api.http.problems import ERRORS_MAX, FieldError, Problem, pointer
from raftsched.system.nesting import DEPTH_MAX, nests_deeper

T = TypeVar("T")
HINTS_MAX = 3  # unknown fields of an object for which a similar one is looked for: that takes a while
_EXACT_MAX = 2**53  # integers up to here are exact as floats
_DIGITS_MAX = 1_000  # of a number
HINTED_MAX = 32  # characters

_BAD = object()
_encode = msgspec.json.Encoder().encode
_plain_decoder = msgspec.json.Decoder()
_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}
_RIGHT: dict[type[inspect.Type], str] = {
    inspect.StructType: "an object",
    inspect.DictType: "an object",
    inspect.ListType: "a list",
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.IntType: "an integer",
    inspect.FloatType: "a number",
}


def parse(raw: bytes) -> Any:
    """The plain value of a JSON text. Problem invalid-json when it is none."""
    if not raw.strip():
        raise Problem("invalid-json", "The body is empty; it must be a JSON object.")
    try:
        value = msgspec.json.decode(raw)
        refuse_repeats(raw)
        return value
    except UnicodeDecodeError:
        raise Problem("invalid-json", "The body is not UTF-8; JSON must be.") from None
    except RecursionError:
        raise Problem("invalid-json", f"The JSON nests too deeply; at most {DEPTH_MAX} levels are allowed.") from None
    except ValueError as error:
        odd = _unreadable(raw)
        if odd is not None:
            raise Problem("invalid-json", errors=[odd]) from None
        raise Problem("invalid-json", f"The body is not JSON: {error}.") from None


def may_repeat(raw: bytes, *, lines: bool = False) -> bool:
    """Returns whether to look for repeated keys in JSON (`lines`: in lines of it) that can be decoded: of a key that is
    given twice one is left, so that the text has more colons than what was understood."""
    if b"\\u00" in raw:
        return True  # a colon may be written that way
    try:
        value = _plain_decoder.decode_lines(raw) if lines else _plain_decoder.decode(raw)
        return raw.count(b":") > _encode(value).count(b":")
    except (ValueError, RecursionError):
        return True


def refuse_repeats(raw: bytes) -> None:
    """Refuses a key that is twice in one object, of which only one would count, in JSON that can be decoded. Raises
    Problem invalid-json.

        Slow when there may be one: a second decoder reads all of it."""
    if not may_repeat(raw):
        return
    try:
        _strict_keys(raw.decode())
    except (ValueError, RecursionError):
        pass


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Problem("invalid-json", f'The key "{key[:128]}" is given twice in one object; give it once.')
            seen.add(key)
    return found


def _nothing(text: str) -> None:
    """Numbers do not matter."""


_strict_keys = json.JSONDecoder(object_pairs_hook=_no_repeats, parse_int=_nothing, parse_float=_nothing).decode


class _TooLarge:
    """Stands for a number that nobody can hold."""


def _unreadable(raw: bytes) -> FieldError | None:
    """The field that makes a JSON text unreadable though it is well formed: a number beyond all bounds, or half of a
    surrogate pair. None when it is something else."""

    def number(text: str) -> Any:
        return _TooLarge if len(text) > _DIGITS_MAX or abs(float(text)) == float("inf") else 0

    try:
        value = json.loads(raw, parse_int=number, parse_float=number)
    except (ValueError, RecursionError):
        return None
    return None if nests_deeper(value) else _find_unreadable(value, "")


def _find_unreadable(value: Any, at: str) -> FieldError | None:
    if value is _TooLarge:
        return FieldError(at, "is a number out of range; use one that fits a 64-bit float, or a string")
    if isinstance(value, str) and not _is_text(value):
        return FieldError(at, "holds half of a surrogate pair; write the whole pair, or the character itself")
    if isinstance(value, dict):
        for key, item in value.items():
            if not _is_text(key):
                return FieldError(at, "has a key with half of a surrogate pair; write the whole pair")
            found = _find_unreadable(item, at + pointer(key[:128]))
            if found is not None:
                return found
    if isinstance(value, list):
        for i, item in enumerate(value):
            found = _find_unreadable(item, at + pointer(i))
            if found is not None:
                return found
    return None


def _is_text(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def read(raw: bytes, model: type[T], decoder: msgspec.json.Decoder[T], code: str) -> T:
    """Decode, or a Problem with every error of the structure."""
    try:
        found = decoder.decode(raw)
    except (ValueError, RecursionError):
        pass
    else:
        if raw.count(b":") > 1:
            refuse_repeats(raw)
        return found
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
        if not errors:  # else it is what is left without what was left out
            errors.append(FieldError("", str(error)))
        return None


def refuse_unknown(change: Any, model: Any, read_only: Iterable[str] = ()) -> None:
    """Refuses what would go unnoticed in a merge patch (RFC 7396) of this model: null for what is no field, and what
    the cluster sets. What else is wrong with a change is found when it is merged. Raises Problem invalid-body."""
    if not isinstance(change, Mapping):
        raise Problem("invalid-body", errors=[FieldError("", "must be an object with the fields to change")])
    errors: list[FieldError] = []
    _refuse_unknown(change, _type_of(model), "", errors, frozenset(read_only))
    if errors:
        raise Problem("invalid-body", errors=errors)


def _refuse_unknown(
    change: Mapping[str, Any], info: inspect.StructType, at: str, errors: list[FieldError], read_only: frozenset[str]
) -> None:
    fields = {f.encode_name: f for f in info.fields}
    _given({key: None for key in change if key not in fields}, info, at, errors, read_only)
    for key, value in change.items():
        inner = _struct_in(fields[key].type) if key in fields else None
        if inner is not None and isinstance(value, Mapping):
            _refuse_unknown(value, inner, at + pointer(key), errors, frozenset())


def _struct_in(info: inspect.Type) -> inspect.StructType | None:
    """Returns the object that a field may be."""
    info = _plain(info)
    if isinstance(info, inspect.UnionType):
        return next((one for one in map(_plain, info.types) if isinstance(one, inspect.StructType)), None)
    return info if isinstance(info, inspect.StructType) else None


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
            if isinstance(value, list) and len(rest) > 1:  # one of them, or a list of them
                rest = [t for t in rest if isinstance(_plain(t), inspect.ListType)] or rest
            if isinstance(value, Mapping):  # of text, or an object that stands for one
                rest.sort(key=lambda t: not isinstance(t, inspect.StructType))
            else:
                rest.sort(key=lambda t: not isinstance(_plain(t), inspect.StrType))
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
            return _bad(value, _right(info), at, errors)
        case inspect.StrType(max_length=most):
            if not isinstance(value, str):
                return _bad(value, _right(info, says), at, errors)
            if most is not None and len(value) > most:
                errors.append(FieldError(at, f"has {len(value)} characters; at most {most} are allowed"))
                return _BAD
            return value
        case inspect.BoolType():
            return value if isinstance(value, bool) else _bad(value, _right(info, says), at, errors)
        case inspect.IntType(ge=low, le=high):
            if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_MAX:
                value = int(value)  # to JSON Schema, and to many who write JSON, 5.0 is an integer
            sound = isinstance(value, int) and not isinstance(value, bool)
            if sound and (low is None or value >= low) and (high is None or value <= high):
                return value
            return _bad(value, _right(info, says), at, errors)
        case inspect.FloatType(ge=low, le=high):
            sound = isinstance(value, int | float) and not isinstance(value, bool)
            if sound and (low is None or value >= low) and (high is None or value <= high):
                return value
            return _bad(value, _right(info, says), at, errors)
    raise AssertionError(f"no rule for {info}")


def _plain(info: inspect.Type) -> inspect.Type:
    return _plain(info.type) if isinstance(info, inspect.Metadata) else info


def _right(info: inspect.Type, says: str = "") -> str:
    """Returns what would be right there; completes "it must be ..."."""
    if isinstance(info, inspect.Metadata):
        return _right(info.type, (info.extra_json_schema or {}).get("description", says))
    if isinstance(info, inspect.UnionType):
        return _right(next(one for one in info.types if not isinstance(one, inspect.NoneType)), says)
    if isinstance(info, inspect.LiteralType):
        return "one of " + ", ".join(f'"{value}"' for value in info.values)
    return says or _RIGHT.get(type(info), "given")


def _struct(value: Any, info: inspect.StructType, at: str, errors: list[FieldError], read_only: frozenset[str]) -> Any:
    if not isinstance(value, Mapping):
        return _bad(value, _right(info), at, errors)
    sound = _given(value, info, at, errors, read_only)
    for field in info.fields:
        if field.required and field.encode_name not in value and len(errors) <= ERRORS_MAX:
            errors.append(FieldError(at + pointer(field.encode_name), f"is missing; it must be {_right(field.type)}"))
    return sound


def _given(
    value: Mapping[str, Any], info: inspect.StructType, at: str, errors: list[FieldError], read_only: frozenset[str]
) -> dict[str, Any]:
    """Returns what is sound of the fields that are there."""
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
            known = f"known are {', '.join(sorted(fields))}" if fields else "no fields are known here"
            hint = f'did you mean "{close[0]}"?' if close else known
            errors.append(FieldError(at + pointer(key[:128]), f"is not a known field; {hint}"))
    return sound


def _mapping(value: Any, info: inspect.DictType, at: str, errors: list[FieldError], says: str) -> Any:
    if not isinstance(value, Mapping):
        return _bad(value, _right(info, says), at, errors)
    walked = {k: _walk(v, info.value_type, at + pointer(k), errors) for k, v in value.items()}
    return {k: v for k, v in walked.items() if v is not _BAD}


def _sequence(value: Any, info: inspect.ListType, at: str, errors: list[FieldError], says: str) -> Any:
    if not isinstance(value, list):
        return _bad(value, _right(info, says), at, errors)
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
