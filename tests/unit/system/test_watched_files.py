"""Files that are replaced while they are in use: every way of that is seen, and nothing half done is used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from raftsched.system.regular_files import read_regular
from raftsched.system.watched_files import UNSETTLED_MS, WatchedFiles
from tests.support.clock import ManualClock

LATER_MS = 10 * UNSETTLED_MS


class House:
    """A file with a number, watched."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.reads = 0
        self.clock = ManualClock(wall=path.stat().st_ctime_ns // 1_000_000 + LATER_MS)
        self.watched: WatchedFiles[int] = WatchedFiles(
            [path, None],
            self._read,
            unusable=(OSError, ValueError),
            warn=lambda error: self.warnings.append(str(error)),
            clock=self.clock,
        )

    def _read(self) -> int:
        self.reads += 1
        return int(read_regular(self.path))


@pytest.fixture
def house(tmp_path: Path) -> House:
    path = tmp_path / "number"
    path.write_text("1")
    return House(path)


def test_files_that_have_not_changed_are_not_read(house: House) -> None:
    looks = house.watched.reload_if_changed(), house.watched.reload_if_changed()
    assert (house.watched.value, looks, house.reads) == (1, (False, False), 1)


def _in_place(path: Path) -> None:
    path.write_text("2")


def _with_the_time_of_before(path: Path) -> None:
    before = path.stat()
    path.write_text("2")  # as long as it was
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _by_rename(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("2")
    os.utime(new, ns=(0, path.stat().st_mtime_ns))
    new.replace(path)


def _deleted_and_written(path: Path) -> None:
    path.unlink()
    path.write_text("2")


@pytest.mark.parametrize("change", [_in_place, _with_the_time_of_before, _by_rename, _deleted_and_written])
def test_another_content_is_taken_however_it_came(house: House, change: Callable[[Path], None]) -> None:
    change(house.path)
    assert house.watched.reload_if_changed()
    assert (house.watched.value, house.watched.reload_if_changed()) == (2, False)
    assert not house.warnings


def test_a_link_that_leads_elsewhere_is_another_content_each_time(tmp_path: Path) -> None:
    """Kubernetes has the files of a secret in a directory, to which `..data` leads: that link is replaced, and the
    directory before it is deleted. What is configured may be a link to such a file in its turn."""
    secret = tmp_path / "secret"
    secret.mkdir()

    def publish(number: str) -> None:
        (secret / f"..{number}").mkdir()
        (secret / f"..{number}" / "number").write_text(number)
        (secret / "..data_tmp").symlink_to(f"..{number}")
        before = os.readlink(secret / "..data") if (secret / "..data").is_symlink() else None
        (secret / "..data_tmp").rename(secret / "..data")
        if before is not None:
            shutil.rmtree(secret / before)

    publish("1")
    (secret / "number").symlink_to("..data/number")
    (tmp_path / "number").symlink_to("secret/number")
    house = House(tmp_path / "number")
    for number in "234":
        publish(number)
        assert (house.watched.reload_if_changed(), house.watched.value) == (True, int(number))
    assert not house.warnings


def test_what_cannot_be_used_is_said_once_and_looked_at_until_it_is_right(house: House) -> None:
    house.path.write_text("two")
    assert [house.watched.reload_if_changed() for _ in range(3)] == [False] * 3
    assert (house.watched.value, len(house.warnings), house.reads) == (1, 1, 4)
    assert house.watched.wrong == house.warnings[0]
    house.path.unlink()
    house.watched.reload_if_changed()
    assert len(house.warnings) == 2, "it is wrong in another way"
    house.path.write_text("2")
    assert (house.watched.reload_if_changed(), house.watched.value, house.watched.wrong) == (True, 2, None)
    house.path.write_text("two")
    house.watched.reload_if_changed()
    assert len(house.warnings) == 3, "it was right in between"


def test_what_was_right_again_without_another_value_is_no_news(house: House) -> None:
    house.path.write_text("x")
    house.watched.reload_if_changed()
    house.path.write_text("1")
    assert (house.watched.reload_if_changed(), house.watched.wrong) == (False, None)


def test_files_that_were_changed_just_now_are_read_once_more(house: House) -> None:
    """Two changes within one step of the file system's time, of the same length, have the same marks."""
    house.path.write_text("2")
    house.clock.wall = house.path.stat().st_ctime_ns // 1_000_000
    assert (house.watched.reload_if_changed(), house.reads) == (True, 2)
    house.watched.reload_if_changed()
    assert house.reads == 3
    house.clock.wall += UNSETTLED_MS
    house.watched.reload_if_changed()
    house.watched.reload_if_changed()
    assert house.reads == 4


def test_they_are_read_without_a_change_where_that_is_asked(house: House) -> None:
    assert (house.watched.reload_if_changed(again=True), house.reads) == (False, 2)


def test_what_is_wrong_at_first_is_raised(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("one")
    with pytest.raises(ValueError, match="one"):
        House(tmp_path / "number")


def test_other_errors_are_not_hidden(house: House) -> None:
    house.path.write_text("2")
    house.watched._read = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        house.watched.reload_if_changed()
