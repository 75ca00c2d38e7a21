"""Backup files: what is in them, what is wrong with those that are not whole, and data directories made of them."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from raftsched.backups.restore import restore
from raftsched.core import commands as c
from raftsched.core.commands import CloseSession, OpenLeadership, OpenSession, RaiseLevel, encode
from raftsched.core.entry import encode_entry
from raftsched.core.levels import HISTORY, newest_level
from raftsched.core.model import InstanceState
from raftsched.core.rows import decode_instance, decode_meta
from raftsched.core.rules.new_cluster import INDEX_AHEAD, TOKENS_AHEAD
from raftsched.core.subjects.cluster import Member
from raftsched.core.tables import Table
from raftsched.errors import StartupError
from raftsched.security.keyring import Keyring
from raftsched.store import LogEntry, Store, WriteBatch
from raftsched.store.backup import TRAILER, NotABackup, NotWhole, label_of, trailer, verified_contents, verify
from tests.support.invariants import violations
from tests.support.memory_view import T0, World
from tests.support.stores import commit
from tests.unit.cli.house import run as cli
from tests.unit.store.hostile_backups import with_checksum


class Saved:
    """A store with what a World does to it, and its backup."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = Store.open(directory / "store", sync=False)
        self.index = 0

    def apply(self, world: World) -> None:
        for data in world.log[self.index :]:
            self.index += 1
            entry = LogEntry(self.index, 1, data)
            commit(self.store, entry, hard_state=(1, "n1"))

    def save(self, path: Path, keys: Keyring | None = None) -> Path:
        meta = self.store.copy(path)
        with self.store.read() as view:
            cluster = decode_meta(view.get(Table.META, b"meta"))
        raw = path.read_bytes()
        path.write_bytes(raw + trailer(label_of(meta, cluster, "n2", "1.2.3", T0), hashlib.sha256(raw), keys))
        return path


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def saved(tmp_path: Path, world: World) -> Any:
    made = Saved(tmp_path / "old")
    made.apply(world)
    yield made
    made.store.close()


def test_what_is_in_it(saved: Saved, tmp_path: Path) -> None:
    path = saved.save(tmp_path / "b")
    seen: list[int] = []
    label = verify(path, seen.append)
    assert (label.index, label.term, label.node, label.version) == (saved.index, 1, "n2", "1.2.3")
    assert seen[-1] == label.size == path.stat().st_size - TRAILER
    found = verified_contents(path)
    assert found.members == ["n1", "n2", "n3"]
    assert found.label.cluster_id == b"cluster".hex()
    assert (found.jobs, found.instances, found.dead_letters) == ({}, 0, 0)
    last = path.read_bytes().split(b"\n")[-2]
    assert last == hashlib.sha256(path.read_bytes()[:-65]).hexdigest().encode()


def test_every_byte_counts(saved: Saved, tmp_path: Path) -> None:
    path = saved.save(tmp_path / "b")
    raw = path.read_bytes()
    rng = Random(1)
    places = [0, 16, len(raw) // 2, len(raw) - TRAILER - 1, len(raw) - 66, len(raw) - 65, len(raw) - 2]
    for place in [*places, *(rng.randrange(len(raw) - 1) for _ in range(30))]:
        path.write_bytes(raw[:place] + bytes((raw[place] ^ 1,)) + raw[place + 1 :])
        with pytest.raises(NotABackup):
            verify(path)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda raw: raw[:-1], "is cut off"),
        (lambda raw: raw[: len(raw) // 2], "is cut off"),
        (lambda raw: raw[:-TRAILER], "is cut off"),
        (lambda raw: raw[5000:], "is damaged"),
        (lambda raw: raw + b"x", "is cut off"),
        (lambda raw: b"", "is not a backup"),
        (lambda raw: b"PK" + bytes(3000), "is not a backup"),
        (lambda raw: raw[:4096] + raw[-TRAILER:], "is damaged"),
    ],
)
def test_what_is_no_whole_backup_is_said(saved: Saved, tmp_path: Path, change: Any, says: str) -> None:
    path = saved.save(tmp_path / "b")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(NotABackup, match=says):
        verify(path)
    with pytest.raises(StartupError, match=says):
        restored(path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def restored(path: Path, data: Path, **more: Any) -> Any:
    return restore(path, data, "n1", "127.0.0.1:9501", rng=Random(7), now_ms=0, **more)


def test_only_into_an_empty_directory(saved: Saved, tmp_path: Path) -> None:
    path = saved.save(tmp_path / "b")
    (tmp_path / "new" / "lost+found").mkdir(parents=True)
    restored(path, tmp_path / "new")
    for data, says in ((tmp_path / "new", "is not empty"), (path, "is not a directory")):
        with pytest.raises(StartupError, match=says):
            restored(path, data)
    (tmp_path / "killed" / "restoring").mkdir(parents=True)
    with pytest.raises(StartupError, match=r"killed/restoring is what a restore left that was killed; .* remove it"):
        restored(path, tmp_path / "killed")
    (tmp_path / "killed" / "store").mkdir()  # of a node that was started there
    (tmp_path / "killed" / "local.token").touch()
    with pytest.raises(StartupError, match=r"restore again \(local.token, store beside it is what a node made"):
        restored(path, tmp_path / "killed")
    with pytest.raises(StartupError, match="no such file"):
        restored(tmp_path / "none", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_a_later_version_made_is_refused_and_the_version_named(
    saved: Saved, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = newest_level()
    monkeypatch.setitem(HISTORY, known + 1, "of tomorrow")
    world.ok(RaiseLevel(known + 1))
    saved.apply(world)
    path = saved.save(tmp_path / "b")
    monkeypatch.delitem(HISTORY, known + 1)
    says = f"by version 1.2.3, of a cluster of level {known + 1}, and this version knows the levels up to {known}"
    with pytest.raises(StartupError, match=says):
        restored(path, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    verified = cli("cluster", "verify", "--unsigned", str(path))
    assert (verified.exit_code, says in verified.stderr) == (1, True), verified.output


def test_what_is_restored_is_its_owners_alone(saved: Saved, tmp_path: Path) -> None:
    restored(saved.save(tmp_path / "b"), tmp_path / "new")
    found = [path for path in (tmp_path / "new").rglob("*") if path.stat().st_mode & 0o077]
    assert found == []


def test_a_restored_state_is_sound_and_another_cluster(saved: Saved, world: World, tmp_path: Path) -> None:
    session = world.session("n1")
    world.session("n3")
    closed = world.session("n2")
    world.ok(CloseSession(closed, ()))
    key = world.run_now(world.create())
    world.assign(key, session)
    world.ok(c.PutNodeRule("n2", True, None, None))
    world.ok(c.PutNodeRule("n1", True, None, None))
    saved.apply(world)
    path = saved.save(tmp_path / "b")
    done = restored(path, tmp_path / "new", paused=True)
    store = Store.open(tmp_path / "new" / "store", sync=False)
    try:
        assert store.applied_index == store.commit_index == saved.index + INDEX_AHEAD == done.index
        assert store.log_bounds() == (done.index + 1, done.index)
        assert store.hard_state()[0] > world.meta.epoch
        assert store.hard_state()[1] is None
        with store.read() as view:
            meta = decode_meta(view.get(Table.META, b"meta"))
            assert not violations(view)
            assert decode_instance(view.get(Table.INSTANCES, key) or b"").state is InstanceState.LAUNCHED
            assert [k for k, _ in view.scan(Table.NODE_RULES)] == [b"n1"]
            assert sorted(k for k, _ in view.scan(Table.NODES)) == [b"n1", b"n3"]
        store_id = store.local("store_id")
        assert meta.members == (Member("n1", "127.0.0.1:9501", store_id or b""),)
        assert (meta.cluster_id.hex(), meta.paused, meta.members_at) == (done.cluster_id, True, done.index)
        assert meta.cluster_id != b"cluster"
        assert meta.last_token == world.meta.last_token + TOKENS_AHEAD
        index = done.index

        def apply(command: c.Command) -> c.Answer:
            nonlocal index
            index += 1
            entry = LogEntry(index, 2000, encode_entry(T0, [(9, index, [encode(command)])]))
            answers = commit(store, entry, hard_state=(2000, "n1"))[0].batches[0].answers
            assert answers is not None
            return answers[0]

        # the first leader ends the sessions of the old cluster; the run is lost by the rules there are
        assert isinstance(apply(OpenLeadership(2000, "n1")), c.Accepted)
        opened = OpenSession("n1", session, "another boot", b"nonce", 4, (), ("exec",), "h:1", "1")
        assert isinstance(apply(opened), c.Rejected)
        assert isinstance(apply(c.EndSession(session, 2000)), c.Accepted)
        assert isinstance(apply(opened), c.Accepted)
        with store.read() as view:
            row = decode_instance(view.get(Table.INSTANCES, key) or b"")
            assert row.state in (InstanceState.WAITING, InstanceState.RETRYING)
            assert not violations(view)
    finally:
        store.close()


def test_two_clusters_of_one_backup_are_two(saved: Saved, tmp_path: Path) -> None:
    path = saved.save(tmp_path / "b")
    hour_ms, found = 3_600_000, []
    for number in (1, 2):
        data = tmp_path / str(number)
        done = restore(path, data, "n1", "a:1", rng=Random(number), now_ms=T0 + number * hour_ms)
        store = Store.open(data / "store", sync=False)
        with store.read() as view:
            token = decode_meta(view.get(Table.META, b"meta")).last_token
        found.append((done.cluster_id, token, done.index, store.hard_state()[0]))
        store.close()
    (one, tokens, index, term), (two, tokens_2, index_2, term_2) = found
    assert one != two
    assert tokens_2 - tokens > hour_ms * 3, "what the first cluster can have given in an hour"
    assert index_2 - index > hour_ms
    assert term < term_2 < 2**31


def test_rows_that_are_none_are_refused_with_words(saved: Saved, tmp_path: Path) -> None:
    raw = saved.save(tmp_path / "b").read_bytes()
    hostile = tmp_path / "hostile"
    at = raw.index(b"meta", 2 * 4096) + 4  # the row of the cluster
    hostile.write_bytes(with_checksum(raw[:at] + b"\xc1" * 20 + raw[at + 20 : -TRAILER], raw[-TRAILER:]))
    verify(hostile)
    with pytest.raises(NotWhole, match="holds no state of a cluster"):
        verified_contents(hostile)
    with pytest.raises(StartupError, match="holds no state of a cluster"):
        restored(hostile, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_somebody_changed_ends_no_process(saved: Saved, world: World, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    saved.save(tmp_path / "b")
    saved.store.close()
    for what in (tmp_path / "b", saved.directory / "store"):
        words = [sys.executable, "-m", "tests.unit.store.hostile_backups", what, tmp_path, str(seed), "40"]
        found = subprocess.run(words, capture_output=True, text=True, check=False)
        print(found.stdout[-100:])
        assert found.returncode == 0, f"{found.returncode}: {found.stdout[-100:]} {found.stderr[-2000:]}"


def test_what_the_log_has_beyond_the_backup_is_brought_back(saved: Saved, world: World, tmp_path: Path) -> None:
    """The node had it on disk, and was not told any more that a majority had."""
    world.create(name="saved")
    saved.apply(world)
    path = saved.save(tmp_path / "b")
    told = world.create(name="told")
    saved.apply(world)
    kept = world.create(name="acknowledged")
    saved.store.write(WriteBatch(append=[LogEntry(saved.index + 1, 1, world.log[-1])]))
    assert saved.store.applied_index == saved.index, "it is not known to be committed"
    with pytest.raises(StartupError, match="old/store is in use; stop its node first"):
        restored(path, tmp_path / "new", log=saved.directory / "store")
    saved.store.close()
    done = restored(path, tmp_path / "new", log=saved.directory / "store")
    assert done.behind == 2
    store = Store.open(tmp_path / "new" / "store", sync=False)
    with store.read() as view:
        assert not violations(view)
        assert all(view.get(Table.JOBS, job.id.to_bytes(8, "big")) for job in (told, kept))
    store.close()
    assert not (tmp_path / "none").exists()
    with pytest.raises(StartupError, match=r"no log of a node that can be read in \S+/none/log: no such file"):
        restored(path, tmp_path / "other", log=tmp_path / "none")


def test_the_log_of_another_past_is_refused(saved: Saved, tmp_path: Path) -> None:
    path = saved.save(tmp_path / "b")
    other = Store.open(tmp_path / "other" / "store", sync=False)
    other.write(WriteBatch(append=[LogEntry(n, 7, b"") for n in range(1, 9)], hard_state=(7, None)))
    other.close()
    with pytest.raises(StartupError, match=r"does not go on from entry 2: entry 2: its term is 7, but one of 1 was"):
        restored(path, tmp_path / "new", log=tmp_path / "other" / "store")
    assert not (tmp_path / "new").exists()
