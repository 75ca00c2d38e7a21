from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from raftsched.schedule.zones import Stretch, zone

NAMES = [
    "UTC",
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Antarctica/Troll",
]


def utc(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def stretches(name: str, low: int, high: int) -> list[Stretch]:
    place = zone(name)
    found = [place.stretch(low)]
    while found[-1].end < high:
        found.append(place.stretch(found[-1].end))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_stretches_tile_time_and_know_the_offset(name: str) -> None:
    place = zone(name)
    found = stretches(name, utc("1996-01-01"), utc("2040-01-01"))
    for left, right in pairwise(found):
        assert left.end == right.start
        assert right.reached == max(left.reached, left.end + left.offset)
    for stretch in found:
        assert stretch.start < stretch.end
        for at in (stretch.start, (stretch.start + stretch.end) // 2, stretch.end - 1):
            assert place.offset(at) == stretch.offset
            assert place.stretch(at) == stretch


def test_changes_are_found_to_the_second() -> None:
    gap = zone("Europe/Madrid").stretch(utc("2027-03-28T01:00"))
    assert (gap.start, gap.offset, gap.start + gap.offset - gap.reached) == (
        utc("2027-03-28T01:00"),
        7200,
        3600,
    )
    overlap = zone("Australia/Lord_Howe").stretch(utc("2027-04-03T15:00"))
    assert overlap.start == utc("2027-04-03T15:00")
    assert overlap.reached - overlap.start - overlap.offset == 1800
