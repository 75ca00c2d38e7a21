"""Variables get short names, and mean what they meant."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from raftsched.ui.linking import link
from raftsched.ui.names import shorter
from raftsched.ui.slim import slim

STATIC = Path(str(resources.files("raftsched.ui") / "static"))


@pytest.mark.parametrize(
    ("script", "sent"),
    [
        ("const long = 1;\nuse(long);\n", "const a = 1;\nuse(a);\n"),
        ("const { one, two: other } = x;\nf(one, other);\n", "const { one: a, two: b } = x;\nf(a, b);\n"),
        ("const { one = two } = x;\nf(one);\n", "const { one: a = two } = x;\nf(a);\n"),
        ("function add(left, right) {\nreturn left + right + left;\n}\n", "function a(a, b) {\nreturn a + b + a;\n}\n"),
        ("const f = (one) => one.one + { one: 1, one() {} };\n", "const a = (a) => a.one + { one: 1, one() {} };\n"),
        ("const f = one => ({ one });\n", "const a = a => ({ one: a });\n"),
        ("const f = (x) => x ? (y) => y : x;\nf(y);\n", "const a = (a) => a ? (a) => a : a;\na(y);\n"),
        ("const t = (name) => `a ${name} ${`b ${name}`} name`;\n", "const a = (a) => `a ${a} ${`b ${a}`} name`;\n"),
        ("class Kept {\nvalue = 1;\n#own = 2;\nget it() {\nreturn this.#own;\n}\n}\nnew Kept();\n",
         "class Kept {\nvalue = 1;\n#a = 2;\nget it() {\nreturn this.#a;\n}\n}\nnew Kept();\n"),
        ("const s = (name) => ['name', \"name\", /name/.test(name)];\n",
         "const a = (a) => ['name', \"name\", /name/.test(a)];\n"),
        ("const list = [];\nfor (const [key, value] of list) f(key / value / 2);\n",
         "const b = [];\nfor (const [a, c] of b) f(a / c / 2);\n"),
        ("try {\ngo();\n} catch (error) {\nf(error);\n}\n", "try {\ngo();\n} catch (error) {\nf(error);\n}\n"),
        ("const f = (a, event) => (b) => [event, a, b, c];\n", "const d = (a, d) => (b) => [d, a, b, c];\n"),
    ],
)  # fmt: skip
def test_variables_get_short_names(script: str, sent: str) -> None:
    assert shorter(script) == sent


def test_a_name_that_is_not_declared_is_never_taken_by_another() -> None:
    assert shorter("const long = (a) => a + b;\nlong(c);\n") == "const d = (a) => a + b;\nd(c);\n"


def test_a_variable_in_a_block_keeps_apart_from_the_one_around_it() -> None:
    script = "const item = 1;\nfunction go() {\nif (item) {\nconst item = 2;\nf(item);\n}\nreturn item;\n}\n"
    names = re.findall(r"\b[ab]\b", shorter(script).partition("{")[2])
    assert len(set(names)) == 1  # one name, as before: blocks say which is meant


def test_what_is_no_script_is_refused() -> None:
    with pytest.raises(ValueError, match="it is no script here"):
        shorter("const a = `no end;\n")
    with pytest.raises(ValueError, match="not closed"):
        shorter("go((a) => {\n")


def test_texts_properties_and_classes_of_the_page_are_what_they_were() -> None:
    modules = {
        path.relative_to(STATIC).as_posix(): path.read_text()
        for path in STATIC.rglob("*.js")
        if path.name != "theme.js"
    }
    before = slim(link(modules))
    after = shorter(before)
    for kept in (
        r'"[\w-]{4,}"',
        r"(?<!\.)\.[a-zA-Z_]\w*",
        r"\bclass [A-Z]\w*",
        r"\b(?:import|export|return|const|await)\b",
    ):
        assert re.findall(kept, after) == re.findall(kept, before)
    assert len(after) < 0.85 * len(before)
