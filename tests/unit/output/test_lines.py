"""The lines of an output, as they are shipped."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.output.format.spool import NOTE, STDERR, STDOUT, pack
from raftsched.output.receivers import lines
from raftsched.output.receivers.lines import Line, frames_in, lines_of


def texts(*frames: tuple[int, bytes]) -> list[tuple[str, str]]:
    return [(line.stream, line.text) for line in lines_of(frames)]


def test_lines_of_both_streams_come_in_the_order_in_which_they_ended() -> None:
    got = list(lines_of([(STDOUT, b"one\ntw"), (STDERR, b"wrong\nmo"), (STDOUT, b"o\n\nlast"), (STDERR, b"re")]))
    assert got == [
        Line(1, "stdout", "one"),
        Line(2, "stderr", "wrong"),
        Line(3, "stdout", "two"),
        Line(4, "stdout", ""),
        Line(5, "stdout", "last"),
        Line(6, "stderr", "more"),
    ]


def test_line_ends_of_other_systems_and_bytes_that_are_no_text() -> None:
    assert texts((STDOUT, b"a\r\nb\xff\xc3\n\x00\x1b[1m\n")) == [
        ("stdout", "a"),
        ("stdout", "b��"),
        ("stdout", "\0\x1b[1m"),
    ]


def test_where_output_was_left_out_a_line_says_so() -> None:
    left_out = struct.pack("<Q", 1_234)
    assert texts((STDOUT, b"the beginn"), (NOTE, left_out), (STDOUT, b"d\nend\n")) == [
        ("stdout", "the beginn"),
        ("stderr", "[... 1234 bytes of output left out ...]"),
        ("stdout", "d"),
        ("stdout", "end"),
    ]


def test_a_long_line_is_cut_between_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_MAX", 5)
    got = list(lines_of([(STDOUT, "ab€€\nfive5\nsix6789".encode())]))
    assert [(line.text, line.goes_on) for line in got] == [
        ("ab€", True),
        ("€", False),
        ("five5", False),
        ("six67", True),
        ("89", False),
    ]


def test_only_at_the_end_of_a_line_a_carriage_return_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_MAX", 5)
    got = list(lines_of([(STDOUT, b"10 %\r20 %\r\n")]))
    assert [(line.text, line.goes_on) for line in got] == [("10 %\r", True), ("20 %", False)]


@given(st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=12)), max_size=8), st.data())
def test_what_is_read_in_other_pieces_makes_the_same_lines(
    frames: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    again = []
    for stream, raw in frames:
        at = data.draw(st.integers(0, len(raw)))
        again += [(stream, raw[:at]), (stream, raw[at:])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LINE_MAX", 5)
        assert list(lines_of(again)) == list(lines_of(frames))


def test_frames_are_read_in_pieces_and_not_beyond_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_MAX", 4)
    body = pack(STDOUT, b"0123456789") + pack(STDERR, b"e")
    file = io.BytesIO(b"before" + body + pack(STDOUT, b"another's"))
    assert list(frames_in(file, 6, 6 + len(body))) == [
        (STDOUT, b"0123"),
        (STDOUT, b"4567"),
        (STDOUT, b"89"),
        (STDERR, b"e"),
    ]
    assert list(frames_in(file, 6, 6 + len(body) - 1))[-1] == (STDOUT, b"89"), "a cut frame is left out"
