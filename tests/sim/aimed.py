"""Faults made for one guard each: what strikes at the moment at which nothing else than that guard helps.

`Aimed` is a part of faults.Nemesis; see there for how faults are chosen and healed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from raftsched.errors import RaftschedError

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World


GIVE_WITHIN_S = 5.0  # how long a transfer of leadership is tried


class Aimed:
    """Traps wait for a machine to step into them."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._over = False
        self.vote_trap = False
        self.campaigner: str | None = None
        self._votes_come_late = False
        self.handover_trap = False
        self.reset_trap = False
        self._whole_since = 0.0
        self._handed_over_until = 0.0

    def _tell(self, what: str, *facts: object) -> None:
        self._world.trace.event("--", "fault", what, *facts)

    def _soon(self, low: float, high: float, act: object, *args: object) -> None:
        """Unless the storm is over by then."""
        self._world.scheduler.after(self._rng.uniform(low, high), self._unless_over, act, args)

    def _unless_over(self, act: object, args: tuple[object, ...]) -> None:
        if not self._over:
            act(*args)  # type: ignore[operator]

    def _give(self, machine: Machine, to: str | None) -> None:
        """Asks a node to hand leadership over, or to have it done."""
        if machine.running:
            self._handed_over_until = self._world.scheduler.now + GIVE_WITHIN_S + 1.0
            machine.transfer(to, GIVE_WITHIN_S, self._given)

    def _given(self, leader: object, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, RaftschedError):
            self._world.checks.fail(f"a transfer ends with {error!r}")
        self._tell("transferred", leader, error.code if isinstance(error, RaftschedError) else "")

    @property
    def hands_over(self) -> bool:
        """Leadership may still be given away because somebody asked for it."""
        return self._world.scheduler.now < self._handed_over_until

    def _is_whole(self) -> bool:
        """No path is cut, every process runs and all have been connected for a while: one at a time."""
        world = self._world
        if any(path.cut for path in world.network.paths.values()) or any(m.slowed for m in world.members()):
            self._whole_since = world.scheduler.now
        rafts = [machine.raft for machine in world.members()]
        linked = all(raft is not None and all(peer.connected for peer in raft.peers()) for raft in rafts)
        return linked and world.scheduler.now - self._whole_since > 4.0

    # ------------------------------------------------------------ followers only: no reason to elect anybody

    def _follower(self) -> Machine | None:
        leader = self._world.leader()
        followers = [machine for machine in self._world.members() if machine is not leader]
        return self._rng.choice(followers) if leader is not None and self._is_whole() else None

    def _lone_follower(self) -> bool:
        """It hears nobody, or nobody hears it; it comes back with whatever term it has by then."""
        one = self._follower()
        if one is None:
            return False
        others = [name for name in self._world.machines if name != one.name]
        out, in_ = self._rng.choice([(True, True), (True, False), (False, True)])
        pairs = [(one.name, b) for b in others if out] + [(b, one.name) for b in others if in_]
        self._tell("lone follower", one.name, "out" if out else "", "in" if in_ else "")
        for a, b in pairs:
            self._world.network.cut(a, b)
        self._soon(0.5, 9, self._whole_again, pairs)
        return True

    def _far_follower(self) -> bool:
        """It and the leader do not hear each other; the rest hears both."""
        one, leader = self._follower(), self._world.leader()
        if one is None or leader is None:
            return False
        pairs = [(one.name, leader.name), (leader.name, one.name)]
        self._tell("far follower", one.name)
        for a, b in pairs:
            self._world.network.cut(a, b)
        self._soon(0.5, 9, self._whole_again, pairs)
        return True

    def _deaf_follower(self) -> bool:
        """It does not hear the leader, who hears it: what it proposes is done, and it does not see that."""
        one, leader = self._follower(), self._world.leader()
        if one is None or leader is None:
            return False
        self._tell("deaf follower", one.name)
        self._world.network.cut(leader.name, one.name)
        self._soon(1, 4, self._whole_again, [(leader.name, one.name)])
        return True

    def _paused_follower(self) -> bool:
        one = self._follower()
        if one is None:
            return False
        self._tell("paused follower", one.name)
        one.pause(self._rng.uniform(0.5, 6))
        return True

    def _part(self, aside: list[str]) -> None:
        for a in aside:
            for b in self._world.machines:
                if b not in aside:
                    self._world.network.cut(a, b)
                    self._world.network.cut(b, a)

    def _whole_again(self, pairs: list[tuple[str, str]]) -> None:
        self._tell("healed", " ".join(f"{a}>{b}" for a, b in pairs))
        self._whole_since = self._world.scheduler.now
        for a, b in pairs:
            self._world.network.heal(a, b)

    # ------------------------------------------------------------ votes

    def _vote_kill(self) -> bool:
        """Whoever votes next, for itself or another, is killed a moment later and is back soon."""
        self.vote_trap = True
        return True

    def voted(self, machine: Machine) -> None:
        """A machine stepped into it."""
        self.vote_trap = False
        self._soon(0.0, self._rng.choice([0.003, 0.02]), self._kill_voter, machine, machine.incarnation)

    def _kill_voter(self, machine: Machine, incarnation: int) -> None:
        if machine.running and machine.incarnation == incarnation:
            self._tell("vote trap", machine.name)
            machine.kill(self._rng.random() < 0.5)
            self._soon(0.02, 0.3, machine.start)

    def _lost_campaign(self) -> bool:
        """Somebody is asked to lead, and is killed when the disk has its vote for itself and nobody knows of it yet.
        The leader goes on in its term, and the other one is back with a newer term."""
        leader, one = self._world.leader(), self._follower()
        if leader is None or one is None:
            return False
        self._tell("lost campaign", one.name)
        self.campaigner = one.name
        self._give(leader, one.name)
        return True

    def campaigns(self, machine: Machine) -> None:
        """Its vote for itself is on its disk."""
        self.campaigner = None
        if self._votes_come_late:
            self._votes_come_late = False
            self._delay_votes(machine)
        else:
            self._soon(0.0, 0.0, self._kill_voter, machine, machine.incarnation)

    def _late_votes(self) -> bool:
        """Somebody is asked to lead, and is not elected: a part of the votes comes late, another one waits for slow
        disks. It tries again in the next term, of which the first part does not hear; then their votes come."""
        leader, one = self._world.leader(), self._follower()
        if leader is None or one is None:
            return False
        self._tell("late votes", one.name)
        self.campaigner, self._votes_come_late = one.name, True
        self._give(leader, one.name)
        return True

    def _delay_votes(self, candidate: Machine) -> None:
        others = [machine for machine in self._world.members() if machine is not candidate]
        self._rng.shuffle(others)
        late, slow = others[: len(others) // 2], others[len(others) // 2 :]
        for machine in slow:
            machine.disk.hang_until = self._world.scheduler.now + 3.0
        answers = [(machine.name, candidate.name) for machine in late]
        requests = [(b, a) for a, b in answers]
        for a, b in answers:
            self._world.network.cut(a, b)
        self._soon(0.05, 0.05, self._cut_paths, requests)
        self._soon(1.15, 1.4, self._whole_again, answers)
        self._soon(2.5, 2.5, self._whole_again, requests)

    def _cut_paths(self, pairs: list[tuple[str, str]]) -> None:
        for a, b in pairs:
            self._world.network.cut(a, b)

    # ------------------------------------------------------------ snapshots

    def _overtaken(self) -> bool:
        """The first machine keeps hardly any log, so that who was away needs a snapshot of it. As soon as that is made
        ready another one leads, which has the entries that were missing."""
        leader, one = self._world.leader(), self._follower()
        if leader is None or one is None:
            return False
        first = next(iter(self._world.machines.values()))
        if leader is not first:
            self._give(leader, first.name)
            return True
        self._tell("overtaken", one.name)
        self.handover_trap = True
        one.kill()
        self._soon(1, 2, one.start)
        return True

    def made_ready(self, machine: Machine) -> None:
        """A machine stepped into it: it does not know yet, its disk being slow."""
        leader = self._world.leader()
        others = [m for m in self._world.members() if m not in (machine, leader) and m.running]
        if leader is None or not others or self._over:
            return
        self.handover_trap = False
        self._tell("handover trap", machine.name)
        machine.disk.slow = 200.0
        self._soon(0.3, 0.3, self._fast_again, machine)
        self._soon(0.0, 0.02, self._give, leader, self._rng.choice(others).name)

    def _fast_again(self, machine: Machine) -> None:
        machine.disk.slow = 1.0

    # ------------------------------------------------------------ late requests

    def _reset_trap(self) -> bool:
        """The next follower that asks for earlier entries loses its connection at that moment: its request comes when
        it has got them over a new one."""
        self.reset_trap = True
        return True

    def asks_for_less(self, machine: Machine, leader: str) -> None:
        """A machine stepped into it."""
        ends = self._world.network.connections(machine.name, leader)
        if machine.name < leader and ends and not self._over:  # it is up to it to dial again
            self.reset_trap = False
            self._soon(0.0001, 0.0001, self._break_late, machine.name, leader)

    def _break_late(self, a: str, b: str) -> None:
        self._tell("late reset", f"{a}>{b}")
        for end in self._world.network.connections(a, b):
            self._world.network.half_open(end, self._rng.uniform(0.3, 1.5), 2.0)

    # ------------------------------------------------------------ members

    def _all_vote(self) -> bool:
        world = self._world
        return len(world.checks.members) == len(world.machines) and all(m.voter for m in world.checks.members)

    def _gone_for_good(self) -> bool:
        """A machine that nobody repairs while the run lasts. It is one of a minority."""
        machines = [machine for machine in self._world.members() if machine.running]
        if self._gone() or not self._all_vote():
            return False
        self._leave_for_good(self._rng.choice(machines))
        return True

    def _gone(self) -> bool:
        return any(machine.gone for machine in self._world.machines.values())

    def _leave_for_good(self, machine: Machine) -> None:
        machine.kill()
        machine.gone = True
