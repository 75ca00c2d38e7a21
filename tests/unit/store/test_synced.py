"""A write that has returned is on the disk: LMDB syncs its pages, and then the page by which it finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.store import Store
from tests.support.stores import commit
from tests.unit.store.test_state import create


def synced(store: Store) -> tuple[bool, bool]:
    """What LMDB does at each commit: (syncs its pages, syncs its meta page)."""
    flags = store._env.lmdb.flags()
    return flags["sync"], flags["metasync"]


def test_every_commit_is_synced_with_its_meta_page(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    assert synced(store) == (True, True)
    store.close()


def test_also_after_a_snapshot_has_replaced_the_store(tmp_path: Path) -> None:
    source = Store.open(tmp_path / "source", sync=False)
    commit(source, create(1), create(2))
    meta = source.copy(tmp_path / "copy")
    store = Store.open(tmp_path / "store")
    store.swap(store.prepare(tmp_path / "copy", meta))
    assert store.applied_index == 2
    assert synced(store) == (True, True)
    store.close()
    source.close()


@pytest.mark.parametrize(("sync", "metasync"), [(True, False), (False, True)])
def test_tests_can_do_without(tmp_path: Path, sync: bool, metasync: bool) -> None:
    store = Store.open(tmp_path / "store", sync=sync, metasync=metasync)
    assert synced(store) == (sync, metasync and sync)
    store.close()
