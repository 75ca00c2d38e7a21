"""Markdown as code hosts read it, in the dialect that MkDocs reads, and what can be found in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_FENCE = re.compile(r"^( *)(```+|~~~+)(.*)$")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$", re.MULTILINE)
_LINK_OR_CODE = re.compile(rf"\[([^\]\[]*)\]\(([^)\s]+)\)|{_CODE.pattern.replace('1', '3')}", re.DOTALL)
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ")
# how a block begins that says what to type
_COMMANDS = re.compile(
    r"\s*(#|\./|scripts/|(raftsched|curl|git|pip|pipx|uv|python3?|crontab|systemctl|source|echo|printf|cd|export) )"
)


def for_mkdocs(text: str) -> str:
    """Returns the same page for Python-Markdown, which is stricter: blocks within an item of a list are indented by
    four, a bar in code needs no backslash in a table, and a block says its language."""
    lines = []
    in_item = False
    shift = ""
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            lines.append(shift + line)
            if match and match[2] == fence and not match[3].strip():
                fence = ""
            continue
        if match:
            indent = len(match[1])
            shift = " " * (-indent % 4) if in_item else ""
            fence = match[2]
        elif line and not line.startswith(" "):
            in_item = _ITEM.match(line) is not None
        lines.append(shift + line if match else _bars(line))
    return _languages("\n".join(lines))


def _bars(line: str) -> str:
    if not line.startswith("|"):
        return line
    return _CODE.sub(lambda match: match[0].replace("\\|", "|"), line)


def _languages(text: str) -> str:
    """Returns the text with `sh` at each block of commands, and `text` at each other that says no language."""

    def named(match: re.Match[str]) -> str:
        language = match[3] or ("sh" if _COMMANDS.match(match[4]) else "text")
        return f"{match[1]}{match[2]}{language}\n{match[4]}{match[1]}{match[2]}"

    return re.sub(r"^( *)(```)(\w*)\n(.*?)^\1\2$", named, text, flags=re.DOTALL | re.MULTILINE)


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as code hosts make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())


def headings(text: str) -> list[tuple[int, str]]:
    """Returns level and text of each heading."""
    found: list[tuple[int, str]] = []

    def look(part: str) -> str:
        found.extend((len(match[1]), match[2]) for match in _HEADING.finditer(part))
        return part

    outside_blocks(text, look)
    return found


def link_targets(text: str) -> list[str]:
    """Returns where the links and pictures of a page lead that are to other files."""
    found: list[str] = []

    def look(label: str, target: str) -> tuple[str, str]:
        if not target.startswith("#"):
            found.append(target)
        return label, target

    change_links(text, look)
    return found


def change_links(text: str, change: Callable[[str, str], tuple[str, str]]) -> str:
    """Returns the text with other links and pictures: `change` is given text and target of each that leads to no other
    host, and says both anew."""

    def changed(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        if label is None or re.match(r"[a-z]+:", target):
            return match[0]
        label, target = change(label, target)
        return f"[{label}]({target})"

    return outside_blocks(text, lambda part: _LINK_OR_CODE.sub(changed, part))


def outside_blocks(text: str, change: Callable[[str], str]) -> str:
    """Returns the text with `change` made to all but its fenced blocks."""
    return "".join(part if code else change(part) for code, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yields the text in parts: whether one is a fenced block, and the part."""
    part: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\n"))
        if not fence and match:
            yield False, "".join(part)
            part, fence = [line], match[2]
        elif fence and match and match[2] == fence and not match[3].strip():
            yield True, "".join([*part, line])
            part, fence = [], ""
        else:
            part.append(line)
    yield bool(fence), "".join(part)
