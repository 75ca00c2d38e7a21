"""Values of secrets in what a run prints: never shown, however the pieces come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.worker.redaction import Redactor, redact_json, redact_text, spellings
from raftsched.worker.spool import STDERR, STDOUT, Capture, render


def shown(values: Sequence[str], *pieces: bytes) -> bytes:
    hider = Redactor(values)
    return b"".join(hider.feed(1, piece) for piece in pieces) + b"".join(data for _, data in hider.rest())


@pytest.mark.parametrize(
    ("values", "pieces", "wanted"),
    [
        (["hunter2"], [b"it is hunter2!"], b"it is ***!"),
        (["hunter2"], [b"hun", b"te", b"r2"], b"***"),
        (["hunter2"], [b"hun", b"t"], b"hunt"),
        (["hunter2"], [b"hunhunter2hunter"], b"hun***hunter"),
        (["abcd", "abcdefgh"], [b"abcd", b"efgh abcd", b"x"], b"*** ***x"),
        (["aaaa"], [b"aa", b"aaa", b"a"], b"***aa"),
        (["abcabd"], [b"abcabc", b"abd"], b"abc***"),
        (["p\xe4ssw\xf6rd"], ["p\xe4ssw\xf6rd".encode()[:2], "p\xe4ssw\xf6rd".encode()[2:]], b"***"),
        (["abc"], [b"abc"], b"abc"),  # too short to be hidden
        ([], [b"abc"], b"abc"),
        (["two\nlines"], [b"two\n", b"lines\n"], b"***\n"),
        (['a "b"\n\xe9'], ['{"key":"a \\"b\\"\\n\xe9"}'.encode()], b'{"key":"***"}'),  # as RAFTSCHED_PARAMS has it
        (["two\nlines"], [b"KeyError: 'two\\n", b"lines'"], b"KeyError: '***'"),
        (["don't\x1b"], [b'"don\'t\\x1b"'], b'"***"'),
        (['"\n'], [b'\\"\\n'], b'\\"\\n'),  # too short, however it is written
    ],
)
def test_what_is_shown(values: list[str], pieces: list[bytes], wanted: bytes) -> None:
    assert shown(values, *pieces) == wanted


@given(
    st.lists(st.text("ab", min_size=4, max_size=7), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=9), max_size=12),
)
def test_however_it_is_cut(values: list[str], pieces: list[str]) -> None:
    found = shown(values, *[piece.encode() for piece in pieces])
    assert found == shown(values, "".join(pieces).encode())
    assert not any(value.encode() in found for value in values)


def test_streams_are_apart() -> None:
    hider = Redactor(["hunter2"])
    assert hider.feed(1, b"hun") == b""
    assert hider.feed(2, b"ter2") == b"ter2"
    assert hider.feed(1, b"gry") == b"hungry"


def test_in_what_is_kept_of_a_run_and_in_its_tail(tmp_path: Path) -> None:
    capture = Capture(str(tmp_path), 1 << 20)
    capture.hide(["hunter2"])
    for piece in (b"out hun", b"ter2 ", b"hunt"):
        capture.write(STDOUT, piece, 0)
    capture.write(STDERR, b"bad hunter2", 0)
    assert capture.tail() == "bad ***"
    frames, _, _ = capture.finish(1)
    assert render(frames, STDOUT) == b"out *** hunt"
    assert render(frames, STDERR) == b"bad ***"
    capture.hide(())
    capture.write(STDOUT, b"hunter2", 0)
    assert render(capture.finish(2)[0]) == b"hunter2"


def test_in_errors_and_results() -> None:
    assert redact_text("no hunter2 here", ["hunter2", "abc"]) == "no *** here"
    assert redact_text("KeyError: 'two\\nlines'", ["two\nlines"]) == "KeyError: '***'"
    assert redact_text(None, ["hunter2"]) is None
    assert redact_json(b'{"hunter2":["hunter2",12345678,null]}', ["hunter2", "12345678"]) == (
        b'{"***":["***",12345678,null]}'
    )
    assert redact_json(b"{", ["hunter2"]) is None
    assert redact_json(None, ["hunter2"]) is None


PEM = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\r\n  AgEGCCqGSM49AwEHBG0w\nshort\n-----END PRIVATE KEY-----\n"


def test_lines_of_a_value_of_several() -> None:
    hider = Redactor([PEM])
    said = b"read MIGHAgEAMBMGByqGSM49 and AgEGCCqGSM49AwEHBG0w of -----BEGIN PRIVATE KEY-----, short"
    shown = hider.feed(1, said) + b"".join(rest for _, rest in hider.rest())
    assert shown == b"read *** and *** of -----BEGIN PRIVATE KEY-----, short"
    assert redact_text("bad line 2: 'AgEGCCqGSM49AwEHBG0w'", [PEM]) == "bad line 2: '***'"
    assert redact_text(f"bad: {PEM}.", [PEM]) == "bad: ***."
    assert len(spellings(["\n".join(f"line number {n}" for n in range(5_000))])) < 1_000
