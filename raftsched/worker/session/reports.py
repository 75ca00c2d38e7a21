"""Proposes the ends of attempts, again and again until the replicated state shows them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from raftsched.core.commands import UNDECODABLE, Ended, EndedWithReport, LoseAttempt, SelfReport, decode, encode
from raftsched.core.model import Verdict
from raftsched.core.rows import read_meta
from raftsched.core.tables import ReadView, Table, assigned_key
from raftsched.output.format.redaction import redact_json, redact_text
from raftsched.worker.processes.runner import RunEnd

REPEAT_MS = 2_000


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


class _Report:
    __slots__ = ("command", "first_at", "proposed_at", "session")

    def __init__(self, session: int, command: bytes) -> None:
        self.session = session
        self.command = command
        self.first_at: int | None = None  # when it was proposed first
        self.proposed_at: int | None = None


class Reports:
    def __init__(self) -> None:
        self._pending: dict[int, _Report] = {}  # by token
        self._fresh: list[int] = []
        self._checked_at = 0

    def __contains__(self, token: int) -> bool:
        return token in self._pending

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, ended: Ended | LoseAttempt) -> None:
        self._pending[ended.token] = _Report(ended.session, encode(ended))
        self._fresh.append(ended.token)

    def restore(self, commands: Iterable[bytes]) -> None:
        """Adds what an earlier process of this node did not get into the log."""
        for raw in commands:
            try:
                command = decode(raw)
            except UNDECODABLE:
                continue
            if isinstance(command, Ended | LoseAttempt):
                self.add(command)

    def shown(self, token: int) -> None:
        """The state shows the end."""
        self._pending.pop(token, None)

    @property
    def fresh(self) -> list[int]:
        """Tokens of those never proposed so far, in order."""
        return self._fresh

    def take_fresh(self, now: int) -> list[bytes]:
        """Returns the reports never proposed so far, in order."""
        tokens, self._fresh = self._fresh, []
        return self._take(tokens, now)

    def repeat_due(self, now: int) -> bool:
        return bool(self._pending) and now - self._checked_at >= REPEAT_MS // 4

    def take_repeated(self, view: ReadView, now: int) -> list[bytes]:
        """Returns the reports proposed REPEAT_MS ago or earlier and still not shown; what is no live attempt any more
        is dropped. After a start the tables may be older than an attempt."""
        self._checked_at = now
        late = [t for t, r in self._pending.items() if r.proposed_at is not None and now - r.proposed_at >= REPEAT_MS]
        known = read_meta(view).last_token if late else 0
        for token in late:
            live = view.get(Table.ASSIGNED, assigned_key(self._pending[token].session, token)) is not None
            if not live and token <= known:
                del self._pending[token]
        return self._take(late, now)

    def waiting(self, now: int, ms: int) -> dict[int, bytes]:
        """Returns the reports that were proposed so long ago and are not shown yet, by token."""
        found = self._pending.items()
        return {t: r.command for t, r in found if r.first_at is not None and now - r.first_at >= ms}

    def all(self) -> list[bytes]:
        """Returns all that is not shown yet."""
        return [report.command for report in self._pending.values()]

    def take_all(self, now: int) -> list[bytes]:
        self._fresh.clear()
        return self._take(list(self._pending), now)

    def _take(self, tokens: list[int], now: int) -> list[bytes]:
        commands = []
        for token in tokens:
            report = self._pending.get(token)
            if report is not None:
                report.proposed_at = now
                report.first_at = now if report.first_at is None else report.first_at
                commands.append(report.command)
        return commands
