"""What holds of every store: whole puts, pieces, lists in order, deletes, keys."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.objectstore import s3 as s3_module
from raftsched.objectstore.opening import open_store
from raftsched.objectstore.store import NoSuchObject, ObjectStore, ObjectStoreError, Source
from tests.support import s3


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    if request.param == "directory":
        yield open_store(str(tmp_path / "vault"))
        return
    with s3.serving() as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        opened = open_store("s3://vault/deep/er/")
        yield opened
        opened.close()


def put(store: ObjectStore, key: str, content: bytes) -> int:
    return store.put(key, io.BytesIO(content))


def test_what_was_put_is_got_whole_or_from_a_byte_on(store: ObjectStore) -> None:
    content = bytes(range(256)) * 20_000  # more than a piece
    assert put(store, "a/b.bin", content) == len(content)
    assert b"".join(store.get("a/b.bin")) == content
    assert b"".join(store.get("a/b.bin", 300)) == content[300:]
    assert b"".join(store.get("a/b.bin", 300, 10)) == content[300:310]
    assert b"".join(store.get("a/b.bin", len(content) - 5, 10)) == content[-5:]
    assert b"".join(store.get("a/b.bin", len(content) + 5)) == b""
    assert b"".join(store.get("a/b.bin", 3, 0)) == b""


def test_a_put_replaces_and_a_delete_may_be_repeated(store: ObjectStore) -> None:
    put(store, "k", b"1")
    put(store, "k", b"")
    assert b"".join(store.get("k")) == b""
    store.delete("k")
    store.delete("k")
    store.delete("never/there")
    with pytest.raises(NoSuchObject, match="k is not there"):
        next(store.get("k"))


def test_a_list_has_keys_and_sizes_in_order_and_nothing_of_other_prefixes(store: ObjectStore) -> None:
    assert list(store.list()) == []
    keys = ["a/1", "a/2", "a-b", "a/sub/3", "ab", "b", "a.c"]
    for number, key in enumerate(keys):
        put(store, key, b"x" * number)
    assert [(found.key, found.size) for found in store.list()] == sorted((key, n) for n, key in enumerate(keys))
    assert [found.key for found in store.list("a/")] == ["a/1", "a/2", "a/sub/3"]
    assert [found.key for found in store.list("a/s")] == ["a/sub/3"]
    assert [found.key for found in store.list("a")] == sorted(key for key in keys if key.startswith("a"))
    assert list(store.list("c/d")) == []


class Breaking:
    """A source that ends with an error after a piece."""

    def __init__(self) -> None:
        self.left = 1

    def read(self, size: int, /) -> bytes:
        if self.left:
            self.left -= 1
            return b"x" * min(size, 100)
        raise RuntimeError("the source broke")


def test_a_source_that_breaks_leaves_nothing_and_what_was_there_stays(store: ObjectStore) -> None:
    put(store, "k", b"before")
    for key in ("k", "new"):
        with pytest.raises(RuntimeError, match="the source broke"):
            store.put(key, Breaking())
    assert [found.key for found in store.list()] == ["k"]
    assert b"".join(store.get("k")) == b"before"


class Dripping:
    """A source that gives less than it is asked for."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int, /) -> bytes:
        given = min(size, self.left, 1_000_003)
        self.left -= given
        return b"d" * given


def test_a_source_may_give_less_than_it_is_asked_for(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_module, "_PART", 5 << 20)  # the smallest that S3 allows
    source: Source = Dripping(11_000_000)
    assert store.put("big", source) == 11_000_000
    assert [(found.key, found.size) for found in store.list()] == [("big", 11_000_000)]


@pytest.mark.parametrize("key", ["", "/a", "a/", "../a", "a/../b", ".a", "a//b", "ä", "a b", "a\nb", "a?b", "x" * 201])
def test_keys_that_could_lead_elsewhere_are_refused(store: ObjectStore, key: str) -> None:
    for call in (lambda: put(store, key, b""), lambda: list(store.get(key)), lambda: store.delete(key)):
        with pytest.raises(ObjectStoreError, match="cannot be the key of an object"):
            call()
