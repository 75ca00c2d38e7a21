"""A program with a node of its own that declares jobs and enqueues functions."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.client import declared, running_nodes
from raftsched.testing import cluster
from tests.integration.embedded import tasks
from tests.integration.embedded.tasks import Order, count, pack
from tests.support.patience import patient
from tests.support.ports import free_ports

MODULE = tasks.__name__


def a_node(directory: Path, **settings: Any) -> raftsched.Node:
    (http,) = free_ports(1)
    return raftsched.Node(id="n1", data=directory / "n1", http=f"127.0.0.1:{http}", handlers=[MODULE], **settings)


async def result(node: raftsched.Node, job: raftsched.Created) -> Any:
    run = await node.jobs.wait(job, timeout=patient(60))
    assert run.state == "SUCCEEDED", run.error
    return run.result


async def test_a_node_that_is_given_no_more_than_its_data_starts_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = []
    with socket.socket() as another_program:
        where.append(await _declares_and_enqueues(tmp_path))
        with suppress(OSError):  # somebody has it already
            another_program.bind(("127.0.0.1", int(where[0].rpartition(":")[2])))
        where.append(await _declares_and_enqueues(tmp_path))
    assert where[0] != where[1]
    assert "members know it at" not in caplog.text, "there is nobody who would have to find it"
    assert count(3) == 3


async def _declares_and_enqueues(directory: Path) -> str:
    """Returns where the node was reached by Raft."""
    async with a_node(directory, jobs=[MODULE]) as node:
        await node.ready()
        (member,) = await node.client.nodes.list()
        jobs = {f"{job.namespace}/{job.name}": job async for job in node.jobs.list()}
        assert (jobs["default/count"].revision, jobs["shop/count-often"].owner) == (1, "ana")
        assert jobs["default/count"].labels == {declared.LABEL: MODULE}
        made = await pack.aenqueue(Order(7), key="7")
        assert (await result(node, made))["packed"] == 7
        ended = await node.instances.wait(await node.jobs.run("shop/count-often"), timeout=patient(60))
        assert ended.result == 2
        assert member.raft
        return member.raft


async def test_jobs_that_cannot_be_made_are_an_error_of_ready(tmp_path: Path) -> None:
    async with a_node(tmp_path, jobs=["tests.integration.embedded.house"]) as node:
        with pytest.raises(ValueError, match="house declares no jobs"):
            await node.ready()
    async with a_node(tmp_path, jobs=["nowhere"]) as node:
        with pytest.raises(ModuleNotFoundError, match="nowhere"):
            await node.ready()


async def test_a_node_that_declares_jobs_and_has_no_handlers_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (http,) = free_ports(1)
    async with raftsched.Node(id="n1", data=tmp_path / "n1", http=f"127.0.0.1:{http}", jobs=[MODULE]) as node:
        await node.ready()
    assert f"jobs of {MODULE} do not run on this node: it has no handler count-often" in caplog.text


async def test_what_is_enqueued_goes_to_the_node_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAFTSCHED_SERVER", raising=False)
    monkeypatch.delenv("RAFTSCHED_CONTEXT", raising=False)
    async with cluster(1, directory=tmp_path) as (node,):
        assert (found := running_nodes.newest()) is not None
        assert found.node is node
        made = await pack.options(delay="1h").aenqueue(Order(1))
        assert (await node.jobs.get(made)).trigger == {"in": "1h"}
        for again in (
            await asyncio.to_thread(pack.delay, Order(2)),
            await asyncio.to_thread(lambda: pack.enqueue(Order(3), client=node)),
            await asyncio.to_thread(lambda: asyncio.run(pack.aenqueue(Order(4)))),
        ):
            assert (await node.jobs.get(again)).handler == {"call": "pack"}
        with pytest.raises(RuntimeError, match=r"write: await pack\.aenqueue"):
            pack.delay(Order(5))
    assert running_nodes.newest() is None
    with pytest.raises(RuntimeError, match="the node of this program has stopped"):  # and not to that of another one
        await asyncio.to_thread(pack.delay, Order(6))
    with pytest.raises(RuntimeError, match="the node of this program has stopped"):
        await pack.aenqueue(Order(7))


async def test_params_that_do_not_fit_end_the_run_for_good(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        await node.ready()

        @dataclass
        class Other:
            nmber: int

        job = await node.jobs.create(
            trigger={"manual": True}, handler={"call": "pack"}, params=Other(7), retry={"delays": ["1h"]}
        )
        run = await node.instances.wait(await node.jobs.run(job), timeout=patient(60))
        assert (run.state, run.attempt) == ("FAILED", 1)
        assert run.error == "params do not fit pack: params has nmber, and Order only number, express"
        run = await node.instances.wait(await node.jobs.run(job, params=Order(8)), timeout=patient(60))
        assert run.result == {"packed": 8, "express": False, "here": run.result["here"]}
        assert run.result["here"] != os.getpid()


async def test_handlers_inside_of_the_program_get_what_they_are_annotated_with(tmp_path: Path) -> None:
    given = []

    async def keep(order: Order) -> None:
        given.append(order)

    node = a_node(tmp_path)
    node.handler("keep", in_process=True)(keep)
    async with node:
        await node.ready()
        job = await node.jobs.create(trigger={"manual": True}, handler={"call": "keep"}, params={"order": Order(7)})
        await node.instances.wait(await node.jobs.run(job), timeout=patient(60))
        run = await node.instances.wait(await node.jobs.run(job, params={"x": 1}), timeout=patient(60))
    assert given == [Order(7)]
    assert (run.state, run.error) == ("FAILED", "params do not fit keep: params has x, and Order only number, express")


@pytest.mark.parametrize("name", ["chain", "chain-together"])
async def test_a_run_enqueues_at_the_cluster_that_its_job_names(tmp_path: Path, name: str) -> None:
    async with a_node(tmp_path, jobs_as_node=True) as node:  # else it takes no such variable from a job
        await node.ready()
        env = {"RAFTSCHED_SERVER": node.url}
        job = await node.jobs.create(trigger={"manual": True}, handler={"call": name, "env": env})
        places = []
        for number in (1, 2):
            run = await node.jobs.run(job, params={"number": number})
            ended = await node.instances.wait(run, timeout=patient(60))
            assert ended.state == "SUCCEEDED", ended.error
            made = await node.jobs.get(ended.result["next"])
            assert (made.params, made.handler) == ({"order": {"number": number, "express": False}}, {"call": "pack"})
            places.append(ended.result["here"])
        assert places[0] == places[1], "nothing is left that the process would have to end for"
