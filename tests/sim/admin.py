"""The person who looks after the members: one change at a time, asked again until it is done.

A disk that is lost or damaged is replaced without being told to; other changes are asked for by the nemesis.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

from raftsched.errors import RaftschedError

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World

TIMEOUT_S = 5.0
TRIES = 8  # of a change that nobody needs; a lost disk is replaced whatever it takes
EXPECTED = {
    "no-leader",
    "unknown-outcome",
    "overloaded",
    "membership-busy",
    "not-waiting",
    "no-such-member",
    "last-member",
    "not-possible",
}


class Admin:
    def __init__(self, world: World, rng: random.Random) -> None:
        self.done: dict[str, int] = {}  # changes that were answered as done
        self._world = world
        self._rng = rng
        self._task: tuple[str, str, int] | None = None  # change, node, tries left
        self._asked = 0

    def start(self) -> None:
        self._world.scheduler.after(0.5, self._look)

    def change(self, change: str, node: str) -> bool:
        """Takes it on; False: busy with another one."""
        if self._task is not None or self._world.lost_disks():
            return False
        self._task = (change, node, TRIES)
        self._world.trace.event("--", "admin", change, node)
        self._ask()
        return True

    @property
    def changing(self) -> bool:
        """The voters are about to change, or may be."""
        return self._task is not None and self._task[0] != "replace"

    def calm(self) -> None:
        """No change is asked for again, but for a lost disk."""
        if self._task is not None and self._task[0] != "replace":
            self._task = (*self._task[:2], 0)

    def _look(self) -> None:
        """Replaces members whose disk is another one than the members know."""
        self._world.scheduler.after(0.5, self._look)
        if self._task is None and self._world.formed:
            lost = [machine.name for machine in self._world.lost_disks() if machine.running]
            if lost:
                learners = [m.node for m in self._world.checks.members if m.node in lost and not m.voter]
                node = self._rng.choice(learners or lost)  # nobody else is let in before a learner has caught up
                self._task = ("replace", node, TRIES)
                self._world.trace.event("--", "admin", "replace", node)
                self._ask()

    def _ask(self) -> None:
        if self._task is None:
            return
        change, node, tries = self._task
        if tries <= 0:
            self._task = None
            return
        self._task = (change, node, tries - 1)
        running = [machine for machine in self._world.members() if machine.serving]
        if not running:
            self._world.scheduler.after(1.0, self._ask)
            return
        self._asked += 1
        machine = self._rng.choice(running)
        machine.change_members(change, node, TIMEOUT_S, partial(self._answered, self._asked, machine))
        self._world.scheduler.after(TIMEOUT_S + 2.0, self._answered, self._asked, machine, None, TimeoutError())

    def _answered(self, number: int, machine: Machine, _: object, error: BaseException | None) -> None:
        if number != self._asked or self._task is None:
            return
        self._asked += 1  # only the first answer counts
        change, node, _tries = self._task
        world = self._world
        if error is None:
            world.trace.event("--", "changed", change, node)
            self.done[change] = self.done.get(change, 0) + 1
            self._task = None
            world.changed(change, node)
        elif isinstance(error, RaftschedError):
            world.trace.event("--", "refused", change, node, f"by {machine.name}: {error.code}")
            if error.code not in EXPECTED:
                world.checks.fail(f"{machine.name} answers {change} {node} with {error.code}: {error}")
            if error.code in ("last-member", "no-such-member"):
                self._task = None
            world.scheduler.after(self._rng.uniform(0.3, 1.5), self._ask)
        elif isinstance(error, TimeoutError):
            self._ask()
        else:
            world.checks.fail(f"{machine.name} answers {change} {node} with {error!r}")
