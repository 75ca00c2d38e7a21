"""What counts as grown in a soak: what nodes never give back, and not how many runs come at once."""

from __future__ import annotations

import math

from scripts.benches.soak import BELOW, Taken, grown

SETTLE_S = 300.0


def taken(minutes: int, *, disk: float = 0.0, leaked: float = 0.0) -> list[Taken]:
    """Two samples a minute under bursts that become larger. `disk`, `leaked`: MiB and processes that stay, of each."""
    found = []
    for number in range(2 * minutes):
        burst = number % 8 * (1 + number / (2 * minutes))
        below = 20 + leaked * number + burst
        found.append(Taken(30.0 * number, 170, 250, 100 + disk * number, 190, 25, below, 4 * below, 10 * below))
    return found


def test_bursts_are_no_growth() -> None:
    assert set(grown(taken(60), SETTLE_S).values()) == {1.0}


def test_what_stays_is_growth() -> None:
    growths = grown(taken(60, disk=1.0, leaked=0.1), SETTLE_S)
    assert {name for name, value in growths.items() if value > 1.05} == {"disk", *BELOW}


def test_what_comes_before_it_settles_does_not_count() -> None:
    early = [Taken(0.0, *[1.0] * 8)] * 50
    assert set(grown([*early, *taken(60)], SETTLE_S).values()) == {1.0}


def test_too_few_samples_say_nothing() -> None:
    assert all(math.isnan(value) for value in grown(taken(60)[:2], 0.0).values())
