"""The calm after the faults: a leader, everybody caught up, nothing promised lost, and then quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World

# Elections are chance: one begins within 2 s, and when votes are split another begins up to 2 s later, and so on. In
# the calm of 1,600 seeds 11 took more than 2 s and 2 of them more than 3 s: 5 s is too short for one in some thousand,
# 10 s for one in some million.
LEADER_WITHIN_S = 10.0
CAUGHT_UP_WITHIN_S = 30.0
PLACED_WITHIN_S = 15.0  # who cannot be dialled dials after 2 s, and may wait 5 s for somebody who does not answer
TCP_AGAIN_S = 1.0  # until then a path that was cut may be silent still
QUIET_S = 3.0  # watched after that: no election, nothing but heartbeats

# Bytes sent until everybody has caught up: twice what was missing, as after a change of leader in the midst of it. Each
# machine may get two probes besides (64 KiB of entries that may not fit, from an old leader and from a new one).
TIMES_MISSING = 2
PER_MACHINE = 140_000
FEW_ENTRIES = 100  # who keeps fewer may have compacted away what somebody lacks before it was sent, also what was
FEW_BYTES = 64 << 10  # committed in the calm
HEARTBEATS_PER_S = 1_500  # bytes of each pair of nodes, in one direction


class Calm:
    def __init__(self, world: World) -> None:
        self._world = world
        self._since = world.scheduler.now
        self._sent = sum(world.network.sent.values())
        self._missing = sum(self._lacks(machine) for machine in world.machines.values())
        self._missing += world.clients.bytes_under_way()  # proposed again to the next leader
        self._highest = world.checks.highest

    def watch(self) -> None:
        """Raises Violation."""
        world, checks = self._world, self._world.checks
        if not world.go(LEADER_WITHIN_S, self.led):
            checks.fail(f"no leader {LEADER_WITHIN_S} s after the faults: {world.where()}")
        if not world.go(CAUGHT_UP_WITHIN_S, self.caught_up):
            calls = world.clients.unanswered()
            if calls:
                checks.fail(f"not answered {CAUGHT_UP_WITHIN_S} s after the faults: {calls}; {world.where()}")
            checks.fail(f"not caught up {CAUGHT_UP_WITHIN_S} s after the faults: {world.where()}")
        if not world.go(PLACED_WITHIN_S, world.placed):
            checks.fail(f"the members do not know where they are {PLACED_WITHIN_S} s after that: {checks.members}")
        states = [self._check(machine) for machine in world.present()]
        self._count(TIMES_MISSING * self._missing + PER_MACHINE * len(world.machines))
        world.trace.event("--", "end", *states)
        self._quiet()

    def _check(self, machine: Machine) -> str:
        checks = self._world.checks
        assert machine.store is not None
        state = checks.same_state(machine.name, machine.store)
        wrong = self._world.clients.lost(machine)
        if wrong is not None:
            checks.fail(f"{machine.name} has lost what was promised: {wrong}")
        return state

    def _quiet(self) -> None:
        """The leader stays, and nobody has anything to say."""
        world = self._world
        elections, self._since = world.elections, world.scheduler.now
        self._sent = sum(world.network.sent.values())
        world.go(QUIET_S)
        if world.elections != elections:
            world.checks.fail(f"another election when all was well: {world.where()}")
        self._count(0)

    # ------------------------------------------------------------ progress

    def led(self) -> bool:
        """Somebody leads, and most of the members follow him."""
        leader = self._world.leader()
        if leader is None or leader.raft is None or not leader.raft.leading:
            return False
        following = [m for m in self._world.present() if m.raft is not None and m.raft.leader_id == leader.name]
        return 2 * len(following) > len(self._world.members())

    def caught_up(self) -> bool:
        """All members vote, with the disks that they are known by, and have everything."""
        world = self._world
        if (
            world.scheduler.now - self._since < TCP_AGAIN_S
            or world.clients.busy
            or world.admin.changing
            or world.nemesis.hands_over
            or world.lost_disks()
            or not self.led()
        ):
            return False
        if not all(member.voter for member in world.checks.members):
            return False
        applied = {machine.store.applied_index if machine.store else 0 for machine in world.present()}
        return len(applied) == 1 and applied.pop() >= world.checks.highest

    # ------------------------------------------------------------ bytes

    @property
    def _pairs(self) -> int:
        count = len(self._world.machines)
        return count * (count - 1)

    def _lacks(self, machine: Machine) -> int:
        """Bytes that this machine has to be sent: committed entries, and a snapshot where so few are kept that they may
        be gone before it gets them."""
        world, checks = self._world, self._world.checks
        disk, lost = checks.disks[machine.name], machine in world.lost_disks()
        has = min(disk.last, checks.highest)
        while has > disk.applied and disk.terms.get(has) != checks.committed[has]:
            has -= 1
        options = world.options
        small = options.keep_entries < FEW_ENTRIES or options.keep_bytes < FEW_BYTES
        if has >= checks.highest and not lost and not small:
            return 0
        stores = [other.store for other in world.machines.values() if other.store is not None]
        first = max((store.log_bounds()[0] for store in stores), default=0)
        entries = sum(checks.sizes[index] for index in range(has + 1, checks.highest + 1))
        if lost or has + 1 < first or small:
            entries += max((store.size_bytes() for store in stores), default=1 << 20)
        return entries

    def _count(self, allowed: int) -> None:
        """What is committed only now, as the tail that somebody had, may go to everybody as well."""
        world = self._world
        sizes = world.checks.sizes
        late = sum(sizes[index] for index in range(self._highest + 1, world.checks.highest + 1))
        allowed += TIMES_MISSING * late * len(world.machines)
        seconds = world.scheduler.now - self._since
        sent = sum(world.network.sent.values()) - self._sent
        heartbeats = int(HEARTBEATS_PER_S * self._pairs * seconds)
        world.calm_bytes.append((sent, allowed, heartbeats))
        if sent > allowed + heartbeats:
            world.checks.fail(
                f"{sent} bytes were sent in {seconds:.1f} s of calm; {self._missing} were missing, which allows "
                f"{allowed}, and heartbeats {heartbeats}"
            )
