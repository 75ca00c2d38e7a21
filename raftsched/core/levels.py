"""Sets of commands: which of them an entry of the log draws on.

Each version that adds commands adds a level; a command belongs to the level that it came with. An entry carries the
newest level of its commands, so that a node knows whether it can tell what the entry does (entry.py). All commands of
the first level need no mention, and an entry without a level is of the first.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from raftsched.core.commands import UNDECODABLE, Attributed, CreateWorkerToken, Idempotent, OpenWorker

FIRST_LEVEL = 1

SINCE: dict[type, int] = {OpenWorker: 2, CreateWorkerToken: 2}  # commands of later levels -> their level

_attributed = msgspec.msgpack.Decoder(Attributed)
_idempotent = msgspec.msgpack.Decoder(Idempotent)


def _tag(kind: type) -> int:
    number: int = kind.__struct_config__.tag  # type: ignore[attr-defined]
    return number


_ATTRIBUTED, _IDEMPOTENT = _tag(Attributed), _tag(Idempotent)


def newest_level() -> int:
    """The newest that this version knows."""
    return max(SINCE.values(), default=FIRST_LEVEL)


def level_of(commands: Iterable[bytes]) -> int:
    """The newest level of these (encoded) commands. What does not decode counts for nothing."""
    since = {_tag(kind): level for kind, level in SINCE.items()}
    return max((max(since.get(n, FIRST_LEVEL) for n in _numbers(raw)) for raw in commands), default=FIRST_LEVEL)


def is_later(command: object) -> bool:
    """Returns whether a decoded command, or one that it holds, is of a later level than the first."""
    if isinstance(command, Attributed):
        held = _numbers(bytes(command.command))
    elif isinstance(command, Idempotent):
        held = _numbers(command.command)
    else:
        return type(command) in SINCE
    return not {_tag(kind) for kind in SINCE}.isdisjoint(held)


def _numbers(raw: bytes) -> list[int]:
    """Returns the number of a command and of those that it holds. Only what holds others is decoded, because this is
    asked of each command of each entry."""
    numbers = [_number(raw)]
    try:
        if numbers[-1] == _ATTRIBUTED:
            raw = bytes(_attributed.decode(raw).command)
            numbers.append(_number(raw))
        if numbers[-1] == _IDEMPOTENT:
            numbers.append(_number(_idempotent.decode(raw).command))
    except UNDECODABLE:
        pass
    return numbers


def _number(raw: bytes) -> int:
    """Returns the small integer that a msgpack array begins with: the number of a command. -1: there is none. The
    formats are fixarray, array 16 and array 32, positive fixint and uint 8 of the MessagePack specification."""
    if not raw:
        return -1
    at = 1 if 0x90 <= raw[0] <= 0x9F else 3 if raw[0] == 0xDC else 5 if raw[0] == 0xDD else len(raw)
    if len(raw) <= at:
        return -1
    if raw[at] < 0x80:
        return raw[at]
    return raw[at + 1] if raw[at] == 0xCC and len(raw) > at + 1 else -1
