"""Names that an address can carry."""

from __future__ import annotations

import pytest

from raftsched.api.jobs.parse import parse_name, parse_namespace


@pytest.mark.parametrize("name", ["a", "...", ".a", "a.", "-x", "a" * 64])
def test_names_that_are_taken(name: str) -> None:
    assert parse_name(name)
    assert parse_namespace(name)


@pytest.mark.parametrize("name", ["", ".", "..", "A", "a b", "a/b", "é", "a\n", "a" * 129])
def test_names_that_are_refused(name: str) -> None:
    assert not parse_name(name)
    assert not parse_namespace(name)
