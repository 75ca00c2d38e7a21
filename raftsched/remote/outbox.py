"""The reports that no answered poll has carried yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from raftsched.remote.protocol import REPORTS_MAX, Outcome, Report

BATCH_BYTES = 256 * 1024  # of JSON in one poll, and one report more

_encode = msgspec.json.Encoder().encode


class Outbox:
    """The newest word about each run, until the answer to a poll that carried it came."""

    def __init__(self) -> None:
        self._pending: dict[int, Report] = {}  # by token, in the order in which they arose
        self._sizes: dict[int, int] = {}
        self._under_way: set[int] = set()  # tokens
        self._most = REPORTS_MAX

    def __contains__(self, token: int) -> bool:
        """True when the end of the run is among them."""
        return self.outcome(token) is not None

    def outcome(self, token: int) -> Outcome | None:
        """Returns how the run ended, as far as that is among them."""
        report = self._pending.get(token)
        return None if report is None else report.outcome

    def waits_of(self, token: int) -> bool:
        """Returns whether something about the run is among them."""
        return token in self._pending

    @property
    def waits(self) -> bool:
        """Whether there is something that is not on its way."""
        return len(self._under_way) < len(self._pending)

    def add(self, report: Report) -> None:
        self._pending.pop(report.token, None)
        self._under_way.discard(report.token)
        self._pending[report.token] = report
        self._sizes[report.token] = len(_encode(report))

    def take(self) -> list[Report]:
        """Returns what the next poll carries."""
        batch: list[Report] = []
        size = 0
        for token, report in self._pending.items():
            if token not in self._under_way:
                batch.append(report)
                size += self._sizes[token]
                if len(batch) >= self._most or size >= BATCH_BYTES:
                    break
        self._under_way.update(report.token for report in batch)
        return batch

    def give_back(self, batch: Sequence[Report]) -> None:
        """The poll was not answered."""
        self._under_way.difference_update(report.token for report in self._same(batch))

    def answered(self, batch: Sequence[Report]) -> list[Report]:
        """Returns those of the poll that nothing newer was said about; they are settled."""
        settled = list(self._same(batch))
        for report in settled:
            self._drop(report.token)
        if batch:
            self._most = min(REPORTS_MAX, 2 * self._most)
        return settled

    def not_readable(self, batch: Sequence[Report], why: str) -> list[Report]:
        """The poll was refused as a whole, for what it carried. Less is carried then, until it is one; that goes
        without what may be wrong with it. Returns what was dropped, because even so it is refused."""
        self.give_back(batch)
        if len(batch) > 1:
            self._most = len(batch) // 2
            return []
        dropped = []
        for report in self._same(batch):
            error = f"Its report was refused: {why}"[:1_000]
            bare = replace(report, result=None, output=None, progress=None, text=None, state=None, error=error)
            if report.outcome is None or report == bare:
                self._drop(report.token)
                dropped.append(report)
            else:
                self.add(bare)
        return dropped

    def clear(self) -> None:
        self._pending.clear()
        self._sizes.clear()
        self._under_way.clear()

    def _same(self, batch: Iterable[Report]) -> list[Report]:
        return [report for report in batch if self._pending.get(report.token) is report]

    def _drop(self, token: int) -> None:
        del self._pending[token]
        del self._sizes[token]
        self._under_way.discard(token)
