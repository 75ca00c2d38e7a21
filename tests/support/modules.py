"""The modules of raftsched, for tests of what holds for each of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import raftsched

ROOT = Path(raftsched.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Returns all nodes of the module, found once: walking a tree takes longer than parsing it."""
    return tuple(ast.walk(parsed(path)))


def each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Returns a decorator for a check of one module, which becomes one test of all: it says what is wrong with each. A
    test for each module would take ten times as long."""

    def decorate(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            wrong = []
            for path in paths:
                try:
                    check(path)
                except AssertionError as error:
                    wrong.append(f"{name_of(path)}: {error}")
            assert not wrong, "\n".join(wrong)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate
