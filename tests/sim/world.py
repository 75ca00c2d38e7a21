"""One run: a seed makes machines, network, clients and faults; the storm, then the calm in which all must come good."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from raftsched.core.subjects.cluster import Member
from raftsched.raft.facade import Raft
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.transport.transport import split_address
from tests.sim.admin import Admin
from tests.sim.calm import Calm
from tests.sim.checks import Checks, Violation
from tests.sim.clients import Clients
from tests.sim.faults import Nemesis
from tests.sim.frames import Frames
from tests.sim.loop import Scheduler
from tests.sim.machine import Machine
from tests.sim.network import Network
from tests.sim.profiles import PROFILES, Profile
from tests.sim.strangers import Stranger
from tests.sim.trace import open_trace
from tests.support.started import started

FORMED_WITHIN_S = 12.0  # connections take 2 s to be made, elections are chance
LEADS_ON_S = 0.5  # beyond the time after which a leader resigns that no majority answers


@dataclass
class Outcome:
    """The result of a run."""

    seed: int
    nodes: int
    profile: str
    violation: str | None = None
    converged: bool = False
    seconds: float = 0.0  # virtual
    cost_s: float = 0.0  # processor time
    digest: str = ""
    events: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    elections: int = 0
    installs: int = 0
    states_compared: int = 0
    entries: int = 0
    asked: int = 0
    acknowledged: int = 0
    writes: int = 0
    steps: int = 0
    runs: int = 0  # of jobs: attempts that were really started
    commands: dict[str, int] = field(default_factory=dict)  # of the log, by name
    changes: dict[str, int] = field(default_factory=dict)  # of the members, that were done


class World:
    """One run. Its parts can be exchanged: see tests/sim/jobs."""

    profiles: Mapping[str, Profile] = PROFILES

    def __init__(
        self, seed: int, nodes: int, profile: str, directory: Path, guards: Guards = ALL, verbose: bool = False
    ) -> None:
        self.seed = seed
        self.guards = guards
        rng = random.Random(f"{seed} {nodes} {profile}")
        self.profile = self.profiles[profile].draw(rng)
        assert self.profile.options is not None
        self.options: RaftOptions = self.profile.options
        self.scheduler = Scheduler()
        self.trace = open_trace(self.scheduler, verbose)
        count = max(nodes, 5) if self.profile.changes_members else nodes
        names = [f"n{number}" for number in range(1, count + 1)]
        self.addresses = {name: f"10.0.0.{number}:7000" for number, name in enumerate(names, 1)}
        hosts = {(f"10.0.0.{number}", 7000): name for number, name in enumerate(names, 1)}
        strangers = [f"x{number}" for number in range(self.profile.strangers)]
        hosts |= {(f"10.0.1.{number}", 7000): name for number, name in enumerate(strangers)}
        self.network = Network(self.scheduler, random.Random(rng.random()), hosts, self.profile.latency_s)
        self.checks = self.make_checks()
        self.frames = Frames(self)
        self.elections = self.installs = 0
        self.calm_bytes: list[tuple[int, int, int]] = []  # sent, allowed for what was missing, for heartbeats
        self.newest_leader = (0, "", 0.0)  # term, who, since when
        self.snapshot_trap: float | None = None
        self.machines: dict[str, Machine] = {}
        for name in names:
            (directory / name).mkdir(parents=True)
            self.machines[name] = machine = self.make_machine(name, random.Random(rng.random()), directory / name)
            machine.peers = {first: self.addresses[first] for first in names[:nodes]}
            machine.join = name not in machine.peers
        self.clients = self.make_clients(random.Random(rng.random()))
        self.nemesis = self.make_nemesis(random.Random(rng.random()))
        self.admin = Admin(self, random.Random(rng.random()))
        self.strangers = [Stranger(self, name, random.Random(f"{seed} {name}")) for name in strangers]
        self.forming_without: set[str] = set()  # machines that lost a disk before the cluster was formed
        self._rng = rng
        self._storming = True

    # ------------------------------------------------------------ what it is made of

    def make_checks(self) -> Checks:
        return Checks()

    def make_machine(self, name: str, rng: random.Random, directory: Path) -> Machine:
        return Machine(self, name, rng, directory)

    def make_clients(self, rng: random.Random) -> Clients:
        return Clients(self, self.profile.clients, rng)

    def make_nemesis(self, rng: random.Random) -> Nemesis:
        return Nemesis(self, rng)

    def calm(self) -> None:
        """Watches that all comes good. Raises Violation."""
        Calm(self).watch()

    # ------------------------------------------------------------ the run

    def run(self, seconds: float) -> None:
        """Raises Violation."""
        founders = [machine for machine in self.machines.values() if not machine.join]
        for machine in founders:
            if machine is not founders[-1] or not self.profile.last_waits:
                self.scheduler.at(self._rng.uniform(0, self.profile.start_s), machine.start)
        self.admin.start()
        for stranger in self.strangers:
            stranger.start()
        self.clients.start()
        self.nemesis.start()
        self.go(seconds)
        self._storming = False
        self.clients.stopped = True
        self.trace.event("--", "calm")
        self.nemesis.stop()
        self.admin.calm()
        self._form_after_all()
        self.calm()

    def _form_after_all(self) -> None:
        """Where a disk was lost before the cluster was formed it may never be: nothing was acknowledged, and all start
        again with empty disks."""
        if self.formed or not self.forming_without or self.go(FORMED_WITHIN_S, lambda: self.formed):
            return
        self.trace.event("--", "admin", "all start again")
        founders = [machine for machine in self.machines.values() if not machine.join]
        for machine in founders:
            machine.kill()
            machine.wipe()
        for machine in founders:
            machine.start()

    def go(self, seconds: float, until: object = None) -> bool:
        """On by so many virtual seconds, or until that is so; True when it was. Raises Violation."""
        checks = self.checks

        def stop() -> bool:
            return checks.violation is not None or (until is not None and bool(until()))  # type: ignore[operator]

        reached = self.scheduler.run(self.scheduler.now + seconds, stop)
        if checks.violation is not None:
            raise checks.violation
        return reached

    def where(self) -> str:
        return ", ".join(f"{m.name} {_status(m.raft)}" for m in self.machines.values())

    # ------------------------------------------------------------ who is who

    @property
    def formed(self) -> bool:
        return bool(self.checks.first)

    def form(self, disks: Mapping[str, bytes]) -> None:
        """The first entry was committed somewhere, by a node that remembers these disks: from now on they count."""
        self.checks.formed(tuple(Member(name, self.addresses[name], disks[name]) for name in sorted(disks)))

    def members(self) -> list[Machine]:
        """Returns the machines of the committed configuration that have their disks; before there is one, those that
        form it."""
        if not self.formed:
            return [machine for machine in self.machines.values() if not machine.join]
        rows = self.checks.members
        return [self.machines[m.node] for m in rows if self.checks.disks[m.node].store_id == m.store_id]

    def present(self) -> list[Machine]:
        """Members that take part when the faults are over."""
        return [machine for machine in self.members() if not machine.gone]

    def lost_disks(self) -> list[Machine]:
        """Members whose disk is another one than the members know, or damaged."""
        rows = self.checks.members
        return [
            self.machines[m.node]
            for m in rows
            if self.machines[m.node].damaged or self.checks.disks[m.node].store_id != m.store_id
        ]

    def may_lose_a_disk(self, machine: Machine) -> bool:
        """At most a minority of the voters is without its disk at any time, and no change of members is under way."""
        if not self.formed:
            founders = [name for name, founder in self.machines.items() if not founder.join]
            lost = self.forming_without | {machine.name}
            return machine.name in founders and machine.incarnation > 0 and 2 * len(lost) < len(founders)
        voters = {member.node for member in self.checks.members if member.voter}
        lost = {lost.name for lost in self.lost_disks()} | {machine.name}
        return (
            not self.admin.changing
            and all(member.voter for member in self.checks.members)
            and machine.name in voters
            and 2 * len(lost & voters) < len(voters)
        )

    def new_disk(self, name: str) -> None:
        """A machine lost its disk and got another one."""
        if not self.formed:
            self.forming_without.add(name)
        self.checks.new_disk(name)

    def move(self, machines: Sequence[Machine], *, told: bool = True) -> None:
        """Gives one machine another address, or two each other's. From now on they are started with those of all; not
        `told`: with what they were started with, and their own."""
        names = [machine.name for machine in machines]
        if len(names) == 1:
            host, _, port = self.addresses[names[0]].rpartition(":")
            new = [f"{host}:{int(port) + 1}"]
        else:
            new = [self.addresses[name] for name in reversed(names)]
        self.addresses.update(zip(names, new, strict=True))
        self.network.move({name: split_address(self.addresses[name]) for name in names})
        for machine in machines:
            if told:
                listed = {*machine.peers, *(member.node for member in self.checks.members)}
                machine.peers = {name: self.addresses[name] for name in sorted(listed)}
            else:
                machine.peers = {**machine.peers, machine.name: self.addresses[machine.name]}
            self.trace.event("--", "move", machine.name, self.addresses[machine.name])

    def placed(self) -> bool:
        """The members know where each of them is that takes part."""
        present = {machine.name for machine in self.present()}
        return all(m.raft == self.addresses[m.node] for m in self.checks.members if m.node in present)

    def leader(self) -> Machine | None:
        """The leader of the newest term, if a process leads it."""
        leaders = [m for m in self.machines.values() if m.raft is not None and m.raft.is_leader]
        return max(leaders, key=lambda m: m.raft.term, default=None)  # type: ignore[union-attr]

    # ------------------------------------------------------------ what the machines tell

    def elected(self, machine: Machine, term: int) -> None:
        self.elections += 1
        if term > self.newest_leader[0]:
            self.newest_leader = (term, machine.name, self.scheduler.now)
        self.nemesis.elected(machine)
        if self.profile.no_election and self.nemesis.struck:
            self.checks.fail(f"{machine.name} is elected, and nothing had happened to the leader before it")

    def still_leads(self, machine: Machine, term: int) -> None:
        """Asked of a leader again and again. Whoever elected the next one had stopped following before."""
        newest, other, since = self.newest_leader
        allowed = self.options.fallback_ms / 1000 + LEADS_ON_S
        if term < newest and self.scheduler.now - since > allowed and not machine.slowed:
            ago = self.scheduler.now - since
            self.checks.fail(f"{machine.name} still leads term {term}; {other} has led term {newest} for {ago:.1f} s")

    def stopped(self, machine: Machine, error: BaseException) -> None:
        """A node stopped by itself, or refused to start."""
        if isinstance(error, Violation):
            return
        if "No space left" in str(error):
            self.trace.event(machine.name, "stopped", "disk full")
            if not self._storming:
                self.scheduler.after(0.5, machine.start)
            else:
                self.scheduler.after(self._rng.uniform(0.2, 3), machine.start)
            return
        if machine.damaged and "is damaged" in str(error):
            self.trace.event(machine.name, "stopped", "damaged")
            self.scheduler.after(self._rng.uniform(0.2, 3), self._new_disk, machine)
            return
        try:
            self.checks.fail(f"{machine.name} stopped: {type(error).__name__}: {error}")
        except Violation:
            return  # the run ends at the next step

    def _new_disk(self, machine: Machine) -> None:
        if not machine.running:
            machine.wipe()
            machine.start()

    def changed(self, change: str, node: str) -> None:
        """The admin has brought it about. Who was removed is left running for a while, and then shut down."""
        if change == "remove":
            machine = self.machines[node]
            self.scheduler.after(self._rng.choice([0.0, 2.0, 10.0]), self._retire, machine, machine.incarnation)
        elif change == "add":
            self.machines[node].start()

    def _retire(self, machine: Machine, incarnation: int) -> None:
        """Unless it was started again meanwhile, to be taken back."""
        if machine.incarnation == incarnation and machine not in self.members():
            machine.kill()

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        for machine in self.machines.values():
            machine.close()


def _status(raft: Raft | None) -> str:
    if raft is None:
        return "down"
    return (
        f"{raft.role} of term {raft.term}, leader {raft.leader_id}, log to {raft.last_index}, "
        f"committed {raft.commit_index}, applied {raft.applied_index}"
    )


def simulate(
    seed: int,
    nodes: int = 3,
    seconds: float = 60.0,
    profile: str = "mixed",
    guards: Guards = ALL,
    verbose: bool = False,
) -> Outcome:
    """One run; a violation is told in the outcome. Its files are gone afterwards."""
    outcome = Outcome(seed, nodes, profile)
    world = World
    if PROFILES[profile].versions:
        from tests.sim.versions import VersionsWorld as world  # needs this module
    with scratch() as directory:
        play(world(seed, nodes, profile, directory, guards, verbose), seconds, outcome)
    return outcome


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory in memory for the files of one run."""
    base = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="raftsched-sim-", dir=base if base.is_dir() else None))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def play(world: World, seconds: float, outcome: Outcome) -> None:
    """So many seconds of storm, and the calm; what came of it goes into `outcome`."""
    started("simulator")
    began = time.process_time()
    try:
        world.run(seconds)
        outcome.converged = True
    except Violation as violation:
        outcome.violation = str(violation)
        world.trace.event("--", "VIOLATION", str(violation))
    finally:
        world.close()
    outcome.cost_s = time.process_time() - began
    outcome.seconds = world.scheduler.now
    outcome.digest, outcome.events = world.trace.digest(), world.trace.events
    outcome.faults, outcome.elections = world.nemesis.struck, world.elections
    outcome.installs, outcome.states_compared = world.installs, world.checks.hashed
    outcome.entries, outcome.steps = world.checks.highest, world.scheduler.steps
    outcome.changes = world.admin.done
    clients = world.clients
    outcome.asked, outcome.acknowledged, outcome.writes = clients.asked, clients.acknowledged, clients.writes
