"""What schemathesis says while it runs and in the end: progress, what it finds as it finds it, calls per operation with
their statuses, and the failures with a curl command each. Loaded through fuzz_hooks."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

from schemathesis.cli.ext.handlers import handler
from schemathesis.engine import events

PROGRESS_S = 10.0


class Calls:
    """Answers by operation and status, and a line about them every few seconds."""

    def __init__(self) -> None:
        self.by_operation: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.total = 0
        self.failures = 0
        self.phase = "start"
        self.began = time.monotonic()
        self._said = self.began

    def add(self, label: str, status: int) -> None:
        self.by_operation[label][status] += 1
        self.total += 1
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            self.say(f"at {label}")

    def say(self, what: str) -> None:
        seconds = time.monotonic() - self.began
        found = f"{self.failures} failures" if self.failures else "nothing found"
        print(f"  {seconds:4.0f} s  {self.phase:<9} {self.total:>6} calls, {found}; {what}", flush=True)

    def table(self) -> str:
        statuses = sorted({status for counts in self.by_operation.values() for status in counts})
        width = max((len(label) for label in self.by_operation), default=9)
        head = f"{'OPERATION':<{width}} {'CALLS':>6} " + " ".join(f"{status:>5}" for status in statuses)
        rows = [head]
        for label, counts in [*sorted(self.by_operation.items()), ("", _sum(self.by_operation.values()))]:
            cells = " ".join(f"{counts[status] or '.':>5}" for status in statuses)
            rows.append(f"{label:<{width}} {counts.total():>6} {cells}")
        return "\n".join(rows)


def _sum(counters: Any) -> Counter[int]:
    total: Counter[int] = Counter()
    for one in counters:
        total.update(one)
    return total


CALLS = Calls()


@handler()
class Progress:
    def __init__(self, *args: Any, **params: Any) -> None:
        self._known: set[tuple[str, str]] = set()

    def start(self, ctx: Any) -> None:
        pass

    def shutdown(self, ctx: Any) -> None:
        print(f"\n{CALLS.table()}\n", flush=True)

    def handle_event(self, ctx: Any, event: Any) -> None:
        if isinstance(event, events.PhaseStarted):
            CALLS.phase = str(event.phase.name.value).split()[0].lower()[:9]
        elif isinstance(event, events.ScenarioFinished):
            self._failures(event.recorder)
        elif isinstance(event, events.NonFatalError):
            CALLS.failures += 1
            CALLS.say(f"{event.label}: {event.info.title}: {event.info.message}")

    def _failures(self, recorder: Any) -> None:
        for checks in recorder.checks.values():
            for check in checks:
                if check.failure_info is None:
                    continue
                failure = check.failure_info.failure
                if (failure.operation, failure.title) in self._known:
                    continue
                self._known.add((failure.operation, failure.title))
                CALLS.failures += 1
                CALLS.say(f"{failure.operation}: {failure.title}")
