"""A node that only speaks the workers' protocol, and answers as a test wants it to: for what real nodes rarely say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from raftsched.remote import frames
from tests.support.patience import wait_until

LEASE_MS = 60_000
EMPTY_S = 0.05  # before an answer that says nothing
Answer = tuple[int, Any]


class ScriptedNode:
    """`answer`: what a poll gets; None: what an honest node says. It may also stand for a cluster of itself."""

    def __init__(self) -> None:
        self.opened = 0  # sessions
        self.given: list[dict[str, Any]] = []  # runs
        self.taken: dict[int, dict[str, Any]] = {}  # reports of ends, by token
        self.answer: Callable[[dict[str, Any]], Answer | None] = lambda poll: None
        self.nodes = [self]
        self._lock = threading.Lock()
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._reply(*node._answered(self.path, json.loads(body or b"{}")))

            def do_PUT(self) -> None:
                """All of the output is taken."""
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                query = parse_qs(urlsplit(self.path).query)
                to = int(query["offset"][0]) + sum(piece.printed for piece in frames.decode(body))
                place = {"node": "n1", "segment": 1, "offset": 0, "size": to, "sha256": "0" * 64, "truncated": 0}
                self._reply(200, {"offset": to, "output": place if query.get("end") == ["true"] else None})

            def _reply(self, status: int, said: Any) -> None:
                raw = b"" if said is None else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
                self.send_header("Content-Length", str(len(raw)))
                with suppress(ConnectionError):  # the worker would rather say something else
                    self.end_headers()
                    self.wfile.write(raw)

            def log_message(self, *args: Any) -> None:
                """A worker's log says enough."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # ------------------------------------------------------------ what Workers ask of a cluster

    def alive(self) -> list[ScriptedNode]:
        return [self]

    def get(self, path: str) -> Any:
        assert path == "/v1/workers"
        return {"items": []}

    def wait(self, what: str, true: Callable[[], Any]) -> Any:
        return wait_until(true, what)

    # ------------------------------------------------------------ for tests

    def give(self, handler: dict[str, Any], params: dict[str, Any]) -> int:
        """Returns the token of one more run."""
        token = len(self.given) + 1
        run = {
            **{"token": token, "instance": "i", "job": "j", "job_name": None, "namespace": "default", "attempt": 1},
            **{"queue": "default", "priority": 5, "scheduled_at": "2026-01-01T00:00:00Z", "handler": handler},
            **{"params": params, "timeout_ms": 600_000, "grace_ms": 1_000, "secrets": []},
            "env": {"RAFTSCHED_FENCING_TOKEN": str(token)},
        }
        with self._lock:
            self.given.append(run)
        return token

    def report(self, token: int) -> dict[str, Any]:
        """The end of a run, as it was taken."""
        found: dict[str, Any] = self.wait(f"a report of {token}", lambda: self.taken.get(token))
        return found

    def _answered(self, path: str, said: dict[str, Any]) -> Answer:
        with self._lock:
            if path == "/v1/worker-sessions":
                self.opened += 1
                times = {"lease_ms": LEASE_MS, "ttl_ms": LEASE_MS, "kill_before_ms": 500, "poll_ms": 2_000}
                secret = f"{self.opened}-rsw_{'0' * 32}"
                return 201, {"session": secret, "name": said["name"], **times, "queues": None, "namespaces": None}
            if path.endswith("/close"):
                return 204, None
            assert path == f"/v1/worker-sessions/{self.opened}/poll", path
            answer = self.answer(said)
            if answer is not None and answer[0] != 200:
                return answer
            refused = [] if answer is None else answer[1]
            wrong = {one["token"] for one in refused}
            for report in said.get("reports", []):
                if report.get("outcome") and report["token"] not in wrong:
                    self.taken[report["token"]] = report
            runs = [run for run in self.given if run["token"] > said["after"] and run["token"] not in self.taken]
            given = runs[: said.get("max_runs", 500)]
        if not given and not said.get("reports"):
            threading.Event().wait(EMPTY_S)
        return 200, {"lease_ms": LEASE_MS, "runs": given, "kill": [], "refused": refused}


def problem(status: int, code: str, detail: str) -> Answer:
    return status, {"type": f"urn:raftsched:problem:{code}", "status": status, "code": code, "detail": detail}
