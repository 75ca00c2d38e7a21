"""The style of docstrings: plain first lines, which say what is returned or done, and plain pronouns."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.modules import MODULES, each, name_of, nodes

# A docstring that begins like this describes something about its subject and leaves out what that is.
RIDDLES = ("What", "Who", "Whose", "Whom", "Of")
# A caller, an operator and a user are "they".
PRONOUNS = re.compile(r"\b(?:he|she|his|her|hers|him|himself|herself)\b", re.IGNORECASE)


@cache
def docstrings(path: Path) -> list[tuple[int, str]]:
    """Line and text of each docstring of a module, also of attributes: a string behind an assignment."""
    found: list[tuple[int, str]] = []
    for node in nodes(path):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value
                if isinstance(value.value, str):
                    found.append((value.lineno, value.value))
    return found


@each(MODULES)
def test_docstrings_say_what_is_returned_or_done(path: Path) -> None:
    wrong = [f"{name_of(path)}:{line}: {text.split()[0]} ..." for line, text in docstrings(path) if riddle(text)]
    assert not wrong, f"say first what it returns or does: {wrong}"


@each(MODULES)
def test_people_are_they(path: Path) -> None:
    wrong = [f"{name_of(path)}:{line}" for line, text in docstrings(path) if PRONOUNS.search(text)]
    assert not wrong


def riddle(text: str) -> bool:
    return text.split(maxsplit=1)[0].rstrip(",:") in RIDDLES if text.strip() else False


def test_the_style_test_can_fail(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text(
        '"""Fine."""\nx = 1\n"""Of x."""\n\n\ndef f() -> int:\n    """What it is, as he said."""\n    return 1\n'
    )
    assert [riddle(text) for _, text in docstrings(module)] == [False, True, True]
    assert [bool(PRONOUNS.search(text)) for _, text in docstrings(module)] == [False, False, True]
