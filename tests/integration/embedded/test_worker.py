"""raftsched.Worker in a program: its handlers, its end, and what cannot be."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import raftsched
from raftsched.errors import StartupError
from raftsched.remote import process
from raftsched.testing import cluster
from tests.integration.embedded import chores
from tests.integration.embedded.house import children
from tests.support.patience import patient


async def test_a_worker_in_a_program_runs_what_it_has_handlers_for(tmp_path: Path) -> None:
    async with cluster(1, directory=tmp_path) as nodes:
        (node,) = nodes
        worker = raftsched.Worker(servers=[node.url], name="w1", data=str(tmp_path / "w1"), slots=2, queues=["default"])
        worker.handler("add")(chores.add)
        before = children()

        @worker.handler("own-pid", in_process=True)
        async def own_pid() -> int:
            return os.getpid()

        async with worker:
            results = []
            for name, params in (("add", {"left": 1, "right": 2}), ("own-pid", {})):
                job = await node.jobs.create(trigger={"manual": True}, handler={"call": name}, params=params)
                run = await node.instances.wait(await node.jobs.run(job), timeout=patient(60))
                assert run.state == "SUCCEEDED", run
                results.append(run.result)
            assert results[0]["sum"] == 3
            assert results[0]["pid"] != os.getpid()
            assert results[1] == os.getpid()
            assert worker.session
            with pytest.raises(RuntimeError, match="runs already"):
                worker.handler("late")
        assert not worker.running
        assert children() <= before


async def test_as_much_output_is_kept_as_the_settings_say_here_as_there(tmp_path: Path) -> None:
    """Of what starts once they were changed, on a node and on a worker."""
    async with cluster(1, directory=tmp_path) as nodes:
        (node,) = nodes
        worker = raftsched.Worker(
            servers=[node.url],
            name="w1",
            data=str(tmp_path / "w1"),
            slots=1,
            labels={"where": "there"},
            jobs_as_node=True,
        )

        async def left_out(namespace: str, labels: dict[str, str]) -> int:
            job = await node.jobs.create(
                trigger={"manual": True},
                namespace=namespace,
                handler={"exec": ["head", "-c", "100000", "/dev/zero"]},
                placement={"labels": labels},
            )
            run = await node.instances.wait(await node.jobs.run(job), timeout=patient(60))
            assert run.state == "SUCCEEDED", run
            assert run.output is not None
            return run.output.truncated

        async def as_said(labels: dict[str, str]) -> None:
            await client.cluster.set_settings(output_max_bytes=None)
            assert await left_out("default", labels) == 0
            await client.cluster.set_settings(output_max_bytes=20_000)
            assert await left_out("default", labels) == 80_000
            assert await left_out("billing", labels) == 70_000

        client = node.client
        await client.namespaces.put("billing", limits={"output_max_bytes": 30_000, "output_keep": "2h"})
        await as_said({})
        async with worker:
            await as_said({"where": "there"})


async def test_output_that_somebody_hides_from_a_worker_costs_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file system does that is mounted over its directory: the files are open, and nobody finds them."""
    monkeypatch.setattr(process, "SCAN_S", 0.05)
    async with cluster(1, directory=tmp_path) as nodes:
        (node,) = nodes
        worker = raftsched.Worker(
            servers=[node.url], name="w1", data=str(tmp_path / "w1"), slots=1, labels={"on": "w1"}, jobs_as_node=True
        )
        async with worker:
            job = await node.jobs.create(
                trigger={"manual": True}, handler={"exec": ["echo", "hello"]}, placement={"labels": {"on": "w1"}}
            )

            async def printed() -> bytes:
                run = await node.instances.wait(await node.jobs.run(job), timeout=patient(60))
                return await node.client.instances.output(run.id)

            assert await printed() == b"hello\n"
            (tmp_path / "w1" / "output").rename(tmp_path / "w1" / "hidden")
            async with asyncio.timeout(patient(30)):
                while await printed() != b"hello\n":
                    pass


async def test_without_a_cluster_it_waits_and_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    worker = raftsched.Worker(servers="http://127.0.0.1:9", name="w1", data=str(tmp_path / "w1"))
    working = asyncio.create_task(worker.run())
    await asyncio.sleep(0)  # it has begun to start
    assert worker.running
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not worker.running


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(TypeError, match="speed is no setting"):
        raftsched.Worker(servers="http://n1", name="w1", speed=3)
    for wrong in ({"name": "a/b"}, {"name": "w", "slots": 0}, {"name": "w", "queues": []}, {"servers": "ftp://x"}):
        with pytest.raises(ValueError):
            raftsched.Worker(**{"servers": "http://n1", **wrong})  # type: ignore[arg-type]


async def test_a_token_does_not_go_to_other_machines_in_clear(tmp_path: Path) -> None:
    worker = raftsched.Worker(servers="http://10.0.0.1:7401", token="secret", name="w1", data=str(tmp_path / "w1"))
    with pytest.raises(StartupError, match="https"):
        await worker.start()
    assert not worker.running
