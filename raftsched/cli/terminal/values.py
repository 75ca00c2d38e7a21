"""Values as people read them in a cell: times from now on, durations, sizes, states and their colours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

NOTHING = "-"
_BOLD, _DIM = {"bold": True}, {"dim": True}
_GREEN, _RED, _YELLOW = {"fg": "green"}, {"fg": "red"}, {"fg": "yellow"}
_STYLES: dict[str, Mapping[str, Any]] = {
    **dict.fromkeys(("SUCCEEDED", "DONE", "OK"), _GREEN),
    **dict.fromkeys(("FAILED", "TIMED_OUT", "FAIL", "LOST"), _RED),
    **dict.fromkeys(("KILLED", "RETRYING", "SUSPENDED", "WARN", "CANCELLED", "PAUSED"), _YELLOW),
    **dict.fromkeys(("FINISHED", "SKIPPED", "REVOKED", "EXPIRED"), _DIM),
    **dict.fromkeys(("RUNNING", "LEADER"), _BOLD),
}
_SPANS = ((1_000, "s"), (60_000, "min"), (3_600_000, "h"), (86_400_000, "d"), (31_557_600_000, "y"))
_UP_TO_MS = (60_000, 3_600_000, 2 * 86_400_000, 2 * 31_557_600_000)  # of each span, then comes the next


def cell(value: Any) -> str:
    """Returns the text of a value in a table: "-" for nothing, always one line."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else " " for c in text)


def shown(text: str) -> str:
    """Returns text of programs and of other people, in its lines, without commands for the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def text_of(value: Any, kind: str, now_ms: int | None = None) -> str:
    """Returns the text of a value of a column of this kind. `now_ms`: a time is told from there."""
    if kind == "prose" and isinstance(value, str) and value:
        return value
    if kind == "time" and now_ms is not None and isinstance(value, str) and value:
        return when_text(value, now_ms)
    if isinstance(value, int | float) and not isinstance(value, bool):
        from raftsched.quantities import duration_text, size_text  # not for who prints for programs, and starts fast

        if kind == "duration":
            return duration_text(value)
        if kind == "size":
            return size_text(value)
    return cell(value)


def when_text(at: str, now_ms: int) -> str:
    """Returns a time (RFC 3339) from now on, such as "3 min ago" or "in 20 h"; as it is where it cannot be read."""
    from datetime import datetime

    try:
        ms = round(datetime.fromisoformat(at).timestamp() * 1_000) - now_ms
    except ValueError:
        return cell(at)
    far = abs(ms)
    if far < 1_000:
        return "now"
    place = next((place for place, most in enumerate(_UP_TO_MS) if far < most), len(_UP_TO_MS))
    span, unit = _SPANS[place]
    text = f"{far // span} {unit}"
    return f"in {text}" if ms > 0 else f"{text} ago"


def style_of(state: str) -> Mapping[str, Any]:
    """Returns how a state is drawn; empty: as all other text."""
    return _STYLES.get(state.upper(), {})


def cell_width(text: str) -> int:
    """Returns how many columns of a terminal a text takes: two for a wide character of East Asia or an emoji, none for
    one that goes onto the one before it."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    return len(text) + wide - sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)
