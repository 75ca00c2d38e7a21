"""Takes out of scripts and styles what only their readers need: comments, indentation, spaces, line breaks. It is more
than a quarter of what would be sent.

`slim` goes by lines and leaves statements as they are; `tight` and `tight_style` go by signs, for the files of the
page. rjsmin, a library for the same, takes spaces out of templates that lie in templates.
"""

from __future__ import annotations

import re

from raftsched.ui.lexing import is_gap, tokens_of

# A comment at the end of a line. What has a quote in it stays: it may be the end of a text that only looks like one.
_AT_END = re.compile(r"""\s(?://\s[^"'`]*|/\*[^"'`*]*\*/)$""")
_TEXT = re.compile(r'("[^"\n]*")')
_WORD = re.compile(r"[\w$#]")


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
    """Returns a script without comments, spaces and line breaks, with `let` for `const`, and with declarations that
    follow each other as one. It must have a semicolon wherever one may stand."""
    made: list[str] = []
    declares = [False]  # of each bracket that is open: whether what is said in it now is a declaration
    gap = False
    for said in tokens_of(script):
        if is_gap(said):
            gap = True
            continue
        word = "let" if said == "const" else said
        before = made[-1] if made else ";"
        if word == "let" and before == ";" and declares[-1]:
            made[-1] = ","
        else:
            words = _WORD.match(before[-1]) and _WORD.match(word)
            signs = word in ("+", "-", "/") and before[-1] == word
            if word == "}" and before == ";":
                made.pop()
            made.append(f" {word}" if gap and (words or signs) else word)
        gap = False
        if word in ("(", "[", "{") or (word[-2:] == "${" and word[0] == "`"):
            declares.append(False)
        elif word[0] in ")]}" and word[-2:] != "${":
            declares.pop()
        elif before in (";", "{") or (before == "}" and word == "let"):
            declares[-1] = word == "let"
    return "".join(made) + "\n"


def tight_style(style: str) -> str:
    """Returns a slim style sheet without spaces beside signs, and without the last semicolon of a rule."""
    parts = _TEXT.split(style)
    return "".join(part if at % 2 else _tight_rules(part) for at, part in enumerate(parts))


def _tight_rules(rules: str) -> str:
    rules = re.sub(r"\s*([;,>])\s*", r"\1", rules)
    rules = re.sub(r";?\s*([{}])\s*", r"\1", rules)
    return re.sub(r"(?<=[\w-]): ", ":", rules)
