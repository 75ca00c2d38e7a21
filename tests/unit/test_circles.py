"""No module needs, by way of others, itself: late imports and imports for types count, too.

A circle is read as one large module: nobody can say where it begins. An edge is what a module names. Whoever imports a
module of a package names that module, and not what the package's `__init__` takes from others.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.modules import MODULES, ROOT, name_of, nodes

NAMED: dict[str, str] = {}  # a module of a circle that stays -> why
COPIES_MAX = 3  # modules of one name; where ten are called alike a name says nothing
GENERATED = ("client/sync/", "client/generated/", "surface/plain/")  # named after what they are made from


def _module(parts: list[str]) -> Path | None:
    file = ROOT.parent.joinpath(*parts)
    for path in (file.with_suffix(".py"), file / "__init__.py"):
        if path.exists():
            return path
    return None


def _named(path: Path) -> set[Path]:
    found: set[Path | None] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {_module(alias.name.split(".")) for alias in node.names if alias.name.startswith("raftsched.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "raftsched":
            base = (node.module or "").split(".")
            for alias in node.names:
                found.add(_module([*base, alias.name]) or _module(base))
    return {one for one in found if one is not None} - {path}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Returns the strongly connected components of more than one node (Tarjan, 1972), without recursion."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start, others in graph.items():
        if start in number:
            continue
        way = [(start, iter(sorted(others)))]
        number[start] = lowest[start] = len(number)
        stack.append(start)
        while way:
            node, rest = way[-1]
            for other in rest:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    stack.append(other)
                    way.append((other, iter(sorted(graph[other]))))
                    break
                if other in stack:
                    lowest[node] = min(lowest[node], number[other])
            else:
                way.pop()
                if way:
                    lowest[way[-1][0]] = min(lowest[way[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    place = stack.index(node)
                    if len(stack) - place > 1:
                        found.append(set(stack[place:]))
                    del stack[place:]
    return found


def test_a_circle_is_found() -> None:
    graph: dict[str, set[str]] = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set(), "f": {"a"}}
    assert circles(graph) == [{"a", "b", "c"}]


def test_modules_are_in_no_circle() -> None:
    graph = {name_of(path): {name_of(one) for one in _named(path)} for path in MODULES}
    left = [sorted(circle) for circle in circles(graph) if not circle & NAMED.keys()]
    assert not left, "these modules need each other"


def test_reasons_are_given_for_circles_only() -> None:
    graph = {name_of(path): {name_of(one) for one in _named(path)} for path in MODULES}
    assert NAMED.keys() <= set().union(*circles(graph))


def test_names_of_modules_tell_them_apart() -> None:
    names: dict[str, list[str]] = {}
    for path in MODULES:
        if not name_of(path).startswith(GENERATED) and not path.name.startswith("__"):
            names.setdefault(path.stem, []).append(name_of(path))
    assert not [found for found in names.values() if len(found) > COPIES_MAX]
