"""One machine: its disk and clock, and the node process that runs on it, again and again."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import lmdb

from raftsched.core.entry import EntryResult
from raftsched.raft.codec import Frame
from raftsched.raft.facade import Raft
from raftsched.raft.options import RaftOptions
from raftsched.store import Fresh, LogEntry, Rules, SnapshotMeta, Store, WriteBatch
from raftsched.store.checkpoint import Checkpoint
from raftsched.store.layout import LOG
from raftsched.store.tables import Tables
from tests.sim.checks import Violation
from tests.sim.clocks import MachineClock
from tests.sim.code import TODAY, Code
from tests.sim.disk import Disk, DiskWriter
from tests.sim.loop import Loop
from tests.sim.power import Unsynced, UnsyncedTables

if TYPE_CHECKING:
    from tests.sim.world import World

Done = Callable[[Any, BaseException | None], None]

MAP_BYTES = 1 << 20  # small: it has to grow
KEY = b"k" * 32


class Watching:
    """In front of a version's real store: what it did is told."""

    machine: Machine  # of the class while it is being opened, then its own

    def _open_tables(self, number: int) -> Tables:
        machine = self.machine
        with machine.unsynced_tables.watched():
            tables: Tables = super()._open_tables(number)  # type: ignore[misc]
        machine.unsynced_tables.opened()
        write = tables.write_checkpoint

        def watched(made: Checkpoint) -> None:
            with machine.unsynced_tables.watched():
                write(made)
            machine.checkpointed(made.applied_index)

        tables.write_checkpoint = watched  # type: ignore[method-assign]
        return tables

    def write(self, batch: WriteBatch) -> None:
        certain = self.machine.unsynced.before(self)  # type: ignore[arg-type]
        super().write(batch)  # type: ignore[misc]
        self.machine.unsynced.written(certain)
        self.machine.written(batch)

    def apply(self, entries: Sequence[LogEntry]) -> list[EntryResult]:
        results: list[EntryResult] = super().apply(entries)  # type: ignore[misc]
        self.machine.applied(results)
        return results

    def _last_checkpoint(self) -> None:
        """Processes end by force here."""

    def copy(self, target: Path) -> SnapshotMeta:
        meta: SnapshotMeta = super().copy(target)  # type: ignore[misc]
        self.machine.copied(meta)
        return meta

    def prepare(self, source: Path, meta: SnapshotMeta) -> Fresh:
        try:
            fresh: Fresh = super().prepare(source, meta)  # type: ignore[misc]
        except ValueError as error:
            self.machine.unusable(meta, error)
            raise
        self.machine.prepared(meta)
        return fresh

    def swap(self, fresh: Fresh) -> None:
        self.machine.swapping(fresh.meta)
        super().swap(fresh)  # type: ignore[misc]
        self.machine.installed(fresh.meta)


class WatchedStore(Watching, Store):
    """The one of today."""


@cache
def watched(code: Code) -> type[WatchedStore]:
    """Returns the watched store of a version."""
    store = code.module("store").Store
    return WatchedStore if store is Store else cast(type[WatchedStore], type("WatchedStore", (Watching, store), {}))


class Machine:
    """`raft`, `loop` and `store` are those of the running process; None: there is none."""

    def __init__(self, world: World, name: str, rng: random.Random, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.disk = Disk(random.Random(rng.random()))
        self.disk.crashed = self._crashed_in_job
        self.unsynced = Unsynced(directory / "db" / LOG)
        self.unsynced_tables = UnsyncedTables(directory / "db", random.Random(rng.random()))
        self.clock = MachineClock(
            world.scheduler,
            boot_s=rng.uniform(1, 1_000_000),
            rate=1 + rng.uniform(-2e-4, 2e-4),
            wall_offset_ms=rng.choice([0, 0, rng.randint(-400, 400)]),
        )
        self.code = TODAY  # what it is started with
        self.incarnation = 0
        self.serving = False  # it has started as far as to take requests
        self.raft: Raft | None = None
        self.loop: Loop | None = None
        self.store: WatchedStore | None = None
        self.peers: dict[str, str] = {}  # as on its command line
        self.join = False
        self.gone = False  # and nobody repairs it while the run lasts
        self.damaged = False  # bits of its log or records were flipped
        self.cost = 0.0  # seconds that each callback takes
        self.stalled_until = -100.0
        self._world = world
        self._rng = rng
        self._commit = 0
        self._led = 0
        self._voted: tuple[int, str | None] = (0, None)
        self._journal: Any = None
        self._engine: Any = None
        world.checks.new_disk(name)

    @property
    def running(self) -> bool:
        return self.raft is not None

    @property
    def paused(self) -> bool:
        return self.loop is not None and self.loop.busy_until > self._world.scheduler.now + 0.05

    # ------------------------------------------------------------ life

    def start(self) -> None:
        if self.running or self.gone:
            return
        world = self._world
        self.incarnation += 1
        code, guards = self.code, world.guards
        world.trace.event(self.name, "start", f"#{self.incarnation}", *([] if code is TODAY else [code.version]))
        loop = Loop(world.scheduler, self.name, world.network, self._stepped, self._crashed)
        kind = watched(code)
        kind.machine = self
        try:
            store: Any = kind.open(
                self.directory / "db",
                sync=guards.turns_synced,
                metasync=guards.meta_page_synced,
                map_bytes=MAP_BYTES,
                rules=code.own("store", Rules(synced=guards.checkpoint_synced, kept=guards.checkpoint_kept)),
            )
        except code.startup_error as error:
            self._refused(error)
            return
        store.machine = self
        loop.cost = self.cost
        self.loop, self.store = loop, store
        world.checks.loaded(self.name, store)
        rng = random.Random(f"{world.seed} {self.name} {self.incarnation}")
        try:
            self.raft = raft = code.make(
                "raft.facade",
                "Raft",
                store,
                self.name,
                world.addresses[self.name],
                {**self.peers, self.name: world.addresses[self.name]},
                advertise=None,
                keys=code.make("security.keyring", "Keyring", KEY),
                clock=self.clock,
                rng=rng,
                http_address=f"{self.name}:80",
                guards=code.own("raft.guards", guards),
                options=code.own("raft.options", self._options()),
                on_fatal=partial(self._fatal, self.incarnation),
                join=self.join,
                writers=partial(DiskWriter, world.scheduler, loop, self.disk),
                nonce=rng.randbytes,
                wire=code.make("raft.transport.tls", "Plain"),
            )
        except code.startup_error as error:
            self._close()
            self._refused(error)
            return
        if self.damaged:
            world.checks.fail(f"{self.name} starts with a damaged log or state")
        self._journal, self._engine = raft._replica.journal, raft._replica.engine
        self._watch_appends()
        self._watch_frames(raft)
        world.checks.started(self.name, raft.store_id)
        self._commit, self._led = self._journal.commit_index, 0
        self._voted = (self._engine.term, self._engine.voted_for)
        raft.subscribe_role(self._role_changed)
        self.furnish(raft, rng)
        if world.profile.raising:
            raft.subscribe(self._raises)
        world.network.process_started(self.name)
        loop.call_soon(self._begin, raft)

    def furnish(self, raft: Raft, rng: random.Random) -> None:
        """The other rooms of the process, where there are any."""

    async def open_rooms(self, raft: Raft) -> None:
        """In the order in which a node does it."""
        await raft.start()

    def _begin(self, raft: Raft) -> None:
        assert self.loop is not None
        self.loop.create_task(self._run(raft, self.incarnation))

    async def _run(self, raft: Raft, incarnation: int) -> None:
        try:
            await self.open_rooms(raft)
        except self.code.startup_error as error:
            self._fatal(incarnation, error)
        else:
            self.serving = True

    def _refused(self, error: BaseException) -> None:
        self._world.stopped(self, error)

    def _fatal(self, incarnation: int, error: BaseException) -> None:
        """The node stops by itself: the process ends as soon as this callback has returned."""
        self._world.trace.event(self.name, "fatal", type(error).__name__)
        self._world.scheduler.after(0.0, self._exit, incarnation, error)

    def _exit(self, incarnation: int, error: BaseException) -> None:
        if self.running and self.incarnation == incarnation:
            self.kill()
            self._world.stopped(self, error)

    def kill(self, power: bool = False) -> None:
        """SIGKILL, or the power goes: what was not synced is lost then, and the boot clock begins anew."""
        if not self.running:
            return
        self._world.trace.event(self.name, "power" if power else "kill")
        self._close()
        self._world.network.process_gone(self.name, power)
        if power:
            self._lose_unsynced()
            self.clock.reboot(self._rng.uniform(1, 30))
        self._world.clients.node_gone(self.name)

    def _crashed_in_job(self) -> None:
        doom, self.disk.doom = self.disk.doom, None
        assert doom is not None
        self._world.trace.event(self.name, "crashed", f"at {doom.at}")
        power = self._rng.random() < 0.5
        self.kill(power)
        if power:
            undone = doom.power_lost(self._rng)
            self._world.trace.event(self.name, "lost", undone)
        self._world.nemesis.crashed(self)

    def _close(self) -> None:
        if self.loop is not None:
            self.loop.kill()
        if self.store is not None:
            self.store.close()
        self.raft = self.loop = self.store = None
        self.serving = False
        self._journal = self._engine = None

    def _lose_unsynced(self) -> None:
        """Writes that were not synced are taken back; files that nobody synced are cut short, or gone."""
        if self.unsynced.lose():
            self._world.trace.event(self.name, "lost", "writes that were not synced")
        if pages := self.unsynced_tables.lose():
            self._world.trace.event(self.name, "lost", f"{pages} pages of the tables")
        for path in sorted((self.directory / "snapshots").glob("*")):
            match self._rng.randrange(3):
                case 0:
                    path.unlink()
                case 1:
                    with path.open("r+b") as file:
                        file.truncate(self._rng.randint(0, path.stat().st_size))

    def close(self) -> None:
        """The run is over."""
        self._close()

    def pause(self, seconds: float, asleep: bool = False) -> None:
        """SIGSTOP for a while; `asleep`: the whole machine is suspended."""
        if self.loop is not None:
            if asleep and not self.paused:
                until = self._world.scheduler.now + seconds
                self._world.scheduler.at(until, self._wakes, self.loop, until, seconds)
            self.loop.stop_until(self._world.scheduler.now + seconds)
            self.stalled_until = max(self.stalled_until, self._world.scheduler.now + seconds)

    def _wakes(self, loop: Loop, until: float, seconds: float) -> None:
        """Before anything else runs on it; unless it was woken earlier, and was only stopped."""
        if loop is self.loop and loop.busy_until == until:
            self.clock.slept(seconds)

    def slow_down(self, cost: float) -> None:
        """Each callback takes so many seconds, until `calm`."""
        self.cost = cost
        self.stalled_until = float("inf")
        if self.loop is not None:
            self.loop.cost = cost

    def calm(self) -> None:
        """It runs, and at full speed."""
        if self.cost:
            self.cost, self.stalled_until = 0.0, self._world.scheduler.now
        if self.loop is not None:
            self.loop.cost = 0.0
            self.loop.busy_until = 0.0
            self._world.scheduler.after(0.0, self._world.scheduler.wake, self.loop)

    @property
    def slowed(self) -> bool:
        """It was stopped or slow not long ago."""
        return self._world.scheduler.now < self.stalled_until + 8.0

    def hand_over(self) -> None:
        if self.loop is not None and self.raft is not None:
            self.loop.call_soon(self.raft.step_down)

    def damage(self) -> bool:
        """Flips a bit in an entry of the log, or in one of its own records. The process must not run."""
        rng = self._rng
        if not (self.directory / "db" / LOG).exists():  # it ended while it made its store
            return False
        with lmdb.open(
            str(self.directory / "db" / LOG), max_dbs=40, map_size=1 << 30, sync=False, lib_version=0
        ) as env:
            table = env.open_db(rng.choice([b"log", b"log", b"local"]))
            with env.begin(write=True) as txn:
                rows = list(txn.cursor(table))
                if not rows:
                    return False
                key, value = rng.choice(rows)
                bit = rng.randrange(8 * len(value))
                flipped = bytearray(value)
                flipped[bit // 8] ^= 1 << bit % 8
                txn.put(key, bytes(flipped), db=table)
        self.damaged = True
        self.unsynced.forget()
        self._world.trace.event(self.name, "damaged", key.hex(), f"bit {bit}")
        return True

    def wipe(self) -> None:
        """A new, empty disk under the old id. The process must not run."""
        shutil.rmtree(self.directory)
        self.directory.mkdir()
        self.damaged = False
        self.unsynced.forget()
        self.unsynced_tables.forget()
        self.peers = {m.node: self._world.addresses[m.node] for m in self._world.checks.members} or self.peers
        self.join = self._world.formed and self._rng.random() < 0.7
        self._world.new_disk(self.name)
        self._world.trace.event(self.name, "wiped")

    # ------------------------------------------------------------ what is seen of it

    def written(self, batch: WriteBatch) -> None:
        world = self._world
        assert self.store is not None
        world.checks.written(self.name, self.store, batch)
        if batch.append or batch.truncate_from is not None or batch.hard_state is not None:
            world.trace.event(
                self.name,
                "write",
                f"cut {batch.truncate_from}" if batch.truncate_from is not None else "",
                f"log {batch.append[0].index}-{batch.append[-1].index}" if batch.append else "",
                f"vote {batch.hard_state}" if batch.hard_state is not None else "",
            )
        if batch.hard_state is not None and batch.hard_state[1] == self.name == world.nemesis.campaigner:
            world.nemesis.campaigns(self)
        if batch.hard_state is not None and batch.hard_state[1] is not None and world.formed:
            assert self.raft is not None
            if (self.name, world.checks.disks[self.name].store_id) not in world.checks.admitted:
                world.checks.fail(f"{self.name} is no member with this disk, and votes for {batch.hard_state[1]}")

    def applied(self, results: list[EntryResult]) -> None:
        assert self.store is not None
        self._world.checks.applied(self.name, self.store, results)
        self._world.trace.event(self.name, "applied", results[-1].index)

    def checkpointed(self, index: int) -> None:
        self._world.checks.checkpointed(self.name, index)
        self._world.trace.event(self.name, "checkpoint", index)

    def copied(self, meta: SnapshotMeta) -> None:
        assert self.store is not None
        self._world.trace.event(self.name, "copied", meta.index, meta.size)
        if self._world.profile.no_snapshot:
            self._world.checks.fail(f"{self.name} makes a snapshot, and nobody is that far behind")
        self._world.nemesis.trapped(self)
        if self.store.applied_index == meta.index:
            self._world.checks.same_state(self.name, self.store)

    def unusable(self, meta: SnapshotMeta, error: ValueError) -> None:
        """A snapshot arrived whole and is no good: no fault here does that, bits are flipped elsewhere."""
        self._world.checks.fail(f"{self.name} received a snapshot of entry {meta.index} for nothing: {error}")

    def prepared(self, meta: SnapshotMeta) -> None:
        self._world.trace.event(self.name, "prepared", meta.index)
        if self._world.nemesis.handover_trap:
            self._world.nemesis.made_ready(self)
        self._world.nemesis.trapped(self)

    def swapping(self, meta: SnapshotMeta) -> None:
        self._world.checks.swapping[self.name] = meta.index

    def installed(self, meta: SnapshotMeta) -> None:
        assert self.store is not None
        self._world.trace.event(self.name, "installed", meta.index)
        self._world.installs += 1
        self._world.checks.installed(self.name, self.store)
        self._world.nemesis.trapped(self)

    def _watch_appends(self) -> None:
        """A configuration counts from its append on, before it is on any disk."""
        journal, checks = self._journal, self._world.checks
        append = journal.append

        def watched(term: int, data: bytes) -> int:
            checks.appended(journal.last_index + 1, term, data)
            return int(append(term, data))

        journal.append = watched
        set_commit = journal.set_commit

        def committed(index: int) -> None:
            set_commit(index)
            self._see_commit(journal)

        journal.set_commit = committed  # looked at at once: the next step may change the members

    def _watch_frames(self, raft: Raft) -> None:
        frames, transport = self._world.frames, raft._transport
        send = transport.send

        def watched(peer: str, frame: Frame) -> bool:
            sent = send(peer, frame)
            if sent:
                frames.sent(self, peer, self.code.frame(frame))
            return sent

        transport.send = watched  # type: ignore[method-assign]

    def _options(self) -> RaftOptions:
        number, keep = int(self.name[1:]) - 1, self._world.profile.keep_entries
        options = replace(self._world.options, snapshot_dir=self.directory / "snapshots")
        return replace(options, keep_entries=keep[number]) if number < len(keep) else options

    def _raises(self, _: object) -> None:
        """Another room of the process, which has a bug."""
        if self._rng.random() < self._world.profile.raising:
            raise KeyError("the room's own bug")

    def _role_changed(self) -> None:
        raft = self.raft
        if raft is not None:
            leading = " leading" if raft.leading else ""
            self._world.trace.event(self.name, raft.role, f"term {raft.term}{leading}, leader {raft.leader_id}")

    def _stepped(self) -> None:
        """After each callback of the process."""
        journal = self._journal
        if journal is None:
            return
        self._see_commit(journal)
        engine = self._engine
        if engine.is_leader:
            if engine.term != self._led:
                self._led = engine.term
                voters = engine.membership.voters
                self._world.checks.leads(self.name, self.incarnation, engine.term, voters, self._has)
                self._world.elected(self, engine.term)
            elif engine.term < self._world.newest_leader[0]:
                self._world.still_leads(self, engine.term)
        if self._world.nemesis.vote_trap:
            voted = (engine.term, engine.voted_for)
            if voted != self._voted and engine.voted_for is not None:
                self._world.nemesis.voted(self)
            self._voted = voted

    def _see_commit(self, journal: Any) -> None:
        commit = journal.commit_index
        if commit == self._commit:
            return
        checks = self._world.checks
        if commit < self._commit:
            checks.fail(f"{self.name} went back from commit index {self._commit} to {commit}")
        self._commit = commit
        if not self._world.formed:
            assert self.raft is not None
            self._world.form(self.raft._replica.formation.remembered)
        checks.commits(self.name, commit, journal.last_index, journal.term)

    def _has(self, index: int, term: int) -> bool:
        return bool(self._journal.applied_index >= index or self._journal.term(index) == term)

    def _crashed(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._world.checks.fail(f"{self.name}: {context.get('message')}: {error!r}")

    # ------------------------------------------------------------ clients and the admin

    def change_members(self, change: Any, node: str, timeout: float, done: Done) -> None:
        """Asks this node; `done` is not called when it is killed meanwhile."""
        assert self.loop is not None
        self.loop.call_soon(self._ask, lambda raft: raft.change_members(change, node, timeout=timeout), done)

    def transfer(self, to: str | None, timeout: float, done: Done) -> None:
        assert self.loop is not None
        self.loop.call_soon(self._ask, lambda raft: raft.transfer(to, timeout), done)

    def call(self, commands: list[bytes], timeout: float, done: Done, *, task: bool = True) -> None:
        """Proposes on this node, with a `task` that waits for the answer or without."""
        assert self.loop is not None
        commands = list(self.code.encoded(commands))
        if not task:
            self.loop.call_soon(self._propose_then, commands, timeout, done)
        else:
            self.loop.call_soon(self._ask, lambda raft: raft.propose(commands, timeout), done)

    def _propose_then(self, commands: list[bytes], timeout: float, done: Done) -> None:
        assert self.raft is not None
        try:
            self.raft.propose_then(commands, timeout, partial(self._replied, done))
        except Exception as error:
            done(None, self.code.error(error))

    def _replied(self, done: Done, answers: Any, error: Exception | None) -> None:
        done(self.code.answer(answers), None if error is None else self.code.error(error))

    def _ask(self, ask: Callable[[Raft], Coroutine[Any, Any, Any]], done: Done) -> None:
        assert self.loop is not None
        self.loop.create_task(self._answer(ask, done))

    async def _answer(self, ask: Callable[[Raft], Coroutine[Any, Any, Any]], done: Done) -> None:
        assert self.raft is not None
        try:
            answer = await ask(self.raft)
        except Violation:
            raise
        except Exception as error:
            done(None, self.code.error(error))
        else:
            done(self.code.answer(answer), None)
