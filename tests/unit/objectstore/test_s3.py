"""S3: credentials, parts, answers that break off, services that fail, and places as they may be named."""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from raftsched.objectstore import s3 as s3_module
from raftsched.objectstore.opening import open_store
from raftsched.objectstore.store import NotUsable, ObjectStore, ObjectStoreError
from tests.support import s3


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[s3.S3]:
    for name in list(os.environ):
        if name.startswith(("AWS_", "MINIO_", "RAFTSCHED_S3")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with s3.serving() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def store(service: s3.S3) -> Iterator[ObjectStore]:
    opened = open_store("s3://vault/backups")
    yield opened
    opened.close()


def test_a_large_object_goes_in_parts_and_one_that_breaks_off_leaves_none(
    store: ObjectStore, service: s3.S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "_PART", 5 << 20)
    content = os.urandom(11 << 20)
    store.put("big", io.BytesIO(content))
    assert service.objects == {"backups/big": content}
    assert len([asked for asked in service.asked if "partNumber" in asked.query]) == 3

    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > (6 << 20):
                raise RuntimeError("the source broke")
            return super().read(size)

    with pytest.raises(RuntimeError, match="the source broke"):
        store.put("broken", Breaking(content))
    assert service.uploads == {}
    assert service.objects.keys() == {"backups/big"}


def test_an_answer_that_breaks_off_is_taken_up_where_it_was(store: ObjectStore, service: s3.S3) -> None:
    content = os.urandom(1 << 20)
    service.objects["backups/k"] = content
    cuts = iter([s3.CUT, s3.CUT, None])
    service.fault = lambda asked: next(cuts)
    assert b"".join(store.get("k", 10, len(content) - 20)) == content[10:-10]
    ranges = [asked.headers["range"] for asked in service.asked]
    assert len(ranges) == 3
    assert len(set(ranges)) == 3


def test_an_object_that_is_replaced_while_it_is_read_is_not_mixed(store: ObjectStore, service: s3.S3) -> None:
    service.objects["backups/k"] = b"a" * 1000

    def fault(asked: s3.Asked) -> int | None:
        return s3.CUT if len(service.asked) == 1 else service.objects.update({"backups/k": b"b" * 1000})

    service.fault = fault
    with pytest.raises(ObjectStoreError, match="PreconditionFailed"):
        b"".join(store.get("k"))


def test_an_answer_without_progress_is_given_up(store: ObjectStore, service: s3.S3) -> None:
    service.objects["backups/k"] = b"a"  # half of it is nothing
    service.fault = lambda asked: s3.CUT
    with pytest.raises(ObjectStoreError, match="k cannot be read"):
        b"".join(store.get("k"))
    assert len(service.asked) == s3_module._RESUMED


def test_a_service_that_is_slow_for_a_moment_is_asked_again(store: ObjectStore, service: s3.S3) -> None:
    answers = iter([503, None])
    service.fault = lambda asked: next(answers)
    store.put("k", io.BytesIO(b"x"))
    assert service.objects == {"backups/k": b"x"}


def test_refusals_say_what_s3_said(store: ObjectStore, service: s3.S3, monkeypatch: pytest.MonkeyPatch) -> None:
    service.fault = lambda asked: 403
    with pytest.raises(ObjectStoreError, match="backups/k cannot be written: AccessDenied: as the test said"):
        store.put("k", io.BytesIO(b""))
    service.fault = lambda asked: None
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(ObjectStoreError, match="SignatureDoesNotMatch") as refused:
        list(open_store("s3://vault/backups").list())
    assert "another" not in str(refused.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.SECRET_KEY)
    with pytest.raises(ObjectStoreError, match="NoSuchBucket"):
        list(open_store("s3://elsewhere").list())


@pytest.mark.parametrize("body", [b"", b"<html><body>Log in</body></html>", b"not <<< xml", b'{"a": 1}', b"\xff\xfe"])
def test_what_answers_well_and_is_no_s3_is_said(
    store: ObjectStore, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3._Handler, "_list", lambda self, query: self._send(200, body, {}))
    with pytest.raises(ObjectStoreError, match="s3://vault/backups cannot be listed: no answer of S3 ") as said:
        list(store.list())
    assert "is the endpoint right?" in str(said.value)


def test_credentials_come_from_the_environment_or_its_files_and_their_lack_is_said(
    service: s3.S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ObjectStoreError, match="no credentials for S3: set AWS_ACCESS_KEY_ID"):
        list(open_store("s3://vault").list())
    assert service.asked == []
    file = tmp_path / "credentials"
    file.write_text("not of this form")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    with pytest.raises(ObjectStoreError, match="no credentials for S3"):
        list(open_store("s3://vault").list())
    file.write_text(f"[default]\naws_access_key_id={s3.ACCESS_KEY}\naws_secret_access_key={s3.SECRET_KEY}\n")
    assert list(open_store("s3://vault").list()) == []


def test_credentials_that_are_replaced_in_their_file_are_used(
    service: s3.S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By who holds the store open, as a node does: the service takes others now, and these are in the file."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    file = tmp_path / "credentials"
    right = f"[default]\naws_access_key_id={s3.ACCESS_KEY}\naws_secret_access_key={s3.SECRET_KEY}\n"
    file.write_text(right.replace(s3.SECRET_KEY, "what it was"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    store = open_store("s3://vault")
    with pytest.raises(ObjectStoreError, match="SignatureDoesNotMatch"):
        list(store.list())
    file.write_text(right)
    assert list(store.list()) == []
    file.write_text("[default]\naws_access_key_id=half")
    for _ in range(3):
        assert list(store.list()) == []
    assert ["stay in use" in said for said in caplog.messages] == [True]


def test_a_service_of_credentials_does_not_say_how_long_is_waited(
    service: s3.S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.send_header("Retry-After", "31536000")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *of: object) -> None:
            pass

    def slept(*_: object) -> None:
        raise AssertionError("it would sleep for a year")

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setattr("urllib3.util.retry.Retry.sleep_for_retry", slept)
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_port}")
        try:
            with pytest.raises(ObjectStoreError, match="no credentials for S3"):
                list(open_store("s3://vault", "https://s3.amazonaws.com").list())
        finally:
            server.shutdown()
            thread.join()


def test_a_service_that_is_not_there_is_said(service: s3.S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_module, "_RETRIES", 0)
    with pytest.raises(ObjectStoreError, match=r"s3://vault cannot be listed: .*refused"):
        list(open_store("s3://vault", "http://127.0.0.1:1").list())


def test_without_the_package_it_is_said_how_to_get_it(service: s3.S3, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.partition(".")[0] == "minio":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NotUsable, match=r"pip install 'raftsched\[s3\]'"):
        open_store("s3://vault")


@pytest.mark.parametrize(
    ("where", "endpoint", "text"),
    [
        ("", None, "a directory, or s3://BUCKET/PREFIX"),
        ("s3:vault/x", None, "a directory, or s3://BUCKET/PREFIX"),
        ("s3:/vault/x", None, "a directory, or s3://BUCKET/PREFIX"),
        ("gs://vault", None, "gs:// is no place"),
        ("s3://key:hidden@vault/x", None, "the environment has credentials"),
        ("s3://vault/x?secret=hidden", None, "the environment has credentials"),
        ("s3://", None, "cannot be the name of a bucket"),
        ("s3://Vault", None, "cannot be the name of a bucket"),
        ("s3://vault/a//b", None, "the prefix: 'a//b' cannot be the key"),
        ("s3://vault/a b", None, "the prefix: 'a b' cannot be the key"),
        ("s3://vault", "https://key:hidden@host", "must not hold credentials"),
        ("s3://vault", "host:9000", "http:// or https://"),
        ("s3://vault", "https://host/path", "http:// or https://"),
    ],
)
def test_places_that_are_none_are_refused_and_secrets_not_shown(
    service: s3.S3, where: str, endpoint: str | None, text: str
) -> None:
    with pytest.raises(NotUsable, match=text) as refused:
        open_store(where, endpoint)
    assert "hidden" not in str(refused.value)
