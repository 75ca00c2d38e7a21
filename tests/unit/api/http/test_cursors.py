"""Cursors come back as they went, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.api.http.cursors import decode_cursor, encode_cursor


@given(st.binary(max_size=200), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_there_and_back(key: bytes, filters: dict[str, str]) -> None:
    filters = {k: v.encode("utf-8", "replace").decode() for k, v in filters.items()}
    filters = {k.encode("utf-8", "replace").decode(): v for k, v in filters.items()}
    assert decode_cursor("jobs", filters, encode_cursor("jobs", filters, key)) == key


def test_other_filters_and_other_lists_are_refused() -> None:
    text = encode_cursor("jobs", {"state": "NEW"}, b"key")
    with pytest.raises(ValueError, match="other filters"):
        decode_cursor("jobs", {"state": "EXPIRED"}, text)
    with pytest.raises(ValueError, match="other filters"):
        decode_cursor("instances", {"state": "NEW"}, text)


@given(st.text(max_size=60))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        decode_cursor("jobs", {}, text)
