"""Any sequence of commands: nothing raises, all invariants hold after every entry, and one log gives the same bytes
however it is cut into turns, with a snapshot half way, in memory and on disk."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.core.apply import Applier
from raftsched.core.apply.jobs import bulk, lifecycle
from raftsched.core.apply.resources import calendar_edits
from raftsched.core.apply.runs import attempts
from raftsched.core.apply.tx import Tx
from raftsched.core.model import Instance
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.tables import ReadView, Table
from raftsched.store import LogEntry, Store, WriteBatch
from tests.property.author import Author
from tests.support.amounts import examples
from tests.support.invariants import violations
from tests.support.memory_view import MemoryView
from tests.support.stores import checkpoint, commit

SEEDS = st.integers(0, 2**32)


def dump(view: ReadView) -> dict[str, list[tuple[bytes, bytes]]]:
    return {table.name: list(view.scan(table)) for table in Table}


def stored(store: Store) -> dict[str, list[tuple[bytes, bytes]]]:
    with store.read() as view:
        return dump(view)


@settings(max_examples=examples(60))
@given(SEEDS)
def test_invariants_hold_and_the_log_replays(seed: int) -> None:
    note(f"seed {seed}")
    author = Author(seed)
    log = author.write(150)
    again = MemoryView()
    position = 0
    cuts = random.Random(seed)
    applier = Applier(again)
    while position < len(log):  # one applier for several entries, as in a write, and for several of these
        if cuts.random() < 0.2:
            applier = Applier(again)
        for _ in range(cuts.choice([1, 1, 3, 20])):
            if position < len(log):
                position += 1
                applier.entry(position, 1, log[position - 1])
        applier.close()
    assert again.dump() == author.view.dump()


@settings(max_examples=examples(15))
@given(SEEDS)
def test_invariants_hold_where_the_limits_of_the_code_bite(seed: int) -> None:
    note(f"seed {seed}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycle, "REVISIONS_MAX", 2)
        patch.setattr(attempts, "HANDED_BACK_MAX", 1)
        patch.setattr(calendar_edits, "AT_ONCE", 1)
        patch.setattr(bulk, "KEPT_MAX", 2)
        patch.setattr(bulk, "RUNNING_MAX", 1)
        patch.setattr(bulk, "REFUSALS_MAX", 1)
        Author(seed).write(150)


@settings(max_examples=examples(8))
@given(SEEDS)
def test_on_disk_cut_into_turns_through_a_snapshot_and_a_crash(seed: int) -> None:
    note(f"seed {seed}")
    author = Author(seed)
    log = author.write(120)
    entries = [LogEntry(index, 1, data) for index, data in enumerate(log, 1)]
    cuts = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="replay-"))
    stores = [Store.open(directory / name, sync=False) for name in ("whole", "cut")]
    try:
        whole, cut = stores
        for entry in entries:
            commit(whole, entry)
        half = cuts.randint(1, len(entries) - 1)
        position = 0
        while position < half:
            end = min(half, position + cuts.choice([1, 2, 9, 40]))
            part = entries[position:end]
            cut.write(WriteBatch(append=part, commit_index=end))
            while part:  # as Raft does, whatever one write had
                some = cuts.randint(1, len(part))
                cut.apply(part[:some])
                part = part[some:]
                if cuts.random() < 0.3:
                    cut.publish()
            if cuts.random() < 0.3:
                checkpoint(cut)
            position = end
        cut.publish()
        meta = cut.copy(directory / "snapshot")
        fresh = Store.open(directory / "fresh", sync=False)
        stores.append(fresh)
        fresh.swap(fresh.prepare(directory / "snapshot", meta))
        assert stored(fresh) == stored(cut)
        rest = entries[half:]
        for store in (cut, fresh):
            commit(store, *rest)
            assert stored(store) == stored(whole) == author.view.dump()
            assert store.applied_index == len(entries)
        with cut.read() as view:
            assert not violations(view)
        shutil.copytree(directory / "cut", directory / "killed")  # it has its last checkpoint, and the log
        killed = Store.open(directory / "killed", sync=False)
        stores.append(killed)
        assert stored(killed) == stored(whole)
    finally:
        for store in stores:
            store.close()
        shutil.rmtree(directory)


_SEEDS = iter(range(1_000))
_REACHED: set[Table] = set()  # by the authors of the seeds so far; the same for all tables, which ask in turn


@pytest.mark.parametrize("table", [t for t in Table if t not in (Table.META, Table.SESSIONS, Table.NODES)])
def test_the_author_reaches_every_table(table: Table) -> None:
    """Else the tests above would prove little."""
    while table not in _REACHED:
        seed = next(_SEEDS)
        author = Author(seed, key=Concurrency("k", "k", 1, 2, 60_000) if seed % 3 == 0 else None)
        author.write(120)
        _REACHED.update(one for one in Table if next(iter(author.view.scan(one)), None) is not None)


class WrittenAtOnce(Tx):
    """A transaction that writes what is made in an entry when it is made."""

    def put_new(self, instance: Instance, key: bytes) -> None:
        self.put_instance(instance, key)


@settings(max_examples=examples(60))
@given(SEEDS)
def test_what_an_entry_makes_may_be_written_at_its_end(seed: int) -> None:
    note(f"seed {seed}")
    views = MemoryView(), MemoryView()
    plain, at_once = (Applier(view) for view in views)
    at_once._tx = WrittenAtOnce(views[1])
    for index, data in enumerate(Author(seed).write(150), 1):
        assert plain.entry(index, 1, data) == at_once.entry(index, 1, data)
    plain.close()
    at_once.close()
    assert views[0].dump() == views[1].dump()
