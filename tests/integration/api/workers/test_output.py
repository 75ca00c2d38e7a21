"""The output of runs on remote workers: sent to any node, read at any other one, while the worker changes nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.context import ApiContext
from raftsched.core.commands import Assign, Ended, EndSession, OpenWorker
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.core.rows import META_KEY, decode_meta
from raftsched.core.rules.executors import worker_key
from raftsched.core.tables import Table
from raftsched.output.format.spool import STDERR, STDOUT, pack
from raftsched.output.keeping.owner_record import OutputOwner
from raftsched.surface.worker_sessions import FRAMES, PIECE_MAX, OutputPlace
from tests.integration.api.runs.test_output import JOB
from tests.support import sse
from tests.support.async_tests import entered
from tests.support.local_api import Client, LocalCluster, several_nodes

RAW = {"Content-Type": "application/octet-stream"}
NONCE = b"sixteen bytes of"


class Run:
    """A run of the worker's, on its way to whichever node."""

    def __init__(self, cluster: LocalCluster, session: int, path: str, token: int) -> None:
        self.cluster = cluster
        self.session = session
        self.path = path
        self.token = token
        self.address = f"/v1/worker-sessions/{session}-{NONCE.hex()}/runs/{token}/output"

    async def put(self, node: Client, offset: int, data: bytes, more: str = "") -> tuple[int, Any]:
        return await node("PUT", f"{self.address}?offset={offset}{more}", data, RAW)

    async def sent(self, node: Client, offset: int, data: bytes, more: str = "") -> None:
        assert await self.put(node, offset, data, more) == (200, {"offset": offset + len(data), "output": None})

    async def end(self, node: Client, offset: int, data: bytes = b"") -> None:
        status, answer = await self.put(node, offset, data, "&end=true")
        assert status == 200, answer
        self.report(answer["output"])

    def report(self, output: dict[str, Any]) -> None:
        node, ref = self.cluster.received["n1"].verify(OutputPlace(**output))
        now = self.cluster.clock.wall
        ended = Ended(self.session, self.token, Outcome.SUCCEEDED, now, now, 0, output=ref, output_node=node)
        self.cluster.apply(ended)


@pytest.fixture
def nodes(tmp_path: Path, asyncio_runner: asyncio.Runner) -> Iterator[list[Client]]:
    with entered(asyncio_runner, several_nodes(tmp_path, ("n1", "n2", "n3"))) as nodes:
        yield nodes


@pytest.fixture
def run(nodes: list[Client], asyncio_runner: asyncio.Runner) -> Run:
    """A run on a worker."""
    return asyncio_runner.run(start(nodes[0]))


async def start(node: Client) -> Run:
    cluster = node.cluster
    _, job = await node("POST", "/v1/jobs", JOB)
    _, made = await node("POST", f"/v1/jobs/{job['id']}/run")
    key = parse_instance(made["id"])
    assert key is not None
    (answer,) = cluster.apply(OpenWorker(worker_key("w1"), 0, NONCE, slots=4, handlers=("exec",)))
    session = getattr(answer, "number", None)
    assert session is not None, answer
    (answer,) = cluster.apply(Assign(key, session))
    token = getattr(answer, "number", None)
    assert token is not None, answer
    return Run(cluster, session, f"/v1/instances/{made['id']}", token)


async def test_what_one_node_takes_is_read_at_all(run: Run, nodes: list[Client]) -> None:
    path = f"{run.path}/output"
    for node in nodes:
        assert await node("GET", path) == (200, "")
    await run.sent(nodes[1], 0, b"one\n")
    await run.sent(nodes[1], 4, b"oops\n", "&stream=stderr")
    body = pack(STDOUT, b"two\n") + pack(STDERR, b"alas\n")
    status, answer = await nodes[1]("PUT", f"{run.address}?offset=9", body, {"Content-Type": FRAMES})
    assert (status, answer["offset"]) == (200, 18)
    for ended in (False, True):
        for node in nodes:
            assert await node("GET", path) == (200, "one\noops\ntwo\nalas\n"), (node.url, ended)
            assert node.headers.get("Raftsched-Served-By") == (None if node is nodes[1] else "n2")
            assert await node("GET", f"{path}?stream=stderr") == (200, "oops\nalas\n")
            assert await node("GET", f"{path}?tail=1") == (200, "alas\n")
            assert await node("GET", f"{path}?offset=9&limit_bytes=3") == (200, "two")
            assert await node("GET", path, headers={"Range": "bytes=4-7"}) == (206, "oops")
        if not ended:
            await run.end(nodes[1], 18)
    for node in nodes:
        _, instance = await node("GET", run.path)
        assert (instance["node"], instance["output"]["node"]) == (None, "n2")


@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=2-3"}])
async def test_a_follower_stays_while_the_worker_changes_nodes(
    run: Run, nodes: list[Client], headers: dict[str, str]
) -> None:
    """From the node that it asks, to another one, and back. What follows a part that was sent is no range of it."""
    path = f"{run.path}/output?follow=true"
    async with AsyncExitStack() as stack:
        answers = [
            await stack.enter_async_context(node.session.get(node.url + path, headers=headers)) for node in nodes
        ]

        async def see(text: bytes) -> None:
            for answer in answers:
                assert await answer.content.readexactly(len(text)) == text

        await run.sent(nodes[0], 0, b"first\n")
        await see(b"first\n")
        await run.sent(nodes[1], 0, b"first\nsecond\n")
        await see(b"second\n")
        status, problem = await run.put(nodes[0], 13, b"third\n")
        assert (status, problem["code"], problem["offset"]) == (409, "wrong-offset", 0)
        await run.sent(nodes[0], 0, b"first\nsecond\nthird\n")
        await see(b"third\n")
        await run.end(nodes[2], 0, b"first\nsecond\nthird\nfourth\n")
        for answer in answers:
            assert await answer.content.read() == b"fourth\n"
    for node in nodes:
        assert await node("GET", path) == (200, "first\nsecond\nthird\nfourth\n")


async def test_events_go_on_while_the_worker_changes_nodes(run: Run, nodes: list[Client]) -> None:
    path = f"{run.path}/output?follow=true"
    seen: list[list[sse.Said]] = [[] for _ in nodes]

    async def read(node: Client, into: list[sse.Said]) -> None:
        async with node.session.get(node.url + path, headers={"Accept": "text/event-stream"}) as answer:
            assert answer.status == 200
            async for said in sse.read(answer):
                if said.data is not None:
                    into.append(said)
                    arrived.set()

    async def until(text: str) -> None:
        while any("".join(said.data.get("text", "") for said in one) != text for one in seen):
            arrived.clear()
            await arrived.wait()

    arrived = asyncio.Event()
    readers = [asyncio.create_task(read(node, into)) for node, into in zip(nodes, seen, strict=True)]
    await run.sent(nodes[0], 0, b"first\n")
    await until("first\n")
    await run.sent(nodes[1], 0, b"first\nsecond\n")
    await until("first\nsecond\n")
    await run.end(nodes[2], 0, b"first\nsecond\nthird\n")
    await asyncio.gather(*readers)
    for one in seen:
        assert "".join(said.data.get("text", "") for said in one) == "first\nsecond\nthird\n"
        assert (one[-1].event, one[-1].id, one[-1].data["outcome"]) == ("end", "1.19", "succeeded")
        assert [said.data["offset"] for said in one[:-1]] == [0, 6, 13]


async def test_who_never_prints_is_followed_to_the_end(run: Run, nodes: list[Client]) -> None:
    path = f"{nodes[0].url}{run.path}/output?follow=true"
    async with nodes[0].session.get(path) as answer:
        now = run.cluster.clock.wall
        run.cluster.apply(Ended(run.session, run.token, Outcome.SUCCEEDED, now, now, 0))
        assert await answer.content.read() == b""


async def test_a_lost_worker_takes_its_output_along(run: Run, nodes: list[Client]) -> None:
    await run.sent(nodes[1], 0, b"so far")
    run.cluster.apply(EndSession(run.session, epoch_of(run.cluster)))
    run.cluster.received["n2"].drop_ended()
    for node in nodes:
        status, problem = await node("GET", f"{run.path}/output?attempt=1")
        assert (status, problem["code"]) == (410, "output-gone")
    status, problem = await run.put(nodes[1], 6, b"and on")
    assert (status, problem["code"]) == (410, "session-over")


async def test_somebody_elses_place_shows_nothing(run: Run, nodes: list[Client]) -> None:
    store = run.cluster.outputs["n2"]
    other = OutputOwner("default", "other", "0@0", 1)
    secret = await run.cluster.received["n2"].store(run.token + 1, other, 1, "the output of another run")
    assert secret is not None
    assert store.open(secret).read(0) == b"the output of another run"
    now = run.cluster.clock.wall
    ended = Ended(run.session, run.token, Outcome.SUCCEEDED, now, now, 0, output=secret, output_node="n2")
    run.cluster.apply(ended)
    for node in nodes:
        status, problem = await node("GET", f"{run.path}/output")
        assert (status, problem["code"]) == (410, "output-gone")


async def test_what_cannot_be_taken_is_refused(run: Run, nodes: list[Client]) -> None:
    node = nodes[0]

    async def refusal(path: str, body: bytes, media: str = "application/octet-stream") -> tuple[int, str]:
        status, problem = await node("PUT", path, body, {"Content-Type": media})
        return status, problem["code"]

    at = run.address
    assert await refusal(at, b"x") == (400, "invalid-parameter")
    assert await refusal(f"{at}?offset=-1", b"x") == (400, "invalid-parameter")
    assert await refusal(f"{at}?offset=0&stream=both", b"x") == (400, "invalid-parameter")
    assert await refusal(f"{at}?offset=0&stream=stdout", pack(STDOUT, b"x"), FRAMES) == (400, "invalid-parameter")
    assert await refusal(f"{at}?offset=0", b"\1\5\0\0\0four", FRAMES) == (422, "invalid-body")
    assert await refusal(f"{at}?offset=0", b"{}", "application/json") == (415, "unsupported-media-type")
    assert await refusal(f"{at}?offset=0", b"x" * (PIECE_MAX + 1)) == (413, "too-large")
    assert await refusal(at.replace(NONCE.hex(), "0" * 32) + "?offset=0", b"x") == (410, "session-over")
    for token in (0, run.token + 1, "x", 2**63):
        assert await refusal(at.replace(f"/{run.token}/", f"/{token}/") + "?offset=0", b"x") == (404, "not-found")


async def test_a_node_that_may_not_have_heard_of_a_run_does_not_say_that_it_is_over(
    run: Run, nodes: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker would give up the output."""

    async def no_leader(self: ApiContext) -> None:
        return None

    monkeypatch.setattr(ApiContext, "catch_up_soon", no_leader)
    later = run.address.replace(f"/{run.token}/", f"/{run.token + 1}/")
    for at in (later, later.replace(f"/{run.session}-", f"/{run.session + 1}-")):
        status, problem = await nodes[0]("PUT", f"{at}?offset=0", b"x", RAW)
        assert (status, problem["code"]) == (503, "behind")
    await run.sent(nodes[0], 0, b"x")


def epoch_of(cluster: LocalCluster) -> int:
    with cluster.store.read() as view:
        return decode_meta(view.get(Table.META, META_KEY)).epoch
