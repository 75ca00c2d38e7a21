"""Takes a script apart: names, numbers, texts, parts of templates, regular expressions, signs, and what is between."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|\#?[A-Za-z_$][\w$]*|\d[\w.]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    r"""|=>|\.\.\.|\?\.|\?\?|[-+*/%=<>!&|^~?:;,.(){}\[\]]"""
)
_REGEX = re.compile(r"/(?:\[(?:[^\]\\\n]|\\.)*\]|\\.|[^/\\\[\n])+/[a-z]*")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{)", re.DOTALL)
_BEFORE_REGEX = frozenset(
    ("", *"(,=:[!&|?{;+-*%<>~^", "=>", "??", "return", "throw", "typeof", "await", "else", "of", "in")
)


def is_gap(token: str) -> bool:
    """Returns whether a part is space, or a comment."""
    return token.isspace() or token.startswith(("//", "/*"))


def tokens_of(script: str) -> Iterator[str]:
    """Yields the parts of a script in their order; joined they are the script."""
    at, before = 0, ""
    braces: list[int] = []  # of each template that is open: braces in its ${
    while at < len(script):
        sign = script[at]
        if sign == "`" or (sign == "}" and braces and not braces[-1]):
            found = _TEMPLATE.match(script, at + 1)
            if sign == "}":
                braces.pop()
            if found and found[1] == "${":
                braces.append(0)
            before = "(" if found and found[1] == "${" else "`"
        else:
            found = (sign == "/" and before in _BEFORE_REGEX and _REGEX.match(script, at)) or _TOKEN.match(script, at)
            if braces and sign in "{}":
                braces[-1] += 1 if sign == "{" else -1
            if found and not is_gap(found[0]):
                before = found[0]
        if not found:
            raise ValueError(f"it is no script here: {script[at : at + 60]!r}")
        yield script[at : found.end()]
        at = found.end()
