"""The SDK on real processes: handlers by name, output that is followed, creates while the leader is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftsched
from tests.support.cluster import Cluster
from tests.support.patience import patient

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "invoices"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, pythonpath=EXAMPLE, flags=["--handlers", "invoices.handlers"]) as running:
        yield running


def urls(cluster: Cluster) -> list[str]:
    return [f"127.0.0.1:{node.http_port}" for node in cluster.nodes]


def test_handlers_by_name_run_in_supervised_processes(cluster: Cluster, tmp_path: Path) -> None:
    with raftsched.Client(urls(cluster)) as client:
        made = client.jobs.create(
            name="invoice",
            trigger={"manual": True},
            handler={"call": "send-invoice"},
            params={"number": 7, "directory": str(tmp_path)},
        )
        ended = client.instances.wait(client.jobs.run(made), timeout=60)
        assert (ended.state, ended.error) == ("SUCCEEDED", None)
        assert ended.result == {"number": 7, "file": str(tmp_path / "invoice-7.txt")}
        assert ended.id in (tmp_path / "invoice-7.txt").read_text()
        again = client.instances.wait(client.jobs.run(made), timeout=60)
        assert client.instances.output(again) == b"invoice 7 was sent before\n"
        assert b"".join(client.instances.follow(again)) == b"invoice 7 was sent before\n"

        slow = client.jobs.create(
            trigger={"manual": True}, handler={"call": "remind-customer"}, params={"customer": "ana", "after": 0.3}
        )
        run = client.jobs.run(slow)
        assert b"".join(client.instances.follow(run)) == b"reminding ana\n"
        assert client.instances.wait(run, timeout=60).result == "ana"
    for node in cluster.nodes:
        announced = node.get(f"/v1/nodes/{node.id}")["handlers"]
        assert {"call:send-invoice", "call:remind-customer"} <= set(announced)


def test_a_name_that_no_node_has_waits_and_says_so(cluster: Cluster) -> None:
    with raftsched.Client(urls(cluster)) as client:
        job = client.jobs.create(trigger={"manual": True}, handler={"call": "nobody"})
        run = client.jobs.run(job)
        cluster.wait(
            "the reason", lambda: 'No node has the handler "call:nobody".' in str(client.instances.explain(run))
        )
        assert client.instances.get(run).state == "WAITING"
        client.instances.kill(run)


@pytest.mark.parametrize("named", [True, False])
def test_creates_go_on_while_the_leader_is_killed(cluster: Cluster, named: bool) -> None:
    """Each create returns, and made one job, whether it has a name or not."""
    owner = f"killed-{named}"

    async def main() -> list[raftsched.Created]:
        async with raftsched.AsyncClient(urls(cluster), timeout=60) as client:
            numbers = iter(range(3_000))
            made: list[raftsched.Created] = []
            half = asyncio.Event()

            async def work() -> None:
                for n in numbers:
                    job: raftsched.JobSpec = {"trigger": {"in": "1h"}, "handler": {"call": "send-invoice"}}
                    made.append(await client.jobs.create({**job, "name": f"k{n}"} if named else job, owner=owner))
                    if len(made) == 1_000:
                        half.set()

            tasks = [asyncio.create_task(work()) for _ in range(100)]
            await half.wait()
            leader = await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(leader.kill)
            await asyncio.gather(*tasks)
            leader.start()
            kept = {j.id async for j in client.jobs.list(owner=owner)}
            assert kept == {m.id for m in made}
            return made

    made = asyncio.run(main())
    assert len({m.id for m in made}) == 3_000
    cluster.wait_ready()


def test_a_node_whose_handlers_cannot_be_imported_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nowhere_at_all\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "raftsched", "node", "--id", "n1", "--data", str(tmp_path / "d")),
            *("--handlers", "broken", "--pythonpath", str(tmp_path)),
            *("--http", "127.0.0.1:1", "--raft", "127.0.0.1:2"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(60),
    )
    assert done.returncode == 1
    assert (
        "handlers broken: it cannot be imported (ModuleNotFoundError: No module named 'nowhere_at_all'" in done.stderr
    )
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "d" / "store").exists(), "nothing was opened"
