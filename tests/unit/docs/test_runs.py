"""docs/runs.md: how its examples are read and held to what they say. tests/e2e/test_runs_by_example.py pastes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.example_rows import BadRow, Outcome, Row, Terminal, failure, listening, missing, rows
from tests.support.examples import ROOT, put_files

PAGE = (ROOT / "docs/runs.md").read_text()


def row(paste: str, see: str) -> Row:
    (found,) = rows(f"# A page\n\n#### It\n\nA note with `code`.\n\n```\n{paste}\n```\n\n{see}\n\n### More\n")
    return found


def test_an_example_is_its_commands_and_what_is_printed() -> None:
    found = row("echo a\necho b | tr b c", "You see: `a`, and then `c ... d`, exit code 1.")
    assert (found.line, found.commands, found.seen) == (3, ("echo a", "echo b | tr b c"), ("a", "c ... d"))
    assert found.exit_code == 1
    assert row("echo 'exit code 3'", "You see: `exit code 3`.").exit_code == 0  # what is printed says nothing of it
    assert row("echo '1\n#### 2'\necho 3", "You see: `3`").commands == ("echo '1\n#### 2'", "echo 3")
    assert row("true", "You see: `a\nb`.").seen == ("a b",)  # a line of the page may end within


@pytest.mark.parametrize(
    "paste, see, wrong",
    [
        ("true", "You see: nothing that is in code", "says nothing that could be checked"),
        ("true", "It prints `a`.", "begins with 'You see:'"),
        ("true", "", "begins with 'You see:'"),
        ("true", "You see: `a`.\n\nAnd `b`.", "one paragraph"),
        ("true\n```\n\n```\nfalse", "You see: `a`.", "one block"),
    ],
)
def test_an_example_without_commands_or_a_check_is_refused(paste: str, see: str, wrong: str) -> None:
    with pytest.raises(BadRow, match=re.escape(wrong)):
        row(paste, see)


@pytest.mark.parametrize(
    "seen, printed, first_missing",
    [
        (["SKIPPED"], "ID  STATE\n1   SKIPPED  -\n", None),
        (["1 SKIPPED"], "ID  STATE\n1   SKIPPED  -\n", None),
        (["SKIP"], "SKIPPED", "SKIP"),  # a part of a word is not the word
        (["a", "b"], "b\na\n", "b"),  # in this order
        (["a", "a"], "a\n", "a"),  # twice
        (["a ... c"], "a b c", None),
        (["a ... c"], "a\nc", "a ... c"),  # on one line
        (["due 2..., in 59m..."], "it is due 2026, in 59m8s.", None),
        (["a.c"], "abc", "a.c"),  # a dot is a dot
        (['{"row":7}'], 'from {"row":7}', None),
    ],
)
def test_what_is_missing(seen: list[str], printed: str, first_missing: str | None) -> None:
    assert missing(Row(1, "it", ("true",), tuple(seen), 0), printed) == first_missing


def test_a_row_fails_by_its_exit_code_or_by_what_it_prints() -> None:
    wants = Row(1, "it", ("x",), ("ok",), 0)
    assert failure(wants, Outcome("ok\n", 0)) is None
    assert "exit code 1, not 0" in (failure(wants, Outcome("ok\n", 1)) or "")
    assert "'ok' is not there" in (failure(wants, Outcome("no\n", 0)) or "")
    assert "exit code 0, not 1" in (failure(Row(1, "it", ("x",), ("ok",), 1), Outcome("ok\n", 0)) or "")


def test_commands_are_pasted_one_after_the_other(tmp_path: Path) -> None:
    here = Terminal(tmp_path, {"PATH": "/usr/bin:/bin"}, {"127.0.0.1:7401": "elsewhere"})
    done = here.paste(row("echo one >a\ncat a; echo 127.0.0.1:7401 >&2", "You see: `elsewhere`"))
    assert (sorted(done.printed.split()), done.exit_code) == (["elsewhere", "one"], 0)
    stopped = here.paste(row("exit 3\necho never", "You see: `never`"))  # only the last one may fail
    assert (stopped.printed, stopped.exit_code) == ("", 3)


def test_what_only_shows_something_is_asked_again_until_it_shows_it(tmp_path: Path) -> None:
    (tmp_path / "raftsched").write_text('#!/bin/sh\necho . >>asked; echo "looked $(wc -l <asked) times"\n')
    (tmp_path / "raftsched").chmod(0o755)
    here = Terminal(tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"}, {})
    assert here.paste(row("raftsched instances list", "You see: `looked 3 times`")).printed == "looked 3 times\n"
    assert here.paste(row("raftsched jobs run x", "You see: `looked 9 times`")).printed == "looked 4 times\n"


def test_the_page_has_examples_that_can_be_read_and_all_are_in_their_part() -> None:
    by_example = PAGE.partition("## By example")[2].partition("\n## ")[0]
    assert len(rows(by_example)) == len(rows(PAGE)) > 40
    wanted = [example.wanted for example in rows(PAGE)]
    assert len({*wanted}) == len(wanted)  # each can be linked to


def test_its_server_listens(tmp_path: Path) -> None:
    put_files(tmp_path)
    with listening(tmp_path / "listen.py") as ports:
        assert len(set(ports)) == 2
