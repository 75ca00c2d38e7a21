"""The table that a terminal is shown: aligned, folded into its width, in colours where these are wanted."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from raftsched.cli.terminal.table import cell_width, fold, narrowed, table_lines

PRINT = """
from raftsched.cli.terminal.output import print_table
print_table(["NAME", "STATE"], [["a", "FAILED"], ["words of a long cell", "-"]])
"""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that knows no styles, unless a test says otherwise."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("NO_COLOR", raising=False)


def lines(rows: list[list[str]], columns: int = 80) -> list[str]:
    return list(table_lines(["NAME", "NEXT"], rows, columns))


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert lines([["a", "soon"], ["longer", "-"]]) == ["NAME    NEXT", "a       soon", "longer  -"]


def test_a_table_without_rows_has_its_header() -> None:
    assert lines([]) == ["NAME  NEXT"]


def test_long_cells_are_folded_between_words() -> None:
    found = lines([["one two three four", "x" * 12], ["b", "y"]], 20)
    assert found == ["NAME       NEXT", "one two    xxxxxxxxx", "three      xxx", "four", "b          y"]


def test_the_widest_columns_give_way_and_none_vanishes() -> None:
    assert narrowed([5, 30, 20], 60) == [5, 30, 20]
    assert narrowed([5, 30, 20], 25) == [5, 10, 10]
    assert narrowed([5, 6], 1) == [1, 1]


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


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2), ("a\u200bb", 2)])
def test_how_many_columns_a_text_takes(text: str, width: int) -> None:
    assert cell_width(text) == width


def test_wide_characters_keep_columns_aligned() -> None:
    assert lines([["日本", "a"], ["x", "b"]]) == ["NAME  NEXT", "日本  a", "x     b"]


def test_lines_of_a_cell_stay_lines() -> None:
    assert lines([["a\nb", "c\td"]]) == ["NAME  NEXT", "a     c       d", "b"]


def test_states_have_colours_and_the_header_is_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert lines([["a", "FAILED"]]) == ["\033[1mNAME\033[0m  \033[1mNEXT  \033[0m", "a     \033[31mFAILED\033[0m"]


def test_no_color_leaves_the_header_bold_and_nothing_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert lines([["a", "FAILED"]]) == ["\033[1mNAME\033[0m  \033[1mNEXT  \033[0m", "a     FAILED"]


def test_a_terminal_is_shown_it_in_its_width() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "15", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", PRINT], env=environment, stdout=theirs, check=True)
    os.close(theirs)
    seen = os.read(ours, 4_096).decode()
    os.close(ours)
    assert seen.split("\r\n") == [
        "\033[1mNAME   \033[0m  \033[1mSTATE \033[0m",
        "a        \033[31mFAILED\033[0m",
        "words    -",
        "of a",
        "long",
        "cell",
        "",
    ]
