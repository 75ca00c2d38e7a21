"""How deep a value nests is told alike of the value and of its JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from raftsched.system.nesting import DEPTH_MAX, json_nests_deeper, nests_deeper, text_nests_deeper


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [0, value] if level % 2 else {"a": 0, "b": value}
    return value


@pytest.mark.parametrize(("levels", "deeper"), [(0, False), (DEPTH_MAX, False), (DEPTH_MAX + 1, True), (500, True)])
def test_a_level_is_an_object_or_a_list(levels: int, deeper: bool) -> None:
    assert nests_deeper(nested(levels)) == deeper
    assert json_nests_deeper(msgspec.json.encode(nested(levels))) == deeper
    assert text_nests_deeper(msgspec.json.encode(nested(levels))) == deeper


@pytest.mark.parametrize("text", ["[" * 200, "]" * 200, '"', '\\"]', "\\", "\\\\", '"\\', "[]", '["'])
def test_brackets_in_texts_are_no_levels(text: str) -> None:
    for levels, deeper in ((DEPTH_MAX - 2, False), (DEPTH_MAX + 1, True)):
        value: Any = [text, {text: text}]
        for _ in range(levels - 2):
            value = [text, value, text]
        assert text_nests_deeper(msgspec.json.encode(value)) == nests_deeper(value) == deeper
        assert text_nests_deeper(json.dumps(value, indent=1).encode()) == deeper


def test_what_no_stack_has_room_for_nests_deeper() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert nests_deeper(value)
    assert json_nests_deeper(b"[" * 100_000 + b"]" * 100_000)


def test_many_beside_each_other_do_not_nest() -> None:
    assert not nests_deeper([[]] * 1_000)
    assert not json_nests_deeper(b"[" + b"{}," * 1_000 + b"[]]")
    assert not json_nests_deeper(msgspec.json.encode("[" * 1_000))


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="malformed"):
        json_nests_deeper(b"[" * 100 + b"}")
