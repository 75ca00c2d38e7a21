"""Longer faults, one thing after the other: each is the story that one rule of Raft was made for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.sim import copies
from tests.sim.aimed import Aimed

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World


class Stories(Aimed):
    """A part of faults.Nemesis, as Aimed is. One story at a time of each kind."""

    def __init__(self, world: World, rng: random.Random) -> None:
        super().__init__(world, rng)
        self._eight: list[Machine] = []  # first leader, friend, second leader, who comes back
        self._late: list[Machine] = []  # leader, friend, the next leader
        self._forming: list[Machine] = []  # two that are connected, and who is not there yet
        self._copied: Machine | None = None
        self._removals: list[Machine] = []  # first leader, whom it removes, second leader, who hears nothing

    def elected(self, machine: Machine) -> None:
        if self._over:
            return
        if len(self._removals) == 2 and machine is not self._removals[0]:
            self._second_removal(machine)
        if len(self._eight) == 2 and machine not in self._eight:
            self._eight.append(machine)
            self._part([machine.name])
            self._soon(0.1, 0.5, self._eight_come_back)
        elif len(self._eight) == 3 and machine in self._eight[:2]:
            friend = next(one for one in self._eight[:2] if one is not machine)
            self._eight.append(machine)
            self._part([friend.name])
            self._soon(0.7, 1.4, self._eight_change_places)
        if len(self._late) == 2 and machine not in self._late:
            self._late.append(machine)
            self._late_overwritten()
        elif len(self._late) == 3 and machine is self._late[0]:
            self._late_answers_come()

    # ------------------------------------------------------------ a cluster that is formed

    def _split_formation(self) -> bool:
        """For three. Two nodes are connected, and their path falls silent. One of them meets the third, which loses its
        disk a moment later, comes back with an empty one and meets the other: to that one all still look empty."""
        world = self._world
        first, second, last = list(world.machines.values())[:3]
        met = first.raft is not None and second.raft is not None and first.raft._transport.is_connected(second.name)
        if self._forming or world.formed or last.running or not met:
            return False
        self._forming = [first, second, last]
        self._tell("split formation", first.name, second.name, last.name)
        self._part([second.name])
        last.start()
        self._two_remember(60)
        return True

    def _two_remember(self, tries: int) -> None:
        first, _, last = self._forming
        if tries and not all(one.raft and one.raft._replica.formation.is_member for one in (first, last)):
            self._soon(0.05, 0.05, self._two_remember, tries - 1)
        else:
            self._soon(0.0, 2.5, self._last_is_empty)

    def _last_is_empty(self) -> None:
        _, second, last = self._forming
        last.kill(power=True)
        last.wipe()
        last.join = False
        self._whole_again([(second.name, last.name), (last.name, second.name)])
        last.start()
        self._soon(5.0, 7.0, self._whole_again, list(self._world.network.paths))

    # ------------------------------------------------------------ a disk that goes back

    def _roll_back(self) -> bool:
        """A machine is started again, all meet it, and then a copy of its disk from before is put back. Whoever looks
        after it is told that it is refused, and empties it. Meanwhile the leader may be lost as well."""
        one = self._rng.choice(self._world.members())
        if self._copied or not self._is_whole() or not self._world.may_lose_a_disk(one):
            return False
        if one.name in self._world.checks.swapping:
            return False
        self._copied = one
        copy = copies.take(one, self._world)
        one.kill()
        self._soon(0.05, 0.3, one.start)
        self._soon(2.0, 5.0, self._goes_back, one, copy)
        return True

    def _goes_back(self, one: Machine, copy: copies.Copy) -> None:
        self._copied = None
        world = self._world
        if not world.may_lose_a_disk(one) or not copies.is_outdated(copy, one, world):
            return
        one.kill(power=True)
        copies.put_back(copy, one, world)
        self._soon(0.05, 1.0, one.start)
        self._soon(0.5, 2.0, self._lose_leader)
        self._soon(4.0, 8.0, self._empty, one)

    def _lose_leader(self) -> None:
        leader = self._world.leader()
        if leader is not None and self._rng.random() < 0.5:
            leader.kill()
            self._soon(1.5, 3.0, leader.start)

    def _empty(self, one: Machine) -> None:
        if self._world.checks.disks[one.name].back:
            one.kill()
            one.wipe()
            one.start()

    # ------------------------------------------------------------ entries of an earlier term

    def _figure_eight(self) -> bool:
        """Figure 8 of the paper (Ongaro and Ousterhout, 2014), for five. The leader and a friend gather entries that
        the others do not get; these elect another one, whose first entry nobody gets; one of the first two leads again
        and distributes what they have, slowly; before it is through the second leader takes its place."""
        leader, friend = self._world.leader(), self._follower()
        if leader is None or friend is None or self._eight:
            return False
        self._eight = [leader, friend]
        self._tell("figure eight", leader.name, friend.name)
        self._part([leader.name, friend.name])
        return True

    def _eight_come_back(self) -> None:
        world = self._world
        away = self._eight[2].name
        world.scheduler.after(9.0, self._unless_over, self._eight_over, ())
        self._whole_again([pair for pair in world.network.paths if away not in pair])
        for one in self._eight[:2]:
            for other in world.machines.values():
                if other is not one:
                    world.network.paths[one.name, other.name].bytes_per_s = 100_000

    def _eight_change_places(self) -> None:
        if len(self._eight) < 4:
            return
        aside = {one.name for one in self._eight[:2]}
        second = self._eight[2].name
        self._part(sorted(aside))
        self._whole_again([p for p in self._world.network.paths if second in p and not aside & set(p)])

    def _eight_over(self) -> None:
        self._eight = []
        self._whole_again(list(self._world.network.paths))
        for a, b in self._world.network.paths:
            self._world.network.full_speed(a, b)

    # ------------------------------------------------------------ leaders that are not heard, or hear nothing

    def _deaf_leader(self) -> bool:
        """It sends, and hears no answers: it does not know what is committed. Then nobody hears it either, and it
        gathers entries of its own behind those that the next leader has, too."""
        leader = self._world.leader()
        if leader is None or not self._is_whole():
            return False
        self._tell("deaf leader", leader.name)
        for other in self._world.machines:
            if other != leader.name:
                self._world.network.cut(other, leader.name)
        self._soon(1.0, 1.5, self._part, [leader.name])
        self._soon(3.5, 4.5, self._whole_again, list(self._world.network.paths))
        return True

    def _slow_deaf_leader(self) -> bool:
        """The same, and its disk is slow when it hears the next one: heartbeats come while it still works on the first
        entries that are shown to it, before its own ones are compared."""
        leader = self._world.leader()
        if leader is None or not self._deaf_leader():
            return False
        self._soon(3.0, 3.0, self._slow_for_a_while, leader)
        return True

    def _slow_for_a_while(self, machine: Machine) -> None:
        machine.disk.slow = 200.0
        self._soon(2.5, 2.5, self._fast_again, machine)

    def _lonely_leader(self) -> bool:
        leader = self._world.leader()
        if leader is None or not self._is_whole():
            return False
        self._tell("lonely leader", leader.name)
        self._part([leader.name])
        self._soon(7, 9, self._whole_again, list(self._world.network.paths))
        return True

    # ------------------------------------------------------------ late answers

    def _late_answers(self) -> bool:
        """For five. What one follower acknowledges reaches the leader in a later leadership of its, when the follower
        has other entries: the leader and that follower are cut off, deposed, overwritten, and the leader leads
        again. Meanwhile nobody asks for anything, so that the other entries are fewer."""
        leader, friend = self._world.leader(), self._follower()
        if leader is None or friend is None or self._late:
            return False
        self._late = [leader, friend]
        self._tell("late answers", f"{friend.name}>{leader.name}")
        self._part([leader.name, friend.name])
        self._world.network.cut(friend.name, leader.name)
        self._soon(9.0, 9.0, self._late_over)
        return True

    def _late_overwritten(self) -> None:
        leader, friend, second = self._late
        self._world.clients.quiet_until = self._world.scheduler.now + 4.0
        paths = [p for p in self._world.network.paths if p != (friend.name, leader.name)]
        self._soon(0.05, 0.2, self._whole_again, paths)
        for again in (1.2, 2.0, 2.8):
            self._soon(again, again, self._lead_again, leader, second)

    def _lead_again(self, leader: Machine, second: Machine) -> None:
        if second is self._world.leader():
            self._give(second, leader.name)

    def _late_answers_come(self) -> None:
        leader, friend, _ = self._late
        self._tell("leads again", leader.name)
        self._world.network.cut(leader.name, friend.name)
        self._whole_again([(friend.name, leader.name)])
        self._world.clients.quiet_until = self._world.scheduler.now + 1.0  # they are there by then

    def _late_over(self) -> None:
        self._late = []
        self._world.clients.quiet_until = 0.0
        self._whole_again(list(self._world.network.paths))

    # ------------------------------------------------------------ members

    def _hasty_changes(self) -> bool:
        """A leader and a friend are cut off, and the leader is asked to take out all others one after the other."""
        leader, friend = self._world.leader(), self._follower()
        if leader is None or friend is None or not self._all_vote():
            return False
        self._tell("hasty changes", leader.name, friend.name)
        pair = [leader.name, friend.name]
        self._part(pair)
        others = [name for name in self._world.machines if name not in pair]
        for number, name in enumerate(others):
            self._soon(0.05 * number, 0.05 * number, self._ask_to_remove, leader, name)
        self._soon(4.0, 5.0, self._whole_again, list(self._world.network.paths))
        return True

    def _ask_to_remove(self, machine: Machine, name: str) -> None:
        if machine.running:
            machine.change_members("remove", name, 1.0, lambda *_: None)

    def _two_removals(self) -> bool:
        """Ongaro's case against single-server changes (2015), for four voters. A leader cut off from all takes out B.
        The next leader, that only one other hears, takes out the first, before anything of its own term is committed.
        Then these two are cut off, and the first leader and who is left are a majority of three without B."""
        leader, other = self._world.leader(), self._follower()
        if leader is None or other is None or not self._all_vote() or self._removals:
            return False
        self._removals = [leader, other]
        self._tell("two removals", f"{leader.name} removes {other.name}")
        self._part([leader.name])
        self._ask_to_remove(leader, other.name)
        self._soon(9.0, 9.0, self._removals_over)
        return True

    def _second_removal(self, second: Machine) -> None:
        first, removed = self._removals
        rest = [m for m in self._world.machines.values() if m not in (first, second)]
        lonely = self._rng.choice([m for m in rest if m is not removed])
        self._removals += [second, lonely]
        self._tell("two removals", f"{second.name} removes {first.name}, {lonely.name} hears nothing of it")
        self._part([lonely.name])
        for again in range(4):
            self._soon(0.1 * again, 0.1 * again, self._ask_to_remove, second, first.name)
        self._soon(0.5, 1.0, self._first_and_lonely)

    def _first_and_lonely(self) -> None:
        pair = {self._removals[0].name, self._removals[3].name}
        self._part(sorted(pair))
        self._whole_again([path for path in self._world.network.paths if set(path) == pair])

    def _removals_over(self) -> None:
        self._removals = []
        self._whole_again(list(self._world.network.paths))

    def _empty_voter(self) -> bool:
        """Somebody is let in and gets nothing, for the leader dies as soon as the others know that it is a member."""
        world, leader = self._world, self._world.leader()
        voters = [machine for machine in world.members() if machine.running]
        spare = next((m for m in world.machines.values() if m.join and not m.incarnation), None)
        if leader is None or spare is None or len(voters) < 3 or self._gone():
            return False
        self._tell("empty voter", spare.name)
        spare.peers = {member.node: member.raft for member in world.checks.members}
        spare.start()
        self._soon(2.0, 2.0, self._let_in, leader, spare)
        return True

    def _let_in(self, leader: Machine, spare: Machine) -> None:
        if leader is not self._world.leader():
            return
        self._world.network.cut(leader.name, spare.name)
        leader.change_members("add", spare.name, 1.0, lambda *_: None)
        self._soon(0.2, 0.4, self._leave_for_good, leader)

    def _half_replaced(self) -> bool:
        """For five. A leader that is cut off with one that has lost its disk takes the new disk in; the others elect
        another leader, who knows nothing of that, and then hears only one of them and the new disk."""
        leader, one = self._world.leader(), self._follower()
        if leader is None or one is None or not self._all_vote() or not self._world.may_lose_a_disk(one):
            return False
        pair = [leader.name, one.name]
        self._tell("half replaced", *pair)
        self._part(pair)
        one.kill(power=True)
        one.wipe()
        one.start()
        for again in range(8):
            self._soon(0.3 * again, 0.3 * again, self._ask_to_replace, leader, one.name)
        self._soon(2.5, 3.5, self._with_the_new_disk, leader, one)
        self._soon(9.0, 9.0, self._whole_again, list(self._world.network.paths))
        return True

    def _ask_to_replace(self, machine: Machine, name: str) -> None:
        if machine.running:
            machine.change_members("replace", name, 0.3, lambda *_: None)

    def _with_the_new_disk(self, first: Machine, one: Machine) -> None:
        leader = self._world.leader()
        rest = [m for m in self._world.machines.values() if m not in (first, one, leader)]
        if leader not in (None, first, one):
            away = [first.name, self._rng.choice(rest).name]
            self._whole_again([path for path in self._world.network.paths if not set(away) & set(path)])
            for name in away:
                self._part([name])
