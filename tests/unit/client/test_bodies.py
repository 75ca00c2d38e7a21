"""Bodies that the SDK sends: plain dicts by orjson, everything else that JSON can be made of as ever."""

from __future__ import annotations

import enum
import re
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.client import encoding
from raftsched.client.encoding import encode

Point = namedtuple("Point", "x y")


class Level(enum.IntEnum):
    HIGH = 9


class Colour(enum.StrEnum):
    RED = "red"


class Text(str):
    __slots__ = ()


@dataclass
class Spot:
    x: int


class Said(msgspec.Struct):
    x: int


@pytest.mark.parametrize(
    "value",
    [
        {"name": "päivää", "params": {"n": 1, "x": 1.5, "none": None, "list": [True, False]}},
        {"at": datetime(2026, 11, 22, 19, 0, tzinfo=UTC)},
        {"at": datetime(2026, 11, 22, 19, 0, 0, 5)},
        {"day": date(2026, 11, 22), "in": timedelta(seconds=90)},
        {1: 2},
        {"n": 2**64, "m": -(2**63) - 1},
        {"n": 2**64 - 1, "m": -(2**63)},
        {"z": -0.0, "none": None},
        {"x": Decimal("1.50")},
        {"x": b"\x00\xff"},
        {"x": UUID(int=5)},
        {"x": (1, 2), "y": {3}},
        {"x": Point(1, 2)},
        {"x": Level.HIGH, "y": Colour.RED, Colour.RED: 1},
        {"y": OrderedDict(b=1, a=2)},
        {"x": Spot(1), "y": Said(2)},
        {"b": 1, "a": 2},
        {"x": "\u2028\x7f\x00\x1f/é😀<>&"},
        {},
    ],
    ids=repr,
)
def test_bytes_are_those_of_msgspec(value: Any) -> None:
    assert encode(value) == msgspec.json.encode(value)


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e15, 1e15) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_plain)
def test_any_plain_value(value: Any) -> None:
    assert encode(value) == msgspec.json.encode(value)


@pytest.mark.parametrize("value", [1e16, 1e22, 1.7e308, -1e100])
def test_large_floats_are_the_same_number(value: float) -> None:
    """1e+16 and 1e16; what is stored is written by the node."""
    assert msgspec.json.decode(encode(value)) == value


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, Text("a"), object(), {"x": {"y": object()}}])
def test_what_no_json_is_made_of_is_refused_as_ever(value: Any) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError)) as ours:
        encode(value)
    with pytest.raises(type(ours.value)):
        msgspec.json.encode(value)


@pytest.mark.parametrize(
    "value, where",
    [
        ({"params": {"rate": float("nan")}}, "params.rate is nan"),
        ({"params": {"of": [1.0, {"x": float("inf")}], "none": None}}, "params.of[1].x is inf"),
        ({"params": Spot(float("-inf"))}, "params.x is -inf"),  # type: ignore[arg-type]
        ({"params": {"a.b": (1, float("nan"))}}, "params.a.b[1] is nan"),
        (float("nan"), "it is nan"),
    ],
    ids=repr,
)
def test_numbers_that_json_does_not_have_are_refused_and_named(value: Any, where: str) -> None:
    """They became null, and a function that was called with null knew nothing of it."""
    with pytest.raises(ValueError, match=re.escape(f"{where}, which JSON does not have; give None or a text for it")):
        encode(value)


def test_orjson_does_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(value: object) -> bytes:
        raise AssertionError("not plain")

    monkeypatch.setattr(encoding, "_any", never)
    value = {"name": "a", "trigger": {"every": "5s"}, "handler": {"exec": ["true"]}, "params": {"n": 1.5}}
    assert orjson.loads(encode(value)) == value
