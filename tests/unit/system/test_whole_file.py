"""A small file is replaced whole, or stays as it was."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from raftsched.output.following.sent import Part, Sent
from raftsched.output.receivers.marks import Marks, SegmentMark
from raftsched.system.whole_file import replace_whole


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_it_is_replaced_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    replace_whole(path, b"one")
    replace_whole(path, b"another")
    assert path.read_bytes() == b"another"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["marks"]


def test_what_a_killed_writer_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "marks.new").write_bytes(b"half of something longer than what comes")
    replace_whole(tmp_path / "marks", b"one")
    assert (tmp_path / "marks").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["marks"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_it_stays_as_it_was_where_the_disk_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "marks"
    replace_whole(path, b"one")
    with monkeypatch.context() as patched:
        patched.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), full)
        with pytest.raises(OSError, match="No space"):
            replace_whole(path, b"another")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["marks"], "nothing of it is left in the way"


def test_what_was_not_written_is_written_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(tmp_path / "stored", b"store")
    sent.add(1, Part(0, 100, "n2", b"other"))
    marks = Marks(tmp_path / "shipped", b"store", {})
    marks.move(1, 100, {})
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for kept in (sent, marks):
            with pytest.raises(OSError, match="No space"):
                kept.write()
    sent.write()
    marks.write()
    assert list(Sent(tmp_path / "stored", b"store").gaps(1, 150)) == [(100, 150)]
    assert Marks(tmp_path / "shipped", b"store", {1: 150}).of(1) == SegmentMark(100, floor_ns=0)
