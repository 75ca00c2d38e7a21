"""What apply executes for the lives of jobs does not rise above what is kept of the last release without a reason:
`./scripts/bench ratio --short` says by how much it did, and `./scripts/bench ratio --keep REASON` keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.benches.ratio import kept

FOUND = {"one-shot's life": {"opcodes": 1_000, "rows put": 8}}


def of(opcodes: int, rows: int, raised: list[Any] | None = None) -> dict[str, Any]:
    figures = {"one-shot's life": {"opcodes": opcodes, "rows put": rows}}
    return {"python": {kept.PYTHON: figures}, "raised": raised or []}


@pytest.mark.slow
def test_apply_executes_no_more_than_at_the_last_release() -> None:
    counts = kept.compared(kept.counted(), kept.read())
    if not counts:
        pytest.skip(f"nothing is kept for Python {kept.PYTHON}")
    assert [str(count) for count in counts if count.risen] == []


@pytest.mark.parametrize(
    ("opcodes", "rows", "risen"),
    [(1_000, 8, []), (971, 8, []), (970, 8, ["opcodes"]), (2_000, 7, ["rows put"]), (500, 4, ["opcodes", "rows put"])],
)
def test_more_than_three_in_a_hundred_is_told(opcodes: int, rows: int, risen: list[str]) -> None:
    assert [count.what for count in kept.compared(FOUND, of(opcodes, rows)) if count.risen] == risen


def test_what_was_not_executed_before_is_told() -> None:
    before = {"python": {kept.PYTHON: {"one-shot's life": {"opcodes": 1_000}}}, "raised": []}
    assert [count.what for count in kept.compared(FOUND, before) if count.risen] == ["rows put"]


def test_another_python_is_held_to_its_own_figures() -> None:
    assert kept.compared(FOUND, {"python": {"2.7": {}}, "raised": []}) == []
    assert set(kept.updated(FOUND, {"python": {"2.7": {}}, "raised": []}, "")["python"]) == {"2.7", kept.PYTHON}


def test_what_fell_is_kept_without_a_reason() -> None:
    assert kept.updated(FOUND, of(1_001, 9), "") == of(1_000, 8)


def test_what_rose_is_kept_with_its_reason_alone() -> None:
    for reason in ("", "  "):
        with pytest.raises(RuntimeError, match="one-shot's life, opcodes: 990 -> 1,000"):
            kept.updated(FOUND, of(990, 8), reason)
    before = {"python": "3.11", "reason": "an older one", "what": []}
    after = kept.updated(FOUND, of(990, 8, [before]), "runs count their retries")
    assert after["python"] == of(1_000, 8)["python"]
    what = ["one-shot's life, opcodes: 990 -> 1,000"]
    assert after["raised"] == [before, {"python": kept.PYTHON, "reason": "runs count their retries", "what": what}]


def test_every_raise_that_is_kept_says_why() -> None:
    assert all(raised["reason"].strip() and raised["what"] for raised in kept.read()["raised"])
