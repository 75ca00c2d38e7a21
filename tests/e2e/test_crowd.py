"""A crowd that holds more connections than there may be, on every node: the cluster and who has a token go on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

import raftsched
from tests.support.cluster import Cluster
from tests.support.patience import patient

pytestmark = pytest.mark.e2e

PLACES = 32
CROWD = 4 * PLACES  # on each node
AGAIN_S = 1.0  # after which who was refused, or whose connection was closed, comes again
REQUESTS = 30


class Crowd:
    """Connects with every port, says nothing, and comes again."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self.open: Counter[int] = Counter()
        self.sent_away: Counter[int] = Counter()

    async def stay(self, stop: asyncio.Event) -> None:
        guests = [asyncio.create_task(self._guest(port)) for port in self._ports for _ in range(CROWD)]
        await stop.wait()
        for guest in guests:
            guest.cancel()
        await asyncio.gather(*guests, return_exceptions=True)

    async def _guest(self, port: int) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                self.open[port] += 1
                try:
                    await reader.read()
                finally:
                    self.open[port] -= 1
                    self.sent_away[port] += 1
                    writer.close()
            await asyncio.sleep(AGAIN_S)


@contextmanager
def crowd(ports: Sequence[int]) -> Iterator[Crowd]:
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    made = Crowd(ports)
    thread = threading.Thread(target=loop.run_until_complete, args=(made.stay(stop),))
    thread.start()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def bootstrapped(servers: Sequence[str]) -> str:
    """The token of an admin; from here on requests need one."""
    command = [sys.executable, "-m", "raftsched", "--server", ",".join(servers), "tokens", "bootstrap"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_who_has_a_token_is_served_among_a_crowd() -> None:
    """By clients that connect anew for each request, and ask again, or another node, after a 503 or where a connection
    ends without an answer, as the SDK does."""
    with Cluster(3, flags=("--connections-max", str(PLACES))) as cluster:
        servers = [node.url for node in cluster.nodes]
        token = bootstrapped(servers)
        ports = [node.http_port for node in cluster.nodes]
        with crowd(ports) as guests:
            cluster.wait("every node to have sent some away", lambda: all(guests.sent_away[port] for port in ports))
            restarted = cluster.nodes[1]
            restarted.terminate()
            restarted.start()
            cluster.wait("it is back", restarted.ready)
            sent_away = guests.sent_away.copy()
            for number in range(REQUESTS):
                order = servers[number % 3 :] + servers[: number % 3]
                with raftsched.Client(order, token=token, timeout=patient(60)) as client:
                    if number % 2:
                        assert client.jobs.get(f"default/job-{number - 1}").name == f"job-{number - 1}"
                    else:
                        client.jobs.create(name=f"job-{number}", trigger={"manual": True}, handler={"shell": "true"})
            cluster.wait(
                "the crowd to have come again everywhere",
                lambda: all(guests.sent_away[port] > sent_away[port] for port in ports),
            )
        with raftsched.Client(servers, token=token) as client:
            assert len(list(client.jobs.list())) == REQUESTS // 2
