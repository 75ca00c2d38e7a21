"""Segments: what is referred to can be read, whatever happened to the newest record."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.output.format import records
from raftsched.output.format.records import HEADER_SIZE, checked
from raftsched.output.format.segments import owner_of
from raftsched.output.format.spool import NOTE, STDERR, STDOUT, live_name, pack
from raftsched.output.keeping.store import GONE, REMOVED, OutputStore, Record
from raftsched.output.reading.text import Text
from tests.unit.output.stores import Opened, put, put_record


def is_kept(store: OutputStore, ref: OutputRef) -> bool:
    try:
        store.read(ref)
    except RaftschedError as error:
        gone = error
    else:
        return True
    assert (gone.code, str(gone)) == ("output-gone", GONE)
    return False


def on_disk(directory: Path, *, shared: bool) -> int:
    """Bytes of the segments that are anybody's, or of the others."""
    return sum(path.stat().st_size for path in directory.glob("seg-*.dat") if (path.name.count("-") == 1) == shared)


def test_round_trip_by_stream_and_part(opened: Opened, tmp_path: Path) -> None:
    store = opened(tmp_path / "o")
    body = pack(STDOUT, b"one ") + pack(STDERR, b"two ") + pack(STDOUT, b"three")
    ref = put_record(store, Record(1, 1_000, body))
    assert store.read(ref) == b"one two three"
    assert store.read(ref, "stdout") == b"one three"
    assert store.read(ref, "stderr") == b"two "
    assert store.read(ref, offset=4, limit=3) == b"two"
    assert store.read(ref, offset=100) == b""
    with pytest.raises(RaftschedError, match='"stdout" or "stderr"'):
        store.read(ref, "stdin")


def test_a_reference_tells_what_will_be_read(opened: Opened, tmp_path: Path) -> None:
    store = opened(tmp_path / "o")
    body = pack(STDOUT, b"one ") + pack(STDERR, b"two ") + pack(NOTE, (5).to_bytes(8, "little")) + pack(STDOUT, b"end")
    ref = put_record(store, Record(1, 1_000, body, truncated=5))
    text = store.read(ref)
    assert b"5 bytes of output left out" in text
    assert (ref.size, ref.sha256) == (len(text), hashlib.sha256(text).digest())
    with pytest.raises(RaftschedError) as gone:
        store.read(msgspec.structs.replace(ref, sha256=b"x" * 32))
    assert gone.value.code == "output-gone"
    for odd in (ref.offset + 1, ref.offset + 10_000):
        with pytest.raises(RaftschedError) as gone:
            store.read(msgspec.structs.replace(ref, offset=odd))
        assert gone.value.code == "output-gone"


def test_nothing_is_written_for_empty_output(opened: Opened) -> None:
    store = opened()
    assert store.append([Record(1, 1_000), Record(2, 1_000, spooled=True)]) == [None, None]
    assert store.size() == 0


def test_spool_files_move_into_the_segment(opened: Opened) -> None:
    store = opened()
    spool = store.live_directory / live_name(7)
    spool.write_bytes(pack(STDOUT, b"so far"))
    assert store.live(7) == b"so far"
    ref = put_record(store, Record(7, 1_000, spooled=True, truncated=3))
    assert ref.truncated == 3
    assert store.read(ref) == b"so far"
    assert not spool.exists()
    assert store.live(7) == b"so far", "until its end is known, readers come by the token"


def test_a_torn_tail_gets_no_more_and_the_rest_stays(opened: Opened, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    store = opened()
    texts = [bytes(rng.randrange(32, 127) for _ in range(rng.randrange(1, 300))) for _ in range(20)]
    refs = [put(store, text, i) for i, text in enumerate(texts)]
    store.close()
    segment = tmp_path / "seg-00000001.dat"
    whole = segment.read_bytes()
    for _ in range(30):
        cut = rng.randrange(refs[-1].offset, len(whole))
        torn = whole[:cut] + bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
        torn = torn if torn != whole[: len(torn)] else whole[:cut]
        for path in tmp_path.glob("[sw]*-*"):
            path.unlink()
        segment.write_bytes(torn)
        store = opened()
        assert store.synced()[0].size == refs[-1].offset
        assert [store.read(ref) for ref in refs[:-1]] == texts[:-1]
        with pytest.raises(RaftschedError) as gone:
            store.read(refs[-1])
        assert gone.value.code == "output-gone"
        after = put(store, b"next", 99)
        assert (store.read(after), after.segment > 1) == (b"next", len(torn) > refs[-1].offset)
        assert segment.read_bytes()[: len(torn)] == torn
        store.close()


def test_damage_is_noticed_when_read(opened: Opened, tmp_path: Path) -> None:
    store = opened()
    first, second = put(store, b"first", 1), put(store, b"second", 2)
    with open(tmp_path / "seg-00000001.dat", "r+b") as segment:
        segment.seek(first.offset + HEADER_SIZE + 6)
        segment.write(b"X")
    with pytest.raises(RaftschedError, match="damaged"):
        store.read(first)
    assert store.read(second) == b"second"


def test_a_full_disk_leaves_nothing_half_done(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    kept = put(store, b"kept", 1)
    spool = store.live_directory / live_name(2)
    spool.write_bytes(pack(STDOUT, b"x"))

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="No space left"):
            store.append([Record(2, 1_000, spooled=True)])
    assert spool.exists()
    after = put(store, b"after", 3)
    assert after.offset == kept.offset + HEADER_SIZE + len(pack(STDOUT, b"kept"))
    assert (store.read(kept), store.read(after)) == (b"kept", b"after")


def test_segments_roll_and_go_whole(opened: Opened, tmp_path: Path) -> None:
    store = opened(segment_bytes=1_000)
    refs = [put(store, b"x" * 400, i) for i in range(10)]
    assert [ref.segment for ref in refs] == sorted(ref.segment for ref in refs)
    last = refs[-1].segment
    assert last > 2
    for number in range(1, last + 1):
        os.utime(tmp_path / f"seg-{number:08d}.dat", (number * 100, number * 100))
    assert store.drop_before(200_000) == 1
    with pytest.raises(RaftschedError) as gone:
        store.read(refs[0])
    assert gone.value.code == "output-gone"
    assert store.read(refs[-1]) == b"x" * 400
    assert store.drop_before(10_000_000) == last - 1
    assert store.size() == 0
    fresh = put(store, b"new", 11)
    assert fresh.segment > last, "a number is not used again while the store is open"
    assert store.read(fresh) == b"new"


def test_a_reused_place_does_not_answer_for_another(opened: Opened, tmp_path: Path) -> None:
    store = opened()
    old = put(store, b"old text", 1)
    store.close()
    (tmp_path / "seg-00000001.dat").unlink()
    store = opened()
    put(store, b"new text", 2)
    with pytest.raises(RaftschedError):
        store.read(old)


def test_leftover_spool_files_are_cleared(opened: Opened) -> None:
    store = opened()
    (store.live_directory / live_name(1)).write_bytes(pack(STDOUT, b"x"))
    store.clear_live()
    assert store.live(1) is None


def test_no_more_is_kept_than_may_and_the_oldest_goes_first(opened: Opened, tmp_path: Path) -> None:
    store = opened(tmp_path / "o", segment_bytes=10_000, keep_bytes=40_000)
    refs = [put(store, bytes([65 + token % 26]) * 1_000, token) for token in range(1, 200)]
    assert store.size() <= 40_000 + 2_000  # and a record more
    assert store.read(refs[-1]) == b"R" * 1_000
    with pytest.raises(RaftschedError, match="for room"):
        store.read(refs[0])
    readable = [ref for ref in refs if (store.directory / f"seg-{ref.segment:08d}.dat").exists()]
    assert readable == refs[-len(readable) :]
    assert len(readable) >= 25
    store.close()
    again = opened(tmp_path / "o", segment_bytes=10_000)  # without a bound all of it stays
    put(again, b"x" * 20_000, 300)
    put(again, b"x", 301)
    assert again.read(readable[0])


MIB = 1 << 20


def test_of_a_namespace_no_more_is_kept_than_it_may_have(opened: Opened, tmp_path: Path) -> None:
    store = opened(share_of={"a": MIB, "b": 2 * MIB}.get)
    others = put(store, b"others", namespace="c")
    first = put(store, b"first", namespace="b")
    refs = []
    for number in range(200):
        refs.append(put(store, bytes([65 + number % 26]) * 20_000, namespace="a"))
        assert on_disk(tmp_path, shared=False) <= MIB + 1_000  # and what the other one has
    kept = [is_kept(store, ref) for ref in refs]
    assert kept == sorted(kept), "the oldest goes first"
    assert 0.9 * MIB < 20_000 * kept.count(True) <= MIB
    assert (store.read(refs[-1]), store.read(others), store.read(first)) == (b"R" * 20_000, b"others", b"first")
    store.close()
    store = opened(share_of={"a": MIB, "b": 2 * MIB}.get)  # it knows what of it is whose
    assert [is_kept(store, ref) for ref in refs] == kept
    more = [put(store, b"x" * 20_000, namespace="a") for _ in range(30)]
    assert on_disk(tmp_path, shared=False) <= MIB + 1_000
    assert all(is_kept(store, ref) for ref in [*more, others, first])
    assert [is_kept(store, ref) for ref in refs] != kept
    assert store.size() == on_disk(tmp_path, shared=False) + on_disk(tmp_path, shared=True)


def test_a_share_that_is_smaller_now_holds_from_the_next_output_on(opened: Opened, tmp_path: Path) -> None:
    shares = {"a": 4 * MIB}
    store = opened(share_of=shares.get)
    refs = [put(store, b"x" * 100_000, namespace="a") for _ in range(30)]
    assert all(is_kept(store, ref) for ref in refs)
    shares["a"] = MIB
    last = put(store, b"last", namespace="a")
    assert on_disk(tmp_path, shared=False) <= MIB
    assert is_kept(store, last)
    del shares["a"]
    free = [put(store, b"x" * 100_000, namespace="a") for _ in range(30)]
    assert all(is_kept(store, ref) for ref in [*free, last])


def test_what_is_more_than_a_share_is_not_kept_and_takes_its_place(opened: Opened) -> None:
    store = opened(share_of={"a": MIB}.get)
    before = put(store, b"before", namespace="a")
    (store.live_directory / live_name(1)).write_bytes(pack(STDOUT, b"x" * 2 * MIB))
    ref, other = store.append([Record(1, 1_000, spooled=True, namespace="a"), Record(2, 1_000, pack(STDOUT, b"other"))])
    assert ref is not None
    assert other is not None
    assert ref.size == 2 * MIB
    assert [is_kept(store, one) for one in (ref, before, other)] == [False, False, True]
    assert not list(store.live_directory.iterdir())
    assert is_kept(store, put(store, b"after", namespace="a"))


def test_a_full_disk_takes_nothing_from_any_of_them(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(share_of={"a": MIB}.get)
    before = [put(store, b"one", namespace="a"), put(store, b"two", namespace="b")]
    sizes = store.size()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="No space"):
            store.append([Record(n, 1_000, pack(STDOUT, b"x" * 100), namespace=name) for n, name in enumerate("abab")])
    assert store.size() == sizes == on_disk(tmp_path, shared=False) + on_disk(tmp_path, shared=True)
    after = [put(store, b"three", namespace="a"), put(store, b"four", namespace="b")]
    assert [store.read(ref) for ref in before + after] == [b"one", b"two", b"three", b"four"]


def test_a_torn_record_of_a_namespace_stays_as_it_is(opened: Opened, tmp_path: Path) -> None:
    store = opened(share_of={"a": MIB}.get)
    whole = put(store, b"whole", namespace="a")
    put(store, b"torn", namespace="a")
    store.close()
    (path,) = (path for path in tmp_path.glob("seg-*-*.dat"))
    os.truncate(path, path.stat().st_size - 2)
    store = opened(share_of={"a": MIB}.get)
    after = put(store, b"after", namespace="a")
    assert (store.read(whole), store.read(after)) == (b"whole", b"after")
    assert after.segment > whole.segment
    assert store.size() == on_disk(tmp_path, shared=False), "it takes room"


def test_many_namespaces_hold_few_descriptors_and_go_for_room_and_by_age(opened: Opened, tmp_path: Path) -> None:
    store = opened(segment_bytes=100_000, keep_bytes=400_000, share_of=lambda _: MIB)
    own = len(os.listdir("/proc/self/fd"))
    refs = [put(store, b"x" * 2_000, namespace=f"n{number}") for number in range(300)]
    assert len(os.listdir("/proc/self/fd")) - own <= 70
    assert store.size() <= 400_000
    kept = [is_kept(store, ref) for ref in refs]
    assert kept == sorted(kept)
    assert 100 < kept.count(True) < 200
    assert is_kept(store, put(store, b"more", namespace="n299"))
    store.drop_before(10**15)
    assert store.size() == on_disk(tmp_path, shared=False) == 0
    assert is_kept(store, put(store, b"new", namespace="n299"))


def test_what_was_read_lately_is_not_checked_again(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[OutputRef] = []

    def counted(fd: int, ref: OutputRef, token: int | None) -> Text:
        checks.append(ref)
        return checked(fd, ref, token)

    monkeypatch.setattr(records, "checked", counted)
    store = opened(segment_bytes=1_000)
    refs = [put(store, b"%d" % token * 500, token) for token in range(1, 12)]
    for ref in refs * 2:
        assert store.open(ref).size == ref.size
    assert len(checks) == 2 * len(refs), "not so many at once"
    for _ in range(3):
        assert store.open(refs[-1]).size == refs[-1].size
    assert len(checks) == 2 * len(refs)
    open_ones = len(list(Path("/proc/self/fd").iterdir()))
    store.drop_before(2**42)
    assert len(list(Path("/proc/self/fd").iterdir())) < open_ones, "what is deleted is not kept open"
    with pytest.raises(RaftschedError, match="not kept any more"):
        store.open(refs[-1])


def test_one_large_output_is_checked_once_for_many(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []

    def slow(fd: int, ref: OutputRef, token: int | None) -> Text:
        checks.append(ref)
        time.sleep(0.05)
        return checked(fd, ref, token)

    monkeypatch.setattr(records, "checked", slow)
    store = opened()
    ref = put(store, b"x" * 2**21, 1)
    with ThreadPoolExecutor(8) as readers:
        assert {text.size for text in readers.map(lambda _: store.open(ref), range(20))} == {2**21}
    assert len(checks) == 1


def test_a_place_is_only_good_for_the_run_whose_output_lies_there(opened: Opened) -> None:
    store = opened()
    ref = put(store, b"a secret of run 7", 7)
    assert store.open(ref, token=7).read(0) == b"a secret of run 7"
    with pytest.raises(RaftschedError, match="another run") as refused:
        store.open(ref, token=8)
    assert refused.value.code == "output-gone"


def test_spool_files_of_runs_elsewhere_survive_a_new_supervisor(opened: Opened) -> None:
    store = opened()
    for token in (1, 2):
        (store.live_directory / live_name(token)).write_bytes(pack(STDOUT, b"so far"))
    store.hold(2)
    store.clear_live()
    assert store.live(1) is None
    assert store.live(2) == b"so far"
    store.discard(2)
    assert store.live(2) is None


DAY_MS = 86_400_000


def aged_to(directory: Path, number: int, ms: int) -> None:
    """As if nothing had been written to the segment since."""
    (path,) = directory.glob(f"seg-{number:08d}*.dat")
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def test_what_is_older_than_it_is_kept_goes_though_more_is_written_all_the_time(opened: Opened, tmp_path: Path) -> None:
    store = opened()
    start = now = 100 * DAY_MS
    refs: dict[int, OutputRef] = {}
    for token in range(600):  # an hour apart
        ref = put_record(store, Record(token, now, pack(STDOUT, b"x")))
        refs[now] = ref
        aged_to(tmp_path, ref.segment, now)
        store.drop_old(now, 8 * DAY_MS, {})
        now += 3_600_000
    ages = [now - at for at, ref in refs.items() if is_kept(store, ref)]
    assert min(at for at in refs if is_kept(store, refs[at])) > start
    assert 8 * DAY_MS <= max(ages) <= 8 * DAY_MS * 17 // 16 + 2 * 3_600_000
    assert ages == sorted(ages, reverse=True)
    assert len(ages) >= 8 * 24, "all that is younger is there"


def test_each_namespace_goes_by_its_own_age(opened: Opened, tmp_path: Path) -> None:
    store = opened(share_of={"short": 1 << 62, "long": 1 << 62, "sized": MIB}.get)
    now = 100 * DAY_MS
    names = ("short", "long", "sized", "other")
    refs = {name: put(store, name.encode(), namespace=name) for name in names}
    for ref in refs.values():
        aged_to(tmp_path, ref.segment, now - 5 * DAY_MS)
    own = {owner_of("short"): DAY_MS, owner_of("long"): 30 * DAY_MS}
    assert store.owners() == {owner_of("short"), owner_of("long"), owner_of("sized")}
    assert store.drop_old(now, 7 * DAY_MS, own) == 1
    assert [name for name in names if is_kept(store, refs[name])] == ["long", "sized", "other"]
    assert store.drop_old(now, 2 * DAY_MS, own) == 2
    assert [name for name in names if is_kept(store, refs[name])] == ["long"]
    assert all(is_kept(store, put(store, b"new", namespace=name)) for name in names)


def test_a_segment_of_an_earlier_process_gets_no_more_once_it_is_old(opened: Opened, tmp_path: Path) -> None:
    now = 100 * DAY_MS
    store = opened(share_of={"a": 1 << 62}.get)
    first = [
        put_record(store, Record(n, now - DAY_MS, pack(STDOUT, b"x"), namespace=name)) for n, name in enumerate("ab")
    ]
    store.close()
    for ref in first:
        aged_to(tmp_path, ref.segment, now)
    store = opened(share_of={"a": 1 << 62}.get)
    store.drop_old(now, 20 * DAY_MS, {})
    again = [put(store, b"y", namespace=name) for name in "ab"]
    assert [ref.segment for ref in again] == [ref.segment for ref in first], "they are young still"
    store.drop_old(now, 8 * DAY_MS, {})
    then = [put(store, b"z", namespace=name) for name in "ab"]
    assert not {ref.segment for ref in then} & {ref.segment for ref in again}
    store.drop_old(now, 8 * DAY_MS, {})
    assert [put(store, b"z", namespace=name).segment for name in "ab"] == [ref.segment for ref in then]
    assert all(is_kept(store, ref) for ref in [*again, *then])


def test_a_worker_has_room_for_some_of_the_largest(opened: Opened) -> None:
    store = opened(segment_bytes=10_000, keep_bytes=20_000, keep_largest=4)
    refs = [put(store, b"x" * 9_000, token) for token in range(1, 20)]
    assert not is_kept(store, refs[-3])
    store.bound(30, 20_000)
    refs = [put(store, b"x" * 9_000, token) for token in range(31, 50)]
    assert all(is_kept(store, ref) for ref in refs[-6:])
    assert store.size() <= 80_000 + 10_000


def why_not(store: OutputStore, ref: OutputRef) -> str:
    """Returns what is said of an output that cannot be read."""
    with pytest.raises(RaftschedError) as gone:
        store.open(ref)
    assert gone.value.code == "output-gone"
    return gone.value.detail


def lost_all(store: OutputStore) -> None:
    shutil.rmtree(store.directory)


def lost_newest(store: OutputStore) -> None:
    max(store.directory.glob("seg-*.dat"), key=lambda path: path.name.split("-")[1]).unlink()


def hidden(store: OutputStore) -> None:
    """As by a file system that is mounted over it."""
    os.rename(store.directory, store.directory.with_suffix(".hidden"))
    store.directory.mkdir()


@pytest.mark.parametrize("namespace", ["", "apart"])
@pytest.mark.parametrize("lose", [lost_all, lost_newest, hidden])
def test_output_after_its_file_was_removed_is_kept(
    opened: Opened,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    namespace: str,
    lose: Callable[[OutputStore], None],
) -> None:
    store = opened(tmp_path / "o", share_of={"apart": MIB}.get)
    before = put(store, b"before", namespace=namespace)
    lose(store)
    assert why_not(store, before) == REMOVED, "it is known before anybody looks for it"
    if lose is hidden:
        store.scan()  # the file that is written to has its name yet, elsewhere
    after = put(store, b"after", namespace=namespace)
    assert after.segment > before.segment
    assert store.read(after) == b"after"
    caplog.clear()
    store.scan()
    assert store.read(put(store, b"more", namespace=namespace)) == b"more"
    assert why_not(store, before) == REMOVED
    assert store.size() == on_disk(store.directory, shared=True) + on_disk(store.directory, shared=False)
    assert store.lost >= 1
    said = caplog.text if lose is not hidden else ""
    assert lose is hidden or ("not by this node" in said and str(store.directory) in said)
    told = store.lost
    store.scan()
    assert store.lost == told, "each is counted once"
    spool = store.live_directory / live_name(7)
    spool.write_bytes(pack(STDOUT, b"printed in pieces"))
    ref = put_record(store, Record(7, 1_000, spooled=True))
    assert store.read(ref) == b"printed in pieces"
    store.close()
    again = opened(tmp_path / "o", share_of={"apart": MIB}.get)
    assert again.read(after) == b"after"


@pytest.mark.parametrize("namespace", ["", "apart"])
@pytest.mark.parametrize("lose", [lost_all, lost_newest, hidden])
def test_what_was_removed_is_not_taken_for_old(
    opened: Opened, tmp_path: Path, namespace: str, lose: Callable[[OutputStore], None]
) -> None:
    """What is old is dropped between two looks, and has no file then, either."""
    store = opened(tmp_path / "o", share_of={"apart": MIB}.get)
    before = put(store, b"before", namespace=namespace)
    lose(store)
    assert store.drop_old(round(time.time() * 1000), DAY_MS, {}) == 0
    assert why_not(store, before) == REMOVED
    store.scan()
    assert why_not(store, before) == REMOVED
    assert store.lost >= 1


def test_what_is_hidden_can_be_read_when_it_is_there_again(opened: Opened, tmp_path: Path) -> None:
    store = opened(tmp_path / "o", share_of={"apart": MIB}.get)
    refs = [put(store, b"there", namespace=namespace) for namespace in ("", "apart")]
    hidden(store)
    store.scan()
    assert [why_not(store, ref) for ref in refs] == [REMOVED, REMOVED]
    new = put(store, b"new", namespace="")
    shutil.rmtree(store.directory)
    os.rename(store.directory.with_suffix(".hidden"), store.directory)
    store.scan()
    assert [store.read(ref) for ref in refs] == [b"there", b"there"]
    assert why_not(store, new) == REMOVED
    assert store.read(put(store, b"newer", namespace="")) == b"newer"


def test_nothing_is_written_behind_what_was_cut_off(
    opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(segment_bytes=100)
    refs = [put(store, b"x" * 60, token) for token in range(3)]
    first, last = (tmp_path / f"seg-{ref.segment:08d}.dat" for ref in (refs[0], refs[-1]))
    assert (store.scan(), store.lost, caplog.text) == (None, 0, "")
    os.truncate(first, refs[0].offset + 10)
    os.truncate(last, 0)
    store.scan()
    assert "2 of the files with the output of runs were cut off" in caplog.text
    after = put(store, b"after", 9)
    assert after.segment not in {ref.segment for ref in refs}
    assert [is_whole(store, ref) for ref in (*refs, after)] == [False, True, False, True]
    assert store.size() == on_disk(tmp_path, shared=True)
    store.scan()
    assert store.lost == 2


def is_whole(store: OutputStore, ref: OutputRef) -> bool:
    try:
        return bool(store.read(ref))
    except RaftschedError:
        return False


NOW_MS = 1_800_000_000_000


def test_output_of_a_disk_that_was_replaced_is_gone_and_not_damaged(opened: Opened, tmp_path: Path) -> None:
    lost = opened(tmp_path / "lost", now_ms=NOW_MS - DAY_MS, segment_bytes=100)
    refs = [put(lost, b"before " * 20, token) for token in range(50)]
    fresh = opened(tmp_path / "fresh", now_ms=NOW_MS, segment_bytes=100)
    after = [put(fresh, b"after " * 30, token) for token in range(50)]
    assert {why_not(fresh, ref) for ref in refs} == {GONE}
    assert [fresh.read(ref) for ref in after] == [b"after " * 30] * 50


def test_numbers_go_on_where_they_were_and_are_not_used_twice(opened: Opened, tmp_path: Path) -> None:
    old = opened()  # of a version that counted from 1
    kept = put(old, b"kept", 1)
    old.close()
    store = opened(now_ms=NOW_MS, segment_bytes=100)
    assert put(store, b"x" * 100, 2).segment == kept.segment, "what was begun is filled first"
    newest = put(store, b"newest", 3)
    assert store.read(kept) == b"kept"
    store.close()
    (tmp_path / f"seg-{newest.segment}.dat").unlink()  # while the node is stopped
    again = opened(now_ms=NOW_MS + 60_000, segment_bytes=100)
    after = put(again, b"after", 4)
    assert after.segment > newest.segment > kept.segment
    assert why_not(again, newest) == GONE
    again.close()
    back = opened(now_ms=NOW_MS - DAY_MS, segment_bytes=10)  # the clock was set back
    numbers = [put(back, b"y" * 20, token).segment for token in range(3)]
    assert numbers == sorted(numbers)
    assert numbers[0] >= after.segment


def test_a_segment_that_is_deleted_for_room_was_not_removed(opened: Opened) -> None:
    store = opened(segment_bytes=1_000, keep_bytes=3_000)
    refs = [put(store, b"x" * 900, token) for token in range(9)]
    assert why_not(store, refs[0]) == GONE
    store.scan()
    assert store.lost == 0
