"""Passes what a worker's runs report of themselves on to the log, in bounded steps.

The log gets no more than one such report in ten seconds of each run, beside the last of it, which goes along with the
end of the attempt. A report that is lost on its way is not repeated: the next one, or the end, says more.
"""

from __future__ import annotations

import msgspec

from raftsched.core.commands import SelfReport
from raftsched.worker.processes.runner import RunEnd

EVERY_MS = 10_000  # between two reports of one run


class SelfReports:
    """Holds what each run said so far. Times are those of the boot clock."""

    def __init__(self) -> None:
        self._latest: dict[int, SelfReport] = {}  # by token
        self._fresh: dict[int, None] = {}  # tokens with something that was not reported
        self._next_at: dict[int, int] = {}  # by token: when more of it may be reported

    def add(self, token: int, said: SelfReport) -> None:
        self._latest[token] = _merged(self._latest.get(token), said)
        self._fresh[token] = None

    def take_due(self, now: int) -> list[tuple[int, SelfReport]]:
        """Returns what is to be reported now."""
        if not self._fresh:
            return []
        due = [token for token in self._fresh if self._next_at.get(token, now) <= now]
        for token in due:
            del self._fresh[token]
            self._next_at[token] = now + EVERY_MS
        return [(token, self._latest[token]) for token in due]

    def completed(self, token: int, end: RunEnd) -> RunEnd:
        """Returns the end of a run with all that it has said of itself, which is forgotten here."""
        known = self._latest.get(token)
        if known is None:
            return end
        self.forget(token)
        return msgspec.structs.replace(end, said=known if end.said is None else _merged(known, end.said))

    def forget(self, token: int) -> None:
        self._latest.pop(token, None)
        self._fresh.pop(token, None)
        self._next_at.pop(token, None)


def _merged(before: SelfReport | None, said: SelfReport) -> SelfReport:
    """Returns what both say, the later one first."""
    if before is None:
        return said
    kept = before.kept if said.kept is None else said.kept
    if said.percent is None and said.text is None:
        return SelfReport(before.percent, before.text, kept)
    return SelfReport(said.percent, said.text, kept)
