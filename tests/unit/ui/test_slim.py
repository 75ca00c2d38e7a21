"""Comments, indentation and empty lines are not sent, and nothing else is changed."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from raftsched.ui.slim import slim, tight, tight_style

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
        ("const { a, b } = c;\nif (a !== b) {\nd(a + 1, { ...b });\n}\n", "let{a,b}=c;if(a!==b){d(a+1,{...b})}\n"),
        ('const a = [\n"x, y",\n`${ b } : c`,\n];\n', 'let a=["x, y",`${b} : c`,];\n'),
        ("const a = b\n.map(c)\n? d\n: e;\n", "let a=b.map(c)?d:e;\n"),
        ("a();\n(b || c)();\n[1].map(d);\n", "a();(b||c)();[1].map(d);\n"),
        ("return a - -b + ++c;\n", "return a- -b+ ++c;\n"),
        ("return /^[ -?]*$/.test(a) ? b / c : d;\n", "return/^[ -?]*$/.test(a)?b/c:d;\n"),
        ("const A = (a) => / { /y.test(a);\n", "let A=(a)=>/ { /y.test(a);\n"),
        ("const A = [/[/ ] : /, / b /g];\n", "let A=[/[/ ] : /,/ b /g];\n"),
        ("throw /a : b/;\n", "throw/a : b/;\n"),
        ('f(`${`a : b`}`, "c");\n', 'f(`${`a : b`}`,"c");\n'),
        ('g(a, // as in "b",\nc);\n', "g(a,c);\n"),
        ("const a = 1;\nconst { b } = a;\nlet c;\n", "let a=1,{b}=a,c;\n"),
        (
            "const f = () => {\nconst a = 1;\ng(a);\n};\nconst h = 2;\nk();\nconst m = 3;\n",
            "let f=()=>{let a=1;g(a)},h=2;k();let m=3;\n",
        ),
        ("for (let a = 0; a < 2; a++) b();\nlet c = 1;\n", "for(let a=0;a<2;a++)b();let c=1;\n"),
        ("if (a) {\nlet b;\n}\nlet c;\n", "if(a){let b}let c;\n"),
        ("const a = `${b}`;\nconst c = `${`${d}`} ${e}`;\n", "let a=`${b}`,c=`${`${d}`} ${e}`;\n"),
        ("class A {\nb = 1;\n#c;\nget d() {\nreturn this.#c;\n}\n}\n", "class A{b=1;#c;get d(){return this.#c}}\n"),
    ],
)
def test_breaks_and_spaces_beside_signs_go_where_they_mean_nothing(script: str, sent: str) -> None:
    assert tight(script) == sent


def test_a_style_sheet_loses_its_spaces_and_keeps_its_texts() -> None:
    style = "a > b, c :hover {\ncolor: red; margin: calc(1px + 2px);\n}\n"
    style += '@media (max-width: 5px) { d::before { content: "a, b: c; { "; } }\n'
    assert tight_style(style) == (
        'a>b,c :hover{color:red;margin:calc(1px + 2px)}@media (max-width:5px){d::before{content:"a, b: c; { "}}'
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_no_text_has_more_than_one_line(path: Path) -> None:
    """Its indentation would be lost."""
    for number, line in enumerate(path.read_text().split("\n"), 1):
        assert line.replace('"`"', "").count("`") % 2 == 0, f"{path.name}:{number}: a template of more than one line"
        assert not line.endswith("\\"), f"{path.name}:{number}: a string that goes on in the next line"
