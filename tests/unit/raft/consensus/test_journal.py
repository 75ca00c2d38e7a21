"""The journal in front of the store: whatever is in memory, on the disk or in between, reads are the same."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from raftsched.raft import codec
from raftsched.raft.consensus.journal import Journal
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.membership.configuration import Membership
from raftsched.raft.options import RaftOptions
from tests.support.raft_replica import ManualWriter, Solo, append, entry
from tests.support.raft_store import MemoryStore
from tests.support.stores import checkpoint

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])

SMALL = RaftOptions(memory_max_entries=8, memory_max_bytes=10_000, keep_entries=10)


def write(journal: Journal, store: MemoryStore) -> None:
    batch = journal.take()
    store.write(batch)
    journal.done(batch)


def apply(journal: Journal, store: MemoryStore) -> None:
    """All that may be."""
    while ready := journal.to_apply(1 << 20):
        store.apply(ready)
        journal.applied(ready[-1])


def test_random_histories_read_like_a_plain_list() -> None:
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(60):
        store, model, running = MemoryStore(), [], None
        journal = Journal(store, replace(SMALL, keep_entries=10_000), ALL, Membership("b", (), ALL))
        for step in range(120):
            match rng.choice(["append", "append", "truncate", "take", "run", "commit", "apply", "checkpoint"]):
                case "append":
                    for _ in range(rng.randrange(1, 5)):
                        model.append((step, b""))
                        assert journal.append(step, b"") == len(model)
                case "truncate" if len(model) > journal.commit_index:
                    cut = rng.randrange(journal.commit_index, len(model))
                    del model[cut:]
                    journal.truncate_from(cut + 1)
                case "take" if running is None and journal.dirty:
                    running = journal.take()
                case "run" if running is not None:
                    store.write(running)
                    journal.done(running)
                    running = None
                case "commit" if model:
                    journal.set_commit(rng.randrange(len(model)) + 1)
                case "apply" if ready := journal.to_apply(rng.choice([1, 1 << 20])):
                    assert [(e.index, e.term) for e in ready] == [
                        (i, model[i - 1][0]) for i in range(journal.applied_index + 1, ready[-1].index + 1)
                    ]
                    assert ready[-1].index <= min(journal.commit_index, store.log_bounds()[1])
                    store.apply(ready)
                    journal.applied(ready[-1])
                case "checkpoint":
                    checkpoint(store)
            assert journal.last_index == len(model)
            assert journal.last_term == (model[-1][0] if model else 0)
            assert journal.durable_index <= len(model)
            for index in range(1, len(model) + 1):
                assert journal.term(index) == model[index - 1][0]
            first = rng.randrange(len(model)) + 1 if model else 1
            got = journal.entries(first, 1 << 20)
            assert [(e.index, e.term) for e in got] == [
                (first + i, t) for i, (t, _) in enumerate(model[first - 1 : first - 1 + len(got)])
            ]
            assert bool(got) is bool(model)
            if journal.durable_index and running is None:
                assert store.log_term(journal.durable_index) == model[journal.durable_index - 1][0]


def test_durable_is_what_a_finished_write_wrote() -> None:
    store = MemoryStore()
    journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
    journal.append(1, b"")
    batch = journal.take()
    journal.append(1, b"")
    assert journal.durable_index == 0
    store.write(batch)
    journal.done(batch)
    assert journal.durable_index == 1


def test_what_is_truncated_while_its_write_runs_is_not_durable() -> None:
    store = MemoryStore()
    journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
    for _ in range(3):
        journal.append(1, b"")
    batch = journal.take()
    journal.truncate_from(2)
    journal.append(2, b"")
    store.write(batch)
    journal.done(batch)
    assert journal.durable_index == 1
    write(journal, store)
    assert journal.durable_index == 2
    assert {i: t for i, (t, _) in store.log.items()} == {1: 1, 2: 2}


def test_memory_is_bounded_and_old_entries_come_from_the_store() -> None:
    store = MemoryStore()
    journal = Journal(store, replace(SMALL, keep_entries=1_000), ALL, Membership("b", (), ALL))
    for _ in range(50):
        journal.append(1, entry(1))
        journal.set_commit(journal.last_index)
        write(journal, store)
    assert len(journal._memory) <= SMALL.memory_max_entries
    assert [e.index for e in journal.entries(1, 5 * len(entry(1)))] == [1, 2, 3, 4, 5]


def test_what_is_not_durable_is_never_evicted() -> None:
    store = MemoryStore()
    journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
    for _ in range(100):
        journal.append(1, bytes(1_000))
    assert len(journal.entries(1, 1 << 30)) == 100


@pytest.mark.parametrize(("size", "kept"), [(1, 10), (1_000_000, 33)], ids=["by count", "by bytes"])
def test_compaction_keeps_a_bounded_tail(size: int, kept: int) -> None:
    store = MemoryStore()
    options = replace(SMALL, keep_entries=10 if size == 1 else 10_000, keep_bytes=1_000_000)
    journal = Journal(store, options, ALL, Membership("b", (), ALL))
    for _ in range(200):
        journal.append(1, bytes(size) if size == 1 else bytes(100_000))
        store.history.clear()
        write(journal, store)
    journal.applied_index = store.applied_index = store.checkpoint_index = 200  # without applying these bytes
    journal.append(1, b"")
    write(journal, store)
    first, last = store.log_bounds()
    assert last == 201
    assert 0 < last - first <= kept + 12
    assert journal.term(first) == 1


def test_the_byte_limit_counts_what_was_there_before_a_restart() -> None:
    store = MemoryStore()
    options = replace(SMALL, keep_entries=10_000, keep_bytes=1_000_000)
    for _ in range(5):
        journal = Journal(store, options, ALL, Membership("b", (), ALL))
        for _ in range(40):  # less than the limit in each life
            journal.append(1, bytes(20_000))
        write(journal, store)
        store.applied_index = journal.applied_index = store.checkpoint_index = journal.last_index
        journal.append(1, b"")
        write(journal, store)
        first, last = store.log_bounds()
        assert (last - first) * 20_000 <= options.keep_bytes + 33 * 20_000


def test_compaction_waits_for_a_snapshot_on_its_way_but_not_for_ever() -> None:
    for limit, first in ((10_000, 5), (2_000, 40)):
        store = MemoryStore()
        journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
        journal.pin(5, limit)
        for _ in range(50):
            journal.append(1, b"")
            journal.set_commit(journal.last_index)
            write(journal, store)
            apply(journal, store)
            checkpoint(store)
        assert abs(store.log_bounds()[0] - first) <= 1


def test_truncation_below_the_commit_index_raises() -> None:
    journal = Journal(MemoryStore(), SMALL, ALL, Membership("b", (), ALL))
    for _ in range(3):
        journal.append(1, b"")
    journal.set_commit(2)
    with pytest.raises(RuntimeError, match="below commit index 2"):
        journal.truncate_from(2)


def test_a_committed_entry_that_is_missing_is_a_damaged_log() -> None:
    store = MemoryStore()
    journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
    journal.append(1, b"")
    write(journal, store)
    journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
    journal.set_commit(1)
    store.log.clear()
    with pytest.raises(RuntimeError, match="not in the log"):
        journal.to_apply(1 << 20)


@both
def test_nothing_is_applied_before_it_is_in_the_log_on_this_disk(guarded: bool) -> None:
    """A checkpoint could have it, and after a crash the log would lack it."""
    store = MemoryStore()
    journal = Journal(store, SMALL, Guards(apply_only_durable=guarded), Membership("b", (), ALL))
    journal.append(1, b"")
    write(journal, store)
    journal.append(1, b"")
    batch = journal.take()
    journal.append(1, b"")
    journal.set_commit(3)  # a majority without this node has all of them
    assert [e.index for e in journal.to_apply(1 << 20)] == ([1] if guarded else [1, 2, 3])
    store.write(batch)
    journal.done(batch)
    assert [e.index for e in journal.to_apply(1 << 20)] == ([1, 2] if guarded else [1, 2, 3])


def test_no_more_is_applied_at_once_than_there_is_room_for() -> None:
    store = MemoryStore()
    journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
    for _ in range(3):
        journal.append(1, entry(1))
    write(journal, store)
    journal.set_commit(2)
    assert [e.index for e in journal.to_apply(1)] == [1]
    assert [e.index for e in journal.to_apply(3 * len(entry(1)))] == [1, 2], "what is not committed is not applied"
    apply(journal, store)
    assert journal.to_apply(1) == []


@both
@pytest.mark.parametrize("tail", [True, False], ids=["with a tail", "without"])
def test_the_log_keeps_what_a_crash_would_take_from_the_tables(guarded: bool, tail: bool) -> None:
    store = MemoryStore()
    guards = Guards(compaction_below_checkpoint=guarded, keep_log_tail=tail)
    journal = Journal(store, SMALL, guards, Membership("b", (), ALL))

    def commit() -> None:
        journal.append(1, entry(1))
        journal.set_commit(journal.last_index)
        write(journal, store)
        apply(journal, store)

    for _ in range(5):
        commit()
    checkpoint(store)
    for _ in range(40):
        commit()
    first = journal.first_index
    assert (first <= store.checkpoint_index + 1) is guarded
    if guarded:
        store.crash()
        assert store.applied_index == 45, "applied again from the log"
        checkpoint(store)
        commit()
        assert journal.first_index > first, "after another checkpoint it may go"


def test_a_commit_alone_is_not_written() -> None:
    """It goes along with what is written next; a node that lost it learns it again from the leader."""
    store = MemoryStore()
    journal = Journal(store, SMALL, ALL, Membership("b", (), ALL))
    journal.append(1, b"")
    write(journal, store)
    journal.set_commit(1)
    assert not journal.dirty
    journal.append(1, b"")
    assert journal.take().commit_index == 1


def test_nothing_waits_for_a_commit_to_be_on_the_disk(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", append(1, 0, 0, [1, 1]))
    writer.run()
    b.settle()
    b.sent.clear()
    b.feed("a", append(1, 2, 1, [], commit=2))
    assert writer.jobs == []
    assert [f.next_index for f in b.take(codec.AppendAnswer)] == [3]
    assert b.journal.applied_index == 2
