"""A world with jobs that follow each other."""

from __future__ import annotations

from typing import Any

from raftsched.core.model import (
    After,
    AfterOn,
    Instance,
    Job,
    Outcome,
    Trigger,
    TriggerKind,
)
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import WORKFLOWS
from raftsched.core.subjects.workflow import Workflow
from tests.support.memory_view import World


def follows(*names: str, on: AfterOn = AfterOn.SUCCEEDED, any_of: bool = False, passes: bool = False) -> Trigger:
    return Trigger(kind=TriggerKind.AFTER, after=After(tuple(f"default/{name}" for name in names), on, any_of, passes))


class Graph:
    """A world with jobs that follow each other, by their names."""

    def __init__(self, **triggers: Trigger | None) -> None:
        self.world = World()
        self.session = self.world.session()
        self.jobs: dict[str, Job] = {}
        for name, trigger in triggers.items():
            self.add(name, trigger)

    def add(self, name: str, trigger: Trigger | None = None, **fields: Any) -> Job:
        self.jobs[name] = self.world.create(trigger, name=name, **fields)
        return self.jobs[name]

    def start(self, name: str = "a", request: int = 1) -> bytes:
        return self.world.run_now(self.jobs[name], request)

    def end(self, name: str, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> bytes:
        """Runs the one run of the job that waits, and ends it so."""
        (row,) = self.world.waiting(self.jobs[name].id)
        self.world.assign(row.key, self.session)
        self.world.end(row.key, outcome, **fields)
        return row.key

    def runs(self, name: str) -> list[Instance]:
        return self.world.instances(self.jobs[name].id)

    def states(self) -> dict[str, list[I]]:
        return {name: [row.state for row in self.runs(name)] for name in self.jobs}

    def workflow(self, root: bytes) -> Workflow | None:
        return WORKFLOWS.get(self.world.view, root)
