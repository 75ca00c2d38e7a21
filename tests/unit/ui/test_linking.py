"""Modules become one script, in an order in which each finds what it needs, or it is said why they cannot."""

from __future__ import annotations

import re

import pytest

from raftsched.ui.linking import link

MODULES = {
    "app.js": 'import "./a/one.js";\nimport { go } from "./a/two.js";\nawait go();\n',
    "a/one.js": 'import { go } from "./two.js";\nexport const one = go;\n',
    "a/two.js": 'import {\n  x,\n  z,\n} from "../b.js";\nexport async function go() {}\nexport class Two {}\n',
    "b.js": "export const x = 1;\nexport function* z() {}\n",
    "left.js": "export const over = 1;\n",
}


def test_each_module_comes_after_those_that_it_imports() -> None:
    assert link(MODULES) == (
        "const x = 1;\nfunction* z() {}\nasync function go() {}\nclass Two {}\nconst one = go;\nawait go();\n"
    )


@pytest.mark.parametrize(
    "own",
    ["const own = 1;", "let own = 1;", "const [a, own] = f();", "const {\n  own,\n} = f();", "async function own() {}"],
)
def test_names_of_two_modules_are_kept_apart(own: str) -> None:
    linked = link(
        {**MODULES, "a/one.js": "const own = 0;\nexport const one = 1;\n", "b.js": f"{own}\n{MODULES['b.js']}"}
    )
    assert (
        f"const {{ x, z }} = (() => {{\n{own}\nconst x = 1;\nfunction* z() {{}}\nreturn {{ x, z }};\n}})();\n" in linked
    )
    assert "const { one } = (() => {\nconst own = 0;\nconst one = 1;\nreturn { one };\n})();\n" in linked


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"b.js": 'import { one } from "./a/one.js";\n'}, "b.js -> a/one.js: a module needs itself"),
        ({"b.js": 'import { c } from "./c.js";\n'}, "b.js imports c.js, and there is no such module"),
        ({"a/two.js": 'import { x as y } from "../b.js";\n'}, "a/two.js: { x as y } renames what it imports"),
        ({"b.js": "export const go = 1;\n"}, "b.js and a/two.js both export go"),
        ({"b.js": "export let x = 1;\n"}, "b.js: 'export let x = 1;'"),
        ({"b.js": "export default class X {}\n"}, "b.js: 'export default class X {}'"),
        ({"b.js": 'export { one } from "./a/one.js";\n'}, "b.js: 'export { one }"),
        ({"b.js": "import c from './c.js';\n"}, 'b.js: "import c from'),
        ({"b.js": 'const a = () => import("./gone.js");\n'}, 'b.js: \'import("./gone.js");'),
    ],
)
def test_what_cannot_be_linked_is_said(changed: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        link({**MODULES, **changed})
