"""Second copies of output in an object store: what is put, when, when again, and what is read of it."""

from __future__ import annotations

import asyncio
import errno
import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from raftsched.config.node import build
from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError, StartupError
from raftsched.node.machine_metrics import info_of
from raftsched.node.output_followers import output_store_of
from raftsched.objectstore.opening import open_store
from raftsched.objectstore.store import Found, ObjectStore, ObjectStoreError, Source
from raftsched.output.following import copier, to_store
from raftsched.output.following.calls import Calls
from raftsched.output.following.copier import Copier
from raftsched.output.following.objects import key_of, mark_key, place_in, prefix_of
from raftsched.output.following.places import Place
from raftsched.output.following.sent import Sent
from raftsched.output.following.to_store import PATIENCE_MS, ToStore
from raftsched.output.following.whole_records import Stretch
from raftsched.output.format.records import HEADER_SIZE
from raftsched.output.format.segments import owner_of
from raftsched.output.reading import stored
from raftsched.output.reading.stored import StoredOutputs
from tests.support import s3
from tests.support.patience import patient
from tests.unit.output.house import Origin, damage

DISK = b"disk-n1-"
CLUSTER = "c0" * 16
MARK = mark_key(CLUSTER, "n1")


class Flaky:
    """A store that may be down, and counts what it is asked for."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.where = store.where
        self.down = False
        self.puts: list[tuple[str, int]] = []

    def _up(self) -> None:
        if self.down:
            raise ObjectStoreError("it is down")

    def put(self, key: str, source: Source) -> int:
        self._up()
        size = self.store.put(key, source)
        if key != MARK:
            self.puts.append((key, size))
        return size

    def get(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        self._up()
        return self.store.get(key, start, length)

    def list(self, prefix: str = "") -> Iterator[Found]:
        self._up()
        return self.store.list(prefix)

    def delete(self, key: str) -> None:
        self._up()
        self.store.delete(key)

    def close(self) -> None:
        self.store.close()


class House(Origin):
    """n1, whose output is put into a store."""

    def __init__(self, directory: Path, store: ObjectStore) -> None:
        super().__init__(directory, 1 << 20)
        self.store = Flaky(store)
        self.cluster = CLUSTER
        self.begin()

    def begin(self, disk: bytes = DISK) -> None:
        """n1 starts, perhaps again."""
        self.output = self.opened(self.directory / disk.hex())
        self.sent = Sent(self.output.directory / "stored", disk)
        self.sink = ToStore("n1", disk, self.sent, self.store, lambda: self.cluster, self.clock)
        self.storer = Copier(self.output, self.sent, self.sink, self.copies, self.clock)
        self.reader = StoredOutputs(self.store, lambda: self.cluster, self.directory)

    def print(self, text: str, namespace: str = "", err: bytes = b"!") -> tuple[OutputRef, int]:
        return super().print(text, namespace, err)

    def look(self, *, patient: bool = False) -> int:
        """Returns how many objects were put; unless `patient`, nothing waits for more."""
        before = len(self.store.puts)
        for wait in (0, PATIENCE_MS)[: 1 if patient else 2]:
            self.clock.forward(wait)
            asyncio.run(self.storer.look())
            asyncio.run(self.storer.measure())
        return len(self.store.puts) - before

    def read(self, ref: OutputRef, token: int, stream: str | None = "stdout", node: str = "n1") -> str | None:
        """What a node reads that has read nothing before."""

        async def main() -> str | None:
            reader = StoredOutputs(self.store, lambda: self.cluster, self.directory)
            text = await reader.open(node, ref, stream, token)
            return None if text is None else text.read(0, 1 << 20).decode()

        return asyncio.run(main())

    @property
    def keys(self) -> list[str]:
        """Of output."""
        return [found.key for found in self.store.list() if found.key != MARK]

    def empty(self) -> None:
        """The store is made anew."""
        for found in self.store.list():
            self.store.delete(found.key)


@pytest.fixture(params=["directory", "s3"])
def house(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(copier, "BYTES_PER_S", 1 << 40)
    if request.param == "directory":
        yield House(tmp_path / "n1", open_store(str(tmp_path / "vault")))
        return
    with s3.serving() as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        opened = open_store("s3://vault/deep/er")
        yield House(tmp_path / "n1", opened)
        opened.close()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """With a directory, and small objects."""
    monkeypatch.setattr(copier, "BYTES_PER_S", 1 << 40)
    monkeypatch.setattr(to_store, "OBJECT_BYTES", 1_000)
    return House(tmp_path / "n1", open_store(str(tmp_path / "vault")))


def test_what_was_printed_is_put_and_read(house: House) -> None:
    assert house.look() == 0, "there is nothing"
    printed = {f"number {n} " * 20: house.print(f"number {n} " * 20) for n in range(10)}
    assert house.look() == 1, "one object for all of them"
    assert house.keys == [f"{CLUSTER}/output/n1/00000001/{DISK.hex()}-at-{0:013d}"]
    for text, (ref, token) in printed.items():
        assert house.read(ref, token) == text
        assert house.read(ref, token, None) == f"{text}!"
        assert house.read(ref, token, "stderr") == "!"
        assert house.read(ref, token + 1) is None, "it is of another run"
        assert house.read(ref, token, node="n2") is None
    assert house.look() == 0
    assert house.storer.items == 1
    assert (house.storer.waiting_bytes, house.storer.waiting_since_ms) == (0, None)
    assert house.storer.sent_bytes == house.output.size()


def test_little_waits_for_more_but_not_for_long(small: House) -> None:
    one = small.print("one")
    assert small.look(patient=True) == 0
    assert small.storer.waiting_since_ms == small.clock.wall
    small.clock.forward(PATIENCE_MS - 1)
    two = small.print("two")
    assert small.look(patient=True) == 0
    small.clock.forward(1)
    assert small.look(patient=True) == 1, "both together, since the first has waited long enough"
    assert (small.read(*one), small.read(*two)) == ("one", "two")
    three = small.print("x" * 700)
    assert small.look(patient=True) == 0, "it has its own time to wait"
    four = small.print("y" * 700)
    assert small.look(patient=True) == 1, "there is enough, and what is left of it waits"
    assert (small.read(*three), small.read(*four)) == ("x" * 700, None)
    assert small.look() == 1
    assert small.read(*four) == "y" * 700


def test_a_large_one_is_an_object_of_its_own(small: House) -> None:
    refs = [small.print(text) for text in ("a", "b" * 5_000, "c")]
    assert small.look() == 3
    assert [small.read(*ref) for ref in refs] == ["a", "b" * 5_000, "c"]


def test_by_namespace(small: House) -> None:
    small.most, small.own = 1, {owner_of("wanted"): 2, owner_of("not"): 1}
    plain, wanted, refused = small.print("plain"), small.print("wanted", "wanted"), small.print("no", "not")
    small.look()
    assert small.keys == [f"{CLUSTER}/output/n1/00000002/{DISK.hex()}-{owner_of('wanted')}-at-{0:013d}"]
    assert (small.read(*plain), small.read(*wanted), small.read(*refused)) == (None, "wanted", None)


def test_nothing_is_put_before_there_is_a_cluster(small: House) -> None:
    small.cluster = ""
    small.print("early")
    assert small.look() == 0
    small.cluster = CLUSTER
    assert small.look() == 1


def test_a_restart_puts_what_was_not_put_and_nothing_else(house: House) -> None:
    first = house.print("before")
    house.look()
    second = house.print("after")
    house.output.close()
    house.begin()
    assert house.look() == 1
    assert house.store.puts[-1][0].endswith(f"-at-{second[0].offset:013d}")
    assert (house.read(*first), house.read(*second)) == ("before", "after")
    assert house.look() == 0


def test_a_kill_between_put_and_note_puts_the_same_or_more(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    first = house.print("noted")
    house.look()
    second = house.print("not noted")

    class Killed(BaseException):
        pass

    def killed(*of: object) -> None:
        raise Killed

    monkeypatch.setattr(house.storer, "_note", killed)
    with pytest.raises(Killed):
        house.look()
    assert len(house.keys) == 2, "it was put, and nobody knows"
    third = house.print("came since")
    house.output.close()
    house.begin()
    assert house.look() == 1
    assert len(house.keys) == 2
    assert [house.read(*one) for one in (first, second, third)] == ["noted", "not noted", "came since"]


def test_without_its_notes_all_is_put_again_and_parts_that_overlap_are_read(small: House) -> None:
    refs = []
    for n in range(6):
        refs.append((f"{n}" * 300, small.print(f"{n}" * 300)))
        small.look()
    (small.output.directory / "stored").write_bytes(b"torn")
    small.output.close()
    small.begin()
    assert small.look() > 0
    small.store.store.delete(small.keys[1])
    for text, ref in refs:
        assert small.read(*ref) == text


def test_at_another_place_all_is_put_again(small: House, tmp_path: Path) -> None:
    one = small.print("one")
    small.look()
    small.output.close()
    small.store = Flaky(open_store(str(tmp_path / "another")))
    small.begin()
    assert small.look() == 1
    assert small.read(*one) == "one"


@pytest.mark.parametrize("restarts", [True, False])
def test_a_store_that_comes_back_empty_gets_all_again(
    small: House, restarts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    refs = [small.print(text) for text in ("one", "two")]
    small.look()
    for _ in range(2):  # and once more
        small.empty()
        assert small.look() == 0, "it is not looked at each time"
        if restarts:
            small.output.close()
            small.begin()
        small.clock.forward(to_store.MARK_MS)
        small.look(patient=True)
        assert small.storer.waiting_bytes == small.output.size(), "it is said"
        assert small.look() == 1
        assert [small.read(*ref) for ref in refs] == ["one", "two"]
        assert "does not have what was put before" in caplog.text
        caplog.clear()
    small.clock.forward(to_store.MARK_MS)
    assert small.look() == 0


def test_the_note_of_a_time_without_marks_counts(house: House) -> None:
    ref = house.print("of 0.2.0")
    house.look()
    named = house.sink._named
    house.sent.rename("", house.sink._place, named)
    house.sent.write()
    house.store.delete(MARK)
    house.output.close()
    house.begin()
    assert house.look() == 0
    assert house.storer.waiting_bytes == 0
    assert house.sent.store_of("") == house.sink._place != named
    house.output.close()
    house.begin()
    house.empty()
    assert (house.look(), house.read(*ref)) == (1, "of 0.2.0"), "from then on it is noticed"


def test_the_note_of_a_time_without_marks_does_not_count_at_another_place(small: House, tmp_path: Path) -> None:
    ref = small.print("of 0.2.0")
    small.look()
    small.sent.rename("", small.sink._place, small.sink._named)
    small.sent.write()
    small.output.close()
    small.store = Flaky(open_store(str(tmp_path / "another")))
    small.begin()
    assert (small.look(), small.read(*ref)) == (1, "of 0.2.0")


def test_a_mark_that_cannot_be_seen_changes_nothing(small: House, caplog: pytest.LogCaptureFixture) -> None:
    small.print("one")
    small.look()
    small.output.close()
    small.begin()
    get = small.store.get

    def refused(key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        raise ObjectStoreError("access denied")

    small.store.get = refused  # type: ignore[method-assign]
    for _ in range(2):
        assert small.look() == 0
        small.clock.forward(to_store.MARK_AGAIN_MS)
    two = small.print("two")
    assert small.look() == 1
    assert caplog.text.count("it cannot be seen whether") == 1
    small.store.get = get  # type: ignore[method-assign]
    small.clock.forward(to_store.MARK_AGAIN_MS)
    assert (small.look(), small.read(*two)) == (0, "two")


def test_without_second_copies_there_is_no_mark(small: House) -> None:
    small.most = 1
    small.print("one")
    small.look()
    assert list(small.store.list()) == []
    assert place_in(CLUSTER, MARK) is None, "it is never deleted by age"


def test_a_store_that_is_down_is_tried_again_later(small: House) -> None:
    one = small.print("one")
    small.store.down = True
    assert small.look() == 0
    assert (small.storer.failures, small.storer.failing) == (1, True)
    assert small.storer.waiting_since_ms is not None
    assert small.look(patient=True) == 0
    assert small.storer.failures == 1, "not at once"
    small.clock.forward(Copier.retry_ms)
    small.look(patient=True)
    assert small.storer.failures == 2
    small.store.down = False
    small.clock.forward(Copier.retry_ms)
    assert small.look(patient=True) == 0, "each time later"
    small.clock.forward(Copier.retry_ms)
    assert small.look(patient=True) == 1
    assert (small.storer.failing, small.storer.waiting_since_ms, small.read(*one)) == (False, None, "one")


def test_a_segment_that_the_store_does_not_take_holds_up_no_other(
    small: House, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = owner_of("bad"), owner_of("good")
    small.own = {bad: 2, good: 2}
    small.print("never taken", "bad")
    taken = [small.print("one", "good")]
    put = small.store.store.put

    def picky(key: str, source: Source) -> int:
        if bad in key:
            raise ObjectStoreError("too large")
        return put(key, source)

    small.store.store.put = picky  # type: ignore[method-assign]
    assert small.look() == 0, "the one that was begun first comes first"
    small.clock.forward(Copier.retry_ms)
    assert small.look() == 1, "and then the other one"
    for text in ("two", "three"):
        taken.append(small.print(text, "good"))
        small.clock.forward(Copier.retry_ms)
        small.look()
    assert [small.read(*one) for one in taken] == ["one", "two", "three"]
    assert small.storer.failing, "there is something that it does not take"
    assert caplog.text.count("does not take output") == 1, "it is said once"
    small.store.store.put = put  # type: ignore[method-assign]
    small.clock.forward(Copier.retry_most_ms)
    assert (small.look(), small.storer.failing) == (1, False)
    assert "takes output again" in caplog.text


class Slow:
    """A store whose puts take until they are released."""

    def __init__(self, small: House) -> None:
        self.release = threading.Event()
        self._small = small
        self._put = small.store.store.put
        small.store.store.put = self.put  # type: ignore[method-assign]

    def put(self, key: str, source: Source) -> int:
        if key != MARK:
            self.release.wait(patient(30))
        return self._put(key, source)

    async def end(self) -> None:
        self.release.set()
        for thread in threading.enumerate():
            if thread.name == "output-store":
                await asyncio.to_thread(thread.join)


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_put_that_ends_late_counts_and_is_not_made_again_meanwhile(
    small: House, monkeypatch: pytest.MonkeyPatch, ends_well: bool
) -> None:
    monkeypatch.setattr(to_store, "PUT_S", 0.01)
    monkeypatch.setattr(to_store, "SLOWEST_BYTES_PER_S", 1 << 40)
    ref = small.print("x" * 2_000)
    slow = Slow(small)

    async def main() -> None:
        await small.storer.look()
        assert (small.storer.failures, small.storer.failing, small.storer.items) == (1, True, 0)
        small.clock.forward(Copier.retry_most_ms)
        await small.storer.look()
        assert small.storer.failures == 1, "it goes on, so it is not made a second time"
        small.store.down = not ends_well
        await slow.end()
        small.store.down = False
        monkeypatch.undo()
        monkeypatch.setattr(copier, "BYTES_PER_S", 1 << 40)
        await small.storer.look()
        await small.storer.look()

    asyncio.run(main())
    assert len(small.store.puts) == 1
    assert (small.storer.failing, small.storer.items, small.read(*ref)) == (False, 1, "x" * 2_000)
    small.output.close()
    small.begin()
    assert small.look() == 0, "it was noted"


def test_a_store_that_hangs_has_two_puts_at_most(small: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_store, "PUT_S", 0.01)
    monkeypatch.setattr(to_store, "SLOWEST_BYTES_PER_S", 1 << 40)
    names = ("one", "two", "three")
    small.own = {owner_of(name): 2 for name in names}
    for name in names:
        small.print("x" * 2_000, name)
    slow = Slow(small)

    async def main() -> None:
        for _ in range(4):
            await small.storer.look()
            small.clock.forward(Copier.retry_most_ms)
        assert small.storer.failures == 2
        await slow.end()

    asyncio.run(main())
    monkeypatch.undo()
    monkeypatch.setattr(copier, "BYTES_PER_S", 1 << 40)
    assert small.look() == 1
    assert small.look() == 0
    assert (len(small.store.puts), small.storer.items, small.storer.failing) == (3, 3, False)


def test_a_put_has_time_for_what_is_in_it(small: House, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    wait_for = asyncio.wait_for

    async def timed(what: asyncio.Future[None], timeout_s: float) -> None:
        limits.append(timeout_s)
        await wait_for(what, timeout_s)

    monkeypatch.setattr(to_store.asyncio, "wait_for", timed)
    small.print("x" * 2**17)
    small.look()
    assert to_store.PUT_S + 2 < limits[0] < to_store.PUT_S + 3


def test_a_disk_that_does_not_take_the_note_is_not_the_stores_fault(
    small: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write = small.sent.write
    monkeypatch.setattr(small.sent, "write", full)
    refs = []
    for text in ("one", "two"):
        refs.append(small.print(text))
        assert small.look() == 1, "nothing waits for the note"
    assert [small.read(*ref) for ref in refs] == ["one", "two"]
    assert (small.storer.failures, small.storer.failing, small.storer.waiting_bytes) == (0, False, 0)
    assert caplog.text.count("cannot be noted on this node's disk: [Errno 28]") == 1
    monkeypatch.setattr(small.sent, "write", write)
    small.look()
    small.output.close()
    small.begin()
    assert small.look() == 0


def test_a_store_is_not_said_to_fail_for_what_is_gone(small: House) -> None:
    small.print("one")
    small.store.down = True
    small.look()
    assert small.storer.failing
    small.output.drop_before(2**50)
    small.clock.forward(Copier.retry_ms)
    assert small.look(patient=True) == 0
    assert not small.storer.failing


def test_what_is_damaged_is_left_out(small: House) -> None:
    refs = [small.print(text) for text in ("before", "torn", "after")]
    (path,) = small.output.directory.glob("seg-*.dat")
    damage(path, refs[1][0].offset + HEADER_SIZE + 6)
    assert (small.look(), small.look(), small.look()) == (1, 1, 0)
    assert [small.read(*ref) for ref in refs] == ["before", None, "after"]
    assert small.storer.waiting_bytes == 0, "nothing waits for what cannot be put"


@pytest.mark.parametrize("damaged", [0, 9])
@pytest.mark.parametrize("place", [5, HEADER_SIZE + 6])  # within the header, and within the output
def test_damage_and_a_restart_replace_no_object(small: House, damaged: int, place: int) -> None:
    refs = [small.print("before") for _ in range(10)]
    small.look()
    small.output.close()
    (path,) = small.output.directory.glob("seg-*.dat")
    damage(path, refs[damaged][0].offset + place)
    small.begin()
    assert small.look() == 0
    after = small.print("after")
    assert small.look() == 1
    assert len({key for key, _ in small.store.puts}) == len(small.store.puts)
    assert [small.read(*ref) for ref in [*refs, after]] == ["before"] * 10 + ["after"]


def test_a_segment_that_ends_too_early_is_no_object(small: House, monkeypatch: pytest.MonkeyPatch) -> None:
    small.print("cut off")
    monkeypatch.setattr("raftsched.output.following.copier.next_stretch", lambda *of: Stretch(0, 5_000))
    small.look()
    assert (small.storer.failures, small.keys) == (1, [])


# ---------------------------------------------------------------- reading


def test_what_does_not_have_the_digest_of_the_log_is_not_shown(small: House) -> None:
    """Neither where the object was damaged, nor where somebody put another record there that is whole in itself."""
    ref, token = small.print("truth")
    small.look()
    (path,) = Path(small.store.where).glob("*/output/n1/*/*-at-*")
    path.write_bytes(path.read_bytes().replace(b"truth", b"trush"))
    assert small.read(ref, token) is None
    other = House(small.directory / "forger", open_store(str(small.directory / "forged")))
    other.print("trush")
    other.look()
    (forged,) = (small.directory / "forged").glob("*/output/n1/*/*-at-*")
    path.write_bytes(forged.read_bytes())
    assert small.read(ref, token) is None
    assert small.read(replace(ref, sha256=b"?" * 32), token) is None


def test_an_object_cannot_make_a_reader_fetch_more_than_the_log_says(small: House) -> None:
    ref, token = small.print("x" * 50_000)
    small.look()
    assert small.read(replace(ref, size=10), token) is None
    asked: list[int | None] = []
    get = small.store.get

    def counted(key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        asked.append(length)
        return get(key, start, length)

    small.store.get = counted  # type: ignore[method-assign]
    assert small.read(replace(ref, size=10), token) is None
    assert asked == [HEADER_SIZE]


def test_the_disk_that_was_there_before_is_read_too(small: House) -> None:
    old = small.print("of the old disk")
    small.look()
    small.output.close()
    small.begin(b"disk-new")
    new = small.print("of the new one")
    small.look()
    assert old[0].segment == new[0].segment
    assert (small.read(*old), small.read(*new)) == ("of the old disk", "of the new one")


def test_a_store_that_is_down_is_not_one_that_has_nothing(small: House) -> None:
    ref, token = small.print("one")
    small.look()
    small.store.down = True
    with pytest.raises(RaftschedError, match="cannot be read from the object store: it is down") as failed:
        small.read(ref, token)
    assert failed.value.code == "output-unavailable"


def test_a_store_that_hangs_holds_up_nobody(small: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, token = small.print("one")
    small.look()
    monkeypatch.setattr(stored, "READ_S", 0.05)
    hangs = threading.Event()

    def hanging(prefix: str = "") -> Iterator[Found]:
        hangs.wait(patient(30))
        return iter(())

    small.store.list = hanging  # type: ignore[method-assign]
    try:
        with pytest.raises(RaftschedError, match="no answer within"):
            small.read(ref, token)
    finally:
        hangs.set()


def test_a_reader_of_parts_fetches_once(small: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, token = small.print("one")
    other = small.print("other" * 100)
    small.look()
    fetched: list[str] = []
    copy = small.reader._copy

    def counted(key: str, ref: OutputRef, token: int) -> object:
        fetched.append(key)
        return copy(key, ref, token)

    monkeypatch.setattr(small.reader, "_copy", counted)
    monkeypatch.setattr(stored, "KEPT_BYTES", 600)

    async def main() -> None:
        for stream in (None, "stdout", None):
            assert await small.reader.open("n1", ref, stream, token) is not None
        assert len(fetched) == 1
        await small.reader.open("n1", *_asked(other))
        await small.reader.open("n1", ref, None, token)
        assert len(fetched) == 3, "the largest makes room"

    asyncio.run(main())


def _asked(printed: tuple[OutputRef, int]) -> tuple[OutputRef, None, int]:
    return printed[0], None, printed[1]


def test_a_disk_without_room_is_not_filled(small: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, token = small.print("one")
    small.look()
    monkeypatch.setattr(stored, "ROOM", 1 << 60)
    with pytest.raises(RaftschedError, match="this node's disk: no space left"):
        small.read(ref, token)


# ---------------------------------------------------------------- the place, keys, calls


def test_a_directory_is_not_made(tmp_path: Path) -> None:
    store = output_store_of(build({"id": "n1", "data": "/d", "output_store": str(tmp_path / "share")}))
    assert store is not None
    with pytest.raises(ObjectStoreError, match="make it, or mount what it is on"):
        store.put("k", io.BytesIO(b"x"))
    assert not (tmp_path / "share").exists()


@pytest.mark.parametrize(
    ("where", "endpoint", "words"),
    [
        ("ftp://vault", None, "a directory, or s3://BUCKET/PREFIX"),
        ("s3://user:hush@vault/x", None, "the environment has credentials"),
        ("s3://vault", "https://user:hush@s3.example", "must not hold credentials"),
        ("s3://V", None, "cannot be the name of a bucket"),
    ],
)
def test_a_place_that_is_none_ends_the_start_in_one_line(where: str, endpoint: str | None, words: str) -> None:
    settings = {"id": "n1", "data": "/d", "output_store": where, "s3_endpoint": endpoint}
    with pytest.raises(StartupError, match=words) as refused:
        output_store_of(build({name: text for name, text in settings.items() if text is not None}))
    assert refused.value.detail.startswith("output_store: ")
    assert "hush" not in refused.value.detail
    assert "\n" not in refused.value.detail


def test_the_place_of_a_node() -> None:
    config = build({"id": "n1", "data": "/d"})
    assert output_store_of(config) is None
    assert info_of(config, whole_runs=True)["output_store"] == "none"
    config = build({"id": "n1", "data": "/d", "output_store": "s3://vault/x", "s3_endpoint": "http://127.0.0.1:1"})
    store = output_store_of(config)
    assert store is not None
    assert store.where == info_of(config, whole_runs=True)["output_store"] == "s3://vault/x"


def test_keys_say_what_places_are() -> None:
    place = Place("n-1.x", DISK, 12, owner_of("billing"), 4_096)
    for one in (place, place._replace(owner=""), place._replace(start=0, segment=123_456_789)):
        key = key_of(CLUSTER, one)
        assert place_in(CLUSTER, key) == one
        assert key.startswith(prefix_of(CLUSTER, "n-1.x", one.segment))
        assert place_in("c1" * 16, key) is None
        for wrong in (f"x{key}", f"{key}x", key.replace("/output/", "/other/"), key.replace("n-1.x", "N1")):
            assert place_in(CLUSTER, wrong) is None


def test_a_call_counts_until_it_ends() -> None:
    release, running = threading.Event(), threading.Semaphore(0)

    def hang() -> str:
        running.release()
        release.wait(patient(30))
        return "late"

    async def main() -> None:
        calls = Calls(1)
        with pytest.raises(TimeoutError):
            await calls.make(hang, 0.05)
        assert running.acquire(timeout=patient(10))
        with pytest.raises(TimeoutError):
            await calls.make(lambda: "another", 0.05)
        release.set()
        assert await calls.make(lambda: "after", 10) == "after"
        with pytest.raises(ZeroDivisionError):
            await calls.make(lambda: 1 // 0, 10)

    asyncio.run(main())


def test_a_call_that_cannot_begin_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> int:
        calls = Calls(1)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", _no_thread)
            with pytest.raises(RuntimeError, match="new thread"):
                await calls.make(lambda: 1, 10.0)
        return await calls.make(lambda: 2, 10.0)

    assert asyncio.run(main()) == 2


def _no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_segment_that_is_gone_here_keeps_its_number_and_so_its_objects(small: House) -> None:
    """Output may be kept longer in the store than on the disk."""
    owner = owner_of("hr")
    small.own = {owner: 2}
    small.print("of all")
    old, token = small.print("old", "hr")
    small.look()
    small.output.drop_before(0, {owner: 1 << 60})
    small.begin()
    new, later = small.print("new", "hr")
    assert new.segment == old.segment + 1
    small.look()
    assert (small.read(old, token), small.read(new, later)) == ("old", "new")
