"""The one error of this room: a trigger that cannot be used, with the place and the remedy."""

from __future__ import annotations

from raftsched.errors import Meaning, RaftschedError

RULE_POINTER = "/trigger/rrule"
CALENDAR_POINTER = "/trigger/calendar"
_SHOWN = 60


class TriggerError(RaftschedError):
    """`pointer` is the JSON pointer of the bad field within the job, `detail` what is wrong and what would be right,
    `meaning` why it is refused; None: it is not what the field's format asks for."""

    def __init__(self, pointer: str, detail: str, meaning: Meaning | None = None) -> None:
        super().__init__("invalid-trigger", detail)
        self.pointer = pointer
        self.meaning = meaning


def shown(text: str) -> str:
    """Somebody's text inside a message: quoted, on one line, never long."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return '"' + "".join(c if c.isprintable() else "�" for c in cut) + '"'
