"""Apply gives the same rows in every version of Python: nothing of the core asks what Unicode, or a list that Python
carries, says of a text or an address."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.core.rules import ascii as letters
from tests.support.modules import ROOT

CORE = ROOT / "core"
# What reads text so on purpose: by ASCII alone, and as clusters of earlier levels did.
MAY = {"ascii.py", "unicode_hosts.py"}
# They follow the character database, whatever the text is.
METHODS = {
    *("lower", "upper", "casefold", "title", "capitalize", "swapcase", "isprintable", "isidentifier", "isalnum"),
    *("isalpha", "isdecimal", "isdigit", "isnumeric", "islower", "isupper", "isspace", "istitle", "splitlines"),
}
SPACES = {"strip", "lstrip", "rstrip", "split", "rsplit"}  # without saying which: all that Unicode calls a space
ADDRESSES = {
    *("is_global", "is_private", "is_reserved", "is_link_local", "is_site_local", "is_loopback", "is_multicast"),
    "is_unspecified",
}
PATTERNS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
CLASSES = re.compile(r"\\[wWdDsSbB]")
BY_CASE = {"I", "IGNORECASE", "U", "UNICODE", "L", "LOCALE"}


def found_in(tree: ast.AST) -> Iterator[str]:
    """Yields what depends on the version."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            yield from names & {"unicodedata", "locale", "stringprep"}
        elif isinstance(node, ast.Attribute) and node.attr in METHODS | ADDRESSES:
            yield f"{node.attr} in line {node.lineno}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _depends(node, node.func):
            yield f"{node.func.attr} in line {node.lineno}"


def _depends(node: ast.Call, called: ast.Attribute) -> bool:
    first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    if called.attr in PATTERNS and ast.unparse(called.value) == "re":
        flags = set(re.findall(r"[A-Z]+", " ".join(map(ast.unparse, node.args[1:]))))
        if isinstance(first, bytes) or flags & {"A", "ASCII"}:
            return False
        return not isinstance(first, str) or bool(CLASSES.search(first) or flags & BY_CASE)
    if called.attr in SPACES:
        return not node.args or (isinstance(node.args[0], ast.Constant) and first is None)
    return called.attr in ("encode", "decode") and first in ("idna", "punycode")


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: str(path.relative_to(CORE)))
def test_no_version_of_unicode_is_asked(path: Path) -> None:
    if path.name not in MAY:
        assert list(found_in(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "text",
    [
        "a.lower()",
        "map(str.casefold, a)",
        "a.strip()",
        "a.split(None, 1)",
        "c.isdigit()",
        "address.is_global",
        "import unicodedata",
        "from unicodedata import normalize",
        "host.encode('idna')",
        r"re.compile(r'\w+')",
        "re.compile('[a-z]', re.IGNORECASE)",
        "re.match(pattern, a)",
    ],
)
def test_what_depends_on_it_is_seen(text: str) -> None:
    assert list(found_in(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    ["a.strip('/')", "a.split('.')", r"re.compile(r'\w+', re.ASCII)", "re.compile('[a-z]+')", r"re.compile(rb'\d')"],
)
def test_what_does_not_is_let_through(text: str) -> None:
    assert list(found_in(ast.parse(text))) == []


def test_letters_and_digits_of_ascii() -> None:
    assert letters.lower("AZaz09[`") == "azaz09[`"
    assert letters.lower("\u00c4B\ua7dc\u0130\u212a") == "\u00c4b\ua7dc\u0130\u212a"
    assert letters.is_number("0123")
    assert not any(map(letters.is_number, ("", "-1", "\u0661", "\u00b2", " 1")))
