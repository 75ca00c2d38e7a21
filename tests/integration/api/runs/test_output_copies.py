"""Second copies of output: how nodes send them to each other, who else may not, and how they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from raftsched.api.auth.access import peer_header
from raftsched.api.runs.output_copies import push
from raftsched.cluster_settings import Settings
from raftsched.core.commands import PutSettings
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.following.copier import Copier
from raftsched.output.following.copies import Piece
from raftsched.output.following.places import in_order
from raftsched.output.following.sent import Sent
from raftsched.output.following.to_nodes import ToNodes
from raftsched.output.format import spool
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.raft.membership.configuration import removed
from raftsched.surface.output import COPY
from tests.integration.api.runs.test_output import FRAMES, TEXT, end, start
from tests.integration.api.runs.test_output_places import read, shown
from tests.support import sse
from tests.support.local_api import Client, LocalCluster, serving

NODES = ("n1", "n2", "n3")
STORE = b"of-n1---"
PLACE = "/v1/nodes/n1/output-copies"


def among(directory: Path, test: Callable[[Client, Client, Client], Awaitable[None]]) -> None:
    """Three nodes; the first runs what is run, and the settings want two copies."""

    async def main() -> None:
        cluster = LocalCluster(directory, NODES)
        cluster.apply(PutSettings(Settings(output_copies=2)))
        try:
            async with AsyncExitStack() as serve:
                calls = [await serve.enter_async_context(serving(cluster, node)) for node in NODES]
                for node, call in zip(NODES, calls, strict=True):
                    cluster.open_session(node, call.url.removeprefix("http://"))
                await test(*calls)
        finally:
            cluster.close()

    asyncio.run(main())


async def copy(call: Client) -> Copier:
    """What the first node does with what lies on its disk."""
    cluster = call.cluster
    output = cluster.outputs["n1"]
    async with aiohttp.ClientSession() as session:
        sent = Sent(output.directory / "copied", STORE)
        nodes = ToNodes(
            "n1",
            STORE,
            lambda: {m.node: m.store_id for m in cluster.members if m.node != "n1"},
            partial(push, call.context, session),
        )
        copier = Copier(output, sent, nodes, OutputRules(cluster.store.read).copies, cluster.clock)
        await copier.look()
        await copier.measure()
    return copier


async def printed(call: Client) -> str:
    """(path of an instance whose output has two copies)"""
    path, token = await start(call)
    end(call.cluster, token, FRAMES)
    copier = await copy(call)
    assert (copier.waiting_bytes, copier.failures) == (0, 0)
    return path


def has_copy(cluster: LocalCluster) -> str:
    (node,) = [node for node in NODES if cluster.copied[node].size()]
    return node


def lose(cluster: LocalCluster) -> None:
    """The disk of the first node is a new one."""
    cluster.outputs["n1"].drop_before(2**50)


async def is_read(call: Client, path: str, served_by: str | None) -> None:
    """In each way in which a first copy is read."""
    assert await call("GET", f"{path}/output") == (200, TEXT), call.url
    assert call.headers.get("Raftsched-Served-By") == served_by
    assert await call("GET", f"{path}/output?stream=stderr") == (200, "oops\n")
    assert await call("GET", f"{path}/output?tail=1&follow=true") == (200, "oops\n")
    assert await call("GET", f"{path}/output", headers={"Range": "bytes=4-6"}) == (206, "two")
    status, problem = await call("GET", f"{path}/output", headers={"Range": "bytes=99-"})
    assert (status, problem["code"]) == (416, "unsatisfiable-range")
    found = await read(call, path)
    assert shown(found) == [(0, "stdout", "one\ntwo\n", 0), (8, "stderr", "oops\n", 0)]
    assert found[-1].event == "end"
    assert shown(await read(call, path, "stream=stderr&tail=1")) == [(8, "stderr", "oops\n", 0)]


@pytest.mark.parametrize("lost", ["disk", "node", "member"])
def test_output_is_read_from_its_second_copy(tmp_path: Path, lost: str) -> None:
    async def test(*calls: Client) -> None:
        first = calls[0]
        cluster = first.cluster
        path = await printed(first)
        holder = has_copy(cluster)
        assert holder == in_order("n1", 1, ("n2", "n3"))[0]
        if lost == "disk":
            lose(cluster)
        elif lost == "node":
            cluster.open_session("n1", "127.0.0.1:1")
        else:
            cluster.configure(removed(cluster.members, "n1"))
        for node, call in zip(NODES, calls, strict=True):
            if lost != "disk" and node == "n1":
                continue
            await is_read(call, path, None if node == holder else holder)

    among(tmp_path, test)


def test_a_node_that_cannot_answer_now_is_one_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(first: Client, *others: Client) -> None:
        def no(*of: object) -> None:
            raise RaftschedError("overloaded")

        path = await printed(first)
        monkeypatch.setattr(first.cluster.outputs["n1"], "open", no)
        for call in others:
            assert await call("GET", f"{path}/output") == (200, TEXT)
            assert [said.event for said in await read(call, path)] == ["", "", "end"]
        for node in NODES:
            first.cluster.copied[node].drop_old(2**62, 0, {})
        for call in others:
            status, problem = await call("GET", f"{path}/output")
            assert (status, problem["code"]) == (503, "output-unavailable")
            assert problem["detail"].startswith("Node n1, which has it, answers 503. ")

    among(tmp_path, test)


def test_a_follower_goes_on_in_the_second_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is lost between two looks."""

    async def test(first: Client, *others: Client) -> None:
        path, token = await start(first)
        live = first.cluster.outputs["n1"].live_directory / spool.live_name(token)
        live.write_bytes(FRAMES)
        url = f"{first.url}{path}/output?follow=true"
        async with (
            first.session.get(url) as text,
            first.session.get(url, headers={"Accept": "text/event-stream"}) as events,
        ):
            assert await text.content.readexactly(len(TEXT)) == TEXT.encode()
            said = (said async for said in sse.read(events) if said.data is not None)
            assert shown([await anext(said), await anext(said)])[1] == (8, "stderr", "oops\n", 0)
            end(first.cluster, token, FRAMES + spool.pack(spool.STDOUT, b"more\n"))
            await copy(first)
            lose(first.cluster)
            assert await text.content.read() == b"more\n"
            assert shown([await anext(said)]) == [(13, "stdout", "more\n", 0)]
            assert (await anext(said)).event == "end"

    among(tmp_path, test)


def test_without_a_copy_the_first_reason_is_said(tmp_path: Path) -> None:
    async def test(*calls: Client) -> None:
        cluster = calls[0].cluster
        path, token = await start(calls[0])
        end(cluster, token, FRAMES)
        lose(cluster)
        for call in calls:
            status, problem = await call("GET", f"{path}/output")
            assert (status, problem["code"]) == (410, "output-gone")
            assert "deleted for room" in problem["detail"]
            (said,) = await read(call, path)
            assert (said.event, said.data["code"]) == ("problem", "output-gone")
        cluster.open_session("n1", "127.0.0.1:1")
        for call in calls[1:]:
            status, problem = await call("GET", f"{path}/output")
            assert (status, problem["code"]) == (503, "output-unavailable")
            assert "n1, which ran it, does not answer" in problem["detail"]

    among(tmp_path, test)


def test_a_copy_of_what_is_not_kept_any_more_is_not_looked_for(tmp_path: Path) -> None:
    async def test(first: Client, second: Client, third: Client) -> None:
        path = await printed(first)
        lose(first.cluster)
        first.cluster.clock.forward(8 * 24 * 3_600_000)
        status, problem = await first("GET", f"{path}/output")
        assert (status, problem["code"]) == (410, "output-gone")
        assert "It was kept until" in problem["detail"]

    among(tmp_path, test)


def test_a_copy_that_is_damaged_is_none(tmp_path: Path) -> None:
    async def test(first: Client, second: Client, third: Client) -> None:
        path = await printed(first)
        lose(first.cluster)
        (file,) = tmp_path.glob("*/output-copies/*/seg-*")
        file.write_bytes(file.read_bytes().replace(b"oops", b"0ops"))
        assert (await second("GET", f"{path}/output"))[0] == 410

    among(tmp_path, test)


def test_who_is_no_node_sends_no_copies(tmp_path: Path) -> None:
    async def test(first: Client, second: Client, third: Client) -> None:
        body = msgspec.msgpack.encode(Piece(STORE, 1, "", 0, 0, 0, b"x"))
        query = f"sha256={sha256(body).hexdigest()}"

        async def put(by: str, node: str = "n1", body: bytes = body, query: str = query) -> tuple[int, Any]:
            target = f"/v1/nodes/{node}/output-copies?{query}"
            said = peer_header(first.context, "n2", target, "PUT") if by == "n1" else {}
            status, answer = await second("PUT", target, body, {"Content-Type": COPY, **said})
            return status, answer.get("code") or answer

        assert await put("somebody") == (403, "forbidden")
        assert await put("n1") == (200, {"size": 1})
        assert await put("n1", node="n3") == (403, "forbidden"), "a node sends its own"
        assert await put("n1", node="n9") == (404, "not-found")
        assert await put("n1", body=body + b"x") == (422, "invalid-body")
        assert await put("n1", query="sha256=" + "0" * 64) == (422, "invalid-body")
        for wrong in (
            Piece(b"short", 1, "", 0, 0, 0, b"x"),
            Piece(STORE, 0, "", 0, 0, 0, b"x"),
            Piece(STORE, 1, "../../x", 0, 0, 0, b"x"),
            Piece(STORE, 1, "", -1, 0, 0, b"x"),
            Piece(STORE, 1, "", 2**60, 2**60, 0, b"x"),
        ):
            raw = msgspec.msgpack.encode(wrong)
            assert await put("n1", body=raw, query=f"sha256={sha256(raw).hexdigest()}") == (422, "invalid-body"), wrong
        assert [path.name for path in tmp_path.glob("**/output-copies/*/*")] == ["seg-00000001-at-0.dat"]

    among(tmp_path, test)


def test_a_read_of_a_node_proves_nothing_for_a_copy(tmp_path: Path) -> None:
    async def test(first: Client, second: Client, third: Client) -> None:
        body = msgspec.msgpack.encode(Piece(STORE, 1, "", 0, 0, 0, b"x"))
        target = f"{PLACE}?sha256={sha256(body).hexdigest()}"
        said = peer_header(first.context, "n2", target)  # of a GET
        status, problem = await second("PUT", target, body, {"Content-Type": COPY, **said})
        assert (status, problem["code"]) == (403, "forbidden")
        said = peer_header(first.context, "n2", "/v1/nodes/n1", "PATCH")
        status, problem = await second("PATCH", "/v1/nodes/n1", {"slots": 1}, said)
        assert status == 200, "elsewhere it says nothing: this cluster needs no tokens"

    among(tmp_path, test)


def test_what_a_node_says_to_the_sender(tmp_path: Path) -> None:
    async def test(first: Client, second: Client, third: Client) -> None:
        async with aiohttp.ClientSession() as session:
            send = partial(push, first.context, session)
            with pytest.raises(WrongOffset) as wrong:
                await send("n2", Piece(STORE, 1, "", 0, 7, 0, b"x"))
            assert wrong.value.offset == 0
            second.context.copied = None
            with pytest.raises(RaftschedError, match="n2 answers 503") as stopping:
                await send("n2", Piece(STORE, 1, "", 0, 0, 0, b"x"))
            assert stopping.value.code == "stopping"
            first.cluster.open_session("n3", "127.0.0.1:1")
            with pytest.raises(RaftschedError, match="n3 does not answer"):
                await send("n3", Piece(STORE, 1, "", 0, 0, 0, b"x"))

    among(tmp_path, test)
