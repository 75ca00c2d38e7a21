"""Faults that matter to sessions and leases, beside those of tests.sim.faults."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.sim.faults import Nemesis
from tests.sim.jobs.remote_faults import RemoteFaults

if TYPE_CHECKING:
    from tests.sim.jobs.machine import JobsMachine
    from tests.sim.jobs.world import JobsWorld


class JobsNemesis(RemoteFaults, Nemesis):
    _world: JobsWorld

    def __init__(self, world: JobsWorld, rng: random.Random) -> None:
        super().__init__(world, rng)
        self._machines: list[JobsMachine] = list(world.machines.values())

    def stop(self) -> None:
        super().stop()
        for machine in self._machines:  # somebody sets the clocks right
            if machine.stopping:
                machine.kill()
                machine.start()
            self._clock_right(machine)
        self._calm_workers()

    def _one(self) -> JobsMachine:
        machine = self._often_leader()
        return self._world.machines[machine.name]

    def _for_about_a_lease(self) -> float:
        """Seconds: shorter than a session's TTL, about as long, longer."""
        ttl = self._world.profile.ttl_ms[0] / 1000
        rng = self._rng
        return rng.choice(
            [rng.uniform(0.1, 1.0), rng.uniform(1.0, ttl), ttl + rng.uniform(-0.7, 2.0), rng.uniform(5, 15)]
        )

    def _long_pause(self) -> bool:
        """SIGSTOP of the node alone: its supervisor and keepers go on."""
        machine = self._one()
        if not machine.running:
            return False
        seconds = self._for_about_a_lease()
        self._tell("long pause", machine.name, f"{seconds:.2f} s")
        machine.pause(seconds)
        return True

    def _pause_supervisor(self) -> bool:
        machine = self._one()
        if machine.site.supervisor is None:
            return False
        seconds = self._for_about_a_lease()
        self._tell("pause supervisor", machine.name, f"{seconds:.2f} s")
        machine.site.supervisor.stop(seconds)
        return True

    def _pause_both(self) -> bool:
        machine = self._one()
        if not machine.running or machine.site.supervisor is None:
            return False
        seconds = self._for_about_a_lease()
        self._tell("pause both", machine.name, f"{seconds:.2f} s")
        machine.pause(seconds)
        machine.site.supervisor.stop(seconds + self._rng.choice([0.0, -0.05, 0.5, 3.0]))
        return True

    def _stop_node(self) -> bool:
        """SIGTERM, and a new start some time later."""
        machine = self._one()
        if not machine.serving:
            return False
        self._tell("stop", machine.name)
        machine.stop()
        self._heal_in(2, 8, self._killed_and_started, machine, machine.incarnation)
        return True

    def _killed_and_started(self, machine: JobsMachine, incarnation: int) -> None:
        if machine.incarnation == incarnation:
            machine.kill()  # whoever restarts it does not wait for ever
            machine.start()

    def _kill_supervisor(self) -> bool:
        machine = self._one()
        if machine.site.supervisor is None or machine.site.supervisor.dead:
            return False
        self._tell("kill supervisor", machine.name)
        machine.site.supervisor.end()
        return True

    def _clock(self) -> bool:
        """One clock is set wrong, and right again later: a majority is right at any time."""
        machine = self._one()
        if any(other.clock.wall_offset_ms != other.wall_offset_ms for other in self._machines):
            return False
        jump = self._rng.choice([-1, 1]) * self._rng.choice([100, 600, 2_000, 5_000, 120_000])
        self._tell("clock", machine.name, f"{jump} ms")
        machine.clock.wall_offset_ms += jump
        self._heal_in(0.5, 20, self._clock_right, machine)
        return True

    def _clock_right(self, machine: JobsMachine) -> None:
        self._tell("clock right", machine.name)
        machine.clock.wall_offset_ms = machine.wall_offset_ms

    # ------------------------------------------------------------ stories, each for one rule

    def _slowly(self, a: str, b: str, seconds: float) -> None:
        path = self._world.network.paths[a, b]
        path.low_s, path.high_s = 0.95 * seconds, seconds

    def _cut_all(self, pairs: list[tuple[str, str]]) -> None:
        self._tell("cut", " ".join(f"{a}>{b}" for a, b in pairs))
        for a, b in pairs:
            self._world.network.cut(a, b)

    def _all_well(self) -> None:
        self._tell("all well")
        for (a, b), path in self._world.network.paths.items():
            self._world.network.heal(a, b)
            path.low_s, path.high_s = self._world.profile.latency_s
        self._story = False

    _story = False  # one at a time

    def _two(self) -> tuple[str, str, list[str]] | None:
        """The leader, somebody, and the others; None: it is not the time for a story."""
        leader = self._leader()
        if self._story or leader is None or leader.raft is None or not leader.raft.leading:
            return None
        others = [name for name in self._world.machines if name != leader.name]
        self._rng.shuffle(others)
        self._story = True
        return leader.name, others[0], others[1:]

    def _late_grants(self) -> bool:
        """What the leader says to a worker takes seconds; then the worker is not heard any more."""
        found = self._two()
        if found is None:
            return False
        leader, worker, _ = found
        late = self._rng.uniform(2.0, 4.0)
        self._tell("late grants", f"{leader}>{worker}", f"{late:.1f} s")
        self._slowly(leader, worker, late)
        self._soon(late + 1, late + 3, self._cut_all, [(worker, leader)])
        self._soon(late + 11, late + 12, self._all_well)
        return True

    def _island(self) -> bool:
        """The leader and one worker are apart from the rest."""
        found = self._two()
        if found is None:
            return False
        leader, worker, others = found
        self._cut_all([pair for one in (leader, worker) for other in others for pair in ((one, other), (other, one))])
        self._soon(10, 14, self._all_well)
        return True

    def _growing_delay(self) -> bool:
        """What a majority answers comes later and later to a leader, who at last reaches nobody but one worker."""
        found = self._two()
        if found is None:
            return False
        leader, worker, others = found
        self._tell("growing delay", leader, worker)
        for step in range(1, 33):
            for other in others:
                self._soon(0.4 * step, 0.4 * step, self._slowly, other, leader, 0.25 * step)
        away = [pair for other in others for pair in ((leader, other), (worker, other), (other, worker))]
        self._soon(14, 15, self._cut_all, away)
        self._soon(28, 30, self._all_well)
        return True

    def _old_ends(self) -> bool:
        """A leader that does not hear a worker loses its majority just before it gives the worker up; the next leader
        hears it. What the first one had proposed reaches the next one."""
        found = self._two()
        if found is None:
            return False
        leader, worker, others = found
        self._tell("old ends", leader, worker)
        self._cut_all([(worker, leader)])
        away = [(leader, worker), *[pair for other in others for pair in ((leader, other), (other, leader))]]
        self._soon(1.9, 2.3, self._cut_all, away)
        self._soon(6.3, 6.6, self._all_well)
        return True

    # ------------------------------------------------------------ messages and clocks

    def _late_link(self) -> bool:
        """Whatever is sent this way takes seconds, and comes all the same."""
        a, b = self._pair()
        pairs = [(a, b)] if self._rng.random() < 0.6 else [(a, b), (b, a)]
        late = self._rng.choice([0.3, 1.0, 2.5])
        self._tell("late link", " ".join(f"{x}>{y}" for x, y in pairs), late)
        for x, y in pairs:
            path = self._world.network.paths[x, y]
            path.low_s, path.high_s = 0.5 * late, late
            self._heal_in(1, 10, self._in_time, x, y)
        return True

    def _in_time(self, a: str, b: str) -> None:
        path = self._world.network.paths[a, b]
        path.low_s, path.high_s = self._world.profile.latency_s
