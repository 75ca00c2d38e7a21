"""Strips scripts and styles of what only their readers need: comments and indentation, and in scripts the line breaks
and spaces beside signs. It is a quarter of what would be sent.

Statements and texts stay as they are. rjsmin, a library for the same, takes spaces out of templates that lie in
templates.
"""

from __future__ import annotations

import re

# A comment at the end of a line. What has a quote in it stays: it may be the end of a text that only looks like one.
_AT_END = re.compile(r"""\s(?://\s[^"'`]*|/\*[^"'`*]*\*/)$""")
# Texts, templates, and regular expressions, which come after a sign that no division comes after.
_AS_IS = re.compile(
    r"""("(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`"""
    r"""|(?:(?<=[(\[!])|(?<=[(,=:?&|>] )|(?<=return ))/(?![/*])(?:\[(?:[^\]\\]|\\.)+\]|[^/\\\[]|\\.)+/)"""
)
_OPERATOR = re.compile(r"(?:^| )(?![-+] [-+])([-+*/%=<>|&?:^!]+) ")
_BRACKET = re.compile(r" ?([{}()\[\],;:]) ?")
_UNSURE = re.compile(r"[`']|(?<! )/|/(?![ =])")  # a template in a template, or a slash that is no division
_OPENS = ("(", "[", "{", ",")
_CLOSES = (")", "]", "}")
_GOES_ON = (*_CLOSES, ".", "?", ":", "&", "|")


def slim(source: str) -> str:
    """Returns a script or a style sheet without comments, indentation and empty lines.

    It must have no text of more than one line, in which they would mean something."""
    lines = []
    in_comment = False
    for line in source.split("\n"):
        text = line.strip()
        if in_comment or text.startswith("/*"):
            _, end, after = text.partition("*/")
            in_comment = not end
            text = after.strip()
        elif text.startswith("//"):
            continue
        if text:
            lines.append(_AT_END.sub("", text).rstrip() + "\n")
    return "".join(lines)


def tight(script: str) -> str:
    """Returns a slim script without spaces beside signs, and without line breaks inside brackets and what stands
    only before such a break."""
    made: list[str] = []
    for line in map(_tightened, script.splitlines()):
        before = made[-1] if made else ""
        goes_on = before.endswith(_OPENS) or line.startswith(_GOES_ON)
        if "//" in before or not goes_on:
            made.append("\n" if made else "")
        elif line.startswith(_CLOSES) and before.endswith((",", ";")):
            made[-1] = before[:-1]
        made.append(line)
    return "".join(made) + "\n"


def _tightened(line: str) -> str:
    parts = _AS_IS.split(line)
    if any(part[0] == "`" and part.count("{") != part.count("}") for part in parts[1::2]):
        return line
    if any(_UNSURE.search(part) for part in parts[::2]):
        return line
    return "".join(part if at % 2 else _BRACKET.sub(r"\1", _OPERATOR.sub(r"\1", part)) for at, part in enumerate(parts))
