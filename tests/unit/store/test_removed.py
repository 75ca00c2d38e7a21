"""Files that are removed, replaced or hidden under an open store: no checkpoint is made of what is written there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from raftsched.store import Store
from tests.support.stores import checkpoint, commit
from tests.unit.store.test_state import create, dump


def removed(directory: Path) -> None:
    shutil.rmtree(directory)


def one_removed(directory: Path) -> None:
    (directory / "tables-1" / "data.mdb").unlink()


def log_removed(directory: Path) -> None:
    (directory / "log" / "data.mdb").unlink()


def replaced(directory: Path) -> None:
    data = directory / "tables-1" / "data.mdb"
    shutil.copy(data, directory / "copy")
    (directory / "copy").replace(data)


def hidden(directory: Path) -> None:
    """As by a file system that is mounted over it."""
    shutil.copytree(directory, directory.with_name("other"))
    directory.rename(directory.with_name("hidden"))
    directory.with_name("other").rename(directory)


@pytest.mark.parametrize("harm", [removed, one_removed, log_removed, replaced, hidden])
def test_the_node_ends_and_says_why(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    store = Store.open(tmp_path / "s")
    commit(store, create(1))
    checkpoint(store)
    harm(tmp_path / "s")
    commit(store, create(2))
    wanted = dump(store)
    with pytest.raises(OSError, match=r"was removed, replaced, or hidden .* not by this node.*data\.mdb"):
        checkpoint(store)
    assert dump(store) == wanted
    store.close()


def test_what_was_hidden_is_whole_when_it_is_there_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    commit(store, create(1))
    checkpoint(store)
    hidden(tmp_path / "s")
    for index in range(2, 40):
        commit(store, create(index))
        with pytest.raises(OSError, match="hidden"):
            checkpoint(store)
    wanted = dump(store)
    store.close()
    shutil.rmtree(tmp_path / "s")
    (tmp_path / "hidden").rename(tmp_path / "s")
    again = Store.open(tmp_path / "s")
    assert dump(again) == wanted
    again.close()
