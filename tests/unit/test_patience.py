"""How long tests wait: never less than they ask for, longer where more is at work, and never in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support import patience
from tests.support.patience import patient, until, wait_until, within


@pytest.mark.parametrize(
    ("slower", "crowd", "expected"),
    [
        (0.2, 0.1, 10.0),  # a fast machine without work waits as long as it is told
        (3.0, 0.1, 30.0),
        (0.2, 4.0, 40.0),
        (2.0, 4.0, 80.0),
        (9.0, 9.0, 120.0),
    ],
)
def test_it_grows_with_the_machine_and_its_load(
    monkeypatch: pytest.MonkeyPatch, slower: float, crowd: float, expected: float
) -> None:
    monkeypatch.setattr(patience, "_slower", lambda: slower)
    monkeypatch.setattr(patience, "_crowd", lambda: crowd)
    assert patient(10.0) == expected
    assert patience.patient_ms(10) == expected


def test_this_machine_is_measured() -> None:
    assert patience._slower() > 0
    assert patience._crowd() >= 0


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "patient", lambda seconds: seconds)


def counting(to: int) -> Callable[[], int | None]:
    asked = iter(range(1, to + 1))
    return lambda: found if (found := next(asked)) == to else None


def test_what_was_found_is_returned() -> None:
    assert wait_until(counting(3), "three", every=0.0) == 3
    assert asyncio.run(until(counting(3))) == 3


def test_what_was_waited_for_is_said(hasty: None) -> None:
    with pytest.raises(AssertionError, match="waited in vain for: a sign"):
        wait_until(lambda: None, "a sign", seconds=0.0, every=0.0)
    with pytest.raises(AssertionError, match="waited in vain for: a sign"):
        wait_until(lambda: None, lambda: "a sign", seconds=0.0, every=0.0)
    with pytest.raises(AssertionError, match="waited in vain for: a sign"):
        asyncio.run(until(lambda: None, "a sign", seconds=0.0))

    async def never() -> None:
        await within(asyncio.Event().wait(), 0.0)

    with pytest.raises(TimeoutError):
        asyncio.run(never())


def test_errors_that_pass_count_as_not_yet() -> None:
    asked = []

    def answer() -> bool:
        asked.append(1)
        if len(asked) < 3:
            raise ConnectionError
        return True

    assert wait_until(answer, "an answer", every=0.0, passing=(OSError,))
    asked.clear()
    with pytest.raises(ConnectionError):
        wait_until(answer, "an answer", every=0.0)
