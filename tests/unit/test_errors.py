"""Codes that a request is refused with: what is said of it by the description of the API, and what is not."""

from __future__ import annotations

from typing import get_args

import pytest

from raftsched.errors import KINDS, MALFORMED, MEANINGS, Meaning, is_of_meaning


def test_each_code_of_a_place_says_what_it_means() -> None:
    assert list(MEANINGS) == list(get_args(Meaning))


def test_what_is_malformed_has_a_kind_and_is_the_callers_fault() -> None:
    assert all(400 <= KINDS[code].status < 500 for code in MALFORMED)


@pytest.mark.parametrize(
    ("code", "errors", "expected"),
    [
        ("not-found", [], True),
        ("name-taken", [], True),
        ("invalid-job", ["circular"], True),
        ("invalid-job", ["circular", "past"], True),
        ("invalid-job", ["circular", None], False),
        ("invalid-job", [], False),
        ("invalid-json", [None], False),
        ("invalid-parameter", ["no-such-code"], False),
    ],
)
def test_a_request_is_refused_for_what_it_means_when_all_of_it_is_as_described(
    code: str, errors: list[str | None], expected: bool
) -> None:
    assert is_of_meaning(code, errors) is expected
