"""A receiver of webhooks on a free port: what it answers is written down beforehand, what it was sent is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from raftsched import webhooks

Answer = Callable[["Receiver", "Received"], tuple[int, bytes]]


@dataclass
class Received:
    headers: Mapping[str, str]
    body: bytes

    def verified(self, secret: str) -> Any:
        return webhooks.verify(secret, self.headers, self.body)


@dataclass
class Receiver:
    url: str = ""
    received: list[Received] = field(default_factory=list)
    at_once: int = 0  # requests that are being answered
    most_at_once: int = 0
    release: threading.Event = field(default_factory=threading.Event)  # for answers that wait for it

    def events(self, secret: str) -> list[Any]:
        return [one.verified(secret) for one in self.received]


@contextmanager
def receiving(answer: Answer) -> Iterator[Receiver]:
    """`answer` is called in a thread for each request: status and body."""
    receiver = Receiver()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            one = Received(dict(self.headers.items()), body)
            with lock:
                receiver.received.append(one)
                receiver.at_once += 1
                receiver.most_at_once = max(receiver.most_at_once, receiver.at_once)
            status, text = answer(receiver, one)
            with lock:
                receiver.at_once -= 1
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
            except OSError:
                pass  # nobody waits for it any more

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
