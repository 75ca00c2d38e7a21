"""Outputs in an object store that are deleted: by whom, by which ages, and what is left alone."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from raftsched.errors import NoLeader
from raftsched.objectstore.opening import open_store
from raftsched.objectstore.store import Found, ObjectStoreError
from raftsched.output.following import pruning
from raftsched.output.following.objects import key_of, probe_key
from raftsched.output.following.places import Place
from raftsched.output.following.pruning import Pruner
from raftsched.output.format.segments import owner_of
from tests.support import s3
from tests.support.clock import ManualClock

CLUSTER, OTHER = "c0" * 16, "c1" * 16
DISK, BEFORE = b"disk-n1-", b"disk-old"
HOUR = 3_600_000


class Vault:
    """A store with objects of several ages, and the pruner of n1."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = open_store(str(directory))
        self.clock = ManualClock()
        self.confirmed = 0
        self.leads = True
        self.leaderless = False
        self.keep_ms, self.own = HOUR, dict[str, int]()
        self.published_ms: int | None = None  # what others than the event loop are told; None: the same
        self.loop = threading.get_ident()

    def put(self, node: str, age_ms: int, *, owner: str = "", disk: bytes = DISK, cluster: str = CLUSTER) -> str:
        segment = len(list(self.store.list())) + 1
        key = key_of(cluster, Place(node, disk, segment, owner, 0))
        self.put_at(key, age_ms)
        return key

    def put_at(self, key: str, age_ms: int) -> None:
        self.store.put(key, io.BytesIO(b"x" * 100))
        at_s = (self.clock.wall - age_ms) / 1000
        os.utime(self.directory / key, (at_s, at_s))

    async def _confirm(self) -> None:
        if self.leaderless:
            raise NoLeader("There is no leader.")
        self.confirmed += 1

    def _ages(self, owners: Collection[str]) -> tuple[int, Mapping[str, int]]:
        assert self.confirmed, "ages count once they are confirmed"
        if self.published_ms is not None and threading.get_ident() != self.loop:
            return self.published_ms, {}
        return self.keep_ms, {owner: ms for owner, ms in self.own.items() if owner in owners}

    def pruner(self, keep_bytes: int | None = None) -> Pruner:
        return Pruner(
            "n1", store=self.store, cluster=lambda: CLUSTER, confirm=self._confirm, ages=self._ages,
            members=lambda: {"n1", "n2"} if self.leads else None, keep_bytes=keep_bytes, clock=self.clock,
        )  # fmt: skip

    def look(self, keep_bytes: int | None = None) -> int:
        return asyncio.run(self.pruner(keep_bytes).prune_once())

    @property
    def keys(self) -> set[str]:
        return {found.key for found in self.store.list()}


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "vault")


def test_each_node_deletes_its_own_and_the_leader_those_of_who_is_gone(vault: Vault) -> None:
    old = {name: vault.put(name, HOUR + 1) for name in ("n1", "n2", "gone", "n11")}
    before = vault.put("n1", HOUR + 1, disk=BEFORE)
    fresh = {vault.put(name, HOUR - 1) for name in ("n1", "gone")}
    vault.leads = False
    assert vault.look() == 2
    assert vault.keys == {*fresh, old["n2"], old["gone"], old["n11"]}, f"{before} is of n1, too"
    vault.leads = True
    assert vault.look() == 2
    assert vault.keys == {*fresh, old["n2"]}, "n2 is a member, and sees to it itself"
    assert vault.look() == 0


def test_a_namespace_says_its_own_age(vault: Vault) -> None:
    short, long = owner_of("short"), owner_of("long")
    vault.own = {short: HOUR // 2, long: 9 * HOUR}
    kept = {vault.put("n1", HOUR - 1), vault.put("n1", 8 * HOUR, owner=long), vault.put("gone", 8 * HOUR, owner=long)}
    for node in ("n1", "gone"):
        vault.put(node, HOUR - 1, owner=short)
        vault.put(node, HOUR + 1, owner=owner_of("unknown"))
    assert vault.look() == 4
    assert vault.keys == kept


def test_without_a_leader_nothing_is_deleted(vault: Vault) -> None:
    old = vault.put("n1", 9 * HOUR)
    vault.leaderless = True
    for keep_bytes in (None, 1):
        with pytest.raises(NoLeader):
            vault.look(keep_bytes)
    assert vault.keys == {old}


def test_what_counts_is_what_was_confirmed_and_not_what_other_threads_still_see(vault: Vault) -> None:
    keys = {vault.put(node, 3 * HOUR) for node in ("n1", "gone")}
    vault.keep_ms, vault.published_ms = 9 * HOUR, HOUR
    assert vault.look() == 0
    assert vault.keys == keys
    vault.keep_ms = 2 * HOUR
    assert vault.look() == 2


def test_ages_that_change_while_a_list_is_read_are_those_that_count(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.put("n1", 3 * HOUR)
    listing = vault.store.list

    def slow(prefix: str = "") -> Iterator[Found]:
        yield from listing(prefix)
        vault.keep_ms = 9 * HOUR

    monkeypatch.setattr(vault.store, "list", slow)
    assert vault.look() == 0
    assert vault.confirmed == 2, "what was decided meanwhile is known, too"


def test_all_objects_are_looked_at_however_many_there_are(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    short = owner_of("short")
    vault.own = {short: HOUR // 2}
    kept = {vault.put("n1", HOUR - 1 - n) for n in range(5)}
    for n in range(3):
        vault.put("n1", HOUR // 2 + 1 + n, owner=short)
    monkeypatch.setattr(pruning, "LISTED_MAX", 2)
    monkeypatch.setattr(pruning, "JUDGED", 2)
    assert (vault.look(keep_bytes=700), vault.look()) == (2, 1)
    assert vault.keys == kept, "by age first: that made the room"


def test_what_is_not_of_this_form_or_cluster_is_left_alone(vault: Vault) -> None:
    foreign = [
        f"{CLUSTER}/full-0000000000000001-1-20260101T000000000Z.backup",
        f"{CLUSTER}/output/n1/notes.txt",
        f"{CLUSTER}/output/n1/00000001/somebody-else.dat",
        f"{CLUSTER}/output/n1/00000001/{DISK.hex()}-at-0",
        f"{CLUSTER}/output/N1/00000001/{DISK.hex()}-at-{0:013d}",
        f"{OTHER}/output/n1/00000001/{DISK.hex()}-at-{0:013d}",
        f"elsewhere/{CLUSTER}/output/n1/00000001/{DISK.hex()}-at-{0:013d}",
    ]
    for key in foreign:
        vault.put_at(key, 99 * HOUR)
    vault.put("n1", 99 * HOUR, cluster=OTHER)
    before = vault.keys
    assert vault.look(keep_bytes=1) == 0
    assert vault.keys == before


def test_the_oldest_go_for_room(vault: Vault) -> None:
    keys = [vault.put("n1", HOUR - 1 - minute) for minute in range(5)]
    other = vault.put("gone", 10)
    assert vault.look(keep_bytes=250) == 3
    assert vault.keys == {*keys[3:], other}, "the limit is of this node alone"


def test_room_is_counted_of_all_of_them(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "LISTED_MAX", 2)
    keys = [vault.put("n1", HOUR - 1 - n) for n in range(5)]
    assert vault.look(keep_bytes=350) == 2
    assert vault.keys == set(keys[2:])


def test_not_too_many_at_once(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "DELETED_MAX", 3)
    keys = [vault.put("n1", HOUR + 10 - n) for n in range(5)]
    assert vault.look() == 3
    assert vault.keys == set(keys[3:])


def test_what_cannot_be_deleted_is_said_and_tried_again(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    pruner = vault.pruner()
    vault.put("n1", 9 * HOUR)
    vault.leaderless = True
    assert not asyncio.run(pruner._prune())
    assert "could not be deleted: There is no leader." in caplog.text
    vault.leaderless = False
    assert asyncio.run(pruner._prune())
    assert (pruner.deleted, vault.keys) == (1, set())


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.S3]:
    with s3.serving() as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        yield service


@pytest.mark.parametrize("refused", ["PUT", "GET", "DELETE"])
def test_who_may_not_do_all_is_told_at_the_start(
    bucket: s3.S3, vault: Vault, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    vault.store = open_store("s3://vault/deep")
    pruner = vault.pruner()
    bucket.fault = lambda asked: 403 if asked.method == refused else None
    assert not asyncio.run(pruner._try())
    assert not asyncio.run(pruner._try())
    assert pruner.failing
    assert caplog.text.count("AccessDenied") == 1, "it is said once"
    bucket.fault = lambda asked: None
    assert asyncio.run(pruner._try())
    assert (pruner.failing, bucket.objects) == (False, {})
    vault.store.close()


def test_a_store_that_does_not_give_back_what_was_put_is_noticed(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault.store, "list", lambda prefix="": iter(()))
    with pytest.raises(ObjectStoreError, match="is not there as it was put"):
        pruning._probe(vault.store, probe_key(CLUSTER, "n1"))


def test_s3_says_when_it_was_put(bucket: s3.S3, vault: Vault) -> None:
    vault.store = open_store("s3://vault")
    vault.store.put(key_of(CLUSTER, Place("n1", DISK, 1, "", 0)), io.BytesIO(b"x"))
    (found,) = vault.store.list()
    assert found.put_at_ms == 1_767_323_045_000  # 2026-01-02T03:04:05Z, as the service says
    vault.clock.wall = found.put_at_ms + HOUR
    assert vault.look() == 0
    vault.clock.wall += 1
    assert vault.look() == 1
    vault.store.close()
