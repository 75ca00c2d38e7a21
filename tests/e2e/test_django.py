"""examples/django as its README starts it: a web process and a node, each of which is killed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import raftsched
from tests.support.patience import patient, wait_until
from tests.support.ports import free_ports

pytest.importorskip("django")
pytestmark = pytest.mark.e2e

ROOT = Path(raftsched.__file__).parent.parent
SHOP = ROOT / "examples" / "django"
# Two web processes: one dies before its commit, the other between its commit and the cluster.
TWO_DIE = """
import os, signal
from django.db import transaction
from billing.models import Invoice
from billing.tasks import send_invoice
def die(): os.kill(os.getpid(), signal.SIGKILL)
for number in (2, 3):
    if os.fork() == 0:
        with transaction.atomic():
            Invoice.objects.create(number=number)
            if number == 3:
                transaction.on_commit(die)
            send_invoice.enqueue_on_commit(number, key=str(number))
            if number == 2:
                die()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
"""
MANY = range(100, 110)


class Shop:
    def __init__(self, directory: Path) -> None:
        self.web_port, self.node_port = free_ports(2)
        self.log = directory / "log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAFTSCHED_", "DJANGO_"))}
        self.env = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "SHOP_DATA": str(directory / "data"),
            "RAFTSCHED_SLOTS": "2",  # each process of runs imports the project
            "RAFTSCHED_HTTP": f"127.0.0.1:{self.node_port}",
            "RAFTSCHED_SERVER": f"http://127.0.0.1:{self.node_port}",
        }
        self.going: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", *arguments],
                cwd=SHOP, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.going.append(process)
        return process

    def manage(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=SHOP, env=self.env, capture_output=True, text=True, timeout=patient(60), check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}{self.said()}"
        return done.stdout

    def ask(self, method: str, path: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.web_port, timeout=patient(30))
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            said = answer.read()
            kind = answer.headers["Content-Type"] or ""
            return answer.status, json.loads(said) if kind.startswith("application/json") else said.decode()
        finally:
            connection.close()

    def wait(self, what: str, condition: Any) -> Any:
        return wait_until(
            condition, lambda: f"{what}\n{self.said()}", every=0.2, passing=(OSError, http.client.HTTPException)
        )

    def said(self) -> str:
        return self.log.read_text()[-4000:] if self.log.exists() else ""

    def sent(self, number: int) -> Any:
        status, body = self.ask("GET", f"/invoices/{number}")
        return body["sent"] if status == 200 else None


@contextmanager
def shop(directory: Path) -> Iterator[Shop]:
    found = Shop(directory)
    try:
        yield found
    finally:
        for process in found.going:
            if process.poll() is None:
                process.kill()
            process.wait()


def test_what_was_committed_is_sent_once_though_web_and_node_are_killed(tmp_path: Path) -> None:
    with shop(tmp_path) as one:
        one.manage("migrate", "--verbosity", "0")
        node = one.start("raftsched", "node")
        web = one.start("runserver", "--noreload", "--skip-checks", f"127.0.0.1:{one.web_port}")
        one.wait("the node", lambda: one.ask("GET", "/health") == (200, {"status": "ok"}))
        assert "created: shop/send-forgotten" in one.manage("raftsched", "apply")
        assert one.ask("POST", "/invoices/1") == (201, {"number": 1})
        one.wait("the first to be sent", lambda: one.sent(1) == 1)

        # A process that dies before its commit has made neither, and one that dies after it an invoice alone,
        # which a job of the project finds.
        one.manage("shell", "-c", TWO_DIE)
        assert one.sent(2) is None
        assert one.sent(3) == 0
        with raftsched.Client(one.env["RAFTSCHED_SERVER"]) as client:
            client.jobs.run("shop/send-forgotten")
        one.wait("the forgotten one to be sent", lambda: one.sent(3) == 1)

        # The web process is killed at work, and the node in the middle of runs.
        for number in MANY:
            assert one.ask("POST", f"/invoices/{number}")[0] == 201
        web.kill()
        node.kill()
        assert (web.wait(), node.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
        web = one.start("runserver", "--noreload", "--skip-checks", f"127.0.0.1:{one.web_port}")
        one.wait("the web process to tell that the node is away", lambda: one.ask("GET", "/health")[0] == 503)
        assert one.ask("GET", "/health")[1] == {"status": "unavailable"}
        node = one.start("raftsched", "node")
        one.wait("all to be sent", lambda: all(one.sent(number) for number in MANY))
        assert {one.sent(number) for number in (1, 3, *MANY)} == {1}
        assert one.sent(2) is None
        # All may have been sent before the kill: the node has to get as far as to take a signal.
        one.wait("the node to be back", lambda: one.ask("GET", "/health")[0] == 200)
        node.terminate()
        assert node.wait(patient(60)) == 0, one.said()


def test_the_tests_of_the_example_pass(tmp_path: Path) -> None:
    with shop(tmp_path) as one:
        one.manage("test", "--verbosity", "0", "billing.tests.Inline")
