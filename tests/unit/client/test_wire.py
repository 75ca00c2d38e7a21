"""Queries as the client writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest

from raftsched.client.wire import query_text
from raftsched.quantities import parse_duration


def asked(query: dict[str, Any]) -> dict[str, list[str]]:
    return parse_qs(query_text(query).removeprefix("?"))


@pytest.mark.parametrize(
    "length",
    [
        timedelta(0),
        timedelta(hours=2),
        timedelta(milliseconds=1),
        timedelta(days=36_525),
        timedelta(days=1, milliseconds=999),
    ],
)
def test_a_duration_is_read_as_it_was_meant(length: timedelta) -> None:
    (text,) = asked({"for": length})["for"]
    assert parse_duration(text) == length // timedelta(milliseconds=1)


def test_values_are_as_json_has_them() -> None:
    at = datetime(2030, 1, 31, 2, tzinfo=UTC)
    query = {"from": at, "all": True, "state": ["A", "B"], "count": 3, "name": "a b", "to": None}
    assert asked(query) == {
        "from": ["2030-01-31T02:00:00+00:00"],
        "all": ["true"],
        "state": ["A", "B"],
        "count": ["3"],
        "name": ["a b"],
    }


def test_nothing_is_no_query() -> None:
    assert query_text(None) == query_text({"to": None}) == ""
