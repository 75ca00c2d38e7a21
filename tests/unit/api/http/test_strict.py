"""What a body lacks is named at its place, in whichever object it lies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from raftsched.api.http import strict
from raftsched.api.http.problems import Problem


class Inner(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    count: Annotated[int, Meta(description="an integer from 1 to 9")]
    more: int = 0


class Outer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    kind: Literal["a", "b"]
    inner: Inner
    others: list[Inner] = []
    maybe: Inner | str | None = None
    flag: bool | None


WHOLE: dict[str, Any] = {"name": "x", "kind": "a", "inner": {"count": 1}, "flag": None}


def wrong(body: Any, model: Any = Outer) -> dict[str, str]:
    with pytest.raises(Problem) as refused:
        strict.read(msgspec.json.encode(body), model, msgspec.json.Decoder(model), "invalid-body")
    return {error.pointer: error.detail for error in refused.value.errors if not isinstance(error, str)}


def without(*fields: str, **more: Any) -> dict[str, Any]:
    return {key: value for key, value in {**WHOLE, **more}.items() if key not in fields}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (without("name"), {"/name": "is missing; it must be a string"}),
        (without("kind"), {"/kind": 'is missing; it must be one of "a", "b"'}),
        (without("inner"), {"/inner": "is missing; it must be an object"}),
        (without("flag"), {"/flag": "is missing; it must be true or false"}),
        (without(inner={}), {"/inner/count": "is missing; it must be an integer from 1 to 9"}),
        (without(maybe={"more": 1}), {"/maybe/count": "is missing; it must be an integer from 1 to 9"}),
        (
            without(others=[{"count": 1}, {"more": 1}]),
            {"/others/1/count": "is missing; it must be an integer from 1 to 9"},
        ),
    ],
)
def test_a_field_that_is_missing_is_named_with_what_would_be_right(body: Any, says: dict[str, str]) -> None:
    assert wrong(body) == says


def test_all_that_is_missing_and_all_that_is_wrong_is_said_at_once() -> None:
    assert wrong({"nmae": "x", "kind": "c"}) == {
        "/nmae": 'is not a known field; did you mean "name"?',
        "/kind": 'is "c"; it must be one of "a", "b"',
        "/name": "is missing; it must be a string",
        "/inner": "is missing; it must be an object",
        "/flag": "is missing; it must be true or false",
    }


def test_a_change_needs_no_more_than_what_it_changes() -> None:
    strict.refuse_unknown({"inner": {"more": 2}}, Outer)
    with pytest.raises(Problem) as refused:
        strict.refuse_unknown({"inner": {"mroe": None}}, Outer)
    assert [error.detail for error in refused.value.errors] == ['is not a known field; did you mean "more"?']
