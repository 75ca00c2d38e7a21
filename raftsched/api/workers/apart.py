"""Takes JSON text apart without reading its values, so that what is wrong with one of them is not wrong with all: a
text that nests too deeply, half of a surrogate pair, a number that JSON does not know.

What is around the values has to be right: brackets, quotes, commas and keys.
"""

from __future__ import annotations

import re

import msgspec

from raftsched.api.http.slices import Slices

TOKENS_MAX = 400_000  # strings, runs of brackets, and outer commas that are looked at
AT_ONCE = 500  # of these, between two looks whether others are to have their turn
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_DEEP = re.compile(_STRING + rb'|[\[{]+|[\]}]+|"', re.DOTALL)
_SIGN = re.compile(rb'["\[\]{}]')  # what each of those begins with, found in a tenth of the time: it may be far
_OUTER = re.compile(_DEEP.pattern + rb"|,", re.DOTALL)  # commas further in tell nothing: there may be very many
_MEMBER = re.compile(rb"\s*(" + _STRING + rb")\s*:(.*)", re.DOTALL)

_key = msgspec.json.Decoder(str).decode


async def members(raw: bytes, slices: Slices) -> list[tuple[str, bytes]]:
    """Returns the keys of an object, with the texts of their values. Raises ValueError: it is none."""
    found: list[tuple[str, bytes]] = []
    for text in await _between(raw, b"{}", slices):
        member = _MEMBER.fullmatch(text)
        if member is None:
            raise ValueError("not an object")
        found.append((_key(member[1]), member[2]))
    return found


async def items(raw: bytes, slices: Slices) -> list[bytes]:
    """Returns the texts of a list's items. Raises ValueError: it is no list."""
    return await _between(raw, b"[]", slices)


def _deep(text: bytes, at: int) -> re.Match[bytes] | None:
    sign = _SIGN.search(text, at)
    return None if sign is None else _DEEP.match(text, sign.start())


async def _between(raw: bytes, brackets: bytes, slices: Slices) -> list[bytes]:
    """Returns what is between the outermost commas."""
    text = raw.strip()
    if text[:1] + text[-1:] != brackets:
        raise ValueError("neither a list nor an object")
    found: list[bytes] = []
    depth, begin, at, count = 0, 1, 0, 0
    while token := _deep(text, at) if depth > 1 else _OUTER.search(text, at):
        if count >= TOKENS_MAX:
            raise ValueError("too much of it")
        if not count % AT_ONCE:
            await slices.turn()
        count, at, sign = count + 1, token.end(), token[0]
        if sign[0] in b"[{":
            depth += len(sign)
        elif sign[0] in b"]}":
            depth -= len(sign)
            if depth <= 0 and (depth < 0 or at < len(text)):
                raise ValueError("something follows")
        elif sign == b'"':
            raise ValueError("a string without an end")
        elif sign == b"," and depth == 1:
            found.append(text[begin : token.start()])
            begin = at
    if depth:
        raise ValueError("brackets without an end")
    last = text[begin:-1]
    return [*found, last] if found or last.strip() else []
