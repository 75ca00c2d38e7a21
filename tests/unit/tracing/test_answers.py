"""A collector that answers without an end takes no memory of the node."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from raftsched.tracing.answers import MOST, bounded_session


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
