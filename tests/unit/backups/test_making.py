"""Rounds of a habit of backups: what each adds, and that every point in time can be restored, as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.backups.making import Round, WentBack, retain
from raftsched.backups.names import Full, Segment
from raftsched.backups.points import NotKept, Points, Way
from raftsched.backups.repository import Repository
from raftsched.backups.verifying import made, verified
from raftsched.bounds import MINUTE_MS
from raftsched.core.apply import tx
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.namespace import Namespace, PutNamespace
from raftsched.objectstore.directory import Directory
from raftsched.objectstore.store import ObjectStoreError, Source
from raftsched.security.keyring import Keyring
from raftsched.security.sealed_backup import MAGIC, new_identity
from raftsched.store.backup import NotABackup
from tests.unit.backups.house import CLUSTER, ENTRIES, MAP, Saved, rows_in

ID = CLUSTER.hex()
NEVER = 10**12
KEYS = Keyring(b"of these tests, as many bytes as others have")


class Bed:
    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.saved = Saved(tmp_path / "store", KEYS)
        self.store = Directory(tmp_path / "vault")
        self.repository = Repository(self.store, keys=KEYS)
        self.scratch = tmp_path / "scratch"
        self.scratch.mkdir()
        self.made = 0

    def round(self, full_every_ms: int = NEVER, repository: Repository | None = None) -> str:
        """What a round has added: F and S for each full backup and segment, G for a gap."""
        found = Round(repository or self.repository, self.saved, self.scratch).add(full_every_ms)
        assert not list(self.scratch.iterdir())
        return "F" * (found.full is not None) + "S" * found.segments + "G" * found.gap

    @property
    def points(self) -> Points:
        return self.repository.points(ID)

    def same(self, way: Way, repository: Repository | None = None) -> None:
        """The state that a way leads to is the one that there was."""
        self.made += 1
        work = self.tmp_path / f"made-{self.made}"
        work.mkdir()
        state = made(repository or self.repository, way, work, map_bytes=MAP)
        assert state.index == way.index
        assert rows_in(state.directory) == self.saved.rows(way.index)

    def every_point(self) -> list[int]:
        return [index for one in self.points.stretches() for index in range(one.first, one.last + 1)]


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    yield made
    made.saved.store.close()


def test_a_full_backup_at_first_then_the_log_and_each_point_is_as_it_was(bed: Bed) -> None:
    bed.saved.jobs(3)
    assert bed.round() == "F"
    assert bed.round() == ""
    bed.saved.jobs(7)
    assert bed.round() == "SS"
    assert bed.saved.states == 1
    assert bed.every_point() == list(range(5, 13))
    for index in (5, 6, 10, 11, 12):
        bed.same(bed.points.way_to(index))


def test_a_full_backup_that_is_due_leaves_no_gap_before_it(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.saved.jobs(3)
    bed.round()
    bed.saved.jobs(4)
    state = bed.saved.state

    def busy(target: Path) -> None:
        bed.saved.jobs(2)  # between the log and the backup
        state(target)
        bed.saved.jobs(1)

    monkeypatch.setattr(bed.saved, "state", busy)
    assert bed.round(4 * MINUTE_MS) == "FSS"
    assert bed.every_point() == list(range(5, 13))
    assert [full.index for full in bed.points.fulls] == [5, 11]
    found = verified(bed.repository, bed.points, bed.scratch, map_bytes=MAP)
    assert found.compared == (5, 11)
    assert (found.state.index, found.way.full.index) == (12, 11)
    assert found.state.contents.jobs == {"SCHEDULED": 10}
    assert rows_in(found.state.directory) == bed.saved.rows(12)


def test_a_point_by_time_is_the_newest_entry_that_is_not_of_later(bed: Bed) -> None:
    bed.saved.jobs(2)
    bed.round()
    bed.saved.jobs(6)
    bed.round()
    first, last = bed.points.fulls[0].index, bed.points.last_index
    for index in range(first, last + 1):
        at_ms = bed.saved.at_ms(index)
        for late in (0, MINUTE_MS - 1):
            assert bed.repository.way_at(bed.points, at_ms + late).index == index
    assert bed.repository.way_at(bed.points, NEVER * 1000).index == last
    with pytest.raises(NotKept, match="the oldest state is of 2025-11"):
        bed.repository.way_at(bed.points, bed.saved.at_ms(first) - 1)


def test_what_is_missing_before_an_earlier_backup_is_fetched_again_while_the_log_has_it(bed: Bed) -> None:
    bed.saved.jobs(1)
    bed.round()
    for _ in range(3):
        bed.saved.jobs(ENTRIES)
        bed.round()
    bed.saved.jobs(1)
    assert bed.round(0) == "FS"
    (lost, _, _, _) = bed.points.segments
    bed.repository.delete([lost])
    hole = bed.points
    assert [(one.first, one.last) for one in hole.stranded()] == [(lost.last + 1, hole.fulls[-1].index - 1)]
    bed.saved.asked.clear()
    bed.saved.jobs(1)
    assert bed.round() == "SS"
    assert bed.saved.asked == [lost.first - 1, hole.last_index], "no more than is missing"
    assert (bed.points.stranded(), bed.points.missing()) == ([], [])
    bed.same(bed.points.way_to(lost.first))
    bed.repository.delete([lost])
    bed.saved.drop_below(lost.last)
    assert bed.round() == "", "it is gone, which is said by what lists and verifies"
    assert len(bed.points.stranded()) == 1


def test_a_log_that_no_longer_goes_back_makes_a_full_backup_and_says_so(bed: Bed) -> None:
    bed.saved.jobs(2)
    bed.round()
    bed.saved.jobs(5)
    bed.saved.drop_below(8)
    assert bed.round() == "FG"
    bed.saved.jobs(2)
    assert bed.round() == "S"
    assert bed.every_point() == [4, *range(9, 12)]
    with pytest.raises(NotKept, match="the nearest that can are --at 4 and --at 9"):
        bed.points.way_to(6)
    with pytest.raises(NotKept, match="nothing is kept of that time"):
        bed.repository.way_at(bed.points, bed.saved.at_ms(6))


@pytest.mark.parametrize("round_of", [1, 2, 3])
def test_a_round_that_ends_at_any_put_or_delete_is_made_up_for(
    bed: Bed, round_of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by kill -9, by a store that is full, or by one that is not reached."""
    left = 0

    def put(key: str, source: Source) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise ObjectStoreError("full")
        return real(key, source)

    real = bed.store.put
    for minutes in range(6):
        bed.saved.jobs(6)
        monkeypatch.setattr(bed.store, "put", put)
        left = (minutes * round_of) % 3
        try:
            bed.round(10 * MINUTE_MS)
        except ObjectStoreError:
            pass
        monkeypatch.undo()
        points = bed.every_point()
        assert points == list(range(points[0], points[-1] + 1)) if points else True
    bed.round(10 * MINUTE_MS)
    assert bed.points.last_index == bed.saved.store.applied_index
    assert len(bed.points.stretches()) == 1
    bed.same(bed.points.way_to(None))


@pytest.mark.parametrize("last_put", [1, 2, 3])
def test_a_round_that_ends_just_after_any_put_leaves_no_gap(
    bed: Bed, last_put: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.saved.jobs(3)
    bed.round()
    bed.saved.jobs(4)
    state, put, left = bed.saved.state, bed.store.put, last_put

    def busy(target: Path) -> None:
        bed.saved.jobs(3)  # of which no segment has anything yet
        state(target)

    def ends(key: str, source: Source) -> int:
        nonlocal left
        size = put(key, source)
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return size

    monkeypatch.setattr(bed.saved, "state", busy)
    monkeypatch.setattr(bed.store, "put", ends)
    with pytest.raises(KeyboardInterrupt):
        bed.round(4 * MINUTE_MS)
    monkeypatch.undo()
    bed.saved.jobs(1)
    bed.round()
    assert bed.every_point() == list(range(5, bed.saved.store.applied_index + 1))


def test_two_at_once_do_no_harm(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.saved.jobs(3)
    bed.round()
    bed.saved.jobs(4)
    log, others = bed.saved.log, ["another process"]

    def slow(after: int) -> tuple[bytes, int]:
        found = log(after)
        if others:  # it does all of it meanwhile, and more has happened by then
            others.clear()
            bed.saved.jobs(1)
            assert bed.round(MINUTE_MS) == "FS"
        return found

    monkeypatch.setattr(bed.saved, "log", slow)
    assert bed.round(MINUTE_MS) == "FSS"
    bed.saved.jobs(1)
    bed.round()
    assert len(bed.points.segments) == 4, "two of them begin with the same entry"
    assert len(bed.points.stretches()) == 1
    for index in bed.every_point():
        bed.same(bed.points.way_to(index))


def test_a_cluster_that_went_back_is_not_mixed_with_what_there_was(bed: Bed, tmp_path: Path) -> None:
    bed.saved.jobs(8)
    bed.round()
    bed.saved.jobs(2)
    bed.round()
    before = [found.key for found in bed.store.list()]
    shorter = Bed(tmp_path / "shorter") if (tmp_path / "shorter").mkdir() is None else bed
    shorter.repository = bed.repository
    shorter.saved.jobs(3)
    with pytest.raises(WentBack):
        shorter.round()
    shorter.saved.term = 2  # it has forgotten entries, and written others since
    shorter.saved.jobs(9)
    with pytest.raises(WentBack, match="is of term 2 in the cluster and of term 1"):
        shorter.round()
    assert [found.key for found in bed.store.list()] == before
    shorter.saved.store.close()


def test_retention_keeps_the_points_that_are_asked_for(bed: Bed) -> None:
    bed.saved.jobs(2)
    bed.round()
    for _ in range(4):
        bed.saved.jobs(10)
        bed.round(10 * MINUTE_MS)
    newest = bed.points.last_index
    now_ms = bed.saved.at_ms(newest)
    assert len(bed.points.fulls) == 5
    assert retain(bed.repository, ID, 15 * MINUTE_MS, 1, now_ms) > 0
    points = bed.every_point()
    assert points == list(range(points[0], newest + 1))
    assert newest - 25 <= points[0] <= newest - 15
    assert retain(bed.repository, ID, 15 * MINUTE_MS, 1, now_ms) == 0
    bed.same(bed.points.way_to(points[0]))
    retain(bed.repository, ID, 0, 1, now_ms)
    assert len(bed.points.fulls) == 1
    bed.same(bed.points.way_to(None))


def test_sealed_ones_need_the_identity_and_names_say_enough_to_go_on_without(bed: Bed, tmp_path: Path) -> None:
    identity, recipient = new_identity()
    sealed = Repository(bed.store, recipient=recipient, keys=KEYS)
    bed.saved.jobs(3)
    assert bed.round(repository=sealed) == "F"
    bed.saved.jobs(3)
    assert bed.round(repository=sealed) == "S"
    assert all(file.read_bytes().startswith(MAGIC) for file in (tmp_path / "vault").rglob("*.*") if file.is_file())
    way = sealed.points(ID).way_to(None)
    with pytest.raises(NotABackup, match="is sealed; say --identity FILE"):
        bed.same(way)
    with pytest.raises(NotABackup, match="was sealed for another recipient"):
        bed.same(way, Repository(bed.store, identity=new_identity()[0], keys=KEYS))
    bed.same(way, Repository(bed.store, identity=identity, keys=KEYS))


def test_what_another_signed_is_not_stored_and_not_restored(bed: Bed) -> None:
    stranger = Repository(bed.store, keys=Keyring(b"another key, with as many bytes in it"))
    with pytest.raises(NotABackup, match="not among these"):
        bed.round(repository=stranger)
    bed.saved.jobs(3)
    bed.round()
    bed.saved.jobs(3)
    with pytest.raises(NotABackup, match="not among these"):
        bed.round(repository=stranger)
    bed.round()
    with pytest.raises(NotABackup, match="not among these"):
        bed.same(bed.points.way_to(None), stranger)


def files(bed: Bed) -> tuple[Path, Path]:
    """The files of the full backup and of the only segment."""
    (full,), (segment,) = bed.points.fulls, bed.points.segments
    vault = Path(bed.store.where)
    return vault / full.key, vault / segment.key


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("harm", ["flipped", "cut", "empty", "renamed", "other"])
def test_files_that_are_not_what_was_stored_are_refused(bed: Bed, which: int, harm: str) -> None:
    bed.saved.jobs(3)
    bed.round()
    bed.saved.jobs(3)
    bed.round()
    file, way = files(bed)[which], bed.points.way_to(None)
    raw = file.read_bytes()
    if harm == "renamed":
        name: Full | Segment = way.full._replace(term=9) if which == 0 else way.segments[0]._replace(term=9)
        file.rename(Path(bed.store.where) / name.key)
        way = Way(name, (), name.index) if isinstance(name, Full) else Way(way.full, (name,), way.index)
    else:
        changed = {
            "flipped": raw[:300] + bytes((raw[300] ^ 1,)) + raw[301:],
            "cut": raw[:-9],
            "empty": b"",
            "other": b"what a stranger has put there" * 99,
        }
        file.write_bytes(changed[harm])
    with pytest.raises((NotABackup, ObjectStoreError)) as refused:
        bed.same(way)
    assert "\n" not in str(refused.value)


def test_other_files_and_clusters_are_left_alone(bed: Bed, tmp_path: Path) -> None:
    bed.saved.jobs(3)
    bed.round()
    (tmp_path / "vault" / ID / "notes.txt").write_bytes(b"mine")
    other = tmp_path / "vault" / ("cd" * 16)
    other.mkdir()
    (other / Full("cd" * 16, 7, 1, 0).key.partition("/")[2]).write_bytes(b"x")
    assert {cluster: len(points.fulls) for cluster, points in bed.repository.clusters().items()} == {
        ID: 1,
        "cd" * 16: 1,
    }
    retain(bed.repository, ID, 0, 1, NEVER * 1000)
    assert (tmp_path / "vault" / ID / "notes.txt").exists()
    assert len(list(other.iterdir())) == 1


def test_a_state_that_the_log_does_not_lead_to_is_noticed(bed: Bed) -> None:
    bed.saved.jobs(3)
    bed.round()
    bed.saved.jobs(3)
    real, bed.saved.world.log[-1] = bed.saved.world.log[-1], bed.saved.world.log[-2]
    other = Saved(bed.tmp_path / "other", KEYS)  # a node that applied something else
    other.world.log[:] = bed.saved.world.log
    other.follow()
    bed.saved.world.log[-1] = real
    bed.saved.state = other.state  # type: ignore[method-assign]
    bed.round(MINUTE_MS)
    with pytest.raises(NotABackup, match="is another in"):
        verified(bed.repository, bed.points, bed.scratch, map_bytes=MAP)
    other.store.close()


def test_a_row_that_an_earlier_version_wrote_says_the_same(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """While versions are mixed, one node writes a field at its default, and another one does not know it."""
    bed.saved.world.do(PutNamespace("ops", b"{}"))
    bed.saved.jobs(3)
    bed.round()
    bed.saved.jobs(3)
    other = Saved(bed.tmp_path / "other", KEYS)
    other.world.log[:] = bed.saved.world.log
    encode = tx.encode_row

    def earlier(row: Any) -> bytes:
        fields = msgspec.msgpack.decode(encode(row))
        if isinstance(row, Namespace):
            fields = fields[:-1]
        elif isinstance(row, Meta):
            at = row.__struct_fields__.index("settings")
            fields[at] = fields[at][:-1]
        return msgspec.msgpack.encode(fields)

    with monkeypatch.context() as version:
        version.setattr(tx, "encode_row", earlier)
        other.follow()
    bed.saved.state = other.state  # type: ignore[method-assign]
    bed.round(MINUTE_MS)
    monkeypatch.undo()
    found = verified(bed.repository, bed.points, bed.scratch, map_bytes=MAP)
    assert found.compared == (6, 9)
    other.store.close()
