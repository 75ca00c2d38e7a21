"""Faults of remote workers and of their ways to the nodes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.jobs.remote import RemoteMachine
    from tests.sim.jobs.world import JobsWorld
    from tests.sim.machine import Machine


class RemoteFaults:
    """A part of the nemesis: each returns False where it cannot strike now."""

    _world: JobsWorld
    _rng: random.Random

    _story: bool  # one is told

    if TYPE_CHECKING:

        def _leader(self) -> Machine | None: ...

        def _tell(self, *what: object) -> None: ...

        def _heal_in(self, low: float, high: float, heal: object, *args: object) -> float: ...

        def _soon(self, low: float, high: float, call: object, *args: object) -> None: ...

    def _calm_workers(self) -> None:
        self._world.ways.heal_all()
        for worker in self._world.workers.values():
            worker.calm()

    def _a_worker(self) -> RemoteMachine:
        return self._rng.choice(list(self._world.workers.values()))

    def _about_a_lease(self) -> float:
        ttl = self._world.profile.worker_ttl_ms[0] / 1000
        rng = self._rng
        return rng.choice([rng.uniform(0.1, 1.0), rng.uniform(1.0, ttl), ttl + rng.uniform(-0.7, 3.0)])

    # ------------------------------------------------------------ processes

    def _worker_kill(self) -> bool:
        """Started again as the same incarnation, or as another one."""
        return self._end_worker(False)

    def _worker_power(self) -> bool:
        return self._end_worker(True)

    def _end_worker(self, power: bool) -> bool:
        worker = self._a_worker()
        if not worker.running:
            return False
        worker.kill(power)
        if self._rng.random() < 0.3:
            worker.move()
        self._heal_in(0.05, self._rng.choice([0.2, 2, 8]), worker.start)
        return True

    def _worker_pause(self) -> bool:
        """SIGSTOP of the process that asks nodes."""
        worker = self._a_worker()
        if not worker.running:
            return False
        seconds = self._about_a_lease()
        self._tell("pause", worker.name, f"{seconds:.2f} s")
        worker.pause(seconds)
        if self._rng.random() < 0.4 and worker.site.supervisor is not None:
            worker.site.supervisor.stop(seconds + self._rng.choice([0.0, -0.05, 0.5, 3.0]))
        return True

    def _worker_pause_supervisor(self) -> bool:
        worker = self._a_worker()
        if worker.site.supervisor is None:
            return False
        seconds = self._about_a_lease()
        self._tell("pause supervisor", worker.name, f"{seconds:.2f} s")
        worker.site.supervisor.stop(seconds)
        return True

    def _worker_kill_supervisor(self) -> bool:
        worker = self._a_worker()
        if worker.site.supervisor is None or worker.site.supervisor.dead:
            return False
        self._tell("kill supervisor", worker.name)
        worker.site.supervisor.end()
        return True

    def _worker_stop(self) -> bool:
        """SIGTERM, and a new start some time later."""
        worker = self._a_worker()
        if not worker.running or worker.stopping:
            return False
        self._tell("stop", worker.name)
        worker.stop()
        self._heal_in(2, 10, self._worker_again, worker, worker.incarnation)
        return True

    def _worker_again(self, worker: RemoteMachine, incarnation: int) -> None:
        if worker.incarnation == incarnation:
            worker.kill()  # whoever restarts it does not wait for ever
            worker.start()

    def _worker_clock(self) -> bool:
        """Its wall clock is wrong, which concerns nobody."""
        worker = self._a_worker()
        jump = self._rng.choice([-1, 1]) * self._rng.choice([600, 5_000, 3_600_000])
        self._tell("clock", worker.name, f"{jump} ms")
        worker.clock.wall_offset_ms += jump
        return True

    # ------------------------------------------------------------ ways

    def _some_ways(self) -> tuple[str, list[tuple[str, str]]]:
        """Of one worker: to some nodes or all, there, back or both."""
        worker, rng = self._a_worker().name, self._rng
        nodes = list(self._world.machines)
        nodes = nodes if rng.random() < 0.4 else rng.sample(nodes, rng.randint(1, len(nodes)))
        pairs = []
        for there, back in [rng.choice([(True, True), (True, False), (False, True)])]:
            pairs += [(worker, node) for node in nodes if there] + [(node, worker) for node in nodes if back]
        return worker, pairs

    def _worker_cut(self) -> bool:
        worker, pairs = self._some_ways()
        self._tell("cut", worker, " ".join(f"{a}>{b}" for a, b in pairs))
        for pair in pairs:
            self._world.ways[pair].cut = True
        self._heal_in(0.3, self._rng.choice([2, 8, 15]), self._ways_heal, pairs)
        return True

    def _worker_late(self) -> bool:
        worker, pairs = self._some_ways()
        late = self._rng.choice([0.3, 1.0, 4.0])
        self._tell("late", worker, late, " ".join(f"{a}>{b}" for a, b in pairs))
        for pair in pairs:
            self._world.ways[pair].low_s, self._world.ways[pair].high_s = 0.1 * late, late
        self._heal_in(1, 10, self._ways_heal, pairs)
        return True

    def _worker_lossy(self) -> bool:
        """Some requests and answers are lost, some requests come twice."""
        worker, pairs = self._some_ways()
        self._tell("lossy", worker, " ".join(f"{a}>{b}" for a, b in pairs))
        for pair in pairs:
            self._world.ways[pair].lost = self._rng.choice([0.05, 0.3])
            self._world.ways[pair].repeated = self._rng.choice([0.1, 0.5])
        self._heal_in(2, 15, self._ways_heal, pairs)
        return True

    # ------------------------------------------------------------ stories, each for one rule

    def _worker_late_grants(self) -> bool:
        """What nodes say to a worker takes seconds; then they do not hear it any more."""
        worker = self._a_worker().name
        if self._story:
            return False
        self._story = True
        late = self._rng.uniform(1.0, 1.9)
        self._tell("late grants", worker, f"{late:.1f} s")
        back = [(node, worker) for node in self._world.machines]
        for pair in back:
            self._world.ways[pair].low_s, self._world.ways[pair].high_s = 0.95 * late, late
        there = [(worker, node) for node in self._world.machines]
        self._soon(5, 9, self._ways_cut, there)
        self._soon(25, 27, self._story_ends, there + back)
        return True

    def _worker_cut_and_kill(self) -> bool:
        """It reaches nobody for a while, and is killed then: what ended meanwhile is on its disk, and nowhere else."""
        worker = self._a_worker()
        if not worker.running:
            return False
        self._tell("cut and kill", worker.name)
        pairs = self._all_ways(worker)
        self._ways_cut(pairs)
        self._soon(1.5, 2.5, self._kill_and_heal, worker, pairs)
        return True

    def _kill_and_heal(self, worker: RemoteMachine, pairs: list[tuple[str, str]]) -> None:
        worker.kill()
        self._ways_heal(pairs)
        self._heal_in(0.05, 0.2, worker.start)

    def _worker_cut_for_a_lease(self) -> bool:
        """It reaches nobody until its lease is about to end."""
        worker, ttl = self._a_worker(), self._world.profile.worker_ttl_ms[0] / 1000
        self._tell("cut for a lease", worker.name)
        pairs = self._all_ways(worker)
        self._ways_cut(pairs)
        self._heal_in(ttl - 1.5, ttl, self._ways_heal, pairs)
        return True

    def _worker_island(self) -> bool:
        """The leader is apart from the other nodes, and some workers reach nobody but it."""
        leader = self._leader()
        if self._story or leader is None or leader.raft is None or not leader.raft.leading:
            return False
        self._story = True
        others = [name for name in self._world.machines if name != leader.name]
        friends = self._rng.sample(list(self._world.workers), 2)
        self._tell("island", leader.name, *friends)
        for other in others:
            self._world.network.cut(leader.name, other)
            self._world.network.cut(other, leader.name)
        away = [pair for one in friends for other in others for pair in ((one, other), (other, one))]
        self._ways_cut(away)
        self._soon(14, 18, self._island_ends, leader.name, others, away)
        return True

    def _island_ends(self, leader: str, others: list[str], away: list[tuple[str, str]]) -> None:
        for other in others:
            self._world.network.heal(leader, other)
            self._world.network.heal(other, leader)
        self._story_ends(away)

    def _story_ends(self, pairs: list[tuple[str, str]]) -> None:
        self._ways_heal(pairs)
        self._story = False

    def _all_ways(self, worker: RemoteMachine) -> list[tuple[str, str]]:
        return [pair for node in self._world.machines for pair in ((worker.name, node), (node, worker.name))]

    def _ways_cut(self, pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            self._world.ways[pair].cut = True

    def _ways_heal(self, pairs: list[tuple[str, str]]) -> None:
        self._tell("ways heal", " ".join(f"{a}>{b}" for a, b in pairs))
        for pair in pairs:
            way = self._world.ways[pair]
            way.cut, way.lost, way.repeated = False, 0.0, 0.0
            way.low_s, way.high_s = self._world.profile.latency_s
