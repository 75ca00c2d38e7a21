"""The reports that no answered poll has carried yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from raftsched.bounds import ERROR_MAX
from raftsched.surface.worker_sessions import REPORTS_MAX, Outcome, Report

_REFUSED = "Its report was refused: "
BATCH_BYTES = 256 * 1024  # of JSON in one poll, and one report more

_encode = msgspec.json.Encoder().encode


def as_failed(report: Report, why: str) -> Report | None:
    """Returns the report of a run's end that could not be taken as it was: one that succeeded has failed by that. None:
    it is no end, or has been made so already."""
    error = f"{_REFUSED}{why}"[:ERROR_MAX]
    if report.outcome is None or (report.error or "").startswith(_REFUSED):
        return None
    outcome: Outcome = "failed" if report.outcome == "succeeded" else report.outcome
    started, ended = report.started_at_ms, report.ended_at_ms
    return Report(token=report.token, outcome=outcome, started_at_ms=started, ended_at_ms=ended, error=error)


class Outbox:
    """The newest word about each run, until the answer to a poll that carried it came."""

    def __init__(self) -> None:
        self._pending: dict[int, Report] = {}  # by token, in the order in which they arose
        self._sizes: dict[int, int] = {}
        self._under_way: set[int] = set()  # tokens
        self._most = REPORTS_MAX

    def __contains__(self, token: int) -> bool:
        """Returns whether the end of the run is among them."""
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
        """Returns whether there is something that is not on its way."""
        return len(self._under_way) < len(self._pending)

    def add(self, report: Report) -> None:
        self._pending.pop(report.token, None)
        self._under_way.discard(report.token)
        try:
            self._sizes[report.token] = len(_encode(report))
        except (ValueError, TypeError, RecursionError) as error:  # a poll with it could not be sent at all
            report = as_failed(report, f"it is not JSON: {error}") or Report(token=report.token)
            self._sizes[report.token] = len(_encode(report))
        self._pending[report.token] = report

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
            failed = as_failed(report, why)
            if failed is None:
                self._drop(report.token)
                dropped.append(report)
            else:
                self.add(failed)
        return dropped

    def refused(self, report: Report, why: str) -> bool:
        """The report was refused, and is settled. Returns whether the run's end is reported in another way now."""
        failed = as_failed(report, why)
        if failed is not None and report.token not in self._pending:
            self.add(failed)
        return report.token in self._pending

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
