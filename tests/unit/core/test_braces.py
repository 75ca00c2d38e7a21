"""Names in braces: every piece of a text, in its order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.core.rules.braces import pieces


@pytest.mark.parametrize(
    "text, found",
    [
        ("", []),
        ("plain", [("plain", None)]),
        ("{a}", [("{a}", "a")]),
        ("x{a.b:%Y}y", [("x", None), ("{a.b:%Y}", "a.b:%Y"), ("y", None)]),
        ("{}", [("{}", "")]),
        ("{a}{b}", [("{a}", "a"), ("{b}", "b")]),
        ("{{a}}", [("{{", None), ("a", None), ("}}", None)]),
        ("{{{a}}}", [("{{", None), ("{a}", "a"), ("}}", None)]),
        ("{a", [("{", None), ("a", None)]),
        ("a}", [("a", None), ("}", None)]),
        ("{a{b}", [("{", None), ("a", None), ("{b}", "b")]),
        ("{a\nb}", [("{a\nb}", "a\nb")]),
    ],
)
def test_pieces(text: str, found: list[tuple[str, str | None]]) -> None:
    assert list(pieces(text)) == found


@given(st.text("{}ab"))
def test_nothing_is_lost_and_braces_are_pieces_of_their_own(text: str) -> None:
    found = list(pieces(text))
    assert "".join(piece for piece, _ in found) == text
    for piece, name in found:
        if name is not None:
            assert piece == f"{{{name}}}"
        else:
            assert piece in ("{", "}", "{{", "}}") or not set(piece) & set("{}")
