"""S3: answers that do not end, or that would be much larger once they are read, are given up within bounds."""

from __future__ import annotations

import asyncio
import io
import os
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from raftsched.objectstore import bounded
from raftsched.objectstore import s3 as s3_module
from raftsched.objectstore.opening import open_store
from raftsched.objectstore.store import ObjectStore, ObjectStoreError
from raftsched.output.following.calls import Calls

Answer = Callable[["_Handler"], None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    answer: Answer
    asked: list[str]
    ended: threading.Event

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        type(self).asked.append(self.path)
        try:
            type(self).answer(self)
        except OSError:  # it was cut off
            self.close_connection = True
        finally:
            type(self).ended.set()

    do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *of: object) -> None:
        pass

    def head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/xml", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def whole(self, status: int, content: bytes, **headers: str) -> None:
        self.head(status, Content_Length=str(len(content)), **headers)
        self.wfile.write(content)

    def endless(self, *pieces: bytes) -> None:
        while True:
            for piece in pieces:
                self.wfile.write(piece)


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[_Handler]]:
    for name in list(os.environ):
        if name.startswith(("AWS_", "MINIO_", "RAFTSCHED_S3")):
            monkeypatch.delenv(name)

    class Handler(_Handler):
        asked, ended = [], threading.Event()  # of this test

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        for name, value in {
            "HOME": str(tmp_path),
            "RAFTSCHED_S3_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "AWS_REGION": "eu-north-1",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }.items():
            monkeypatch.setenv(name, value)
        yield Handler
        server.shutdown()
        thread.join()


@pytest.fixture
def store(handler: type[_Handler], monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    monkeypatch.setattr(s3_module, "_RETRIES", 0)
    opened = open_store("s3://vault/p")
    yield opened
    opened.close()


def _page(entries: str = "", more: str | None = None, head: str = "") -> bytes:
    token = "" if more is None else f"<NextContinuationToken>{more}</NextContinuationToken>"
    space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    return (
        f'<?xml version="1.0"?>{head}<ListBucketResult {space}><Name>vault</Name>'
        f"<IsTruncated>{str(more is not None).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
    ).encode()


def _entry(key: str) -> str:
    return f"<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><Size>1</Size></Contents>"


def _chunked(status: int, *pieces: bytes) -> Answer:
    def answer(handler: _Handler) -> None:
        handler.head(status, Transfer_Encoding="chunked")
        handler.wfile.write(b"5\r\n<a>x<\r\n")
        handler.endless(*pieces)

    return answer


def _interim(handler: _Handler) -> None:
    handler.endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def _by_length(status: int) -> Answer:
    def answer(handler: _Handler) -> None:
        handler.head(status, Content_Length=str(1 << 40))
        handler.endless(b" " * 65_536)

    return answer


def _trailing(handler: _Handler) -> None:
    handler.head(200, Transfer_Encoding="chunked")
    handler.wfile.write(b"0\r\n")
    handler.endless(b"a: b\r\n" * 10_000)


def _inflated(handler: _Handler) -> None:
    handler.whole(200, b"\x1f\x8b" + b"\0" * 100, Content_Encoding="gzip")


MIB = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
HOSTILE: dict[str, Answer] = {
    "an error in chunks": _chunked(404, MIB),
    "an error of a service that has no room": _chunked(503, MIB),
    "an error by its length": _by_length(403),
    "an answer in chunks": _chunked(200, MIB),
    "an answer by its length": _by_length(200),
    "chunks of a byte": _chunked(200, b"1\r\nx\r\n" * 10_000),
    "interim answers": _interim,
    "a line between chunks": _chunked(200, b"1" * 65_536),
    "lines behind the chunks": _trailing,
    "many parts": lambda handler: handler.whole(200, b"<a>" + b"<b/>" * 1_000_000 + b"</a>"),
    "many attributes": lambda handler: handler.whole(
        200, b"<a " + b"".join(b'b%d="" ' % n for n in range(60_000)) + b"/>"
    ),
    "entities": lambda handler: handler.whole(
        200, _page(_entry("p/&a;"), head='<!DOCTYPE l [<!ENTITY a "' + "lol" * 99 + '">]>')
    ),
    "what claims to be compressed": _inflated,
}
CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: b"".join(store.get("k", 0, 1_000)),
    "list": lambda store: list(store.list("k")),
    "put": lambda store: store.put("k", io.BytesIO(b"content")),
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("call", CALLS)
def test_what_does_not_end_takes_no_memory(
    handler: type[_Handler], store: ObjectStore, call: str, hostile: str
) -> None:
    handler.answer = HOSTILE[hostile]
    tracemalloc.start()
    try:
        CALLS[call](store)
    except ObjectStoreError:
        pass  # a put may be taken, and an object has no more than was asked for
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 48 << 20


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        ("an answer in chunks", "more than 4 MiB"),
        ("interim answers", "in crumbs"),
        ("many parts", "more parts than any list"),
        ("many attributes", "more parts than any list"),
        ("entities", "DOCTYPE"),
    ],
)
def test_what_is_refused_is_said(handler: type[_Handler], store: ObjectStore, hostile: str, said: str) -> None:
    handler.answer = HOSTILE[hostile]
    with pytest.raises(ObjectStoreError, match=said):
        list(store.list())


@pytest.mark.parametrize("asked", [(0, 1_000), (5, 1_000)])
def test_no_more_of_an_object_comes_than_was_asked_for(
    handler: type[_Handler], store: ObjectStore, asked: tuple[int, int]
) -> None:
    handler.answer = _by_length(206)
    assert b"".join(store.get("k", *asked)) == b" " * 1_000
    assert handler.ended.wait(60)  # the connection was closed


def test_a_service_that_gives_all_where_a_part_was_asked_for_is_said(
    handler: type[_Handler], store: ObjectStore
) -> None:
    handler.answer = _by_length(200)
    assert b"".join(store.get("k", 0, 10)) == b" " * 10
    with pytest.raises(ObjectStoreError, match="asked for a part of it, S3 gave all"):
        b"".join(store.get("k", 5, 10))


@pytest.mark.parametrize(
    ("page", "said", "most"),
    [
        (lambda n: _page(more=f"t{n}"), "100 pages of a list with nothing in them", 101),
        (lambda n: _page(_entry(f"p/k{n}"), "again"), "begins again where it has been", 2),
        (lambda n: _page(_entry("p/k"), ""), "begins again where it has been", 1),
        (lambda n: _page(_entry(f"p/k{n}"), f"t{n}"), "a list of more than 7 pages", 7),
    ],
    ids=["empty", "again", "without a token", "on and on"],
)
def test_a_list_that_does_not_end_is_given_up(
    handler: type[_Handler],
    store: ObjectStore,
    page: Callable[[int], bytes],
    said: str,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(s3_module, "_PAGES", 7 if "7" in said else 1_000)
    handler.answer = lambda one: one.whole(200, page(len(one.asked)))
    with pytest.raises(ObjectStoreError, match=said):
        list(store.list())
    assert len(handler.asked) <= most


def test_what_a_list_has_of_other_prefixes_is_passed_over(handler: type[_Handler], store: ObjectStore) -> None:
    handler.answer = lambda one: one.whole(200, _page("".join(map(_entry, ["p/a", "/etc/passwd", "q/a", "p/b"]))))
    assert [found.key for found in store.list()] == ["a", "b"]


def test_an_answer_has_an_end_in_time(
    handler: type[_Handler], store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "ANSWER_S", 0.05)
    gone = threading.Event()

    def drip(one: _Handler) -> None:
        one.head(200, Content_Length="100000")
        while not gone.wait(0.01):
            one.wfile.write(b" ")

    handler.answer = drip
    try:
        with pytest.raises(ObjectStoreError, match="has not ended after"):
            list(store.list())
    finally:
        gone.set()


def test_who_gives_up_ends_what_is_read(handler: type[_Handler], store: ObjectStore) -> None:
    began = threading.Event()

    def flood(one: _Handler) -> None:
        one.head(200, Content_Length=str(1 << 40))
        began.set()
        one.endless(b" " * 65_536)

    handler.answer = flood

    async def ask_and_give_up() -> None:
        asked = asyncio.create_task(Calls(1).make(lambda: deque(store.get("k"), 0), 600.0))
        assert await asyncio.to_thread(began.wait, 60)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(ask_and_give_up())
    assert handler.ended.wait(60)


def test_who_has_waited_long_enough_ends_what_is_silent(handler: type[_Handler], store: ObjectStore) -> None:
    gone, ended = threading.Event(), threading.Event()

    def silent(one: _Handler) -> None:
        one.head(200, Content_Length="9")
        gone.wait(60)

    handler.answer = silent

    def read() -> None:
        try:
            b"".join(store.get("k"))
        finally:
            ended.set()

    try:
        with pytest.raises((TimeoutError, ObjectStoreError)):
            asyncio.run(Calls(1).make(read, 0.2))
        assert ended.wait(30)
    finally:
        gone.set()
