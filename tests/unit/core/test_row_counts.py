"""What a run costs in rows: each put, delete and decode counts, on every node, for every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.apply import Applier
from raftsched.core.apply import tx as tx_module
from raftsched.core.commands import Command, encode
from raftsched.core.entry import encode_entry
from raftsched.core.ids import instance_key
from raftsched.core.model import Outcome, Placement, Retention
from raftsched.core.subjects.changes import PER_ROW
from raftsched.core.tables import Table
from tests.support.memory_view import T0, MemoryView, World, at, every, policy

FEW, MANY = 2 * PER_ROW, 4 * PER_ROW  # commands: their events fill whole rows
DUE_MS = T0 + 60_000


class CountingView(MemoryView):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        self.counts[f"put {table.name}"] += 1
        super().put(table, key, value)

    def delete(self, table: Table, key: bytes) -> bool:
        self.counts[f"delete {table.name}"] += 1
        return super().delete(table, key)


class House:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.view = CountingView()
        self.world = World(self.view)
        self.session = self.world.session(slots=10 * MANY)
        for name in ("decode_job", "decode_instance"):
            monkeypatch.setattr(tx_module, name, self._counted(name, getattr(tx_module, name)))

    def _counted(self, name: str, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        def counted(raw: bytes) -> Any:
            self.view.counts[name] += 1
            return decode(raw)

        return counted

    def entry(self, commands: list[Command]) -> list[c.Accepted]:
        """Applies an entry of these in a turn of its own."""
        self.world.index += 1
        self.world.seq += 1
        applier = Applier(self.view)
        data = encode_entry(self.world.now, [(7, self.world.seq, [encode(command) for command in commands])])
        answers = applier.entry(self.world.index, 1, data).batches[0].answers
        applier.close()
        assert answers is not None
        accepted = [answer for answer in answers if isinstance(answer, c.Accepted)]
        assert len(accepted) == len(commands)
        return accepted

    def step(self, run: Callable[[int], None]) -> dict[str, float]:
        """Returns what each further job costs in this step: the difference between many and few."""
        found = []
        for count in (FEW, MANY):
            self.view.counts.clear()
            run(count)
            found.append(Counter(self.view.counts))
        few, many = found
        return {what: (many[what] - few[what]) / (MANY - FEW) for what in many if many[what] != few[what]}


def test_the_life_of_a_one_shot(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(monkeypatch)
    jobs: list[int] = []
    tokens: list[int] = []

    def create(count: int) -> None:
        made = house.entry([c.CreateJob("default", None, policy(at(DUE_MS)), b"{}") for _ in range(count)])
        jobs.extend(answer.job.id for answer in made if answer.job is not None)

    def fire_and_assign(count: int) -> None:
        commands: list[Command] = []
        for job in [jobs.pop() for _ in range(count)]:
            commands.append(c.Fire(job, 1, DUE_MS))
            commands.append(c.Assign(instance_key(DUE_MS, job), house.session, Placement(1, 8, 1, 1)))
        tokens.extend(answer.number for answer in house.entry(commands) if answer.number is not None)

    def end(count: int) -> None:
        ends = [(token, house.world.now) for token in (tokens.pop() for _ in range(count))]
        house.entry([c.Ended(house.session, token, Outcome.SUCCEEDED, at_ms, at_ms + 9, 0) for token, at_ms in ends])

    events = 1 / PER_ROW  # in the rows of CHANGES, for each change of a state
    assert house.step(create) == {"put JOBS": 1, "put DUE": 1, "put CHANGES": events}
    house.world.now = DUE_MS
    assert house.step(fire_and_assign) == {
        **{"put JOBS": 1, "put INSTANCES": 1, "put ASSIGNED": 1, "delete DUE": 1, "decode_job": 1},
        "put CHANGES": 2 * events,
    }
    assert house.step(end) == {
        **{"put JOBS": 1, "put INSTANCES": 1, "put PURGE": 1, "delete ASSIGNED": 1},
        **{"decode_job": 1, "decode_instance": 1},
        "put CHANGES": 2 * events,
    }


def test_the_run_of_a_recurring_job_with_full_history(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(monkeypatch)
    kept = policy(every(60_000), retention=Retention(succeeded=1))
    made = house.entry([c.CreateJob("default", None, kept, b"{}") for _ in range(FEW + MANY)])
    jobs = [answer.job.id for answer in made if answer.job is not None]
    todo: list[int] = []
    tokens: list[int] = []

    def fire_and_assign(count: int) -> None:
        commands: list[Command] = []
        for job in [todo.pop() for _ in range(count)]:
            commands.append(c.Fire(job, 1, house.world.now))
            commands.append(c.Assign(instance_key(house.world.now, job), house.session, Placement(1, 8, 1, 1)))
        tokens.extend(answer.number for answer in house.entry(commands) if answer.number is not None)

    def end(count: int) -> None:
        at_ms = house.world.now
        ends = [tokens.pop() for _ in range(count)]
        house.entry([c.Ended(house.session, token, Outcome.SUCCEEDED, at_ms, at_ms + 9, 0) for token in ends])

    for _ in range(2):
        house.world.now += 60_000
        todo.extend(jobs)
        fired = house.step(fire_and_assign)
        ended = house.step(end)
    events = 1 / PER_ROW
    assert fired == {
        **{"put JOBS": 1, "put INSTANCES": 1, "put BY_JOB": 1, "put ASSIGNED": 1, "put DUE": 1, "delete DUE": 1},
        **{"decode_job": 1, "put CHANGES": 2 * events},
    }
    assert ended == {
        **{"put JOBS": 1, "put INSTANCES": 1, "put BY_JOB": 1, "put PURGE": 1, "delete ASSIGNED": 1},
        **{"delete INSTANCES": 1, "delete BY_JOB": 1, "delete PURGE": 1},  # of the one that history lets go
        **{"decode_job": 1, "decode_instance": 2, "put CHANGES": events},
    }
