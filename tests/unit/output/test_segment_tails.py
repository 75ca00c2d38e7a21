"""Segments that an earlier process left: nothing whole is given up, and no place in them is used twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.output.format import records
from raftsched.output.format.records import HEADER_SIZE, spans
from raftsched.output.keeping import segment_tails
from raftsched.output.keeping.store import OutputStore
from tests.unit.output.stores import Opened, put

OWN = {"own": 1 << 20}


def five(opened: Opened, namespace: str) -> tuple[Path, list[OutputRef]]:
    """An earlier process has written five."""
    store = opened(share_of=OWN.get)
    refs = [put(store, b"number %d" % n, namespace=namespace) for n in range(5)]
    path = store._table.path_of(refs[0].segment)
    store.close()
    return path, refs


def flip(path: Path, at: int) -> bytes:
    """Damages a bit. Returns what is in the file now."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)
    return bytes(raw)


def readable(store: OutputStore, refs: list[OutputRef]) -> list[int]:
    found = []
    for n, ref in enumerate(refs):
        try:
            assert store.read(ref) == b"number %d" % n
        except RaftschedError:
            continue
        found.append(n)
    return found


def size_of(store: OutputStore, number: int) -> int:
    return next(segment.size for segment in store.synced() if segment.number == number)


@pytest.mark.parametrize("namespace", ["", "own"])
@pytest.mark.parametrize("place", [5, HEADER_SIZE + 6])  # within the header, and within the output
@pytest.mark.parametrize("damaged", [0, 2])
def test_a_damaged_record_does_not_take_those_behind_it_along(
    opened: Opened, tmp_path: Path, damaged: int, place: int, namespace: str
) -> None:
    path, refs = five(opened, namespace)
    before = flip(path, refs[damaged].offset + place)
    store = opened(share_of=OWN.get)
    assert size_of(store, refs[0].segment) == len(before)
    after = put(store, b"after", namespace=namespace)
    assert (after.segment, after.offset) == (refs[0].segment, len(before)), "its end is whole"
    assert readable(store, refs) == [n for n in range(5) if n != damaged]
    assert path.read_bytes()[: len(before)] == before


@pytest.mark.parametrize("namespace", ["", "own"])
@pytest.mark.parametrize("place", [5, HEADER_SIZE + 6, None])  # None: it was not written to its end
def test_a_segment_whose_end_is_not_whole_gets_no_more(
    opened: Opened, tmp_path: Path, place: int | None, namespace: str
) -> None:
    path, refs = five(opened, namespace)
    if place is None:
        os.truncate(path, path.stat().st_size - 2)
        before = path.read_bytes()
    else:
        before = flip(path, refs[-1].offset + place)
    used = {(ref.segment, ref.offset) for ref in refs}
    for _ in range(3):
        store = opened(share_of=OWN.get)
        assert size_of(store, refs[0].segment) == refs[-1].offset, "also when another one has been begun since"
        after = put(store, b"after", namespace=namespace)
        assert (after.segment, after.offset) not in used
        used.add((after.segment, after.offset))
        assert (store.read(after), after.segment > refs[0].segment) == (b"after", True)
        assert (readable(store, refs), path.read_bytes()) == ([0, 1, 2, 3], before)
        assert store.size() == sum(one.stat().st_size for one in tmp_path.glob("seg-*")), "limits count all of it"
        store.close()


def test_nothing_is_begun_before_something_is_written(opened: Opened, tmp_path: Path) -> None:
    path, refs = five(opened, "")
    os.truncate(path, path.stat().st_size - 2)
    for _ in range(3):
        opened(share_of=OWN.get).close()
    assert [one.name for one in tmp_path.glob("seg-*")] == [path.name]
    store = opened(share_of=OWN.get)
    assert put(store, b"after").segment == refs[0].segment + 1


def test_with_a_torn_segment_goes_its_note_and_its_number_is_not_used_again(opened: Opened, tmp_path: Path) -> None:
    path, refs = five(opened, "own")
    os.truncate(path, path.stat().st_size - 2)
    store = opened(share_of=OWN.get)
    store.synced()
    assert len(list(tmp_path.glob("whole-*"))) == 1
    (tmp_path / "whole-00000099-5").touch()  # of one that was deleted while its note stayed
    store.drop_before(1 << 60)
    assert store.synced() == []
    store.close()
    store = opened(share_of=OWN.get)
    assert list(tmp_path.glob("whole-*")) == []
    assert put(store, b"after", namespace="own").segment > refs[0].segment


def test_an_end_is_read_once(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    monkeypatch.setattr(segment_tails, "whole_size", lambda fd: reads.append(fd) or records.whole_size(fd))
    path, _ = five(opened, "own")
    for torn in (False, True):
        if torn:
            os.truncate(path, path.stat().st_size - 2)
        store = opened(share_of=OWN.get)
        store.synced()
        store.synced()
        put(store, b"shared")
        store.close()
    assert len(reads) == 4, "the shared one and the own one, at each of two starts"
    store = opened(share_of=OWN.get)
    store.synced()
    store.close()
    assert len(reads) == 5, "of the torn one it is noted"


def test_one_that_cannot_be_read_gets_no_more(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, refs = five(opened, "")

    def fails(fd: int) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(segment_tails, "whole_size", fails)
    store = opened(share_of=OWN.get)
    assert "Input/output error" in caplog.text
    assert size_of(store, refs[0].segment) == path.stat().st_size
    assert put(store, b"after").segment > refs[0].segment


def test_what_only_looks_like_a_record_is_none(opened: Opened) -> None:
    """A run may print what is in a segment; where the header before it is damaged, that is found at first."""
    store = opened(share_of=OWN.get)
    inner = put(store, b"inner " * 20)
    raw = store._table.path_of(inner.segment).read_bytes()
    outer = put(store, raw[: HEADER_SIZE + 30])
    after = put(store, b"after")
    path = store._table.path_of(inner.segment)
    end = store.size()
    store.close()
    flip(path, outer.offset + 5)
    with path.open("rb") as file:
        found = [(span.begin, span.whole) for span in spans(file.fileno(), 0, end)]
    assert found == [(inner.offset, True), (after.offset, True)]
