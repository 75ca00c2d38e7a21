"""Points in time: which can be restored, by what, and what may be deleted without losing one that is to be kept."""

from __future__ import annotations

import random

import pytest

from raftsched.backups.names import Full, Segment
from raftsched.backups.points import NotKept, Points, Stretch, expired

C = "ab" * 16
S = 1_000


def full(index: int, at_s: int | None = None) -> Full:
    return Full(C, index, 1, (index if at_s is None else at_s) * S)


def log(first: int, last: int, from_s: int | None = None, to_s: int | None = None) -> Segment:
    return Segment(C, first, last, 1, (first if from_s is None else from_s) * S, (last if to_s is None else to_s) * S)


def test_segments_lead_on_from_a_backup_and_a_gap_ends_it() -> None:
    points = Points.of([log(11, 20), full(10), log(21, 30), log(41, 50), full(60), log(61, 70)])
    assert points.stretches() == [Stretch(10, 30, 10 * S, 30 * S), Stretch(60, 70, 60 * S, 70 * S)]
    assert points.last_index == 70
    assert points.way_to(None).full.index == 60
    way = points.way_to(25)
    assert (way.full.index, [one.first for one in way.segments], way.index) == (10, [11, 21], 25)
    assert points.way_to(10).segments == ()
    assert [one.first for one in points.way_to(20).segments] == [11]
    for index, near in ((9, "--at 10"), (31, "--at 30 and --at 60"), (45, "--at 30 and --at 60"), (71, "--at 70")):
        with pytest.raises(NotKept, match=near):
            points.way_to(index)
    with pytest.raises(NotKept, match="there is no full backup"):
        Points.of([log(1, 5)]).way_to(None)


def test_two_that_wrote_at_once_are_no_gap() -> None:
    points = Points.of([full(10), log(11, 15), log(11, 18), log(16, 25), log(14, 17), full(20), log(19, 40)])
    assert points.stretches() == [Stretch(10, 40, 10 * S, 40 * S)]
    assert [one.last for one in points.way_to(19).segments] == [18, 40]
    assert points.way_to(30).full.index == 20


def test_a_backup_within_a_gap_of_segments_begins_anew() -> None:
    points = Points.of([full(10), log(11, 20), full(30), log(31, 35)])
    assert [(one.first, one.last) for one in points.stretches()] == [(10, 20), (30, 35)]
    points.require_no_gap(20, 20 * S)
    with pytest.raises(NotKept, match="nothing is kept of that time; the nearest that can are --at 20 and --at 30"):
        points.require_no_gap(20, 25 * S)
    points.require_no_gap(35, 99 * S)


def test_what_nothing_leads_to_is_named() -> None:
    a, b, c, d = log(11, 20), log(21, 30), log(31, 40), log(41, 50)

    def seen(*kept: Full | Segment) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        points = Points.of(kept)
        return [(one.first, one.last) for one in points.stranded()], points.missing()

    assert seen(full(10), a, b, c, d) == ([], [])
    assert seen(full(10), a, c, d) == ([(31, 50)], [(21, 30)])
    assert seen(full(10), b, d) == ([(21, 30), (41, 50)], [(11, 20), (31, 40)])
    assert seen(full(10), a, c, full(40), d) == ([(31, 39)], [(21, 30)]), "of 40 there is the backup"
    assert seen(full(10), a, c, full(41), log(41, 50)) == ([(31, 40)], [(21, 30)])
    assert seen(full(10), a, c, d, full(45)) == ([(31, 40)], [(21, 30)])
    assert seen(full(10), a, c, full(35), d) == ([], [(21, 30)]), "a backup goes on from that segment"
    assert seen(full(10), a, full(40), d) == ([], [(21, 40)])
    assert seen(full(10), a, log(25, 28), log(27, 33), d) == ([(25, 33), (41, 50)], [(21, 24), (34, 40)])
    assert seen(a, b, full(40), d) == ([(11, 30)], [(31, 40)])
    assert seen(a, b, full(25), c) == ([(11, 20)], []), "the backup that they go on from was lost"
    assert seen(b, full(25), c) == ([], []), "what is left of a segment that the oldest backup needs"
    assert seen(a, b, d) == ([(11, 30), (41, 50)], [(31, 40)])
    assert seen() == ([], [])
    (one,) = Points.of([full(10), a, c, d]).stranded()
    assert (one.from_ms, one.to_ms, one.segments) == (31 * S, 50 * S, (c, d))


def test_at_random_what_nothing_leads_to_is_needed_by_nothing() -> None:
    rng = random.Random(11)
    found = 0
    for _ in range(500):
        kept: list[Full | Segment] = [full(at) for at in range(40) if rng.random() < 0.1]
        for first in range(1, 40, 3):
            if rng.random() < 0.7:
                kept.append(log(max(1, first - rng.randrange(2)), first + rng.randrange(1, 5)))
        points = Points.of(kept)
        stranded = points.stranded()
        found += len(stranded)
        gone = {segment for one in stranded for segment in one.segments}
        without = Points.of(set(kept) - gone)
        assert (without.stretches(), without.stranded()) == (points.stretches(), [])
        can = {index for s in points.stretches() for index in range(s.first, s.last + 1)}
        assert can.isdisjoint(index for one in stranded for index in range(one.first, one.last + 1))
        has = {index for one in points.segments for index in range(one.first, one.last + 1)}
        lacks = {index for first, last in points.missing() for index in range(first, last + 1)}
        assert has.isdisjoint(lacks)
    assert found > 100


def test_the_newest_state_is_none_where_later_entries_are_kept() -> None:
    points = Points.of([full(10), log(11, 20), log(31, 40), log(51, 60)])
    says = (
        "entries 31 to 40, 51 to 60 of the log are kept and nothing leads to them, for entries 21 to 30, 41 to 50 are"
    )
    with pytest.raises(NotKept, match=rf"{says} missing.* \(log-0000000000000021-\.\.\.\).* --at 20"):
        points.require_newest()
    assert points.way_to(None).index == 20, "who looks at what there is goes on"
    with pytest.raises(NotKept, match="nothing is kept of that time; the nearest that can is --at 20"):
        points.require_no_gap(20, 25 * S)
    Points.of([full(10), log(11, 20), log(31, 40), full(60)]).require_newest()


def test_a_hole_may_reach_across_the_newest_backup() -> None:
    points = Points.of([full(3), full(10), log(13, 16)])
    assert points.missing() == [(4, 12)]
    with pytest.raises(NotKept, match=r"for entries 11 to 12 are missing\. .* \(log-0{14}11-\.\.\.\); .*--at 10$"):
        points.require_newest()
    with pytest.raises(NotKept, match="no full backup, and nothing leads to entries 11 to 20 of the log"):
        Points.of([log(11, 20)]).way_to(None)


def test_what_nothing_leads_to_stays_as_long_as_its_points_would() -> None:
    """What is missing may be found again, in another copy of the place."""
    hole = [full(10), log(11, 20), log(31, 40), full(60), log(61, 70)]
    assert expired(Points.of(hole), 40 * S, 1, 10**12) == []
    assert expired(Points.of(hole), 5 * S, 1, 10**12) == [full(10), log(11, 20), log(31, 40)]
    lost = [log(11, 20), log(21, 30), log(31, 40), full(40), log(41, 50)]
    assert expired(Points.of(lost), 25 * S, 1, 10**12) == [log(11, 20)], "the backup of 10 is missing"
    assert expired(Points.of(lost), 5 * S, 1, 10**12) == [log(11, 20), log(21, 30), log(31, 40)]


def test_times_go_by_the_order_of_the_log_also_where_a_clock_was_behind() -> None:
    ahead, corrected = log(11, 20, 100, 200), log(21, 30, 21, 30)
    points = Points.of([full(10), ahead, corrected])
    assert points.around(25 * S) == (full(10), corrected)
    assert points.around(10 * S) == (full(10), None)
    assert points.around(9 * S) == (None, None)
    assert points.around(150 * S) == (full(10), corrected)


def test_what_a_kept_point_needs_stays() -> None:
    points = Points.of([full(n) for n in (10, 20, 30, 40)] + [log(n + 1, n + 10) for n in (0, 10, 20, 30, 40)])
    gone = expired(points, 15 * S, 1, 10**12)  # the newest is of 50: all from 35 on
    assert gone == [full(10), full(20), log(1, 10), log(11, 20), log(21, 30)]
    rest = Points.of({*points.fulls, *points.segments} - set(gone))
    assert rest.stretches() == [Stretch(30, 50, 30 * S, 50 * S)]
    assert expired(rest, 15 * S, 1, 10**12) == []
    assert expired(points, 15 * S, 4, 10**12) == [log(1, 10)], "so many backups stay"
    assert expired(points, 0, 1, 10**12)[:3] == [full(10), full(20), full(30)], "the last one stays"
    assert expired(points, 15 * S, 1, 20 * S) == [], "by this machine's clock nothing is old"
    assert expired(Points.of([log(1, 10)]), 0, 1, 10**12) == []


def test_a_clock_that_was_ahead_makes_nothing_old() -> None:
    points = Points.of([full(10), full(20), log(21, 30), full(40, 900_000)])
    assert expired(points, 100 * S, 1, 41 * S) == []


def test_a_clock_that_was_behind_makes_nothing_old_of_what_came_before() -> None:
    behind = Points.of([full(100), log(101, 200), full(200), full(300, -9_000), log(301, 310, -9_000, 310)])
    assert expired(behind, 250 * S, 1, 310 * S) == [], "all are of these 250 s, but for one that the clock made old"
    assert expired(behind, 150 * S, 1, 310 * S) == [], "100 to 160 alone are older, and what follows needs 100"
    assert expired(behind, 50 * S, 1, 310 * S)[:2] == [full(100), full(200)]
    log_alone = Points.of([full(100), log(101, 200), full(201, -9_000), log(202, 210)])
    assert expired(log_alone, 100 * S, 1, 210 * S) == []


def test_a_clock_that_was_ahead_for_a_while_keeps_nothing_for_as_long() -> None:
    away = [log(11, 20, 11, 9_000), full(20, 9_000), log(21, 30, 21, 9_001)]
    ahead = Points.of([full(10), *away, full(40), log(41, 90)])
    assert expired(ahead, 45 * S, 1, 90 * S)[:2] == [full(10), full(20, 9_000)]


def test_at_random_nothing_kept_is_lost_and_each_step_of_deleting_is_safe() -> None:
    rng = random.Random(7)
    for _ in range(300):
        kept: list[Full | Segment] = []
        at = rng.randrange(5)
        while at < 60:
            if rng.random() < 0.3:
                kept.append(full(at))
            size = rng.randrange(1, 9)
            if rng.random() < 0.9:
                kept.append(log(max(1, at + 1 - rng.randrange(3)), at + size))
            at += size
        points, keep_s, keep_full = Points.of(kept), rng.randrange(40), rng.randrange(4)
        since = max((s.to_ms for s in points.stretches()), default=0) - keep_s * S
        wanted = {n for s in points.stretches() for n in range(s.first, s.last + 1) if n * S >= since}
        left = set(kept)
        for one in expired(points, keep_s * S, keep_full, 10**12):
            left.remove(one)
            now = {n for s in Points.of(left).stretches() for n in range(s.first, s.last + 1)}
            assert wanted <= now
        assert len(Points.of(left).fulls) >= min(len(points.fulls), max(1, keep_full))
        for index in wanted:
            way = Points.of(left).way_to(index)
            covered = way.full.index
            for segment in way.segments:
                assert segment.first <= covered + 1
                covered = segment.last
            assert covered >= index
