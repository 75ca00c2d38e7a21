"""What one node says to another to be let in as one: for whom, for what, once, and not for long."""

from __future__ import annotations

import pytest

from raftsched.api.auth.peer_proof import SEEN_MAX, SPAN_MS, Seen, peer_said

KEY, OTHER = b"k" * 32, b"o" * 32
NOW = 1_893_456_000_000
TARGET = "/v1/instances/x/output?attempt=1"


def taken(said: str, seen: Seen | None = None, **but: object) -> str | None:
    given = {"keys": (KEY,), "called": "n2", "method": "GET", "target": TARGET, "now_ms": NOW, "now_s": 1.0, **but}
    return (seen or Seen()).caller(header=said, **given)  # type: ignore[arg-type]


def said(**but: object) -> str:
    given = {"secret": KEY, "caller": "n1", "called": "n2", "target": TARGET, "now_ms": NOW, **but}
    return peer_said(**given)  # type: ignore[arg-type]


def test_a_node_is_known_by_what_it_says() -> None:
    assert taken(said()) == "n1"
    assert taken(said(), keys=(OTHER, KEY)) == "n1"  # while a key is changed
    assert taken(said(), now_ms=NOW + SPAN_MS) == "n1"


@pytest.mark.parametrize(
    "but",
    [
        {"keys": (OTHER,)},
        {"keys": ()},
        {"called": "n3"},
        {"method": "HEAD"},
        {"target": "/v1/instances/y/output?attempt=1"},
        {"target": "/v1/instances/x/output?attempt=2"},
        {"target": "/v1/instances/x/output"},
        {"now_ms": NOW + SPAN_MS + 1},
        {"now_ms": NOW - SPAN_MS - 1},
    ],
)
def test_for_nobody_and_nothing_else(but: dict[str, object]) -> None:
    assert taken(said(), **but) is None


@pytest.mark.parametrize("part", range(4))
def test_a_changed_part_is_noticed(part: int) -> None:
    parts = said().split(" ")
    parts[part] = ("n2", str(NOW + 1), "0" * 32, "0" * 64)[part]
    assert taken(" ".join(parts)) is None


def test_what_was_said_is_taken_once_until_it_is_too_old() -> None:
    seen, once = Seen(), said()
    assert taken(once, seen) == "n1"
    assert taken(once, seen) is None
    assert taken(once, seen, now_s=2.0 + SPAN_MS / 1000) is None
    assert taken(said(), seen, now_s=100.0) == "n1"
    assert len(seen._until) == 1


def test_memory_of_it_is_bounded() -> None:
    seen = Seen()
    seen._until = {str(number): 50.0 for number in range(SEEN_MAX)}
    assert taken(said(), seen) is None
    assert taken(said(), seen, now_s=51.0) == "n1"
