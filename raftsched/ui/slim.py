"""Scripts and styles without what only their readers need: comments, indentation and empty lines, a quarter of them.

Names and statements stay as they are, so that an error in the browser names functions of the source.
"""

from __future__ import annotations

import re

# A comment at the end of a line. What has a quote in it stays: it may be the end of a text that only looks like one.
_AT_END = re.compile(r"""\s(?://\s[^"'`]*|/\*[^"'`*]*\*/)$""")


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
