"""Second copies of output: what is sent, to whom, and when again."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.following import copier
from raftsched.output.following.copier import Copier
from raftsched.output.following.copies import CopyStore, Piece
from raftsched.output.following.places import in_order
from raftsched.output.following.sent import Part, Sent
from raftsched.output.following.to_nodes import ToNodes
from raftsched.output.format.records import HEADER_SIZE
from raftsched.output.format.segments import owner_of
from tests.unit.output.house import Origin, damage

STORE = b"disk-n1-"
GIB = 1 << 30


class Cluster(Origin):
    """n1, whose output is copied, and others that take it, unless they are down."""

    def __init__(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, others: Collection[str] = ("n2", "n3")
    ) -> None:
        monkeypatch.setattr(copier, "BYTES_PER_S", 1 << 40)
        super().__init__(directory, 4_000)
        self.members = {node: node.encode() for node in others}
        self.stores = {node: CopyStore(directory / node, keep_bytes=GIB) for node in others}
        self.down: set[str] = set()
        self.pieces: list[tuple[str, Piece]] = []
        self.begin()

    def begin(self) -> None:
        """n1 starts, perhaps again."""
        self.output = self.opened(self.directory / "n1")
        self.sent = Sent(self.directory / "n1" / "copied", STORE)
        self.nodes = ToNodes("n1", STORE, lambda: self.members, self._send)
        self.copier = Copier(self.output, self.sent, self.nodes, self.copies, self.clock)

    async def _send(self, node: str, piece: Piece) -> None:
        if node in self.down:
            raise RaftschedError("output-unavailable", f"Node {node} does not answer.")
        self.stores[node].take(node="n1", piece=piece, now_ms=self.clock.wall)
        self.pieces.append((node, piece))

    @property
    def segment(self) -> Path:
        """The first one of n1."""
        return self.directory / "n1" / "seg-00000001.dat"

    def look(self) -> int:
        """Returns how many pieces were sent."""
        before = len(self.pieces)
        asyncio.run(self.copier.look())
        asyncio.run(self.copier.measure())
        return len(self.pieces) - before

    def read(self, ref: OutputRef, token: int) -> dict[str, str]:
        """What the copies of each node have."""
        found = {}
        for node, store in self.stores.items():
            text = store.open("n1", ref, token=token)
            if text is not None:
                found[node] = text.read(0).decode()
        return found


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def test_each_output_has_one_copy_on_another_node(cluster: Cluster) -> None:
    printed = {f"number {n} " * 30: cluster.print(f"number {n} " * 30) for n in range(40)}
    assert cluster.copier.waiting_since_ms is None  # not looked yet
    assert cluster.look() > 0
    for text, (ref, token) in printed.items():
        assert list(cluster.read(ref, token).values()) == [text]
    assert {node for node, _ in cluster.pieces} == {"n2", "n3"}, "segments go to different nodes"
    assert (cluster.copier.waiting_bytes, cluster.copier.waiting_since_ms) == (0, None)
    assert cluster.look() == 0
    assert cluster.sent.changed is False


def test_what_comes_later_goes_on_in_the_same_file(cluster: Cluster) -> None:
    refs = []
    for n in range(5):
        refs.append(cluster.print(f"{n}"))
        assert cluster.look() == 1
    assert len({node for node, _ in cluster.pieces}) == 1
    assert len(list(cluster.directory.glob("n[23]/*/seg-*"))) == 1
    assert [list(cluster.read(*one).values()) for one in refs] == [[f"{n}"] for n in range(5)]


def test_nothing_is_sent_where_nobody_asked_for_it(cluster: Cluster) -> None:
    cluster.most = 1
    plain = cluster.print("plain")
    cluster.own = {owner_of("wanted"): 2, owner_of("not"): 1}
    wanted, refused = cluster.print("wanted", "wanted"), cluster.print("not wanted", "not")
    cluster.look()
    assert cluster.read(*plain) == cluster.read(*refused) == {}
    assert list(cluster.read(*wanted).values()) == ["wanted"]
    cluster.most = 2
    cluster.look()
    assert list(cluster.read(*plain).values()) == ["plain"], "what is kept already has a copy from then on"
    assert cluster.read(*refused) == {}


def test_a_restart_sends_what_was_not_sent_and_nothing_else(cluster: Cluster) -> None:
    first = cluster.print("before")
    cluster.look()
    second = cluster.print("not sent yet")
    sent = len(cluster.pieces)
    cluster.output.close()
    cluster.begin()
    assert cluster.look() == 1
    assert cluster.pieces[sent][1].offset > 0
    assert list(cluster.read(*first).values()) == ["before"]
    assert list(cluster.read(*second).values()) == ["not sent yet"]


def test_without_its_notes_all_is_sent_again_and_is_the_same(cluster: Cluster) -> None:
    ref, token = cluster.print("once more")
    cluster.look()
    for content in (None, b"torn"):
        notes = cluster.directory / "n1" / "copied"
        notes.unlink() if content is None else notes.write_bytes(content)
        cluster.output.close()
        cluster.begin()
        assert cluster.look() == 1
        assert list(cluster.read(ref, token).values()) == ["once more"]
    assert sum(store.size() for store in cluster.stores.values()) == cluster.output.size()


def test_the_notes_of_0_2_0_count_and_it_can_read_ours(tmp_path: Path) -> None:
    path = tmp_path / "copied"
    path.write_bytes(msgspec.msgpack.encode((STORE, {1: [(0, 100, "n2", b"n2")]})))
    sent = Sent(path, STORE)
    assert list(sent.gaps(1, 150)) == [(100, 150)]
    sent.add(1, Part(0, 150, "n2", b"n2"))
    sent.write()
    assert msgspec.msgpack.decode(path.read_bytes()) == [STORE, {1: [[0, 150, "n2", b"n2"]]}]


def test_a_node_that_is_down_is_left_out_and_asked_again_later(cluster: Cluster) -> None:
    (first, other) = in_order("n1", 1, cluster.members)
    cluster.down = {first}
    one = cluster.print("one")
    cluster.look()
    assert cluster.read(*one) == {other: "one"}
    assert cluster.copier.failures == 1
    cluster.down = {first, other}
    two = cluster.print("two")
    cluster.look()
    cluster.look()
    assert cluster.copier.failures == 2, "neither is asked again at once"
    assert (cluster.copier.waiting_bytes > 0, cluster.copier.waiting_since_ms) == (
        True,
        cluster.clock.wall,
    )
    cluster.down = set()
    assert cluster.look() == 0
    cluster.clock.forward(Copier.retry_ms)
    cluster.look()
    assert cluster.read(*two) == {other: "two"}, "where it has begun it goes on"
    assert cluster.copier.waiting_since_ms is None


def test_a_node_that_lost_its_disk_or_has_left_is_replaced(cluster: Cluster) -> None:
    ref, token = cluster.print("kept")
    cluster.look()
    ((node, _),) = cluster.read(ref, token).items()
    cluster.stores[node] = CopyStore(cluster.directory / "new", keep_bytes=GIB)
    assert cluster.look() == 0
    cluster.members[node] = b"another disk"
    assert cluster.look() == 1
    assert list(cluster.read(ref, token)) == [node]
    del cluster.members[node]
    cluster.look()
    assert len(cluster.read(ref, token)) == 2
    cluster.members.clear()
    cluster.print("alone")
    assert cluster.look() == 0
    assert cluster.copier.waiting_bytes == 0, "there is nobody who could have it"


def test_where_the_copy_was_deleted_a_new_part_begins(cluster: Cluster) -> None:
    cluster.print("old")
    cluster.look()
    for store in cluster.stores.values():
        assert store.drop_old(cluster.clock.wall + 10, 5, {}) in (0, 1)
    new = cluster.print("new")
    assert cluster.look() == 1
    assert list(cluster.read(*new).values()) == ["new"]


@pytest.mark.parametrize("looked", [True, False], ids=["it was looked for", "before anybody looked"])
def test_where_the_copy_was_removed_by_others_a_new_part_begins(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, looked: bool
) -> None:
    cluster.print("old")
    cluster.look()
    (holder,) = (store for store in cluster.stores.values() if store.size())
    (file,) = holder.directory.glob("*/seg-*.dat")
    file.unlink()
    if looked:
        holder.scan()
    new = cluster.print("new")
    assert cluster.look() == 1
    assert list(cluster.read(*new).values()) == ["new"]
    holder.scan()
    assert holder.lost == 1
    assert "copies of other nodes' output were removed" in caplog.text
    assert file.name in caplog.text
    assert holder.size() == sum(path.stat().st_size for path in holder.directory.glob("*/seg-*.dat"))


def test_copies_that_were_removed_or_cut_off_do_not_count_any_more(tmp_path: Path) -> None:
    store = CopyStore(tmp_path / "copies", keep_bytes=GIB)
    for segment in (1, 2):
        store.take("n1", piece(b"x" * 300, segment=segment), 1_000)
    store.scan()
    assert (store.lost, store.size()) == (0, 600)
    (cut,) = store.directory.glob("*/seg-00000001-*")
    os.truncate(cut, 100)
    store.scan()
    assert (store.lost, store.size()) == (1, 300)
    with pytest.raises(WrongOffset):
        store.take("n1", piece(b"more", 300), 1_000)
    shutil.rmtree(store.directory)
    store.scan()
    assert (store.lost, store.size()) == (2, 0)
    assert store.take("n1", piece(b"0123"), 1_000) == 4, "its directory is made again"


def test_one_that_is_larger_than_a_piece(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.nodes, "piece_max", 1_000)
    cluster.print("small")
    ref, token = cluster.print("x" * 3_500)
    after = cluster.print("small too")
    assert cluster.look() == 1 + 4 + 1
    assert list(cluster.read(ref, token).values()) == ["x" * 3_500]
    assert list(cluster.read(*after).values()) == ["small too"]


def test_what_is_damaged_is_left_out(cluster: Cluster) -> None:
    before, torn, after = cluster.print("before"), cluster.print("torn"), cluster.print("after")
    damage(cluster.segment, torn[0].offset + HEADER_SIZE + 6)
    assert cluster.look() == 2
    assert list(cluster.read(*before).values()) == ["before"]
    assert cluster.read(*torn) == {}
    assert list(cluster.read(*after).values()) == ["after"]
    assert cluster.look() == 0
    assert cluster.copier.waiting_bytes == 0, "nothing waits for what cannot be sent"


def test_behind_a_damaged_header_all_is_sent_and_waits_until_then(cluster: Cluster) -> None:
    printed = [(f"number {n}", cluster.print(f"number {n}")) for n in range(3)]
    damage(cluster.segment, printed[0][1][0].offset + 5)
    cluster.down = set(cluster.members)
    cluster.look()
    assert cluster.copier.waiting_since_ms == cluster.clock.wall
    cluster.down = set()
    cluster.clock.forward(Copier.retry_ms)
    for _ in range(2):
        cluster.look()
    printed.append(("after", cluster.print("after")))
    assert (cluster.look(), cluster.copier.waiting_bytes) == (1, 0)
    for text, one in printed[1:]:
        assert list(cluster.read(*one).values()) == [text]


@pytest.mark.parametrize("damaged", [0, 9])
@pytest.mark.parametrize("place", [5, HEADER_SIZE + 6])  # within the header, and within the output
def test_damage_and_a_restart_take_no_second_copy_along(cluster: Cluster, damaged: int, place: int) -> None:
    printed = [(f"number {n}", cluster.print(f"number {n}")) for n in range(10)]
    cluster.look()
    cluster.output.close()
    damage(cluster.segment, printed[damaged][1][0].offset + place)
    cluster.begin()
    assert cluster.look() == 0
    printed += [(f"later {n}", cluster.print(f"later {n}")) for n in range(10)]
    assert cluster.look() == 1
    for text, one in printed:
        assert list(cluster.read(*one).values()) == [text]


def test_what_this_disk_has_lost_is_not_written_over_where_it_was_copied(cluster: Cluster) -> None:
    """A disk that does not do what fdatasync says may lose whole records, and the next ones are written there."""
    kept, lost = cluster.print("kept"), cluster.print("lost")
    cluster.look()
    cluster.output.close()
    os.truncate(cluster.segment, lost[0].offset)
    cluster.begin()
    assert cluster.look() == 0
    other = cluster.print("other")
    assert other[0].offset == lost[0].offset
    cluster.look()
    for text, one in (("kept", kept), ("lost", lost), ("other", other)):
        assert list(cluster.read(*one).values()) == [text]


@pytest.mark.parametrize("namespace", ["", "own"])
def test_what_was_not_written_to_its_end_keeps_nothing_back(cluster: Cluster, namespace: str) -> None:
    cluster.own = {owner_of("own"): 2}
    whole, torn = cluster.print("whole", namespace), cluster.print("torn", namespace)
    (segment,) = (one for one in cluster.output.synced() if one.number == torn[0].segment)
    cluster.output.close()
    os.truncate(segment.path, segment.size - 2)
    for _ in range(2):
        cluster.begin()
        cluster.look()
        assert (cluster.copier.waiting_bytes, cluster.copier.waiting_since_ms) == (0, None)
        after = cluster.print("after", namespace)
        cluster.look()
        assert [list(cluster.read(*one).values()) for one in (whole, after)] == [["whole"], ["after"]]
        cluster.output.close()


def test_what_is_not_on_the_disk_for_good_is_not_sent(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.print("synced")
    (state,) = cluster.output.synced()
    seen: list[int] = []

    def fails(fd: int) -> None:
        seen.append(cluster.output._table.segments[1].synced)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("raftsched.output.keeping.store.os.fdatasync", fails)
    with pytest.raises(OSError, match="Input/output"):
        cluster.print("not synced")
    assert (seen, cluster.output.synced()) == ([state.size], [state])


# ---------------------------------------------------------------- where copies lie


def piece(data: bytes, offset: int = 0, start: int = 0, segment: int = 1, owner: str = "", at_ms: int = 1_000) -> Piece:
    return Piece(STORE, segment, owner, start, offset, at_ms, data)


def test_a_piece_is_taken_where_the_part_ends_or_within_it(tmp_path: Path) -> None:
    store = CopyStore(tmp_path, keep_bytes=GIB)
    assert store.take("n1", piece(b"0123"), 1_000) == 4
    assert store.take("n1", piece(b"4567", 4), 1_000) == 8
    assert store.take("n1", piece(b"23", 2), 1_000) == 8, "sent again"
    for offset, start, at in ((9, 0, 8), (120, 100, 100), (99, 100, 100)):
        with pytest.raises(WrongOffset) as wrong:
            store.take("n1", piece(b"x", offset, start), 1_000)
        assert wrong.value.offset == at
    assert store.size() == 8
    again = CopyStore(tmp_path, keep_bytes=GIB)
    assert again.size() == 8
    assert again.take("n1", piece(b"89", 8), 1_000) == again.size() == 10


def test_the_oldest_copies_go_for_room(tmp_path: Path) -> None:
    store = CopyStore(tmp_path, keep_bytes=1_000)
    for segment in range(1, 6):
        store.take("n1", piece(b"x" * 300, segment=segment, at_ms=segment), 10)
    assert store.size() == 900
    kept = sorted(path.name for path in tmp_path.glob("*/*"))
    assert kept == [f"seg-{n:08d}-at-0.dat" for n in (3, 4, 5)]
    assert store.take("n1", piece(b"x" * 2_000, segment=6), 10) == 2_000, "what comes is kept"
    assert store.size() == 2_000


def test_a_namespace_takes_no_more_than_its_share(tmp_path: Path) -> None:
    owner, other = owner_of("billing"), owner_of("other")
    store = CopyStore(tmp_path, keep_bytes=GIB, share_of={owner: 1_000}.get)
    for segment in range(1, 11):
        store.take("n1", piece(b"x" * 300, segment=segment, owner=owner, at_ms=segment), 100)
        store.take("n2", piece(b"x" * 300, segment=segment, owner=other, at_ms=segment), 100)
    assert (store.size(), store.owners()) == (900 + 3_000, {owner, other})


def test_each_piece_of_a_part_counts_to_the_share(tmp_path: Path) -> None:
    owner = owner_of("billing")
    store = CopyStore(tmp_path, keep_bytes=GIB, share_of={owner: 1_000}.get)
    for segment in (1, 2):
        for offset in range(0, 900, 100):
            store.take("n1", piece(b"x" * 100, offset, segment=segment, owner=owner, at_ms=segment), 100)
            assert store.size() <= 1_000
    store.take("n1", piece(b"x" * 100, 100, segment=2, owner=owner, at_ms=2), 100)
    assert store.size() == 900, "sent again, it takes no more"
    store.take("n1", piece(b"x" * 500, 900, segment=2, owner=owner, at_ms=2), 100)
    assert store.size() == 1_400, "what comes is kept"


def test_copies_go_with_age(tmp_path: Path) -> None:
    owner = owner_of("billing")
    for store in (CopyStore(tmp_path, keep_bytes=GIB), CopyStore(tmp_path, keep_bytes=GIB)):
        if not store.size():
            store.take("n1", piece(b"old", at_ms=1_000), 5_000)
            store.take("n1", piece(b"new", segment=2, at_ms=9_000_000), 5_000)  # its clock is ahead
            store.take("n1", piece(b"own", segment=3, owner=owner, at_ms=1_000), 5_000)
        assert store.drop_old(5_000, 4_500, {}) == 0
    assert store.drop_old(5_000, 3_000, {owner: 4_500}) == 1
    assert store.drop_old(9_000, 4_500, {owner: 1}) == 1
    assert store.drop_old(9_999, 4_500, {}) == 1
    assert (store.size(), store.owners(), list(tmp_path.glob("*/*"))) == (0, set(), [])


def test_no_copy_is_taken_on_a_full_disk(tmp_path: Path) -> None:
    store = CopyStore(tmp_path, keep_bytes=GIB, short_of_disk=lambda: True)
    with pytest.raises(RaftschedError, match="no room") as refused:
        store.take("n1", piece(b"x"), 1_000)
    assert (refused.value.code, store.size()) == ("disk-full", 0)


def test_a_copy_is_read_for_the_disk_and_the_run_that_it_is_of(cluster: Cluster) -> None:
    ref, token = cluster.print("mine")
    cluster.look()
    (node,) = cluster.read(ref, token)
    store = cluster.stores[node]
    assert store.open("n2", ref, token=token) is None
    assert store.open("n1", ref, token=token + 1) is None
    assert store.open("n1", ref, "stderr", token) is not None
    with pytest.raises(RaftschedError, match="stdout"):
        store.open("n1", ref, "both", token)
    (path,) = (cluster.directory / node).glob("*/seg-*")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    fresh = CopyStore(cluster.directory / node, keep_bytes=GIB)
    assert fresh.open("n1", ref, token=token) is None, "a damaged copy is none"


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("n1/seg-00000001-at-0.dat", "n1.0011223344556677/notes.dat", "n1.0011223344556677/seg-1-at-0.dat"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    store = CopyStore(tmp_path, keep_bytes=0)
    store.drop_old(10**15, 1, {})
    assert (store.size(), len(list(tmp_path.glob("*/*")))) == (0, 3)


def test_each_segment_has_an_order_that_lasts() -> None:
    nodes = ["n2", "n3", "n4"]
    orders = {segment: in_order("n1", segment, nodes) for segment in range(60)}
    assert {order[0] for order in orders.values()} == set(nodes)
    for segment, order in orders.items():
        assert in_order("n1", segment, [node for node in reversed(nodes) if node != order[0]]) == order[1:]
