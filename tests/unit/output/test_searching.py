"""Lines of output that hold a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.output.format.spool import STDERR, STDOUT, pack
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.reading import searching
from raftsched.output.reading.searching import Match, Needle, found_in
from raftsched.output.reading.text import Text


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path)


def printed(store: OutputStore, *frames: bytes, stream: str | None = None) -> Text:
    (ref,) = store.append([Record(1, 1, b"".join(frames))])
    assert ref is not None
    return store.open(ref, stream, 1, whole=False)


def test_a_line_is_found_with_its_number_and_its_place(store: OutputStore) -> None:
    text = printed(store, pack(STDOUT, b"one\ntwo\n"), pack(STDERR, b"oops two\r\n"), pack(STDOUT, b"three"))
    assert list(found_in(text, Needle("two"))) == [Match(2, 4, "two"), Match(3, 8, "oops two")]
    assert list(found_in(text, Needle("three"))) == [Match(4, 18, "three")], "the last line need not be whole"
    assert list(found_in(text, Needle("TWO"))) == []
    assert [match.line for match in found_in(text, Needle("TwO", ignore_case=True))] == [2, 3]
    assert text.read(8, 8) == b"oops two", "the place is that of the output"


def test_only_one_stream(store: OutputStore) -> None:
    frames = pack(STDOUT, b"one\n") + pack(STDERR, b"one too\n") + pack(STDOUT, b"one more\n")
    assert [match.text for match in found_in(printed(store, frames, stream="stderr"), Needle("one"))] == ["one too"]
    found = list(found_in(printed(store, frames, stream="stdout"), Needle("one")))
    assert found == [Match(1, 0, "one"), Match(2, 4, "one more")]


def test_lines_are_whole_wherever_pieces_end(store: OutputStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{n}: {'x' * (n % 7)} needle" if n % 3 == 0 else f"{n}: hay" for n in range(200)]
    text = printed(store, pack(STDOUT, "\n".join(lines).encode()))
    wanted = [(n + 1, line) for n, line in enumerate(lines) if n % 3 == 0]
    for piece in (3, 10, 64, 10_000):
        monkeypatch.setattr(searching, "PIECE", piece)
        assert [(match.line, match.text) for match in found_in(text, Needle("needle"))] == wanted


def test_a_long_line_is_shown_in_part(store: OutputStore, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(store, pack(STDOUT, b"a" * 5_000 + b"Needle" + b"b" * 5_000 + b"\nshort\n"))
    for needle in (Needle("Needle"), Needle("needle", ignore_case=True)):
        (match,) = found_in(text, needle)
        assert (match.line, match.offset, len(match.text)) == (1, 0, searching.SHOWN_MAX)
        assert "aaaNeedlebbb" in match.text
    monkeypatch.setattr(searching, "LINE_MAX", 1_000)
    monkeypatch.setattr(searching, "PIECE", 100)
    assert [match.line for match in found_in(text, Needle("short"))] == [2], "it is counted as one line"


@pytest.mark.parametrize("before", ["ß", "İ", "ﬃ", "x"])
def test_the_part_that_is_shown_holds_it_though_case_changes_lengths(store: OutputStore, before: str) -> None:
    text = printed(store, pack(STDOUT, f"{before * 3_000}NEEDLE{'ß' * 3_000}".encode()))
    (match,) = found_in(text, Needle("needle", ignore_case=True))
    assert match.text.startswith(f"{before * 100}NEEDLEß")
    assert len(match.text) == searching.SHOWN_MAX


def test_characters_in_any_case_and_bytes_that_are_none(store: OutputStore) -> None:
    text = printed(store, pack(STDOUT, "GRÜSSE\n".encode() + b"\xff\xfeneedle\n"))
    assert [match.line for match in found_in(text, Needle("grüße", ignore_case=True))] == [1]
    assert [match.text for match in found_in(text, Needle("needle"))] == ["\ufffd\ufffdneedle"]
