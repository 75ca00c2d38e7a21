"""An HTTP server on a free port whose answers the test writes down beforehand, and that notes what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply = tuple[int, Any]  # status and JSON; bytes are sent as they are; status 0 closes the connection unanswered


@dataclass
class Stub:
    answer: Callable[[Request], Reply]
    url: str = ""
    requests: list[Request] = field(default_factory=list)


@contextmanager
def serve(answer: Callable[[Request], Reply], *, headers: Mapping[str, str] | None = None) -> Iterator[Stub]:
    """`headers`: of each answer."""
    stub = Stub(answer)

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            request = Request(
                self.command,
                self.path,
                {k.lower(): v for k, v in self.headers.items()},
                self.rfile.read(length),
            )
            stub.requests.append(request)
            status, value = stub.answer(request)
            if status == 0:
                self.close_connection = True
                return
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            kind = "application/problem+json" if status >= 400 else "application/json"
            self.send_header("Content-Type", "text/plain" if isinstance(value, bytes) else kind)
            for name, said in (headers or {}).items():
                self.send_header(name, said)
            if status != 204:
                self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            if status != 204:
                self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def problem(status: int, code: str, detail: str, *errors: tuple[str, str]) -> Reply:
    return status, {
        "type": f"urn:raftsched:problem:{code}",
        "title": "T",
        "status": status,
        "code": code,
        "detail": detail,
        "errors": [{"pointer": p, "detail": d} for p, d in errors],
    }
