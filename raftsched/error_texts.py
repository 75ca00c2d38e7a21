"""Errors of runs in few words: the line of a longer text that says what happened."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TRACEBACK = "Traceback (most recent call last):"
_GROUP = f"  + Exception Group {_TRACEBACK}"
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])"
)  # what is said to a terminal
_ENDED = re.compile(r"(?:^|: )(?:exit code \d+|killed by SIG\w+)$")  # how a process ended, which never says why


def telling_line(error: str) -> str:
    """Returns the line of an error that says what happened; empty for an error without words.

    That is the first line, but for a traceback the exception's, and for the end of a process its code with what the
    process printed last."""
    lines = [line.rstrip() for line in _ESCAPES.sub("", error).splitlines() if line.strip()]
    if not lines:
        return ""
    first = lines[0]
    if first == _GROUP:
        return _raised_group(lines) or first.strip()
    if first.endswith(_TRACEBACK):
        raised = _raised(lines)
        return first if raised is None else first.removesuffix(_TRACEBACK) + raised
    if len(lines) > 1 and _ENDED.search(first):
        return f"{first}: {_raised(lines) or lines[-1].strip()}"
    return first.strip()


def _raised(lines: Sequence[str]) -> str | None:
    """Returns the line of the last exception, which stands below its frames, with the next one where its message begins
    there; None: there are none, or nothing is below them."""
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    below = lines[frames[-1] + 1 :] if frames else ()
    place = next((place for place, line in enumerate(below) if not line[0].isspace()), None)
    if place is None:
        return None
    message = below[place + 1 : place + 2] if below[place].endswith(":") else ()
    return " ".join([below[place], *(line.strip() for line in message)])


def _raised_group(lines: Sequence[str]) -> str | None:
    own = [line.removeprefix("  | ") for line in lines if line.startswith("  | ")]
    return next((line for line in own if line and not line[0].isspace()), None)
