"""Holds what a worker has said of its runs, until it is settled: the log has it, or never will."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from raftsched.core.commands import Ended, EndedWithReport, LoseAttempt, SelfReport
from raftsched.core.model import Verdict
from raftsched.output.format.redaction import redact_json, redact_text
from raftsched.worker.processes.runner import RunEnd

T = TypeVar("T")  # the form in which it is sent


def report_of(session: int, token: int, end: RunEnd, hidden: tuple[str, ...]) -> Ended | LoseAttempt:
    """Makes the command that reports a run's end: a longer one where there is more to say. `hidden`: values that must
    not be shown."""
    error = redact_text(end.error, hidden)
    if end.alone:
        return LoseAttempt(session, token, end.ended_at_ms, end.started_at_ms, error, end.output)
    ended = Ended(
        session,
        token,
        end.outcome,
        end.started_at_ms,
        end.ended_at_ms,
        end.exit_code,
        error,
        redact_json(end.result, hidden),
        end.output,
        end.begun,
    )
    if end.verdict is None and end.delay_ms is None and end.said is None:
        return ended
    return with_self_report(ended, end.verdict, end.delay_ms, None if end.said is None else shown(end.said, hidden))


def with_self_report(
    ended: Ended, verdict: Verdict | None, delay_ms: int | None, said: SelfReport | None
) -> EndedWithReport:
    """Returns the report with more in it."""
    return EndedWithReport(**msgspec.structs.asdict(ended) | {"verdict": verdict, "delay_ms": delay_ms, "said": said})


def shown(said: SelfReport, hidden: tuple[str, ...]) -> SelfReport:
    """Returns what a run says of itself without the values that must not be shown."""
    return SelfReport(said.percent, redact_text(said.text, hidden), redact_json(said.kept, hidden)) if hidden else said


class Report(Generic[T]):
    """A word about one run. `ends`: it is its end. Times are of the boot clock."""

    __slots__ = ("added_at", "data", "ends", "sent_at", "session", "size", "token")

    def __init__(self, session: int, token: int, data: T, size: int, now: int, *, ends: bool) -> None:
        self.session = session
        self.token = token
        self.data = data
        self.size = size
        self.ends = ends
        self.added_at = now
        self.sent_at: int | None = None  # None: it is not on its way


class Reports(Generic[T]):
    """The newest word about each run, in the order in which they arose. An end stays until it is settled."""

    def __init__(self) -> None:
        self._pending: dict[int, Report[T]] = {}  # by token
        self._unsent: dict[int, None] = {}  # tokens of those that are not on their way, in order

    def __contains__(self, token: int) -> bool:
        """Returns whether the end of the run is among them."""
        report = self._pending.get(token)
        return report is not None and report.ends

    def __len__(self) -> int:
        return len(self._pending)

    def waits_of(self, token: int) -> bool:
        """Returns whether something about the run is among them."""
        return token in self._pending

    @property
    def unsent(self) -> Collection[int]:
        """Tokens of those that are not on their way."""
        return self._unsent

    def add(self, report: Report[T]) -> None:
        if report.token in self._pending:  # it goes to the end of the line
            self.drop(report.token)
        self._pending[report.token] = report
        self._unsent[report.token] = None

    def take(self, now: int, most: int, most_bytes: int) -> list[Report[T]]:
        """Returns those that are not on their way, in order, as many as may travel together: from now on they are.
        One of them may go beyond `most_bytes`."""
        batch: list[Report[T]] = []
        size = 0
        for token in self._unsent:
            report = self._pending[token]
            report.sent_at = now
            batch.append(report)
            size += report.size
            if len(batch) >= most or size >= most_bytes:
                break
        for report in batch:
            del self._unsent[report.token]
        return batch

    def give_back(self, batch: Sequence[Report[T]]) -> None:
        """They did not arrive, as far as is known."""
        for report in self._still(batch):
            report.sent_at = None
            self._unsent[report.token] = None

    def settle(self, batch: Sequence[Report[T]]) -> list[Report[T]]:
        """Drops them, but for those about whose runs something newer was said. Returns what was dropped."""
        settled = self._still(batch)
        for report in settled:
            self.drop(report.token)
        return settled

    def drop(self, token: int) -> None:
        """Nothing of the run is to be said any more."""
        self._pending.pop(token, None)
        self._unsent.pop(token, None)

    def sent_before(self, at: int) -> list[Report[T]]:
        """Returns those that were sent by then, and are not settled."""
        return [r for r in self._pending.values() if r.sent_at is not None and r.sent_at <= at]

    def ends(self) -> list[Report[T]]:
        """Returns the ends among them."""
        return [report for report in self._pending.values() if report.ends]

    def keep(self, reports: Iterable[Report[T]]) -> None:
        """Drops all others; these are not on their way."""
        self._pending = {report.token: report for report in reports}
        self._unsent = dict.fromkeys(self._pending)

    def _still(self, batch: Iterable[Report[T]]) -> list[Report[T]]:
        return [report for report in batch if self._pending.get(report.token) is report]
