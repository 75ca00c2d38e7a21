"""Offsets of other data: which zones changed, and when clocks show the same."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from raftsched.schedule import TriggerError
from raftsched.schedule.offsets import AHEAD_S, BEHIND_S, Gathering, Offsets
from raftsched.schedule.zones import zone
from tests.support.zone_files import write_zone, zones_of

NOW = 1_763_596_800  # 2025-11-20T00:00:00Z
MADRID = "CET-1CEST,M3.5.0,M10.5.0/3"


def at(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}Z").timestamp())


def gathered(names: list[str]) -> bytes:
    gathering = Gathering(names, NOW)
    turns = 0
    while not gathering.go_on(1):
        turns += 1
    assert turns == len(names)
    return gathering.encoded()


@pytest.fixture
def before(tmp_path: Path) -> bytes:
    write_zone(tmp_path / "a", "Test/Still", MADRID)
    write_zone(tmp_path / "a", "Test/Zed", MADRID)
    write_zone(tmp_path / "b", "Test/Still", MADRID)
    with zones_of(tmp_path / "a"):
        return gathered(["Test/Zed", "Test/Still", "Test/None"])


def test_the_same_data_has_the_same_offsets(tmp_path: Path, before: bytes) -> None:
    with zones_of(tmp_path / "a"):
        offsets = Offsets(before)
        assert not offsets.changed("Test/Zed")
        for moment in range(NOW - BEHIND_S + 1, NOW + AHEAD_S, 777_777):
            assert offsets.knows("Test/Zed", moment)
            if not zone("Test/Zed").stretch(moment).offset - 3600 and moment % 86_400 > 1:
                assert offsets.moved("Test/Zed", moment) == moment
        assert not offsets.knows("Test/Zed", NOW - BEHIND_S)
        assert not offsets.knows("Test/Zed", NOW + AHEAD_S)
        assert not offsets.knows("Test/None", NOW)


@pytest.mark.parametrize(
    ("rule", "moment", "moved"),
    [
        ("<Z>-1", "2026-01-10T08:00", "2026-01-10T08:00"),
        ("<Z>-1", "2026-07-10T07:00", "2026-07-10T08:00"),  # summer time is no more
        ("<Z>-3", "2026-01-10T08:00", "2026-01-10T06:00"),
        ("<Z>1", "2026-01-10T08:00", "2026-01-10T10:00"),
        ("CET-1CEST,M4.2.0,M10.5.0/3", "2026-04-05T07:00", "2026-04-05T08:00"),  # it begins later
        ("CET-1CEST,M4.2.0,M10.5.0/3", "2026-04-20T07:00", "2026-04-20T07:00"),
        # What was due in the hour that clocks left out at 01:00Z was 02:00 or later, and there is an hour for it now.
        ("<Z>-1", "2026-03-29T01:00", "2026-03-29T01:00"),
        # 02:30 comes twice by the new data: its first time
        ("CET-1CEST,M3.5.0,M11.2.0/3", "2026-11-08T01:30", "2026-11-08T00:30"),
    ],
)
def test_clocks_show_the_same_at_another_time(
    tmp_path: Path, before: bytes, rule: str, moment: str, moved: str
) -> None:
    write_zone(tmp_path / "b", "Test/Zed", rule)
    with zones_of(tmp_path / "b"):
        offsets = Offsets(before)
        assert offsets.changed("Test/Zed")
        assert not offsets.changed("Test/Still")
        found = offsets.moved("Test/Zed", at(moment))
        assert datetime.utcfromtimestamp(found).isoformat(timespec="minutes") == moved


def test_a_zone_that_is_gone_is_none(tmp_path: Path, before: bytes) -> None:
    with zones_of(tmp_path / "b"), pytest.raises(TriggerError, match="no time zone"):
        Offsets(before).changed("Test/Zed")


def test_a_zone_that_was_not_there_has_changed(tmp_path: Path, before: bytes) -> None:
    write_zone(tmp_path / "b", "Test/New", "<N>-5")
    with zones_of(tmp_path / "b"):
        assert Offsets(before).changed("Test/New")


def test_a_damaged_file_of_a_zone_is_passed_over(tmp_path: Path) -> None:
    write_zone(tmp_path, "Test/Zed", "<Z>0")
    write_zone(tmp_path, "Test/Bad", "<Z>0")
    whole = (tmp_path / "Test/Bad").read_bytes()
    for damaged in (whole[:5], whole[:30], whole[:60], whole[:-6] + b"x" + whole[-5:]):
        (tmp_path / "Test/Bad").write_bytes(damaged)
        with zones_of(tmp_path):
            with pytest.raises(TriggerError, match="its file on this host is damaged"):
                zone("Test/Bad")
            gathering = Gathering(("Test/Zed", "Test/Bad"), 0)
            assert gathering.go_on(5)
            assert Offsets(gathering.encoded()).knows("Test/Zed", 1)
