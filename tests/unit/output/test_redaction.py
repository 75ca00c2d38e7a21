"""Values of secrets in what a run prints: never shown, however the pieces come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.output.format.redaction import LINES_MAX, Redactor, redact_json, redact_text, spellings
from raftsched.output.format.spool import STDERR, STDOUT, Capture, render


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


def naive(values: Sequence[bytes], data: bytes, *, over: bool) -> bytes:
    """Returns what may be shown of all that came so far, place by place: the longest value at each is hidden, and all
    waits behind a place where one may go on, unless it is `over`."""
    shown, at = b"", 0
    while at < len(data):
        if not over and any(len(value) > len(data) - at and value.startswith(data[at:]) for value in values):
            break
        found = max((value for value in values if data.startswith(value, at)), key=len, default=b"")
        shown += b"***" if found else data[at : at + 1]
        at += len(found) or 1
    return shown


@given(
    st.lists(st.text('ab"\n', min_size=1, max_size=20), max_size=4),
    st.lists(st.text('abc"\\\n', max_size=9), max_size=12),
)
def test_as_place_by_place(values: list[str], pieces: list[str]) -> None:
    """Nothing waits that need not, either."""
    hider = Redactor(values)
    hidden = [value.encode() for value in spellings(values)]
    came, shown = b"", b""
    for piece in pieces:
        came += piece.encode()
        shown += hider.feed(1, piece.encode())
        assert shown == naive(hidden, came, over=False)
    assert shown + b"".join(data for _, data in hider.rest()) == naive(hidden, came, over=True)


class Steps:
    """Counts what a redactor does: the bytes that it searches, and the places that it looks at in full."""

    def __init__(self, hider: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.searched = self.looks = 0
        matches: Callable[[bytes], list[tuple[int, int, int]]] = hider._matches
        goes_on = hider._goes_on

        def counted(data: bytes) -> list[tuple[int, int, int]]:
            self.searched += len(data)
            return matches(data)

        def counted_look(begin: bytes) -> bool:
            self.looks += 1
            return goes_on(begin)

        monkeypatch.setattr(hider, "_matches", counted)
        monkeypatch.setattr(hider, "_goes_on", counted_look)


_ALIKE = ["\n".join(f"aaaaa{n:03}" for n in range(first, first + 100)) for first in range(0, 900, 100)]


@pytest.mark.parametrize("size", [1, 100, 4096])
@pytest.mark.parametrize("begin", [b"", b"aaaaab"], ids=["one letter", "broken off"])
@pytest.mark.parametrize(
    "values", [["a" * 20_000], ["a" * 9_000 + "b", "a" * 10_000 + "b", "a" * 8], _ALIKE], ids=["long", "two", "many"]
)
def test_work_grows_with_the_output_alone(
    values: list[str], begin: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hider = Redactor(values)
    steps = Steps(hider, monkeypatch)
    output = (begin + b"a" * 5_000) * 13
    shown = b"".join(hider.feed(1, output[at : at + size]) for at in range(0, len(output), size))
    assert steps.searched < 20 * len(output)
    assert steps.looks < 2 * len(output)
    shown += b"".join(data for _, data in hider.rest())
    assert shown == Redactor(values)._hidden(output, len(output))[0]


def test_few_places_of_a_piece_are_looked_at_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    hider = Redactor(["a" * 15_000 + "b", "b" * 30_000])
    steps = Steps(hider, monkeypatch)
    assert hider.feed(1, b"a" * 60_000) == b"a" * 30_065  # further places would do no harm, but are not looked at
    assert steps.looks == 64
    assert [data for _, data in hider.rest()] == [b"a" * 29_935]


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
    assert redact_json(b'{"a":[{"b":"hunter2"},"",{"hunter":[]}],"c":"2hunter2"}', ["hunter2"]) == (
        b'{"a":[{"b":"***"},"",{"hunter":[]}],"c":"2***"}'
    )
    assert redact_json(b'["hunter","2"]', ["hunter2"]) == b'["hunter","2"]'
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


def test_there_are_so_many_lines_of_all_values_and_of_each_the_first_ones() -> None:
    long = [f"of the long one {n}" for n in range(5_000)]
    short = [f"of the short one {n}" for n in range(100)]
    values = ["\n".join(long), "\n".join(short)]
    found = set(spellings(values)) - {spelled for value in values for spelled in spellings([value.replace("\n", "\r")])}
    lines = {one for one in found if "\n" not in one and "\\n" not in one}
    assert lines == {*short, *long[: LINES_MAX - len(short)]}
