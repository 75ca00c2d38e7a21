"""A cluster whose nodes are of two versions, which are changed while it runs; its level is held, and rises.

Which two they are, the seed says: a released version and this one, or this one and a later one that is made up
(code.py). A node goes back to the older version as long as nobody has raised the level; one that stops because it is
too old is started with the newer one, as the documentation tells operators to do.
"""

from __future__ import annotations

import gc
import hashlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.entry import BatchResult, EntryResult
from raftsched.core.rows import read_meta
from raftsched.core.subjects.backups import NoteBackup
from raftsched.core.tables import Table
from raftsched.store import Store
from raftsched.store.digest import as_read
from tests.golden.test_golden import grown
from tests.sim.checks import Checks, Violation
from tests.sim.clients import Call, Client, Clients, Job
from tests.sim.code import Code, pairs
from tests.sim.faults import Nemesis
from tests.sim.level_room import LevelRoom
from tests.sim.machine import Machine
from tests.sim.world import World

if TYPE_CHECKING:
    from raftsched.raft.facade import Raft

# A leader goes by what nodes said in the last 5 s. What it proposes then may be in a log later still: it waits for the
# disk, and for a process that was stopped.
KNOWN_S = 15.0
SETTLED_WITHIN_S = 30.0
OPERATE_S = 1.0
TOO_OLD = "too old for this cluster"

# what a violation says
RAISED_UNKNOWN = "is proposed, and of these members"
RAISED_HELD = "is raised while it is held"
GOES_ON = "and goes on in a cluster of level"
STOPS = "stops as too old"
REFUSED = "is refused at level"
TAKEN = "is taken at level"
NOT_RAISED = "the level has not become what it is to be"
OTHER_ROWS = "differ in more than fields that came later"

_RAISE, _SETTINGS = (kind.__struct_config__.tag for kind in (c.RaiseLevel, c.PutSettings))
_HOLD = Settings.__struct_fields__.index("upgrade_hold")


class VersionsWorld(World):
    machines: dict[str, VersionsMachine]  # type: ignore[assignment]
    checks: LevelChecks
    nemesis: VersionsNemesis

    def __init__(self, seed: int, nodes: int, profile: str, directory: Path, *args: Any, **kwargs: Any) -> None:
        rng = random.Random(f"{seed} versions")
        self.older, self.newer = rng.choice(pairs())()
        self.hold = rng.random() < 0.7  # what operators want
        self.later = later_things(self.older, self.newer)
        super().__init__(seed, nodes, profile, directory, *args, **kwargs)
        self.hold = self.hold and not self.profile.never_held
        self._operator = rng
        self.finishes = rng.random() < 0.7  # the upgrade, in the calm
        self.trace.event("--", "versions", self.older.version, self.newer.version)

    def make_checks(self) -> LevelChecks:
        return LevelChecks(self)

    def make_machine(self, name: str, rng: random.Random, directory: Path) -> VersionsMachine:
        return VersionsMachine(self, name, rng, directory)

    def make_clients(self, rng: random.Random) -> Clients:
        return VersionsClients(self, self.profile.clients, rng)

    def make_nemesis(self, rng: random.Random) -> VersionsNemesis:
        return VersionsNemesis(self, rng)

    def run(self, seconds: float) -> None:
        self.scheduler.after(OPERATE_S, self._operate)
        super().run(seconds)

    def stopped(self, machine: Machine, error: BaseException) -> None:
        """One that is too old is started with the newer version: nothing of its disk is lost."""
        assert isinstance(machine, VersionsMachine)
        if TOO_OLD not in str(error):
            super().stopped(machine, error)
            return
        level = self.checks.committed_level()
        if level <= machine.code.level:
            try:
                self.checks.fail(f"{machine.name} {STOPS}, and the level of the cluster is {level}: {error}")
            except Violation:
                return  # the run ends at the next step
        machine.change(self.newer)
        machine.refused = True
        self.scheduler.after(self._operator.uniform(0.2, 3), machine.start)

    # ------------------------------------------------------------ the calm

    def calm(self) -> None:
        """The upgrade comes to its end, or stays half done; then as ever."""
        if self.finishes:
            self.hold = False
            for machine in self.machines.values():
                if machine.code is not self.newer:
                    runs = machine.running
                    machine.kill()
                    machine.change(self.newer)
                    if runs:
                        machine.start()
        if not self.go(SETTLED_WITHIN_S, self._settled):
            self.checks.fail(
                f"{NOT_RAISED} to {self._reachable()} {SETTLED_WITHIN_S} s after the faults: {self.where()}"
            )
        super().calm()
        self._compare()

    def _settled(self) -> bool:
        return self.checks.held == self.hold and (self.hold or self.checks.level == self._reachable())

    def _reachable(self) -> int:
        return max(self.checks.level, min(machine.code.level for machine in self.present()))

    def _operate(self) -> None:
        """Asks for what operators want until it is so."""
        self.scheduler.after(OPERATE_S, self._operate)
        serving = [machine for machine in self.members() if machine.serving]
        if self.formed and self.checks.held != self.hold and serving:
            machine = self._operator.choice(serving)
            command = c.encode(c.PutSettings(Settings(upgrade_hold=int(self.hold))))
            machine.call([command], 2.0, lambda answers, error: None, task=False)

    def _compare(self) -> None:
        """All have the same rows, byte for byte but for fields that came later: by no code of the product."""
        tables = {machine.name: _rows(machine.store) for machine in self.present()}
        name, first = next(iter(tables.items()))
        for other, rows in tables.items():
            wrong = [key for key in sorted(first.keys() | rows.keys()) if not _alike(first.get(key), rows.get(key))]
            if wrong:
                key = wrong[0]
                both = f"{first.get(key)!r} and {rows.get(key)!r}"
                self.checks.fail(f"{len(wrong)} rows of {name} and {other} {OTHER_ROWS}: {key}: {both}")


def _rows(store: Store | None) -> dict[tuple[int, bytes], bytes]:
    assert store is not None
    with store.read() as view:
        return {(int(table), bytes(key)): bytes(value) for table in Table for key, value in view.scan(table)}


def _alike(one: bytes | None, other: bytes | None) -> bool:
    return grown(one, other) or grown(other, one)


class VersionsMachine(Machine):
    _world: VersionsWorld

    def __init__(self, world: VersionsWorld, name: str, rng: random.Random, directory: Path) -> None:
        super().__init__(world, name, rng, directory)
        self.code = world.older
        self.refused = False  # it stopped as too old
        self._knew = -100.0  # when it last ran the newer version
        self._room: LevelRoom | None = None

    def change(self, code: Code) -> None:
        """It is started with that version from now on. The process must not run."""
        if code is not self.code:
            self._world.trace.event(self.name, "version", code.version)
            self.code = code

    def knew(self, level: int) -> bool:
        """Returns whether it has said lately that it knows the level."""
        if self.code.level >= level and self.running:
            return True
        return self._world.newer.level >= level and self._world.scheduler.now - self._knew < KNOWN_S

    def kill(self, power: bool = False) -> None:
        if self.running and self.code is self._world.newer:
            self._knew = self._world.scheduler.now
        super().kill(power)

    def start(self) -> None:
        """A store that was refused leaves its tables open until its process ends, which here it does not."""
        if self.refused:
            self.refused = False
            gc.collect()
        super().start()

    def failed(self, error: Exception) -> None:
        """A part of it that only stands in for the product's is broken."""
        self._world.checks.fail(f"{self.name}: {error!r}")

    def furnish(self, raft: Raft, rng: random.Random) -> None:
        self.code.adapt(raft)
        self._room = LevelRoom(self, raft, self.code)

    async def open_rooms(self, raft: Raft) -> None:
        await raft.start()
        assert self.loop is not None
        assert self._room is not None
        self.loop.create_task(self._room.run())


class LevelChecks(Checks):
    """Beside those of Raft: what levels are for. `level`, `held`: as applied by whoever was first."""

    def __init__(self, world: VersionsWorld) -> None:
        super().__init__()
        self.level = 0
        self.held = False
        self._world = world
        self._notes: dict[tuple[int, int], list[tuple[str, int]]] = {}  # (index, term) -> what it does about levels
        self._levels: dict[int, int] = {}  # index -> level, where it was raised
        self._first = 0  # the highest index that anybody has applied
        self._read: dict[tuple[int, bytes, bytes], bytes] = {}

    def committed_level(self) -> int:
        """Returns the level that the committed log asks for, also where nobody has applied it yet."""
        asked = [
            value
            for (index, term), notes in self._notes.items()
            for kind, value in notes
            if kind == "raise" and self.committed.get(index) == term
        ]
        return max([self.level, *asked])

    def appended(self, index: int, term: int, data: bytes) -> None:
        super().appended(index, term, data)
        if (index, term) in self._notes or not data:
            return
        self._notes[index, term] = notes = _notes(data)
        for kind, level in notes:
            if kind == "raise":
                without = [m.node for m in self.members if not self._world.machines[m.node].knew(level)]
                if without:
                    self.fail(f"level {level} {RAISED_UNKNOWN} have not known it: {without}")

    def _apply(self, name: str, disk: Any, index: int, term: int, entry: Any) -> None:
        super()._apply(name, disk, index, term, entry)
        raised = [action.level for action in entry.actions if type(action).__name__ == "LevelRaised"]
        if index > self._first:
            self._first = index
            for kind, value in self._notes.get((index, term), ()):
                if kind == "hold" and all(batch.answers is not None for batch in entry.batches):
                    self.held = bool(value)
            for level in raised:
                if self.held:
                    self.fail(f"level {level} {RAISED_HELD}, at entry {index}")
                self.level = self._levels[index] = level
        known = self._world.machines[name].code.level
        needed = max((level for at, level in self._levels.items() if at <= index), default=0)
        if max(needed, *raised, 0) > known:
            self.fail(f"{name} knows levels up to {known} {GOES_ON} {needed}, at entry {index}")

    def outcome(self, batches: Sequence[BatchResult]) -> bytes:
        """Texts and fields of answers may be others in another version."""
        return repr([(batch.origin, batch.seq, _answers(batch.answers)) for batch in batches]).encode()

    def applied(self, name: str, store: Store, results: Sequence[EntryResult]) -> None:
        super().applied(name, store, results)
        if not self.level:
            with store.read() as view:
                self.level = read_meta(view).level

    def state(self, store: Store) -> str:
        """As this version reads it: a node of an earlier one leaves later fields out of a row."""
        digest = hashlib.blake2b(digest_size=8)
        for (table, key), raw in _rows(store).items():
            found = self._read.get((table, key, raw))
            if found is None:
                found = self._read[table, key, raw] = as_read(Table(table), key, raw)
            digest.update(b"%d %s " % (table, key) + found)
        return digest.hexdigest()


def _answers(answers: Sequence[Any] | None) -> Any:
    if answers is None:
        return None
    return [
        one.code
        if type(one).__name__ == "Rejected"
        else (one.job and one.job.id, one.instance, one.created, one.number)
        for one in answers
    ]


def _notes(data: bytes) -> list[tuple[str, int]]:
    """Returns what an entry does about levels: by no code of the product."""
    found = []
    for _, _, commands in msgspec.msgpack.decode(data)[1]:
        for command in commands:
            if command[0] == _RAISE:
                found.append(("raise", command[1]))
            elif command[0] == _SETTINGS:
                found.append(("hold", command[1][_HOLD]))
    return found


# ---------------------------------------------------------------- what is asked for


def later_things(older: Code, newer: Code) -> dict[str, int]:
    """Returns what nodes of the newer version are asked for and others are not, with the level that it needs. Fields of
    SPARING are left out below their level, all else is refused. Nothing where both know the same levels, as right after
    a release."""
    if newer.level == older.level:
        return {}
    six = max(older.level + 1, 6)
    found = {"env": six, "backup": six}
    if older.level < 6:
        found |= {"suspended": 6, "alike": 6}
    else:
        found["expires"] = six
    if older.level < 5:
        found["copies"] = 5
    return found


class VersionsClient(Client):
    refusals = (*Client.refusals, "stale", "unknown-command")  # the last one: see _acknowledged
    may_be_taken = False  # what is of a later level: see broken.py

    def __init__(self, clients: Clients, number: int, rng: random.Random) -> None:
        super().__init__(clients, number, rng)
        self._world: VersionsWorld = clients.world  # type: ignore[assignment]
        self._level = 0  # of the node that was asked, as it had it then

    def _change(self, machine: Machine) -> tuple[Job, bytes, c.Command]:
        rng, later = self._rng, self._world.later
        self._level = _level_of(machine)
        job, body, command = super()._change(machine)
        more = machine.code is self._world.newer and rng.random() < 0.3 and bool(later)
        match command:
            case c.PutSettings():
                settings = replace(command.settings, upgrade_hold=int(self._world.hold))
                if more and "copies" in later:
                    settings = replace(settings, output_copies=2)
                return job, body, replace(command, settings=settings)
            case c.CreateJob() | c.EditJob() if more:
                return job, body, self._with_more(command)
            case c.Barrier() if more and "backup" in later:  # of what is committed: it may not name its own entry
                return job, body, NoteBackup(rng.randint(1, self._world.checks.highest), rng.getrandbits(40))
        return job, body, command

    def _with_more(self, command: c.CreateJob | c.EditJob) -> c.Command:
        later = self._world.later
        match self._rng.choice(sorted(later)):
            case "env":
                return replace(command, policy=replace(command.policy, env=("COLOUR",)))
            case "expires":
                return replace(command, policy=replace(command.policy, expires_ms=60_000))
            case "suspended" if isinstance(command, c.EditJob):
                return replace(command, suspended=True)
            case "alike" if isinstance(command, c.CreateJob):
                return c.CreateJobs(command.namespace, command.policy, (command.body,), names=(command.name,))
        return command

    def _needs(self, command: Any) -> int:
        """Returns the level below which it is refused."""
        later = self._world.later
        match command:
            case NoteBackup():
                return later.get("backup", 0)
            case c.CreateJobs():
                return later.get("alike", 0)
            case c.PutSettings() if command.settings.output_copies > 1:
                return later.get("copies", 0)
            case c.CreateJob() | c.EditJob() if command.policy.expires_ms:
                return later.get("expires", 0)
        return 0

    def _acknowledged(self, call: Call, answers: list[c.Answer]) -> None:
        checks, machine = self._world.checks, self._world.machines[call.node]
        needed, what = max(self._needs(command) for _, _, command in call.jobs), f"call {call.number} at {call.node}"
        if any(isinstance(answer, c.Rejected) and answer.code == "unknown-command" for answer in answers):
            if needed <= self._level:
                checks.fail(f"{what} {REFUSED} {self._level}; it needs {needed}: {call.jobs}")
        elif needed > _level_of(machine) and not self.may_be_taken:
            checks.fail(f"{what} {TAKEN} {_level_of(machine)}; it needs {needed}: {call.jobs}")
        for at, (job, body, command) in enumerate(call.jobs):
            answer = answers[at]
            if isinstance(command, c.CreateJobs) and not isinstance(answer, c.Rejected):
                call.jobs[at], answers[at] = (job, body, command.one(0)), answer.each[0]
        super()._acknowledged(call, answers)


def _level_of(machine: Machine) -> int:
    """As far as the node has applied the log."""
    assert machine.store is not None
    with machine.store.read() as view:
        return read_meta(view).level


class VersionsClients(Clients):
    def make_client(self, number: int, rng: random.Random) -> Client:
        return VersionsClient(self, number, rng)


# ---------------------------------------------------------------- who changes versions


class VersionsNemesis(Nemesis):
    _world: VersionsWorld

    def _change_version(self) -> bool:
        """Upgrades a node, or takes it back as long as it may be."""
        world = self._world
        machine = self._rng.choice(list(world.machines.values()))
        if not world.formed:
            return False
        to = world.newer if machine.code is world.older else world.older
        if to.level < world.checks.level:
            return False
        running = machine.running
        machine.kill(self._rng.random() < 0.2)
        machine.change(to)
        if running:
            self._heal_in(0.05, self._rng.choice([0.2, 2, 8]), machine.start)
        return True

    def _upgrade_all(self) -> bool:
        """One node after the other, as operators do."""
        world = self._world
        todo = [machine for machine in world.members() if machine.code is world.older]
        if not world.formed or not todo:
            return False
        self._upgrade_next([machine.name for machine in todo])
        return True

    def _upgrade_next(self, names: list[str]) -> None:
        machine = self._world.machines[names[0]]
        running = machine.running
        machine.kill()
        machine.change(self._world.newer)
        if running:
            machine.start()
        if names[1:]:
            self._heal_in(0.1, self._rng.choice([0.5, 3]), self._upgrade_next, names[1:])

    def _late_downgrade(self) -> bool:
        """A node is taken back when it may not be any more, with its disk or with an empty one."""
        world = self._world
        machine = self._rng.choice(list(world.machines.values()))
        if world.older.level >= world.checks.level or not machine.running:
            return False
        if self._rng.random() < 0.5 and world.may_lose_a_disk(machine):
            machine.kill(power=True)
            machine.wipe()
        else:
            machine.kill()
        machine.change(world.older)
        self._heal_in(0.05, 2, machine.start)
        return True

    def _hold(self) -> bool:
        """Operators change their mind."""
        self._world.hold = not self._world.hold
        return True
