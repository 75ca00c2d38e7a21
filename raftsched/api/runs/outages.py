"""Why nothing was fired for a while: nobody led, or the cluster was paused."""

from __future__ import annotations

from itertools import takewhile

from raftsched.api.auth.audit_kept import newest_notes
from raftsched.api.http.durations import format_time
from raftsched.core.rows import TERMS
from raftsched.core.subjects.access import CHANGES_RING
from raftsched.core.subjects.cluster import LedTerm
from raftsched.core.tables import ReadView, Table, from_u64

PAUSE, RESUME = "settings_pause", "settings_resume"  # as the audit calls who pauses the cluster
_PAUSED_MS = 1_000  # what fires sooner after its time was not held up by a pause


def outage_words(view: ReadView, due_ms: int, fired_ms: int) -> str:
    """Returns, to stand behind "for", what kept a due time from being fired before `fired_ms`; empty: nothing that is
    known. That a leadership is over nobody writes down, only when the next one began."""
    begun = [(number, led) for number, led in _led_since(view, due_ms) if led.at_ms <= fired_ms]
    if begun:
        return _no_leader(due_ms, begun)
    if fired_ms - due_ms < _PAUSED_MS:
        return ""
    pause = _paused(view, due_ms, fired_ms)
    return "" if pause is None else f"the cluster was paused from {format_time(pause[0])} to {format_time(pause[1])}"


def _led_since(view: ReadView, since_ms: int) -> list[tuple[int, LedTerm]]:
    """Returns the leaderships that began after this time, the oldest first, each with its term."""
    newest = ((from_u64(key), TERMS.decode(raw)) for key, raw in view.scan(Table.TERMS, reverse=True))
    return list(takewhile(lambda one: one[1].at_ms > since_ms, newest))[::-1]


def _no_leader(due_ms: int, begun: list[tuple[int, LedTerm]]) -> str:
    term, led = begun[0]
    text = f"nobody led from {format_time(due_ms)} at the latest to {format_time(led.at_ms)}, when {led.leader} came"
    text += f" to lead in term {term}"
    if len(begun) > 1:
        last, led = begun[-1]
        times = "once more" if len(begun) == 2 else f"{len(begun) - 1} times more"
        text += f"; the leader changed {times}, to {led.leader} in term {last} at {format_time(led.at_ms)}"
    return text


def _paused(view: ReadView, due_ms: int, fired_ms: int) -> tuple[int, int] | None:
    """Returns when the newest pause of the cluster began and ended that ended between; None: there was none, as far as
    the newest notes of the audit reach back."""
    ended_ms: int | None = None
    for note in newest_notes(view, CHANGES_RING):
        if note.operation == RESUME and due_ms < note.at_ms <= fired_ms:
            ended_ms = note.at_ms
        elif note.operation == PAUSE and ended_ms is not None:
            return note.at_ms, ended_ms
        elif note.at_ms < due_ms and ended_ms is None:
            break
    return None
