"""What `core.apply.runs.plain` does in one go is what the general functions come to: every row, answer and action."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.bounds import TIME_MAX_MS
from raftsched.core import commands as c
from raftsched.core.apply import Applier
from raftsched.core.apply.runs import plain
from raftsched.core.commands import Command
from raftsched.core.ids import instance_key
from raftsched.core.model import EveryMode, Misfire, Outcome, Overlap, Policy, Retention, Trigger, TriggerKind
from raftsched.core.tables import Table
from tests.property.author import Author
from tests.support.amounts import examples
from tests.support.memory_view import MemoryView

WAYS: dict[str, Any] = {"fire": False, "assign": None, "succeed": False}  # what each returns of a run that is not plain


class PlainAuthor(Author):
    """Writes mostly of jobs that ask for little, and of runs that succeed; all else comes in between."""

    def _policy(self) -> Policy:
        r = self.random
        if r.random() < 0.1:
            return super()._policy()
        kind = r.choice([TriggerKind.AT, TriggerKind.IN, TriggerKind.EVERY, TriggerKind.EVERY, TriggerKind.CRON])
        trigger = Trigger(
            kind=kind,
            at_ms=self.now + r.choice([-60_000, 0, 5, 1_000]),
            period_ms=r.choice([7, 1_000, 60_000]),
            mode=r.choice([EveryMode.FIXED_RATE] * 9 + [EveryMode.FIXED_DELAY]),
            expr="* * * * *" if kind is TriggerKind.CRON else "",
            ends_at_ms=r.choice([None] * 5 + [self.now + 90_000]),
            jitter_ms=r.choice([0] * 9 + [500]),
            max_runs=r.choice([None] * 9 + [2]),
        )
        return Policy(
            trigger=trigger,
            priority=r.choice([0, 5, 9]),
            overlap=r.choice([Overlap.FORBID, Overlap.FORBID, *Overlap]),
            misfire=r.choice([Misfire(), Misfire(grace_ms=r.choice([0, 1_000]))]),
            retention=r.choice([Retention(), Retention(1, 1), Retention(0, 0), Retention(3, 2, 10_000)]),
            expires_ms=r.choice([0] * 9 + [5_000]),
            shards=r.choice([0] * 9 + [2]),
        )

    def _create(self) -> Command:
        return c.CreateJob(self.random.choice(["d", "default"]), self.random.choice([None, "a"]), self._policy(), b"{}")

    def _end(self) -> Command:
        r = self.random
        found = super()._end()
        if not isinstance(found, c.Ended) or r.random() < 0.2:
            return found
        more = {"error": r.choice([None, "e" * 5_000]), "result": r.choice([None, b"1", b"1" * 70_000])}
        started_at_ms = r.choice([None, *[self.now - r.choice([0, 9, 5_000])] * 9])
        given = {name: getattr(found, name) for name in c.Ended.__struct_fields__}
        return c.Ended(**given | more | {"outcome": Outcome.SUCCEEDED, "started_at_ms": started_at_ms})

    def _at_once(self, command: Command) -> list[Command]:
        found = super()._at_once(command)
        if self.random.random() < 0.2 or not isinstance(command, c.Fire):
            return found
        if not 0 <= command.nominal_at_ms <= TIME_MAX_MS or not 0 <= command.job_id < 2**64:
            return found
        return [c.Assign(instance_key(command.nominal_at_ms, command.job_id), self._session())]

    def _command(self) -> Command:
        r = self.random
        if self.view.count(Table.SESSIONS) < 2:
            return self._open()
        if r.random() < 0.04:
            return super()._command()
        often = (self._create, self._fire, self._fire, self._assign, self._end, self._end)
        seldom = (self._open, self._schedule, self._start, self._run_now, self._prune, self._state, self._edit)
        return r.choice(often if r.random() < 0.9 else seldom)()


def apply_both(monkeypatch: pytest.MonkeyPatch, log: list[bytes]) -> Counter[str]:
    """Applies a log with the plain ways and without, and compares. Returns how often each was taken."""
    taken: Counter[str] = Counter()
    views = MemoryView(), MemoryView()
    for index, data in enumerate(log, 1):
        results = []
        for view, general in zip(views, (False, True), strict=True):
            with monkeypatch.context() as patched:
                for name, none in WAYS.items():
                    patched.setattr(plain, name, way(name, none, taken, general=general))
                applier = Applier(view)
                results.append(applier.entry(index, 1, data))
                applier.close()
        assert results[0] == results[1]
        assert views[0].dump() == views[1].dump()
    return taken


def way(name: str, none: Any, taken: Counter[str], *, general: bool) -> Any:
    real = getattr(plain, name)

    def declines(*args: Any) -> Any:
        return none

    def counts(*args: Any) -> Any:
        found = real(*args)
        taken[name] += found is not none and found != none
        return found

    return declines if general else counts


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_a_plain_life_is_what_the_general_ways_come_to(seed: int) -> None:
    note(f"seed {seed}")
    with pytest.MonkeyPatch.context() as monkeypatch:
        apply_both(monkeypatch, PlainAuthor(seed).write(120))


def test_the_authors_lives_are_plain() -> None:
    """Else the test above would prove little."""
    taken: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as monkeypatch:
        for seed in range(4):
            taken += apply_both(monkeypatch, PlainAuthor(seed).write(120))
    assert all(taken[name] >= 10 for name in WAYS), taken
