"""examples/webshop as its README starts it: three processes, one of which is killed."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.security.keyring import KEY_FILE, own_key
from tests.support.patience import patient, wait_until
from tests.support.ports import free_ports

ROOT = Path(raftsched.__file__).parent.parent
SHOP = ROOT / "examples" / "webshop"


class Process:
    """One process of the shop."""

    def __init__(self, number: int, ports: list[int], peers: str, directory: Path) -> None:
        self.id = f"n{number + 1}"
        self.web, http_port = ports[3 * number], ports[3 * number + 1]
        self.log = directory / f"{self.id}.log"
        env = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
        flags = ["--web", f"127.0.0.1:{self.web}", "--http", f"127.0.0.1:{http_port}", "--peers", peers]
        flags += ["--cluster-key-file", str(directory / KEY_FILE)]
        flags += ["--data", str(directory / "data"), "--pay-within", "2s", "--report", "* * * * * *"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "webshop", "--id", self.id, *flags],
                cwd=SHOP,
                env={**env, "PYTHONPATH": str(ROOT)},  # the shop itself is found because it is started there
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.web, timeout=patient(30))
        try:
            raw = None if body is None else json.dumps(body)
            connection.request(method, path, raw, {"Content-Type": "application/json"} if raw else {})
            answer = connection.getresponse()
            said = answer.read()
            return answer.status, json.loads(said) if answer.status < 400 else said.decode()
        finally:
            connection.close()


@contextmanager
def three(directory: Path) -> Iterator[list[Process]]:
    ports = free_ports(9)
    own_key(directory)
    peers = ",".join(f"n{i + 1}=127.0.0.1:{ports[3 * i + 2]}" for i in range(3))
    processes: list[Process] = []
    try:
        for number in range(3):
            processes.append(Process(number, ports, peers, directory))
        yield processes
    finally:
        for one in processes:
            one.process.terminate()
        for one in processes:
            try:
                one.process.wait(patient(30))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()


def wait(what: str, condition: Callable[[], Any], processes: list[Process]) -> Any:
    def failed() -> str:
        return "\n".join((what, *(f"--- {one.id}\n{one.log.read_text()[-3000:]}" for one in processes)))

    return wait_until(condition, failed, passing=(OSError, http.client.HTTPException))


@pytest.mark.e2e
def test_orders_that_nobody_paid_are_cancelled_though_the_process_that_leads_is_killed(tmp_path: Path) -> None:
    with three(tmp_path) as shop:
        leader = wait("a leader", lambda: shop[0].ask("GET", "/")[1]["leader"], shop)
        wait("all to know it", lambda: {one.ask("GET", "/")[1]["leader"] for one in shop} == {leader}, shop)
        led = next(one for one in shop if one.id == leader)
        others = [one for one in shop if one is not led]
        status, placed = led.ask("POST", "/orders", {"item": "a chair"})
        assert status == 201, placed
        status, paid = others[0].ask("POST", "/orders", {"item": "a table"})
        assert status == 201, paid
        assert others[1].ask("POST", f"/orders/{paid['order']}/pay") == (200, {"order": paid["order"], "state": "paid"})
        led.process.kill()
        led.process.wait()
        for one in others:
            path = f"/orders/{placed['order']}"
            wait(f"{one.id} to see it cancelled", lambda: one.ask("GET", path)[1]["state"] == "cancelled", others)  # noqa: B023
            assert one.ask("GET", f"/orders/{paid['order']}")[1]["state"] == "paid"
        assert others[0].ask("POST", f"/orders/{placed['order']}/pay")[0] == 409
        status, later = others[1].ask("POST", "/orders", {"item": "a lamp"})
        assert status == 201, later
        wait(
            "the later one",
            lambda: others[0].ask("GET", f"/orders/{later['order']}")[1]["state"] == "cancelled",
            others,
        )
        wait("a report of the one that was paid", lambda: 1 in others[0].ask("GET", "/sales")[1]["reports"], others)
        for one in others:
            one.process.terminate()
        assert [one.process.wait(patient(30)) for one in others] == [0, 0]
