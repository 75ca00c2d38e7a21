"""Shipping: each line once the receiver can have it, from the disk, over restarts, and no more than what is wanted."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from pathlib import Path

import msgspec
import pytest

from raftsched.output.following import follower
from raftsched.output.following.follower import NotTaken, Refused
from raftsched.output.format.records import HEADER_SIZE
from raftsched.output.format.segments import owner_of
from raftsched.output.keeping import store as output_module
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.receivers import marks, unshipped
from raftsched.output.receivers.shipper import Shipper
from raftsched.output.receivers.unshipped import LINE_COST, Packed
from tests.unit.output.house import STORE, House, damage, run


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_the_lines_of_what_has_ended_are_shipped_with_whose_they_are(house: House) -> None:
    token = house.print("one\ntwo\n", err="wrong\n")
    assert house.ship() == ["one", "two", "wrong"]
    first = house.receiver.taken[0]
    assert (first.token, first.owner.namespace, first.owner.instance) == (token, "billing", "0d3k@1")
    assert [one.line.stream for one in house.receiver.taken] == ["stdout", "stdout", "stderr"]
    assert [one.line.number for one in house.receiver.taken] == [1, 2, 3]
    assert house.ship() == [], "once"
    house.print("three")
    assert house.ship() == ["three"]
    assert (house.shipper.items, house.shipper.sent_bytes) == (4, len("onetwowrongthree"))


def test_nothing_is_shipped_before_it_is_on_the_disk(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        assert house.ship() == [], "it is written, and not flushed"
        raise OSError(28, "No space left on device")

    house.print("kept")
    assert house.ship() == ["kept"]
    monkeypatch.setattr(output_module.OutputStore, "synced", _without_lock)
    monkeypatch.setattr(output_module.os, "fdatasync", full)
    with pytest.raises(OSError, match="No space"):
        house.print("lost")
    monkeypatch.undo()
    assert house.ship() == []


def _without_lock(store: output_module.OutputStore) -> list[Synced]:
    """As `synced`, for who looks in the middle of a write."""
    return [
        Synced(number, one.owner, one.synced, store._table.path_of(number))
        for number, one in store._table.segments.items()
        if one.synced
    ]


def test_a_receiver_that_is_down_gets_all_of_it_later_in_order(house: House) -> None:
    house.print("one")
    house.receiver.answers = [NotTaken("down"), NotTaken("still down", after_s=7.0), NotTaken("down")]
    assert house.waits() == [1_000, 7_000, 4_000]
    assert house.receiver.texts == ["one"]
    assert house.receiver.tries == [["one"]] * 4
    assert house.shipper.failures == 3


def test_pauses_grow_to_a_minute(house: House) -> None:
    house.print("one")
    house.receiver.answers = [NotTaken("down", after_s=9e9)] + [NotTaken("down")] * 9
    waits = house.waits()
    assert waits[0] == max(waits) == waits[9] == Shipper.retry_most_ms == 60_000


def test_the_mark_moves_only_after_the_receiver_took_it(house: House) -> None:
    house.print("one\ntwo\n")
    house.receiver.answers = [NotTaken("down")]
    assert house.ship() == []
    house.marks.write()
    house.again()
    assert house.ship() == ["one", "two"]


def test_a_restart_goes_on_within_an_output(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unshipped, "BATCH_MAX", 3 * LINE_COST)
    monkeypatch.setattr(follower, "WRITE_S", 0.0)
    house.print("".join(f"{n}\n" for n in range(10)))

    class Killed(BaseException):
        pass

    house.receiver.answers = []
    taken = house.receiver.take

    async def take(lines: list[Packed]) -> None:
        if house.receiver.batches == [3, 3]:
            raise Killed
        await taken(lines)

    house.receiver.take = take  # type: ignore[assignment, method-assign]
    with pytest.raises(Killed):
        run(house.shipper.look())
    house.receiver.take = taken  # type: ignore[method-assign]
    house.again()
    assert house.ship() == ["6", "7", "8", "9"]
    assert house.receiver.texts == [str(n) for n in range(10)]
    assert [one.line.number for one in house.receiver.taken] == list(range(1, 11))


def test_without_the_marks_all_that_says_whose_it_is_is_shipped_again(house: House) -> None:
    house.print("one")
    house.ship()
    (house.directory / "shipped").write_bytes(b"torn")
    house.again()
    assert house.ship() == ["one"]
    again = house.receiver.taken
    assert again[0] == again[1], "with the same time and number, by which a receiver knows it"


def test_what_there_was_before_it_was_turned_on_is_not_shipped(tmp_path: Path) -> None:
    house = House(tmp_path)
    (tmp_path / "shipped").unlink()
    house.again(ships=False)
    house.print("before")
    house.again()
    assert house.ship() == []
    house.print("from now on")
    house.again(ships=False)
    house.print("while it is off")
    house.again()
    house.print("on again")
    assert house.ship() == ["from now on", "on again"]
    assert house.shipper.waiting_bytes == 0


def test_marks_that_a_full_disk_did_not_take_are_written_later(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house.print("one")

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        house.ship()
    assert caplog.text.count("cannot be noted on this node's disk: [Errno 28]") == 1
    house.ship()
    house.again()
    assert house.ship() == []


def test_marks_of_another_disk_are_not_ours(house: House) -> None:
    house.print("one")
    house.ship()
    other = marks.Marks(house.directory / "shipped", b"another", {})
    assert other.of(1) == marks.SegmentMark()
    assert house.marks.of(1) != marks.SegmentMark()


def test_only_the_namespaces_that_are_named(tmp_path: Path) -> None:
    house = House(tmp_path, namespaces=("billing",))
    house.apart = {"billing"}
    for text, namespace in (("ours", "billing"), ("theirs", "hr"), ("ours, too", "billing")):
        house.print(text, namespace)
    assert house.ship() == ["ours", "ours, too"]
    assert house.shipper.waiting_bytes == 0


def test_times_only_grow_so_that_equal_lines_stay_apart(house: House) -> None:
    now = house.clock.wall
    house.print("same\nsame\n")
    house.print("same\n")
    house.print("later\n", ended_at_ms=now + 3_600_000_000)  # a worker says so
    house.print("before\n", ended_at_ms=now - 5)
    house.ship()
    times = [one.at_ns for one in house.receiver.taken]
    assert times == [now * 1_000_000 + n for n in range(5)]


def test_a_clock_that_was_ahead_does_not_put_what_follows_ahead(house: House) -> None:
    house.clock.wall += 86_400_000
    house.print("ahead")
    house.ship()
    house.clock.wall -= 86_400_000
    house.print("now")
    house.print("and now")
    house.ship()
    assert [one.at_ns // 1_000_000 - house.clock.wall for one in house.receiver.taken] == [86_400_000, 0, 0]


def test_what_is_refused_for_good_is_dropped_and_counted(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.print("too old")
    house.receiver.answers = [Refused("400: entry too far behind")]
    assert house.ship() == []
    house.print("fine")
    assert house.ship() == ["fine"]
    assert house.shipper.dropped["refused"] == len("too old")
    assert "entry too far behind" in caplog.text


def test_what_is_deleted_before_it_was_shipped_is_counted_and_said(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.apart = {"scratch"}
    house.print("a" * 100, "scratch")
    run(house.shipper.measure())
    assert house.shipper.waiting_since_ms == house.clock.wall
    waited = house.shipper.waiting_bytes
    assert waited > 100
    house.output.drop_before(1 << 60)
    run(house.shipper.measure())
    assert house.shipper.dropped["deleted"] == waited
    assert (house.shipper.waiting_bytes, house.shipper.waiting_since_ms) == (0, None)
    (said,) = [one for one in caplog.records if "deleted or damaged" in one.message]
    assert str(waited) in said.message
    assert house.ship() == []


def test_damaged_output_is_passed_over(house: House) -> None:
    house.print("damaged")
    house.print("whole")
    (segment,) = house.output.synced()
    damage(segment.path, segment.path.read_bytes().index(b"damaged"))
    assert house.ship() == ["whole"]
    assert house.shipper.dropped["damaged"] == HEADER_SIZE + 5 + len("damaged")


def test_what_comes_behind_damage_is_shipped_though_something_before_it_waits(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unshipped, "BATCH_MAX", 8 * LINE_COST)
    monkeypatch.setattr(unshipped, "TURN", 2 * LINE_COST)
    house.print("".join(f"{n}\n" for n in range(20)))
    (segment,) = house.output.synced()
    house.print("damaged", "hr")
    damage(segment.path, segment.size + 5)
    take = house.receiver.take

    async def once(lines: list[Packed]) -> None:
        house.receiver.answers = [NotTaken("down")] if house.receiver.batches else []
        await take(lines)

    house.receiver.take = once  # type: ignore[assignment, method-assign]
    house.ship()
    house.receiver.take = take  # type: ignore[method-assign]
    damaged = house.shipper.dropped["damaged"]
    assert damaged == segment.path.stat().st_size - segment.size
    house.print("after", "hr")
    house.waits()
    assert sorted(house.receiver.texts) == sorted([*(f"{n}" for n in range(20)), "after"])
    assert house.shipper.dropped["damaged"] == damaged


@pytest.mark.parametrize("namespace", ["billing", "own"])
@pytest.mark.parametrize("left", [10, -2])  # bytes of the output that were not written, of its record that were
def test_behind_what_was_not_written_to_its_end_all_is_shipped(house: House, namespace: str, left: int) -> None:
    house.apart = {"own"}
    house.print("first", namespace)
    assert house.ship() == ["first"]
    path = _segment_of(house, namespace)
    size = path.stat().st_size
    house.print("torn", namespace)
    house.output.close()
    os.truncate(path, left + (size if left > 0 else path.stat().st_size))
    for text in ("one", "two"):
        house.begin()
        assert house.ship() == []
        assert (house.shipper.waiting_bytes, house.shipper.waiting_since_ms) == (0, None)
        house.print(text, namespace)
        assert house.ship() == [text]
        assert house.shipper.dropped.total() == 0
        run(house.shipper.stop())
        house.output.close()


def _segment_of(house: House, namespace: str) -> Path:
    owner = owner_of(namespace) if namespace in house.apart else ""
    return next(segment.path for segment in house.output.synced() if segment.owner == owner)


def test_a_mark_behind_the_end_is_moved_back_to_it(house: House) -> None:
    """As an earlier version left it, or where a disk has lost what it said was on it."""
    house.print("kept")
    size = house.output.size()
    house.print("lost")
    assert house.ship() == ["kept", "lost"]
    house.output.close()
    os.truncate(house.directory / "seg-00000001.dat", size)
    house.begin()
    for text in ("a", "bc", "d"):
        house.print(text)
        assert house.ship() == [text]
    assert house.shipper.dropped.total() == 0


def test_batches_are_bounded_and_paced(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unshipped, "BATCH_MAX", 1_500)
    monkeypatch.setattr(house.shipper, "bytes_per_s", 100)
    for _ in range(10):
        house.print("x" * 400)
    assert len(house.ship()) == 10
    assert house.receiver.batches == [2, 2, 2, 2, 2]
    assert house.pauses[0] == pytest.approx(2 * (400 + LINE_COST) / 100 + LINE_COST / 100, abs=1.0)


def test_many_short_lines_cost_what_many_bytes_cost(house: House) -> None:
    house.shipper.bytes_per_s = 1
    house.print("x\n" * 5_000)
    assert house.ship() == ["x"] * 5_000
    most = unshipped.BATCH_MAX / LINE_COST
    assert max(house.receiver.batches) <= most, "so many lines are made and sent at one time"
    assert sum(house.pauses) > 5_000 * LINE_COST, "their bytes alone would be almost nothing"


# ---------------------------------------------------------------- turns


@pytest.mark.parametrize("apart", [set(), {"loud"}, {"loud", "quiet"}], ids=["one segment", "loud's own", "own ones"])
def test_a_namespace_that_prints_much_does_not_hold_up_the_others(house: House, apart: set[str]) -> None:
    house.apart = apart
    for text in ("first", "second"):
        for n in range(300):
            house.print(f"{n} " * 1_000, "loud")
        house.print(text, "quiet")
    house.ship()
    assert {"first", "second"} <= set(house.receiver.tries[0]), "in the first batch of several"
    assert len(house.receiver.tries) > 3
    for namespace, lines in (("quiet", ["first", "second"]), ("loud", [f"{n} " * 1_000 for n in range(300)] * 2)):
        taken = [one for one in house.receiver.taken if one.owner.namespace == namespace]
        assert [one.line.text for one in taken] == lines, "each in its order"


def test_many_namespaces_have_their_turn_some_at_a_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unshipped, "NAMESPACES", 3)
    monkeypatch.setattr(unshipped, "AHEAD", 5)
    for n in range(40):
        house.print(f"{n}\n", f"n-{n % 8}")
    assert sorted(house.ship(), key=int) == [f"{n}" for n in range(40)]
    assert house.shipper.waiting_bytes == 0


def _kill_after(house: House, batches: int) -> None:
    """The node is killed when the receiver has so many batches and the next one."""

    class Killed(BaseException):
        pass

    take = house.receiver.take

    async def last(lines: list[Packed]) -> None:
        await take(lines)
        if len(house.receiver.batches) > batches:
            raise Killed

    house.receiver.take = last  # type: ignore[assignment, method-assign]
    with pytest.raises(Killed):
        run(house.shipper.look())
    house.receiver.take = take  # type: ignore[method-assign]


@pytest.mark.parametrize("killed_after", range(6))
@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("ahead", [3, 1_000])
def test_what_is_sent_again_is_the_same_though_namespaces_took_turns(
    house: House, monkeypatch: pytest.MonkeyPatch, killed_after: int, noted: bool, ahead: int
) -> None:
    monkeypatch.setattr(unshipped, "BATCH_MAX", 4 * LINE_COST)
    monkeypatch.setattr(unshipped, "TURN", LINE_COST)
    monkeypatch.setattr(unshipped, "AHEAD", ahead)
    monkeypatch.setattr(follower, "WRITE_S", 0.0 if noted else 3_600.0)
    house.print("old\n", "loud")
    house.ship()
    printed = {"old"}
    for n in range(4):
        for namespace in ("loud", "loud", "quiet", f"seldom-{n}"):
            text = f"{namespace} {len(printed)}"
            house.print(f"{text} a\n{text} b\n", namespace)
            printed |= {f"{text} a", f"{text} b"}
    assert len(house.output.synced()) == 1
    _kill_after(house, killed_after + 1)
    sent = len(house.receiver.taken)
    house.again()
    again = house.ship()
    assert set(house.receiver.texts) == printed, "nothing is lost"
    assert noted == (len(again) < len(printed) - 1) or not killed_after
    times: dict[tuple[int, int], set[int]] = {}
    for one in house.receiver.taken:
        times.setdefault((one.token, one.line.number), set()).add(one.at_ns)
    assert all(len(given) == 1 for given in times.values()), "with the time that it had"
    for namespace in {one.owner.namespace for one in house.receiver.taken}:
        for taken in (house.receiver.taken[1:sent], house.receiver.taken[sent:]):
            given = [one.at_ns for one in taken if one.owner.namespace == namespace]
            assert given == sorted(set(given))
    house.print("later", "quiet")
    house.ship()
    assert house.receiver.taken[-1].at_ns > max(one.at_ns for one in house.receiver.taken[:-1])
    assert house.marks.of(1).of.keys() <= {"quiet"}, "no namespace has a mark of its own any more, but who came last"


class _OldMark(msgspec.Struct, array_like=True):
    """As 0.2.0 reads one."""

    at: int = 0
    lines: int = 0
    last_ns: int = 0


class _OldFile(msgspec.Struct, array_like=True):
    store: bytes
    marks: dict[int, _OldMark]


def test_the_marks_of_an_earlier_version_count(house: House) -> None:
    now_ns = house.clock.wall * 1_000_000
    house.print("taken\n")
    size = house.output.size()
    house.print("taken, too\nnot taken\n")
    house.print("theirs\n", "hr")
    old = _OldFile(STORE, {1: _OldMark(size, 1, now_ns + 70)})
    (house.directory / "shipped").write_bytes(msgspec.msgpack.encode(old))
    house.again()
    assert house.ship() == ["not taken", "theirs"]
    assert [one.at_ns for one in house.receiver.taken] == [now_ns + 71] * 2, "later than what was sent before"


def test_an_earlier_version_finds_a_mark_before_which_all_was_taken(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unshipped, "BATCH_MAX", 6 * LINE_COST)
    monkeypatch.setattr(unshipped, "TURN", LINE_COST)
    monkeypatch.setattr(follower, "WRITE_S", 0.0)
    house.print("first\n", "loud")
    size = house.output.size()
    house.print("".join(f"{n}\n" for n in range(50)), "loud")
    house.print("ahead\n", "quiet")
    _kill_after(house, 1)
    house.marks.write()
    taken = house.receiver.texts
    assert "ahead" in taken
    found = msgspec.msgpack.decode((house.directory / "shipped").read_bytes(), type=_OldFile)
    mark = found.marks[1]
    assert (found.store, mark.at) == (STORE, size)
    assert 0 < mark.lines < len(taken)
    assert {f"{n}" for n in range(mark.lines)} <= set(taken), "and it ships what comes behind"
    assert mark.last_ns > house.clock.wall * 1_000_000


def test_segments_of_namespaces_and_more_than_one_of_them(house: House) -> None:
    house.apart = {"a", "b"}
    said = [(f"line {n} " * 20, "abc"[n % 3]) for n in range(60)]
    for text, namespace in said:
        house.print(text, namespace)
    assert len(house.output.synced()) > 3
    house.ship()
    for namespace in "abc":
        got = [one.line.text for one in house.receiver.taken if one.owner.namespace == namespace]
        assert got == [text for text, of in said if of == namespace]
    assert owner_of("a") in {segment.owner for segment in house.output.synced()}


def test_it_ships_by_itself_and_what_has_just_ended_before_it_stops(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def through() -> None:
        house.shipper.start()
        house.print("at the end")
        await house.shipper.stop()

    run(through())
    assert house.receiver.texts == ["at the end"]
    assert house.receiver.closed


def test_a_stop_does_not_wait_for_a_receiver_that_is_down(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def through() -> None:
        house.print("one")
        house.receiver.answers = [NotTaken("down")]
        await house.shipper.look()
        monkeypatch.setattr(asyncio, "wait", None)  # it is not called
        house.shipper.start()
        await house.shipper.stop()

    run(through())
    assert house.receiver.taken == []


def test_the_log_is_told_once_a_minute(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for n in range(3):
        house.print(f"{n}")
        house.receiver.answers = [NotTaken(f"why {n}")]
        house.waits()
        if n == 1:
            house.clock.forward(follower.SAY_MS)
    told = [one.message for one in caplog.records if "does not take" in one.message]
    assert told == [f"the receiver does not take output, which waits: why {n}" for n in (0, 2)]
    assert sum("takes output again" in one.message for one in caplog.records) == 3
