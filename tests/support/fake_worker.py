"""A worker of a few lines over HTTP, for what nodes answer to one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.api_nodes import AnyCluster, ApiNode, Reply
from tests.support.patience import wait_until
from tests.support.worker_sessions import sent


class FakeWorker:
    """Asks one node after the other until one answers. It keeps no lease: it runs nothing."""

    def __init__(self, cluster: AnyCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.after = 0
        self.opening = 0
        self.answered = ""  # the node that answered last
        self.session = self.open()["session"]

    def open(self) -> Any:
        self.opening += 1
        body = {"name": self.name, "slots": 8, "handlers": ["call:note"], "incarnation": "e2e", "opening": self.opening}
        return self.ask("/v1/worker-sessions", body)

    def ask(self, path: str, body: Any, nodes: list[ApiNode] | None = None, session: str = "") -> Any:
        """Returns the answer; None: the session is over. `session`: whose request it is."""
        headers = {}
        if session:
            path, headers = sent(session, path)

        def answered() -> Reply | None:
            for node in nodes or self.cluster.alive():
                try:
                    reply = node.request("POST", path, body, headers=headers)
                except OSError:
                    continue
                if reply.status < 300:
                    self.answered = node.id
                if reply.status < 300 or reply.status == 410:
                    return reply
                assert reply.status in (503, 504), (reply.status, reply.body)
            return None

        reply = wait_until(answered, f"a node to answer {path}")
        if reply.status == 410:
            return None
        return reply.json if reply.body else {}

    def poll(self, nodes: list[ApiNode] | None = None, **said: Any) -> Any:
        body = {"after": self.after, "wait_ms": 500, **said}
        answer = self.ask("/poll", body, nodes, self.session)
        if answer is not None and answer["runs"]:
            self.after = answer["runs"][-1]["token"]
        return answer

    def take(self, nodes: list[ApiNode] | None = None) -> Any:
        """Returns the next run."""

        def given() -> Any:
            answer = self.poll(nodes)
            assert answer is not None, "the session is over"
            return answer["runs"]

        return wait_until(given, "a run to be given")[0]

    def report(self, token: int, outcome: str | None = None, **more: Any) -> Any:
        return self.poll(reports=[{"token": token, "outcome": outcome, **more}], wait_ms=0)

    def close(self) -> None:
        self.ask("/close", {"ran": []}, session=self.session)


@contextmanager
def polling(worker: FakeWorker) -> Iterator[None]:
    """Keeps the session while something else takes its time, such as the start of a node."""
    ends = threading.Event()
    answers: list[Any] = []

    def poll() -> None:
        while not ends.is_set():
            answers.append(worker.poll())

    polls = threading.Thread(target=poll)
    polls.start()
    try:
        yield
    finally:
        ends.set()
        polls.join()
    assert None not in answers, "the session is over"
