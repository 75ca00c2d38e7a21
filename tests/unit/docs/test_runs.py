"""docs/runs.md: how its rows are read and held to what they say. tests/e2e/test_runs_by_example.py pastes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.example_rows import HEADER, BadRow, Outcome, Row, Terminal, failure, listening, missing, rows
from tests.support.examples import ROOT, put_files

PAGE = (ROOT / "docs/runs.md").read_text()
TABLE = "| You want | Paste | You see |\n|---|---|---|\n"


def row(paste: str, see: str, more: str = "") -> Row:
    (found,) = rows(f"# A page\n\n{TABLE}| it | {paste} | {see} |\n{more}")
    return found


def test_a_row_is_its_commands_and_what_is_printed() -> None:
    found = row("`echo a`<br>`echo b \\| tr b c`", "`a`, and then `c ... d`, exit code 1")
    assert (found.line, found.commands, found.seen) == (5, ("echo a", "echo b | tr b c"), ("a", "c ... d"))
    assert found.exit_code == 1
    assert row("`echo 'exit code 3'`", "`exit code 3`").exit_code == 0  # what is printed says nothing of it


def test_a_row_may_have_its_commands_in_a_section() -> None:
    section = (
        "#### Two of them\n\n```json\n{}\n```\n\n```\necho '1\n2'\necho 3\n```\n\n#### Another\n\n```\nfalse\n```\n"
    )
    assert row("[these](#two-of-them)", "`3`", section).commands == ("echo '1\n2'", "echo 3")


@pytest.mark.parametrize(
    "paste, see, wrong",
    [
        ("`true`", "nothing that is in code", "says nothing that could be checked"),
        ("`true`", "", "says nothing that could be checked"),
        ("nothing that is in code", "`a`", "nothing to paste"),
        ("[these](#nowhere)", "`a`", "links to #nowhere"),
        ("[these](#a-page)", "`a`", "links to #a-page"),
        ("`true | false`", "`a`", "4 cells"),
    ],
)
def test_a_row_without_an_example_or_a_check_is_refused(paste: str, see: str, wrong: str) -> None:
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
    done = here.paste(row("`echo one >a`<br>`cat a; echo 127.0.0.1:7401 >&2`", "`elsewhere`"))
    assert (sorted(done.printed.split()), done.exit_code) == (["elsewhere", "one"], 0)
    stopped = here.paste(row("`exit 3`<br>`echo never`", "`never`"))  # only the last one may fail
    assert (stopped.printed, stopped.exit_code) == ("", 3)


def test_what_only_shows_something_is_asked_again_until_it_shows_it(tmp_path: Path) -> None:
    (tmp_path / "raftsched").write_text('#!/bin/sh\necho . >>asked; echo "looked $(wc -l <asked) times"\n')
    (tmp_path / "raftsched").chmod(0o755)
    here = Terminal(tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"}, {})
    assert here.paste(row("`raftsched instances list`", "`looked 3 times`")).printed == "looked 3 times\n"
    assert here.paste(row("`raftsched jobs run x`", "`looked 9 times`")).printed == "looked 4 times\n"


def test_the_page_has_rows_that_can_be_read_and_no_other_tables_before_its_rules() -> None:
    by_example = PAGE.partition("## By example")[2].partition("\n## ")[0]
    assert len(rows(by_example)) == len(rows(PAGE)) > 20
    for header in re.findall(r"^\|(.+)\|\n\|---", by_example, re.MULTILINE):
        assert tuple(cell.strip() for cell in header.split("|")) == HEADER
    for example in re.findall(r"^#### (.+)$", by_example, re.MULTILINE):
        assert f"](#{example.lower().replace(' ', '-')})" in by_example, f"no row needs {example!r}"


def test_its_server_listens(tmp_path: Path) -> None:
    put_files(tmp_path)
    with listening(tmp_path / "listen.py") as ports:
        assert len(set(ports)) == 2
