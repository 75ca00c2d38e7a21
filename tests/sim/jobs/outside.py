"""The world that conditions look at: files that come to be on some machines, and servers that answer from some
time on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from raftsched.core.model import Condition, ConditionKind
from raftsched.worker.conditions import probes

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

HANG_S = 8.0  # longer than a look may take


class Outside:
    """A target says when it is there, and on which machines: "/in/<ms of the world>/<machines>"."""

    def __init__(self, world: JobsWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def draw(self, kind: ConditionKind, rng: random.Random) -> str:
        at_ms = int(self._world.scheduler.now * 1000) + rng.choice([0, rng.randint(0, 6_000), 10**9])
        names = [name for name in self._world.machines if rng.random() < 0.6] or ["n1"]
        return f"{'/in' if kind is ConditionKind.PATH else 'http://out'}/{at_ms}/{'-'.join(names)}"

    def is_there(self, target: str, machine: str) -> bool:
        _, at_ms, names = target.removeprefix("http:/").rsplit("/", 2)
        return self._world.scheduler.now * 1000 >= int(at_ms) and (target[0] == "h" or machine in names.split("-"))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While the run lasts, looks are taken here, and take virtual time."""
        world, rng = self._world, self._rng

        class ConditionProbe:
            """raftsched.worker.conditions.probe.ConditionProbe"""

            def __init__(self, conditions: tuple[Condition, ...], limit_s: float, *rules: object) -> None:
                assert world.scheduler.running is not None
                self.loop = world.scheduler.running
                self.given_up = False
                self.doing = "A look"
                self._conditions = conditions

            def missing(self) -> str | None:
                for condition in self._conditions:
                    if condition.kind is ConditionKind.JOB:
                        continue
                    if not world.outside.is_there(condition.target, self.loop.name):
                        return f"{condition.target} is not there."
                return None

            def give_up(self) -> None:
                self.given_up = True

        class Thread:
            def __init__(self, target: Callable[..., None], args: tuple[Any, ...], **_: Any) -> None:
                self._target, self._args = target, args

            def start(self) -> None:
                loop = world.scheduler.running
                assert loop is not None
                takes = HANG_S if rng.random() < 0.02 else rng.uniform(0.001, 0.3)
                loop.call_later(takes, self._target, *self._args)

        with (
            patch.object(probes, "ConditionProbe", ConditionProbe),
            patch.object(probes, "threading", SimpleNamespace(Thread=Thread)),
        ):
            yield
