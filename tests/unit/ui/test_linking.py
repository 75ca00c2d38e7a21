"""Modules become three files, in an order in which each finds what it needs, or it is said why they cannot."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from raftsched.ui.linking import APP, PAGES, START, link

STATIC = Path(str(resources.files("raftsched.ui") / "static"))
MODULES = {
    "app.js": 'import "./a/one.js";\nimport * as two from "./a/two.js";\nawait two.go();\n',
    "a/one.js": 'import { go } from "./two.js";\nexport const one = go;\n',
    "a/two.js": (
        'import {\n  x as y,\n  z,\n} from "../b.js";\nexport async function go() {}\n'
        'export class Two {}\nconst load = () => import("../p/page.js");\n'
    ),
    "b.js": "export const x = 1;\nexport function* z() {}\n",
    "p/page.js": 'import { x } from "../b.js";\nimport { part } from "./part.js";\nexport default class Page {}\n',
    "p/part.js": "export const part = 1;\n",
}


def test_each_module_comes_after_those_that_it_imports() -> None:
    linked = link(MODULES)
    assert re.findall(r'^\$\["(.+?)"\] =', linked[START], re.MULTILINE) == ["b.js", "a/two.js", "a/one.js"]
    assert re.findall(r'^\$\["(.+?)"\] =', linked[PAGES], re.MULTILINE) == ["p/part.js", "p/page.js"]


def test_imports_and_exports_become_values() -> None:
    linked = link(MODULES)
    assert linked[APP] == ('import { $ } from "./start.js";\n\nconst two = $["a/two.js"];\nawait two.go();\n')
    assert 'const {\n  x: y,\n  z,\n} = $["b.js"];\nasync function go() {}\nclass Two {}\n' in linked[START]
    assert 'const load = () => import("./pages.js").then(() => $["p/page.js"]);' in linked[START]
    assert "return { go, Two };" in linked[START]
    assert "return { x, z };" in linked[START]
    assert "return { default: Page };" in linked[PAGES]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"b.js": 'import { one } from "./a/one.js";\n'}, "b.js -> a/one.js: a module needs itself"),
        ({"b.js": 'import { c } from "./c.js";\n'}, "b.js imports c.js, and there is no such module"),
        ({"b.js": "export let x = 1;\n"}, "b.js: 'export let x = 1;'"),
        ({"b.js": 'export { one } from "./a/one.js";\n'}, "b.js: 'export { one }"),
        ({"b.js": "import c from './c.js';\n"}, 'b.js: "import c from'),
        ({"app.js": 'const a = () => import("./gone.js");\n'}, "imports gone.js, and there is no such module"),
    ],
)
def test_what_cannot_be_linked_is_said(changed: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        link({**MODULES, **changed})


def test_every_module_of_the_page_is_in_one_of_the_files() -> None:
    modules = {
        path.relative_to(STATIC).as_posix(): path.read_text()
        for path in STATIC.rglob("*.js")
        if path.name != "theme.js"  # a classic script
    }
    linked = link(modules)
    found = re.findall(r'^\$\["(.+?)"\] =', linked[START] + linked[PAGES], re.MULTILINE)
    assert sorted([*found, APP]) == sorted(modules)
