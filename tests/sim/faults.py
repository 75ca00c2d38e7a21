"""The nemesis: strikes at random times, and heals what it did after a while. One method is one kind of fault."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.sim.crash import Doom
from tests.sim.stories import Stories

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World


class Nemesis(Stories):
    def __init__(self, world: World, rng: random.Random) -> None:
        super().__init__(world, rng)
        self.struck: dict[str, int] = {}
        self._stays = ""  # who never moves where nobody is told who did
        self._names = list(world.profile.faults)
        self._weights = list(world.profile.faults.values())

    def start(self) -> None:
        self._world.scheduler.after(self._world.profile.first_fault_s, self._next)

    def stop(self) -> None:
        """The storm is over: nothing strikes any more, everything is healed, everybody runs."""
        self._over = True
        world = self._world
        for machine in world.machines.values():
            machine.disk.slow, machine.disk.hang_until, machine.disk.full = 1.0, 0.0, False
            machine.disk.doom = None
            machine.calm()
        world.network.heal_all()
        for machine in world.machines.values():
            self._empty(machine)
        for machine in world.machines.values():
            if not machine.join or machine in world.members() or machine in world.lost_disks():
                machine.start()

    def _next(self) -> None:
        if self._names:
            self._world.scheduler.after(self._rng.expovariate(1 / self._world.profile.every_s), self._strike)

    def _strike(self) -> None:
        if self._over:
            return
        name = self._rng.choices(self._names, self._weights)[0]
        if getattr(self, f"_{name}")():
            self.struck[name] = self.struck.get(name, 0) + 1
        self._next()

    # ------------------------------------------------------------ choosing

    def _some(self) -> Machine:
        return self._rng.choice(list(self._world.machines.values()))

    def _leader(self) -> Machine | None:
        return self._world.leader()

    def _often_leader(self) -> Machine:
        leader = self._leader()
        return leader if leader is not None and self._rng.random() < 0.4 else self._some()

    def _heal_in(self, low: float, high: float, heal: object, *args: object) -> float:
        wait = self._rng.uniform(low, high)
        self._world.scheduler.after(wait, self._heal, heal, args)
        return wait

    def _heal(self, heal: object, args: tuple[object, ...]) -> None:
        if not self._over:
            heal(*args)  # type: ignore[operator]

    # ------------------------------------------------------------ processes

    def _end(self, machine: Machine, power: bool) -> bool:
        if not machine.running:
            return False
        machine.kill(power)
        self._heal_in(0.05, self._rng.choice([0.2, 2, 8]), machine.start)
        return True

    def _kill(self) -> bool:
        return self._end(self._often_leader(), False)

    def _power(self) -> bool:
        return self._end(self._often_leader(), True)

    def _kill_leader(self) -> bool:
        leader = self._leader()
        return leader is not None and self._end(leader, self._rng.random() < 0.3)

    def _kill_all(self) -> bool:
        return sum(self._end(machine, False) for machine in self._world.machines.values()) > 0

    def _power_all(self) -> bool:
        return sum(self._end(machine, True) for machine in self._world.machines.values()) > 0

    def _pause(self) -> bool:
        return self._stop(self._some())

    def _pause_leader(self) -> bool:
        leader = self._leader()
        return leader is not None and self._stop(leader)

    def _stop(self, machine: Machine) -> bool:
        if not machine.running:
            return False
        seconds = self._rng.choice([self._rng.uniform(0.1, 1), self._rng.uniform(1, 5)])
        asleep = self._rng.random() < 0.3
        self._tell("suspend" if asleep else "pause", machine.name, f"{seconds:.2f} s")
        machine.pause(seconds, asleep)
        return True

    def _slow_node(self) -> bool:
        machine = self._some()
        cost = self._rng.choice([0.0005, 0.002, 0.01])
        self._tell("slow node", machine.name, cost)
        machine.slow_down(cost)
        self._heal_in(0.5, 6, machine.calm)
        return True

    def _snapshot_kill(self) -> bool:
        """Arms a trap: whoever next copies, receives or loads a snapshot is killed a moment later."""
        self._world.snapshot_trap = self._rng.uniform(0.0, 0.05)
        return True

    def _crash_in_job(self) -> bool:
        """The next snapshot that a machine works on ends its process in the midst of that work."""
        machine = self._often_leader()
        if machine.disk.doom is None:
            machine.disk.doom = Doom(machine.directory, self._rng.randint(1, 9))
        return True

    def crashed(self, machine: Machine) -> None:
        """It is over; it starts again later."""
        self._heal_in(0.05, 3, machine.start)

    def trapped(self, machine: Machine) -> None:
        """A machine stepped into it."""
        trap, self._world.snapshot_trap = self._world.snapshot_trap, None
        if trap is not None and not self._over:
            self._world.scheduler.after(trap, self._end_trapped, machine, machine.incarnation)

    def _end_trapped(self, machine: Machine, incarnation: int) -> None:
        if not self._over and machine.incarnation == incarnation:
            self._tell("snapshot trap", machine.name)
            self._end(machine, self._rng.random() < 0.5)

    # ------------------------------------------------------------ disks

    def _slow_disk(self) -> bool:
        machine = self._often_leader()
        machine.disk.slow = self._rng.choice([5.0, 30.0, 100.0])
        self._tell("slow disk", machine.name, machine.disk.slow)
        self._heal_in(0.5, 8, self._normal_disk, machine)
        return True

    def _normal_disk(self, machine: Machine) -> None:
        machine.disk.slow = 1.0

    def _hang_disk(self) -> bool:
        machine = self._often_leader()
        machine.disk.hang_until = self._world.scheduler.now + self._rng.uniform(0.5, 5)
        self._tell("disk hangs", machine.name)
        return True

    def _full_disk(self) -> bool:
        machine = self._some()
        if any(other.disk.full for other in self._world.machines.values()):
            return False
        machine.disk.full = True
        self._tell("full disk", machine.name)
        self._heal_in(0.5, 6, self._room, machine)
        return True

    def _room(self, machine: Machine) -> None:
        machine.disk.full = False
        machine.start()

    def _wipe(self) -> bool:
        """A disk is lost, and the node starts with an empty one under its old id."""
        machine = self._some()
        if not self._world.may_lose_a_disk(machine):
            return False
        machine.kill(power=True)
        machine.wipe()
        self._heal_in(0.05, 4, machine.start)
        return True

    def _flip(self) -> bool:
        """A bit of a log entry or of an own record flips; nobody knows until the node starts again."""
        machine = self._some()
        if not self._world.may_lose_a_disk(machine):
            return False
        machine.kill()
        done = machine.damage()
        self._heal_in(0.05, 3, machine.start)
        return done

    # ------------------------------------------------------------ members

    def _add(self) -> bool:
        """A machine that is no member asks to be let in, with an empty disk or with the one it had as a member."""
        world = self._world
        names = {member.node for member in world.checks.members}
        outside = [machine for name, machine in world.machines.items() if name not in names]
        if not names or not outside:
            return False
        machine = self._rng.choice(outside)
        if not world.admin.change("add", machine.name):
            return False
        if machine.incarnation and (self._rng.random() < 0.5 or world.checks.disks[machine.name].applied == 0):
            machine.kill()
            machine.wipe()
        machine.join = True
        machine.peers = {member.node: world.addresses[member.node] for member in world.checks.members}
        machine.start()
        return True

    def _remove(self) -> bool:
        world = self._world
        names = [member.node for member in world.checks.members]
        return len(names) > 1 and world.admin.change("remove", self._rng.choice(names))

    def _move(self) -> bool:
        """A member gets another address, or two change places. Who starts it knows where all are, nobody tells them."""
        world = self._world
        names = [member.node for member in world.checks.members]
        machines = [
            world.machines[name] for name in self._rng.sample(names, min(len(names), self._rng.choice([1, 1, 2])))
        ]
        if not machines or any(machine.gone for machine in machines):
            return False
        for machine in machines:
            machine.kill(self._rng.random() < 0.3)
        world.move(machines)
        for machine in machines:
            self._heal_in(0.05, self._rng.choice([0.2, 2, 8]), machine.start)
        return True

    def _move_untold(self) -> bool:
        """One or two members get other addresses, and each is told its own alone. One member never moves: all know
        where it is, and through it they find each other."""
        world = self._world
        names = [member.node for member in world.checks.members]
        if len(names) > 1 and not self._stays:
            self._stays = self._rng.choice(names)
        others = [world.machines[name] for name in names if name != self._stays]
        if not others:
            return False
        for machine in self._rng.sample(others, min(len(others), self._rng.choice([1, 1, 2]))):
            machine.kill(self._rng.random() < 0.3)
            world.move([machine], told=False)
            self._heal_in(0.05, self._rng.choice([0.2, 2, 8]), machine.start)
        return True

    def _transfer(self) -> bool:
        world = self._world
        running = [machine for machine in world.members() if machine.serving]
        if not running:
            return False
        to = self._rng.choice([None, *(member.node for member in world.checks.members)])
        self._tell("transfer", to)
        self._give(self._rng.choice(running), to)
        return True

    # ------------------------------------------------------------ network

    def _pair(self) -> tuple[str, str]:
        one = self._often_leader().name
        other = self._rng.choice([name for name in self._world.machines if name != one])
        return one, other

    def _reset(self) -> bool:
        a, b = self._pair()
        self._tell("reset", a, b)
        return self._world.network.reset(a, b) > 0

    def _reset_all(self) -> bool:
        self._tell("reset all")
        names = list(self._world.machines)
        return sum(self._world.network.reset(a, b) for a in names for b in names if a < b) > 0

    def _cut(self, what: str, pairs: list[tuple[str, str]], high: float = 7.0) -> bool:
        self._tell(what, " ".join(f"{a}>{b}" for a, b in pairs))
        for a, b in pairs:
            self._world.network.cut(a, b)
        wait = self._rng.uniform(0.2, high)
        self._world.scheduler.after(wait, self._mend, pairs)
        return True

    def _mend(self, pairs: list[tuple[str, str]]) -> None:
        if not self._over:
            self._tell("healed", " ".join(f"{a}>{b}" for a, b in pairs))
            for a, b in pairs:
                self._world.network.heal(a, b)

    def _halves(self) -> bool:
        names = list(self._world.machines)
        self._rng.shuffle(names)
        size = self._rng.randint(1, len(names) - 1)
        one, two = names[:size], names[size:]
        return self._cut("partition", [pair for a in one for b in two for pair in ((a, b), (b, a))])

    def _isolate(self) -> bool:
        one = self._often_leader().name
        return self._cut("isolate", [pair for b in self._world.machines if b != one for pair in ((one, b), (b, one))])

    def _ring(self) -> bool:
        """Each sees its neighbours only: with five, every node has a majority, and each another one."""
        names = list(self._world.machines)
        self._rng.shuffle(names)
        size = len(names)
        far = [(names[i], names[j]) for i in range(size) for j in range(size) if (j - i) % size not in (0, 1, size - 1)]
        if not far:
            far = [(names[0], names[1]), (names[1], names[0])]  # of three: a chain
        return self._cut("ring", far)

    def _one_way(self) -> bool:
        one = self._often_leader().name
        others = [name for name in self._world.machines if name != one]
        chosen = self._rng.sample(others, self._rng.randint(1, len(others)))
        out = self._rng.random() < 0.5
        return self._cut("one way", [(one, b) if out else (b, one) for b in chosen])

    def _slow_link(self) -> bool:
        a, b = self._pair()
        rate = self._rng.choice([2_000, 20_000, 200_000])
        self._tell("slow link", f"{a}>{b}", rate)
        self._world.network.paths[a, b].bytes_per_s = rate
        self._heal_in(1, 8, self._world.network.full_speed, a, b)
        return True

    def _lossy(self) -> bool:
        """Segments come late and unevenly, as when many are sent again."""
        a, b = self._pair()
        path = self._world.network.paths[a, b]
        path.high_s, path.spike = self._rng.choice([0.005, 0.05]), self._rng.choice([0.05, 0.3])
        self._tell("lossy", f"{a}>{b}")
        self._heal_in(1, 10, self._clean_link, a, b)
        return True

    def _clean_link(self, a: str, b: str) -> None:
        path = self._world.network.paths[a, b]
        path.high_s, path.spike = self._world.profile.latency_s[1], 0.0

    # ------------------------------------------------------------ clocks and roles

    def _clock(self) -> bool:
        machine = self._often_leader()
        jump = self._rng.choice([-1, 1]) * self._rng.choice([100, 600, 5_000, 120_000])
        self._tell("clock", machine.name, f"{jump} ms")
        machine.clock.wall_offset_ms += jump
        return True

    def _hand_over(self) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        self._tell("hand over", leader.name)
        leader.hand_over()
        return True
