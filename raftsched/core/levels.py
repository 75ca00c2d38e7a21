"""Sets of commands: which of them an entry of the log draws on.

Each version that adds commands adds a level; a command belongs to the level that it came with. An entry carries the
newest level of its commands, so that a node knows whether it can tell what the entry does (entry.py). All commands of
the first level need no mention, and an entry without a level is of the first.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftsched.core.commands import UNDECODABLE, Attributed, Idempotent, decode, unwrap

FIRST_LEVEL = 1

SINCE: dict[type, int] = {}  # commands of later levels -> their level


def newest_level() -> int:
    """The newest that this version knows."""
    return max(SINCE.values(), default=FIRST_LEVEL)


def level_of(commands: Iterable[bytes]) -> int:
    """The newest level of these (encoded) commands. What does not decode counts for nothing."""
    if not SINCE:
        return FIRST_LEVEL
    return max((_level(raw) for raw in commands), default=FIRST_LEVEL)


def _level(raw: bytes) -> int:
    try:
        command = decode(raw)
    except UNDECODABLE:
        return FIRST_LEVEL
    if isinstance(command, Attributed):
        command = unwrap(command)
    inner = _level(command.command) if isinstance(command, Idempotent) else FIRST_LEVEL
    return max(SINCE.get(type(command), FIRST_LEVEL), inner)
