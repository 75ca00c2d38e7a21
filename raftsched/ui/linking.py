"""The page's modules as three files, so that a browser asks for three and not for a hundred, and they compress well.

Each module becomes a function that is called once and returns what the module exports:

    $["core/a.js"] = (() => { const { b } = $["core/b.js"]; ...; return { a }; })();

That is all of a module system that this page needs, because its modules keep three rules, which `link` checks: imports
and exports have lines of their own, exports are constants, and no module needs itself. What `app.js` imports statically
is in `start.js`, what is imported later is in `pages.js`. Both are there before any of it is called: a module of a page
runs with the others when the first page is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath

APP, START, PAGES = "app.js", "start.js", "pages.js"

_IMPORT = re.compile(r'^import (?:(\{[^}]*\}|\* as [\w$]+) from )?"([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (default )?((?:async )?function\*?|class|const) ([\w$]+)", re.MULTILINE)
_LATER = re.compile(r'\bimport\("([^"]+)"\)')
_UNKNOWN = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def link(modules: Mapping[str, str]) -> dict[str, str]:
    """Returns `app.js`, `start.js` and `pages.js`, which do what the modules do. Keys are paths below `static`.

    Raises ValueError when a module breaks one of the rules."""
    started = [path for path in _in_order(modules, [APP]) if path != APP]
    later = [_path(path, said) for path, text in modules.items() for said in _LATER.findall(text)]
    pages = [path for path in _in_order(modules, later) if path not in started]
    return {
        START: "export const $ = {};\n" + "".join(_function(path, modules[path]) for path in started),
        PAGES: f'import {{ $ }} from "./{START}";\n' + "".join(_function(path, modules[path]) for path in pages),
        APP: f'import {{ $ }} from "./{START}";\n' + _body(APP, modules[APP])[0],
    }


def _path(path: str, said: str) -> str:
    return normpath(join(dirname(path), said))


def _in_order(modules: Mapping[str, str], first: list[str]) -> list[str]:
    """Returns these modules and all that they import statically, each after those that it imports."""
    done: dict[str, None] = {}

    def visit(path: str, way: tuple[str, ...]) -> None:
        if path in way:
            raise ValueError(f"{' -> '.join((*way, path))}: a module needs itself")
        if path in done:
            return
        if path not in modules:
            raise ValueError(f"{way[-1]} imports {path}, and there is no such module")
        for _, said in _IMPORT.findall(modules[path]):
            visit(_path(path, said), (*way, path))
        done[path] = None

    for path in first:
        visit(path, ("import()",))
    return list(done)


def _function(path: str, text: str) -> str:
    body, exported = _body(path, text)
    return f'$["{path}"] = (() => {{\n{body}\nreturn {{ {", ".join(exported)} }};\n}})();\n'


def _body(path: str, text: str) -> tuple[str, list[str]]:
    exported = list(_exports(text))

    def imported(match: re.Match[str]) -> str:
        names, said = match[1], match[2]
        if names is None:
            return ""
        name = names.removeprefix("* as ") if names.startswith("*") else names.replace(" as ", ": ")
        return f'const {name} = $["{_path(path, said)}"];'

    def loaded(match: re.Match[str]) -> str:
        return f'import("./{PAGES}").then(() => $["{_path(path, match[1])}"])'

    text = _LATER.sub(loaded, _EXPORT.sub(r"\2 \3", _IMPORT.sub(imported, text)))
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        raise ValueError(f"{path}: {unknown[0]!r} is an import or export of a form that is not known here")
    return text, exported


def _exports(text: str) -> Iterator[str]:
    for default, _, name in _EXPORT.findall(text):
        yield f"default: {name}" if default else name
