"""A loss of power at any moment: of what no sync had brought to the disk any part is there, down to torn pages.

The log is on the disk when a write of it returns. So what is opened afterwards is to be the tables of some checkpoint,
whole, and then all that the log says is committed."""

from __future__ import annotations

import faulthandler
import hashlib
import os
import random
import shutil
import stat
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from raftsched.core import commands as c
from raftsched.core.apply import Applier
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.core.tables import ReadView, Table
from raftsched.store import LogEntry, PendingCheckpoint, Rules, SnapshotMeta, Store, WriteBatch, layout, records, tables
from raftsched.store.gate import Gate
from raftsched.store.layout import LOG, tables_directory
from raftsched.store.tables import Tables
from tests.property.author import Author
from tests.support.memory_view import T0, MemoryView, every, policy
from tests.support.stores import checkpoint, commit

ENTRIES = 150
MAP_BYTES = 2**20  # it grows some times on the way
PAGE = 4096
SECTOR = 512
SNAPSHOTS = (60, 110)
TRIALS = 12
HARMED_WITHIN = 40  # trials
LOSS, LOSS_AT_SYNC = 0.03, 0.1


def digest(view: ReadView) -> bytes:
    found = hashlib.sha256()
    for table in Table:
        for key, value in view.scan(table):
            found.update(b"%d %d %d " % (table.value, len(key), len(value)) + key + value)
    return found.digest()


@dataclass(frozen=True)
class Story:
    """A log, what the tables are after each of its entries, and copies of other nodes' stores."""

    log: list[LogEntry]
    digests: list[bytes]
    copies: dict[int, Path]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    rng = random.Random(5)
    written = Author(5).write(ENTRIES)
    log = []
    for index in range(1, ENTRIES + 1):
        data = written[index - 1]
        if index % 3 == 0:
            job = c.CreateJob(
                "d", f"j{index}", policy(every(1000)), rng.randbytes(rng.choice((10, 900, 5_000, 40_000)))
            )
            data = encode_entry(T0 + index, [(1, 10**6 + index, [encode(job)])])
        log.append(LogEntry(index, 1, data))
    view = MemoryView()
    digests = [digest(view)]
    for entry in log:
        applier = Applier(view)
        applier.entry(*entry)
        applier.close()
        digests.append(digest(view))
    assert len(set(digests)) > ENTRIES / 2
    directory = tmp_path_factory.mktemp("copies")
    other = Store.open(directory / "other", sync=False)
    copies, at = {}, 0
    for index in SNAPSHOTS:
        commit(other, *log[at:index])
        at = index
        copies[index] = directory / str(index)
        other.copy(copies[index])
    other.close()
    return Story(log, digests, copies)


def nothing(chance: float) -> None:
    pass


class Disk:
    """What the disk has of each file: its bytes as of the last sync."""

    def __init__(self, rng: random.Random, patch: pytest.MonkeyPatch) -> None:
        self.rng = rng
        self._synced: dict[int, bytes] = {}  # by inode
        self._held: list[int] = []  # so that no other file gets the inode of one that was deleted
        self.lose: Callable[[float], None] = nothing  # power may go here
        patch.setattr(os, "fsync", self._sync)
        patch.setattr(os, "fdatasync", self._sync)

    def _sync(self, fd: int) -> None:
        self.lose(LOSS_AT_SYNC)
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode):
            if found.st_ino not in self._synced:
                self._held.append(os.dup(fd))
            self._synced[found.st_ino] = Path(f"/proc/self/fd/{fd}").read_bytes()
            self.lose(LOSS_AT_SYNC)

    def back(self, directory: Path) -> None:
        """Power is back: what is found is what the disk has."""
        self._synced.clear()
        for path in directory.rglob("*"):
            if path.is_file():
                self._held.append(os.open(path, os.O_RDONLY))
                self._synced[path.stat().st_ino] = path.read_bytes()

    def close(self) -> None:
        for fd in self._held:
            os.close(fd)

    def image(self, directory: Path, target: Path) -> None:
        """Makes what is found when the power is back. Names are there at once, and so is the log."""
        share = self.rng.choice((0.0, 1.0, self.rng.random()))
        for path in directory.rglob("*"):
            copy = target / path.relative_to(directory)
            if path.is_dir():
                copy.mkdir(parents=True, exist_ok=True)
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.name in ("lock", "lock.mdb"):
                continue
            new = path.read_bytes()
            if path.parent.name != LOG:
                new = self._part(self._synced.get(path.stat().st_ino, b""), new, share)
            copy.write_bytes(new)

    def _part(self, old: bytes, new: bytes, share: float) -> bytes:
        """About such a share of what was written since the sync."""
        size = self.rng.choice((len(old), max(len(old), len(new))))
        old, new = (raw.ljust(size, b"\0")[:size] for raw in (old, new))
        pages = []
        for at in range(0, size, PAGE):
            before, after = old[at : at + PAGE], new[at : at + PAGE]
            if before == after:
                pages.append(after)
            elif self.rng.random() < (0.1 if size > 2 * PAGE else 0.5):
                torn = self.rng.randrange(0, PAGE, SECTOR)
                pages.append(after[:torn] + before[torn:] if self.rng.random() < 0.5 else before[:torn] + after[torn:])
            else:
                pages.append(after if self.rng.random() < share else before)
        return b"".join(pages)


def check(directory: Path, story: Story) -> None:
    """Raises, or ends the process, unless the store is whole."""
    if not (directory / LOG).exists():
        store = Store.open(directory, sync=False, map_bytes=MAP_BYTES)
        assert (store.applied_index, store.log_bounds()) == (0, (1, 0))
        store.close()
        return
    env = layout.log_environment(directory / LOG, map_bytes=MAP_BYTES, sync=False, metasync=False)
    with env.lmdb.begin() as txn:
        state = records.decode_log_state(txn.get(records.STATE, db=env.own))
    env.close()
    where = tables_directory(directory, state.tables)
    kept = Tables.open(where, Gate(directory), map_bytes=MAP_BYTES, sync=False, rules=Rules())
    with kept.transaction() as txn:
        assert digest(kept.view(txn)) == story.digests[kept.applied_index], f"the checkpoint of {kept.applied_index}"
    assert state.base_index <= kept.applied_index
    kept.close()
    store = Store.open(directory, sync=False, map_bytes=MAP_BYTES)
    at = store.applied_index
    assert at == max(kept.applied_index, min(state.commit_index, state.last_index))
    uncommitted = store.log_bounds()[1]
    with store.read() as view:
        assert digest(view) == story.digests[at], f"the state at {at}"
    store.apply(store.log_entries(at + 1, 1 << 30) if uncommitted > at else [])
    at = uncommitted
    for entry in story.log[at:]:  # and it goes on
        commit(store, entry)
        if entry.index % 10 == 0:
            checkpoint(store)
    with store.read() as view:
        assert digest(view) == story.digests[ENTRIES]
    store.close()


def is_whole(directory: Path, story: Story, restore: Callable[[], None]) -> bool:
    """Looks at it in a process of its own, which a damaged store may end."""
    child = os.fork()
    if not child:
        status = 1
        faulthandler.disable()  # pytest's would say much of what is expected without a rule
        try:
            restore()
            check(directory, story)
            status = 0
        except BaseException:
            print(traceback.format_exc(), file=sys.stderr, flush=True)
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Trial:
    """Random turns of a store, and losses of power among them."""

    def __init__(self, directory: Path, story: Story, seed: int, rules: Rules, patch: pytest.MonkeyPatch) -> None:
        self.rng = random.Random(seed)
        self.directory = directory / "0"
        self.image = directory / "image"
        self.story = story
        self.rules = rules
        self._syncs = os.fsync, os.fdatasync
        self.losses = self.damaged = 0
        self.swaps = self.grown = self.lives = 0
        self.disk = Disk(self.rng, patch)
        patch.setattr(tables, "PUBLISH_BYTES", self.rng.choice((1, 2_000, 60_000, 1 << 20)))
        self.pending: PendingCheckpoint | None = None
        self.written = False
        self.disk.lose = self.lose
        self.store = self.opened()

    def opened(self) -> Store:
        return Store.open(self.directory, map_bytes=MAP_BYTES, rules=self.rules)

    def lose(self, chance: float) -> None:
        if self.rng.random() < chance:
            shutil.rmtree(self.image, ignore_errors=True)
            self.disk.image(self.directory, self.image)
            self.look()

    def look(self) -> bool:
        """Whether the image is whole, which is not of use any more."""
        self.losses += 1
        whole = is_whole(self.image, self.story, self._restore)
        self.damaged += not whole
        return whole

    def live_on(self) -> None:
        """With what a loss of power left."""
        found = self.directory.with_name(str(self.lives + 1))
        self.disk.image(self.directory, found)
        shutil.rmtree(self.image, ignore_errors=True)
        shutil.copytree(found, self.image)
        if not self.look():
            return
        self.lives += 1
        self.disk.lose = nothing
        self.close()
        shutil.rmtree(self.directory)
        self.disk.back(found)
        self.disk.lose = self.lose
        self.directory = found
        self.store = self.opened()

    def close(self) -> None:
        self.grown += self.store._tables.map_bytes > MAP_BYTES
        self.pending = None
        self.store.close()

    def _restore(self) -> None:
        os.fsync, os.fdatasync = self._syncs

    def run(self) -> None:
        rng, log = self.rng, self.story.log
        swap_at = rng.choice((0, *SNAPSHOTS))
        while self.store.applied_index < ENTRIES:
            self.lose(LOSS)
            store = self.store
            last, committed, applied = store.log_bounds()[1], store.commit_index, store.applied_index
            match rng.choice("wwwwaaaaaapbBEcsl"):
                case "w" if last < ENTRIES:
                    end = min(ENTRIES, last + rng.randint(1, 6))
                    drop = store.checkpoint_index if rng.random() < 0.3 else None
                    commit_index = max(committed, end - rng.randint(0, 4))
                    store.write(WriteBatch(append=log[last:end], commit_index=commit_index, drop_below=drop))
                case "w":
                    store.write(WriteBatch(commit_index=ENTRIES))
                case "a" if applied < committed:
                    store.apply(log[applied : rng.randint(applied + 1, committed)])
                case "p":
                    store.publish()
                case "b" if self.pending is None:
                    self.pending, self.written = store.begin_checkpoint(), False
                case "B" if self.pending is not None and not self.written:
                    store.write_checkpoint(self.pending)
                    self.written = True
                case "E" if self.pending is not None and self.written:
                    store.end_checkpoint(self.pending)
                    self.pending = None
                case "c" if rng.random() < 0.1:
                    self.close()
                    self.store = self.opened()
                case "l" if not self.damaged and rng.random() < 0.2:
                    self.live_on()
                case "s" if swap_at and applied < swap_at and applied > swap_at / 3:
                    self.swap(swap_at)
                    swap_at = 0
        self.disk.lose = nothing
        self.close()
        self.disk.close()

    def swap(self, index: int) -> None:
        copy = self.directory.parent / "copy"
        shutil.copy(self.story.copies[index], copy)
        raw = copy.read_bytes()
        meta = SnapshotMeta(index, 1, len(raw), hashlib.sha256(raw).digest())
        fresh = self.store.prepare(copy, meta)
        self.store.publish()
        if self.rng.random() < 0.5:
            self.pending = None
        self.store.swap(fresh)
        self.swaps += 1


def trials(directory: Path, story: Story, rules: Rules, count: int, monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Runs so many, or until one finds damage."""
    done = []
    for number in range(count):
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        where = directory / str(number)
        where.mkdir()
        with monkeypatch.context() as patch:
            trial = Trial(where, story, seed, rules, patch)
            trial.run()
        done.append(trial)
        shutil.rmtree(where)
        if trial.damaged:
            break
    return done


@pytest.mark.slow
def test_what_the_disk_has_is_whole(tmp_path: Path, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    done = trials(tmp_path, story, Rules(), TRIALS, monkeypatch)
    assert sum(trial.damaged for trial in done) == 0
    reached = {what: sum(getattr(trial, what) for trial in done) for what in ("losses", "lives", "swaps", "grown")}
    print(reached)
    assert min(reached.values()) > 0


@pytest.mark.parametrize("rules", [Rules(synced=False), Rules(kept=False)], ids=["synced", "kept"])
def test_without_the_rule_it_is_not(
    tmp_path: Path, story: Story, monkeypatch: pytest.MonkeyPatch, rules: Rules
) -> None:
    done = trials(tmp_path, story, rules, HARMED_WITHIN, monkeypatch)
    print(f"{len(done)} trials, {sum(trial.losses for trial in done)} losses")
    assert done[-1].damaged
