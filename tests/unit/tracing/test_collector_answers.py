"""A collector that answers without an end takes no memory of the node, and holds nothing for long."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from raftsched.tracing.collector_answers import MOST, bounded_session


@pytest.mark.parametrize("headers", [{"Content-Length": str(1 << 40)}, {}, {"Content-Encoding": "gzip"}])
def test_an_answer_without_an_end_is_cut_off(headers: dict[str, str]) -> None:
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" " * 65_536)
            except OSError:
                ended.set()

        def log_message(self, *of: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        with bounded_session() as session:
            answer = session.post(f"http://127.0.0.1:{server.server_port}", data=b"spans", timeout=60)
            assert (answer.status_code, len(answer.content)) == (200, MOST)
        assert ended.wait(60)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("part", ["head", "body", "chunks"])
def test_an_answer_that_comes_byte_by_byte_has_an_end_in_time(part: str) -> None:
    given_up = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            pieces = {"head": b"x", "body": b" ", "chunks": b"1\r\n \r\n"}
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            if part == "body":
                self.wfile.write(b"Content-Length: 60000\r\n\r\n")
            elif part == "chunks":
                self.wfile.write(b"Transfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(500):  # else the test would not end, where there is no end
                    self.wfile.write(pieces[part])
                    if given_up.wait(0.02):
                        break
            except OSError:
                pass
            self.close_connection = True

        def log_message(self, *of: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with bounded_session() as session, pytest.raises(requests.RequestException, match=r"timed out|in time"):
                session.post(f"http://127.0.0.1:{server.server_port}", data=b"spans", timeout=0.3)
        finally:
            given_up.set()
            server.shutdown()
            thread.join()
