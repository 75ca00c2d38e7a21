"""Comments, indentation and empty lines are not sent, and nothing else is changed."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from raftsched.ui.slim import slim, tight

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


@pytest.mark.parametrize(
    ("script", "sent"),
    [
        ("const { a, b } = c;\nif (a !== b) {\nd(a + 1, { ...b });\n}\n", "const{a,b}=c;\nif(a!==b){d(a+1,{...b})}\n"),
        ('const a = [\n"x, y",\n`${ b } : c`,\n];\n', 'const a=["x, y",`${ b } : c`];\n'),
        ("const a = b\n.map(c)\n? d\n: e;\n", "const a=b.map(c)?d:e;\n"),
        ("a();\n(b || c)();\n[1].map(d);\n", "a();\n(b||c)();\n[1].map(d);\n"),
        ("return a - -b + ++c;\n", "return a - -b + ++c;\n"),
        ("return /^[ -?]*$/.test(a) ? b / c : d;\n", "return /^[ -?]*$/.test(a)?b/c:d;\n"),
        ("const A = (a) => / { /y.test(a);\n", "const A=(a)=>/ { /y.test(a);\n"),
        ("const A = [/[/ ] : /, / b /g];\n", "const A=[/[/ ] : /,/ b /g];\n"),
        ("throw /a : b/;\n", "throw /a : b/;\n"),
        ('f(`${`a : b`}`, "c");\n', 'f(`${`a : b`}`, "c");\n'),
        ('g(a, // as in "b",\nc);\n', 'g(a, // as in "b",\nc);\n'),
    ],
)
def test_breaks_and_spaces_beside_signs_go_where_they_mean_nothing(script: str, sent: str) -> None:
    assert tight(script) == sent


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_no_text_has_more_than_one_line(path: Path) -> None:
    """Its indentation would be lost."""
    for number, line in enumerate(path.read_text().split("\n"), 1):
        assert line.replace('"`"', "").count("`") % 2 == 0, f"{path.name}:{number}: a template of more than one line"
        assert not line.endswith("\\"), f"{path.name}:{number}: a string that goes on in the next line"
