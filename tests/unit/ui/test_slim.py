"""Comments, indentation and empty lines are not sent, and nothing else is changed."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from raftsched.ui.slim import slim

STATIC = Path(str(resources.files("raftsched.ui") / "static"))
SOURCES = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".css"))


def test_comments_indentation_and_empty_lines_go() -> None:
    source = "/** Said.\n *  twice\n */\nconst a = 1; // goes\n  // goes\n\n  if (a) {\n"
    source += "    b(); /* goes */\n  }\n/* c */ d();\n"
    assert slim(source) == "const a = 1;\nif (a) {\nb();\n}\nd();\n"


@pytest.mark.parametrize(
    "line",
    [
        'a("x // y");',
        "a('x // y');",
        "a(`x // y`);",
        'a("x /* y */");',
        'a("http://x.example/");',
        r"a(/\/\/ b/);",
        "a /* b */ + c;",
        'a(); // as in "b"',
    ],
)
def test_what_may_be_no_comment_stays(line: str) -> None:
    assert slim(line) == line + "\n"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_no_text_has_more_than_one_line(path: Path) -> None:
    """Its indentation would be lost."""
    for number, line in enumerate(path.read_text().split("\n"), 1):
        assert line.replace('"`"', "").count("`") % 2 == 0, f"{path.name}:{number}: a template of more than one line"
        assert not line.endswith("\\"), f"{path.name}:{number}: a string that goes on in the next line"
