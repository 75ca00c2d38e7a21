"""A service on a free port that speaks as much of S3 as raftsched uses, and checks the signature of each request.

Objects are in memory. A test may say what becomes of a request before it is looked at (`S3.fault`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlsplit
from xml.sax.saxutils import escape

ACCESS_KEY, SECRET_KEY = "AKIATESTS", "only/for+tests"
PAGE = 3  # objects of one answer to a list
CUT = 0  # as a status: the connection ends within the body


@dataclass
class Asked:
    method: str
    path: str  # without query
    query: dict[str, str]
    headers: dict[str, str]


@dataclass
class S3:
    endpoint: str = ""
    bucket: str = "vault"
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)  # multipart, not complete
    asked: list[Asked] = field(default_factory=list)
    fault: Callable[[Asked], int | None] = lambda asked: None  # a status to answer with

    def environment(self) -> dict[str, str]:
        """What a client needs: where it is, and credentials."""
        return {
            "RAFTSCHED_S3_ENDPOINT": self.endpoint,
            "AWS_REGION": "eu-north-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }


@contextmanager
def serving() -> Iterator[S3]:
    s3 = S3()

    class Handler(_Handler):
        service = s3

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        s3.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield s3
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: S3
    disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgement of its head

    def log_message(self, *of: object) -> None:
        pass

    def _do(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        asked = Asked(self.command, parts.path, query, headers)
        self.service.asked.append(asked)
        status = self.service.fault(asked)
        if status is not None and status != CUT:
            self._refuse(status, {403: "AccessDenied", 503: "SlowDown"}.get(status, "InternalError"))
        elif not _signed(asked, body):
            self._refuse(403, "SignatureDoesNotMatch")
        else:
            _, bucket, key = (*parts.path.split("/", 2), "")[:3]
            if bucket != self.service.bucket:
                self._refuse(404, "NoSuchBucket")
            else:
                self._answer(asked, key, body, cut=status == CUT)

    do_GET = do_PUT = do_POST = do_DELETE = _do

    def _answer(self, asked: Asked, key: str, body: bytes, *, cut: bool) -> None:
        s3, query = self.service, asked.query
        match asked.method:
            case "GET" if not key:
                self._list(query)
            case "GET":
                self._get(asked, key, cut=cut)
            case "PUT" if "uploadId" in query:
                s3.uploads[query["uploadId"]][int(query["partNumber"])] = body
                self._send(200, b"", {"ETag": _tag(body)})
            case "PUT":
                s3.objects[key] = body
                self._send(200, b"", {"ETag": _tag(body)})
            case "POST" if "uploads" in query:
                number = f"upload-{len(s3.asked)}"
                s3.uploads[number] = {}
                self._xml(200, "InitiateMultipartUploadResult", f"<UploadId>{number}</UploadId>")
            case "POST":
                named = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
                parts = s3.uploads.pop(query["uploadId"])
                s3.objects[key] = b"".join(parts[number] for number in named)
                self._xml(200, "CompleteMultipartUploadResult", f"<Bucket>{s3.bucket}</Bucket><Key>{key}</Key>")
            case "DELETE" if "uploadId" in query:
                s3.uploads.pop(query["uploadId"])
                self._send(204, b"", {})
            case _:
                s3.objects.pop(key, None)
                self._send(204, b"", {})

    def _get(self, asked: Asked, key: str, *, cut: bool) -> None:
        if (content := self.service.objects.get(key)) is None:
            return self._refuse(404, "NoSuchKey")
        if asked.headers.get("if-match", _tag(content)) != _tag(content):
            return self._refuse(412, "PreconditionFailed")
        status, span = 200, re.fullmatch(r"bytes=(\d+)-(\d*)", asked.headers.get("range", ""))
        if span:
            status, start = 206, int(span[1])
            if start >= len(content):
                return self._refuse(416, "InvalidRange")
            content = content[start : int(span[2]) + 1 if span[2] else None]
        self._send(status, content, {"ETag": _tag(self.service.objects[key])}, cut=cut)
        return None

    def _list(self, query: dict[str, str]) -> None:
        after = query.get("continuation-token", "")
        found = sorted(k for k in self.service.objects if k.startswith(query.get("prefix", "")) and k > after)
        text = "".join(
            f"<Contents><Key>{escape(quote(k))}</Key><Size>{len(self.service.objects[k])}</Size>"
            "<LastModified>2026-01-02T03:04:05.000Z</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
            for k in found[:PAGE]
        )
        more = len(found) > PAGE
        next_one = f"<NextContinuationToken>{escape(found[PAGE - 1])}</NextContinuationToken>" if more else ""
        head = f"<Name>{self.service.bucket}</Name><EncodingType>url</EncodingType>"
        self._xml(200, "ListBucketResult", f"{head}<IsTruncated>{str(more).lower()}</IsTruncated>{next_one}{text}")

    def _refuse(self, status: int, code: str) -> None:
        self._xml(status, "Error", f"<Code>{code}</Code><Message>as the test said</Message>")

    def _xml(self, status: int, name: str, content: str) -> None:
        space = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"' if name != "Error" else ""
        text = f'<?xml version="1.0" encoding="UTF-8"?><{name}{space}>{content}</{name}>'
        self._send(status, text.encode(), {"Content-Type": "application/xml"})

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _signed(asked: Asked, body: bytes) -> bool:
    """Whether a request is signed with the secret key, by version 4 of AWS's signatures."""
    said = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+/[^/]+/s3/aws4_request), ?SignedHeaders=([^,]+), ?Signature=(\w+)",
        asked.headers.get("authorization", ""),
    )
    if not said or said[1] != ACCESS_KEY:
        return False
    digest = asked.headers["x-amz-content-sha256"]
    if digest not in {"UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()}:
        return False
    query = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(asked.query.items()))
    lines = [f"{name}:{' '.join(asked.headers[name].split())}" for name in said[3].split(";")]
    request = "\n".join([asked.method, asked.path, query, *lines, "", said[3], digest])
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", asked.headers["x-amz-date"], said[2], hashed])
    key = b"AWS4" + SECRET_KEY.encode()
    for part in said[2].split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), said[4])
