"""The one error of this room: a trigger that cannot be used, with the place and the remedy."""

from __future__ import annotations

from raftsched.errors import RaftschedError

_SHOWN = 60


class TriggerError(RaftschedError):
    """`pointer` is the JSON pointer of the bad field within the job, `detail` what is wrong and what would be right."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__("invalid-trigger", detail)
        self.pointer = pointer


def shown(text: str) -> str:
    """Somebody's text inside a message: quoted, on one line, never long."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return '"' + "".join(c if c.isprintable() else "�" for c in cut) + '"'
