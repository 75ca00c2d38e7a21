"""Whose an output is: said beside it where that is asked for, and in nobody's way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftsched.core import commands as c
from raftsched.core.ids import instance_text, job_text
from raftsched.core.rules.executors import worker_key
from raftsched.output.format.records import whole_size
from raftsched.output.format.spool import STDOUT, pack
from raftsched.output.keeping.owner_record import (
    NAMED_MAX,
    OutputOwner,
    body_of,
    owner_of_local,
    owner_of_run,
    read_body,
)
from raftsched.output.keeping.store import Record
from raftsched.worker.tasks.tasks import env_of
from tests.support.memory_view import MemoryView, World
from tests.unit.output.stores import Opened

LONGEST = OutputOwner("n" * 64, "j" * 128, "0" * 13 + "@1893456000000-" + "f" * 16, 1_000_000, "w" * 128)


def record(token: int, text: bytes, owner: OutputOwner | None = LONGEST, namespace: str = "") -> Record:
    return Record(token, 1_000, pack(STDOUT, text), namespace=namespace, owner=owner)


def test_it_is_written_and_read() -> None:
    assert read_body(body_of(LONGEST)) == LONGEST
    assert len(body_of(LONGEST)) <= NAMED_MAX
    for other in (b"", pack(STDOUT, b"text"), body_of(LONGEST)[:-1], b"\x04\x00\x00\x00\x00"):
        assert read_body(other) is None


@pytest.mark.parametrize("says", [True, False])
def test_outputs_are_read_as_ever(opened: Opened, tmp_path: Path, says: bool) -> None:
    store = opened(writes_owners=says, share_of=lambda namespace: 1 << 30 if namespace else None)
    refs = store.append(
        [record(1, b"one"), record(2, b"two", None), record(3, b"three"), record(4, b"own", namespace="a")]
    )
    for ref, token, text in zip(refs, (1, 2, 3, 4), (b"one", b"two", b"three", b"own"), strict=True):
        assert ref is not None
        assert store.read(ref) == text
        assert store.open(ref, token=token).read(0) == text
    store.close()
    again = opened()  # also by a version that knows nothing of it
    assert [again.read(ref) for ref in refs if ref is not None] == [b"one", b"two", b"three", b"own"]
    raw = (tmp_path / "seg-00000001.dat").read_bytes()
    assert raw.count(b"j" * 128) == (2 if says else 0)


def test_where_nobody_ships_a_segment_is_what_it_ever_was(opened: Opened, tmp_path: Path) -> None:
    for name, owner in (("with", LONGEST), ("without", None)):
        opened(tmp_path / name).append([record(1, b"one", owner)])
    with_it, without = ((tmp_path / name / "seg-00000001.dat").read_bytes() for name in ("with", "without"))
    assert with_it == without


def test_a_write_that_fails_leaves_neither(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(writes_owners=True)
    store.append([record(1, b"one")])
    size = store.size()
    monkeypatch.setattr(os, "fdatasync", _full)
    with pytest.raises(OSError, match="full"):
        store.append([record(2, b"two")])
    assert store.size() == size == (tmp_path / "seg-00000001.dat").stat().st_size


def _full(fd: int) -> None:
    raise OSError(28, "full")


def test_a_torn_end_is_not_counted_to_what_is_whole(opened: Opened, tmp_path: Path) -> None:
    store = opened(writes_owners=True)
    store.append([record(1, b"one")])
    kept = store.size()
    store.append([record(2, b"two")])
    store.close()
    path = tmp_path / "seg-00000001.dat"
    for end in (kept + 10, store.size() - 1):
        os.truncate(path, end)
        fd = os.open(path, os.O_RDONLY)
        assert whole_size(fd) in (kept, kept + len(body_of(LONGEST)) + 64)
        os.close(fd)


def test_who_looks_at_the_tables_and_who_was_told_say_the_same() -> None:
    world = World(MemoryView())
    number = world.ok(c.OpenWorker(worker_key("w1"), 0, b"w1".ljust(16), slots=4, handlers=("exec",))).number
    assert number is not None
    key = world.run_now(world.create())
    token = world.ok(c.Assign(key, number)).number
    assert token is not None
    found = owner_of_run(world.view, number, token)
    instance = world.instance(key)
    job = world.job(instance.job_id)
    assert instance.live is not None
    assert found == OutputOwner(job.namespace, job.name or job_text(job.id), instance_text(key), 1, "w1")
    told = owner_of_local(job.namespace, env_of(job, instance, instance.live))
    assert told == OutputOwner(job.namespace, found.job, found.instance, 1), (
        "without the worker: nodes say it of their own"
    )
    assert owner_of_run(world.view, number, token + 1) is None
    assert owner_of_local("a", {}) is None
