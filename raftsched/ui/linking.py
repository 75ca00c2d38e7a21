"""The page's modules as one script, so that a browser asks for one and not for a hundred, and it compresses well.

They are put one after the other, each after those that it imports, and share one scope: what a module exports is there
under its name, so imports and the word `export` just go. A module one of whose other names is in use elsewhere, too, is
a function that is called once and returns what it exports:

    const { a, b } = (() => { ...; return { a, b }; })();

That is all of a module system that this page needs, because its modules keep these rules, which `link` checks: imports
and exports have lines of their own, exports are constants under names that no other module exports, nothing is renamed
when it is imported, and no module needs itself. What begins at the start of a line is at the top of its module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from posixpath import dirname, join, normpath

APP = "app.js"

_IMPORT = re.compile(r'^import (?:(\{[^}]*\}) from )?"([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) ([\w$]+)", re.MULTILINE)
_UNKNOWN = re.compile(r"^(?:import|export)\b.*$|\bimport\(.*$", re.MULTILINE)
_TOP = re.compile(r"^(?:(?:async )?function\*?|class|const|let) ([\w$]+|\{[^}]*\}|\[[^\]]*\])", re.MULTILINE)


def link(modules: Mapping[str, str]) -> str:
    """Returns the script that does what `app.js` does with all that it imports. Keys are paths below `static`.

    Raises ValueError when a module breaks one of the rules."""
    paths = _in_order(modules)
    bodies = {path: _body(path, modules[path]) for path in paths}
    exported: dict[str, str] = {}
    for path in paths:
        for _, name in _EXPORT.findall(modules[path]):
            if name in exported:
                raise ValueError(f"{exported[name]} and {path} both export {name}")
            exported[name] = path
    uses = Counter(name for body in bodies.values() for name in _names(body))
    linked = []
    for path, body in bodies.items():
        if all(uses[name] == 1 for name in _names(body)):
            linked.append(body)
            continue
        own = ", ".join(name for name in exported if exported[name] == path)
        linked.append(f"const {{ {own} }} = (() => {{\n{body}return {{ {own} }};\n}})();\n")
    return "".join(linked)


def _in_order(modules: Mapping[str, str]) -> list[str]:
    """Returns `app.js` and all that it needs, each after those that it imports."""
    done: dict[str, None] = {}

    def visit(path: str, way: tuple[str, ...]) -> None:
        if path in way:
            raise ValueError(f"{' -> '.join((*way, path))}: a module needs itself")
        if path in done:
            return
        if path not in modules:
            raise ValueError(f"{way[-1]} imports {path}, and there is no such module")
        for _, said in _IMPORT.findall(modules[path]):
            visit(normpath(join(dirname(path), said)), (*way, path))
        done[path] = None

    visit(APP, ())
    return list(done)


def _body(path: str, text: str) -> str:
    for names, _ in _IMPORT.findall(text):
        if " as " in names:
            raise ValueError(f"{path}: {names} renames what it imports")
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub("", text))
    unknown = _UNKNOWN.search(body)
    if unknown is not None:
        raise ValueError(f"{path}: {unknown[0]!r} is an import or export of a form that is not known here")
    return body


def _names(body: str) -> set[str]:
    """Returns the names at the top of a module."""
    return {name for said in _TOP.findall(body) for name in re.findall(r"[\w$]+", said)}
