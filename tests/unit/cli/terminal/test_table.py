"""The table that a terminal is shown: aligned, fitted into its width, in colours where these are wanted."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.cli.terminal.output import look
from raftsched.cli.terminal.table import Column, Kind, Look, cut, fitted, fold, table_lines
from raftsched.cli.terminal.values import cell_width, text_of, when_text
from raftsched.quantities import duration_text, size_text

NOW_MS = 1_763_640_000_000  # 2025-11-20T12:00:00Z
PRINT = """
from raftsched.cli.terminal.output import print_table
from raftsched.cli.terminal.table import Column
columns = [Column("NAME", lambda r: r[0], "name", 1), Column("STATE", lambda r: r[1], "state", 2)]
print_table(columns, [["a", "FAILED"], ["words of a long cell", "-"]])
"""


def columns(*kinds: Kind) -> list[Column]:
    """Columns of these kinds, the first of the lowest rank. A row has their values in order."""
    return [Column(f"C{at}", lambda row, at=at: row[at], kind, at + 1) for at, kind in enumerate(kinds)]  # type: ignore[misc]


def lines(kinds: list[Kind], rows: list[list[Any]], room: int | None = 80, **look: Any) -> list[str]:
    return list(table_lines(columns(*kinds), rows, Look(room, **look)))  # type: ignore[arg-type]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert lines(["name", "state"], [["a", "x"], ["longer", None]]) == ["C0      C1", "a       x", "longer  -"]


def test_figures_stand_at_the_right() -> None:
    found = lines(["number", "size", "name"], [[5, 2_000_000, "a"], [12_000, 10, "b"]])
    assert found == ["   C0        C1  C2", "    5    2.0 MB  a", "12000  10 bytes  b"]


def test_a_table_without_rows_has_its_header() -> None:
    assert lines(["name", "state"], []) == ["C0  C1"]


def test_names_are_cut_and_what_is_whole_stays_whole() -> None:
    found = lines(["name", "id", "state"], [["n" * 128, "1m8kmbrgy0000@1795955222232", "SUCCEEDED"]], 60)
    assert found[1] == f"{'n' * 19}…  1m8kmbrgy0000@1795955222232  SUCCEEDED"
    assert cell_width(found[1]) == 60


def test_prose_is_folded_between_words_and_keeps_its_lines() -> None:
    assert lines(["state", "prose"], [["ok", "one two three\nfour"]], 12) == [
        "C0  C1",
        "ok  one two",
        "    three",
        "    four",
    ]


def test_columns_of_the_highest_rank_go_first() -> None:
    row: list[Any] = ["n" * 20, "RUNNING", "s" * 20, "t" * 20, "u" * 20, "v"]
    kinds: list[Kind] = ["name", "state", "id", "id", "id", "id"]
    assert lines(kinds, [row], 60)[0].split() == ["C0", "C1", "C2", "C5"], "a small one may still fit"
    assert lines(kinds, [row], 100)[0].split() == ["C0", "C1", "C2", "C3", "C4", "C5"]
    assert len(lines(kinds, [row], None)[1]) == 20 * 4 + 7 + 1 + 2 * 5, "elsewhere all of them are there"


def test_a_further_column_does_not_squeeze_the_texts_before_it() -> None:
    kinds: list[Kind] = ["id", "id", "id", "id", "text", "id"]
    row: list[Any] = ["a", "b", "c", "d", "w" * 100, "e" * 20]
    assert "w" * 39 + "…" in lines(kinds, [row], 80)[1]
    assert lines(kinds, [row], 80)[0].split()[-1] == "C5"
    assert lines(kinds, [row], 70)[0].split()[-1] == "C4"


def test_later_rows_widen_columns() -> None:
    rows = [["a", "x"], ["b", "y"], ["long", "z"]]
    found = list(table_lines(columns("name", "state"), rows, Look(None), together=2))  # type: ignore[arg-type]
    assert found == ["C0  C1", "a   x", "b   y", "long  z"]


def test_the_header_is_told_again_where_other_columns_fit() -> None:
    rows = [["a", "x", "y"], ["b" * 30, "x" * 30, "y"]]
    found = list(table_lines(columns("id", "id", "id"), rows, Look(60), together=1))  # type: ignore[arg-type]
    assert [line.split() for line in found] == [
        ["C0", "C1", "C2"], ["a", "x", "y"], ["C0", "C1"], ["b" * 30, "x" * 30],
    ]  # fmt: skip


@given(st.data(), st.integers(60, 200))
def test_kept_cells_are_whole_and_lines_fit(data: st.DataObject, room: int) -> None:
    kinds = data.draw(st.lists(st.sampled_from(Kind.__args__), min_size=2, max_size=12))  # type: ignore[attr-defined]
    ranks = data.draw(st.permutations(range(len(kinds))))
    shown = [Column(f"C{at}", str, kind, rank) for at, (kind, rank) in enumerate(zip(kinds, ranks, strict=True))]
    first = sorted(range(len(kinds)), key=lambda at: ranks[at])[:2]
    whole = {"id": 44, "time": 24, "state": 16, "number": 12, "size": 12, "duration": 12}
    widest = [data.draw(st.integers(2, whole.get(kind, 4_000))) for kind in kinds]
    if all(kinds[at] == "id" for at in first):  # the only two that may not fit beside each other
        widest[first[0]] = min(widest[first[0]], 13)
    found = fitted(shown, widest, room)
    assert set(first) <= set(found)
    for at, width in found.items():
        assert width == widest[at] if kinds[at] in whole else min(12, widest[at]) <= width <= widest[at]
    assert sum(found.values()) + 2 * (len(found) - 1) <= room


@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))), st.integers(60, 140))
def test_no_line_is_wider_than_the_terminal(rows: list[Any], room: int) -> None:
    for line in lines(["name", "text", "prose"], rows, room):
        assert cell_width(line) <= room
        assert line.isprintable() or not line


@pytest.mark.parametrize(
    ("line", "width", "pieces"),
    [
        ("", 3, [""]),
        ("abc", 3, ["abc"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("ab abcdef g", 4, ["ab", "abcd", "ef g"]),
        ("a  b", 1, ["a", "b"]),
        ("日本語", 4, ["日本", "語"]),
        ("日本", 1, ["日", "本"]),
    ],
)
def test_folding(line: str, width: int, pieces: list[str]) -> None:
    assert fold(line, width) == pieces


@pytest.mark.parametrize(
    ("text", "width", "left"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 5, "日本…"), ("ab cd", 4, "ab…"), ("ab", 1, "…")],
)
def test_cutting(text: str, width: int, left: str) -> None:
    assert cut(text, width) == left


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2), ("a\u200bb", 2)])
def test_how_many_columns_a_text_takes(text: str, width: int) -> None:
    assert cell_width(text) == width


def test_wide_characters_keep_columns_aligned() -> None:
    assert lines(["name", "state"], [["日本", "a"], ["x", "b"]]) == ["C0    C1", "日本  a", "x     b"]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2025-11-20T12:00:00.400Z", "now"),
        ("2025-11-20T11:59:18Z", "42 s ago"),
        ("2025-11-20T11:57:00Z", "3 min ago"),
        ("2025-11-21T08:00:00Z", "in 20 h"),
        ("2025-11-22T13:00:00+01:00", "in 2 d"),
        ("2028-11-20T12:00:00Z", "in 3 y"),
        ("tomorrow", "tomorrow"),
    ],
)
def test_times_are_told_from_now_on(at: str, words: str) -> None:
    assert when_text(at, NOW_MS) == words
    assert lines(["time", "name"], [[at, "a"]], now_ms=NOW_MS)[1] == f"{words.ljust(2)}  a"
    assert text_of(at, "time") == at, "as it is, where no time is given to tell it from"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"), (350, "350 ms"), (999.6, "1.0 s"), (2_449, "2.4 s"), (9_949, "9.9 s"), (9_960, "10 s"),
        (10_047, "10 s"), (59_600, "1 min"), (67_000, "1 min 7 s"), (7_500_000, "2 h 5 min"), (273_600_000, "3 d 4 h"),
        (-3, "-3 ms"), (89_999.0, "1 min 30 s"),
    ],
)  # fmt: skip
def test_durations_as_people_say_them(ms: float, words: str) -> None:
    assert duration_text(ms) == words


def test_sizes_are_of_one_family() -> None:
    found = [size_text(size) for size in (999, 1_000, 80_000_000_000, 1 << 20, 3e12)]
    assert found == ["999 bytes", "1.0 kB", "80.0 GB", "1.0 MB", "3.0 TB"]


def test_states_have_colours_and_the_header_is_bold() -> None:
    found = lines(["name", "state"], [["FAILED", "FAILED"]], bold=True, coloured=True)
    assert found == ["\033[1mC0\033[0m      \033[1mC1\033[0m", "FAILED  \033[31mFAILED\033[0m"]
    assert lines(["name", "state"], [["a", "FAILED"]], bold=True)[1] == "a   FAILED"


@pytest.mark.parametrize(
    ("terminal", "said", "bold", "coloured"),
    [
        (True, {}, True, True),
        (False, {}, False, False),
        (True, {"TERM": "dumb"}, False, False),
        (True, {"NO_COLOR": "1"}, True, False),
        (True, {"NO_COLOR": ""}, True, True),
        (True, {"CLICOLOR": "0"}, True, False),
        (False, {"FORCE_COLOR": "1"}, True, True),
        (False, {"FORCE_COLOR": ""}, False, False),
        (False, {"CLICOLOR_FORCE": "1"}, True, True),
        (False, {"CLICOLOR_FORCE": "0"}, False, False),
        (False, {"CLICOLOR_FORCE": "1", "TERM": "dumb"}, True, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        (True, {"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True, True),
    ],
)
def test_who_wants_colours(
    terminal: bool, said: dict[str, str], bold: bool, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **said}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    found = look()
    assert (found.bold, found.coloured) == (bold, coloured)


def on_a_terminal(width: int, **said: str) -> list[str]:
    ours, theirs = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if "COLOR" not in name}
    environment = {**clean, "COLUMNS": str(width), "TERM": "xterm", **said}
    subprocess.run([sys.executable, "-c", PRINT], env=environment, stdout=theirs, check=True)
    os.close(theirs)
    seen = os.read(ours, 4_096).decode()
    os.close(ours)
    return seen.split("\r\n")


def test_a_terminal_is_shown_it_in_its_width() -> None:
    assert on_a_terminal(20) == [
        "\033[1mNAME\033[0m          \033[1mSTATE\033[0m",
        "a             \033[31mFAILED\033[0m",
        "words of a…   -",
        "",
    ]


def test_colours_go_into_a_pipe_that_wants_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINT],
        env={**os.environ, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\033[31mFAILED\033[0m\nwords of a long cell  -\n" in done.stdout, "whole, as into any pipe"
