"""Tokens on three nodes: any of them takes them and knows when they are revoked; the way back in; after a restart."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

import raftsched
from raftsched.client.transport import encode
from raftsched.security.local_token import read_local_token
from raftsched.testing import cluster
from raftsched.testing.temporary_nodes import Cluster
from tests.support.patience import patient

_T = TypeVar("_T")

JOB: Any = {"trigger": {"manual": True}, "handler": {"shell": "echo hello"}}


async def ask(client: raftsched.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    raw = None if body is None else encode(body)
    answer = await client.transport.send(method, path, body=raw)
    return answer.decoded(dict) if answer.body else None


async def make(node: raftsched.Node, name: str, role: str, **more: Any) -> Any:
    return await ask(node.client, "POST", "/v1/tokens", {"name": name, "role": role, **more})


async def turn_on(nodes: Cluster) -> str:
    """The secret of an admin; all nodes know that tokens are required."""
    secret: str = (await make(nodes[0], "root", "admin"))["secret"]
    async with raftsched.AsyncClient(nodes[1].url, token=secret, discover=False) as client:
        await ask(client, "PUT", "/v1/cluster/access", {"required": True})
    for node in nodes:
        await ask(node.client, "GET", "/v1/jobs?consistency=leader")
    return secret


def test_three_nodes(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(3, directory=tmp_path) as nodes:
            secret = await turn_on(nodes)
            editor = await make(nodes[2], "editor", "editor")
            for node in nodes:
                async with raftsched.AsyncClient(node.url, discover=False) as nobody:
                    with pytest.raises(raftsched.AuthError, match="token"):
                        await nobody.jobs.create(JOB)
                    with pytest.raises(raftsched.AuthError):
                        await ask(nobody, "GET", "/v1/cluster")
                async with raftsched.AsyncClient(node.url, token=editor["secret"], discover=False) as client:
                    await ask(client, "GET", "/v1/jobs?consistency=leader")  # it knows the token
                    job = await client.jobs.create({**JOB, "name": f"at-{node.id}"})
                    run = await client.jobs.run(job)
                    done = await client.instances.wait(run, timeout=patient(60))
                    assert done.state == "SUCCEEDED"
                    assert await client.instances.output(run) == b"hello\n"
                    with pytest.raises(raftsched.AuthError, match="admin"):
                        await ask(client, "GET", "/v1/tokens")
            # output from whichever node ran it, through each of the others; a program may do all with its own node
            for node in nodes:
                for other in nodes:
                    found = [i async for i in other.instances.list(job=f"at-{node.id}", namespace="default")]
                    assert await other.instances.output(found[0].id) == b"hello\n"
                    seen = await ask(other.client, "GET", "/v1/cluster")
                    assert all(one["applied_index"] is not None for one in seen["nodes"]), "the leader was asked"
            await revoked_everywhere(nodes, editor)
            await restarted(nodes, secret)

    asyncio.run(main())


async def revoked_everywhere(nodes: Cluster, token: Any) -> None:
    await ask(nodes[0].client, "DELETE", f"/v1/tokens/{token['id']}")
    for node in nodes:
        await ask(node.client, "GET", "/v1/jobs?consistency=leader")
        async with raftsched.AsyncClient(node.url, token=token["secret"], discover=False) as client:
            with pytest.raises(raftsched.AuthError, match="revoked"):
                await client.jobs.create(JOB)


async def restarted(nodes: Cluster, secret: str) -> None:
    before = {node.id: read_local_token(node._config.data) for node in nodes}
    await asyncio.gather(*(node.stop() for node in nodes))
    await asyncio.gather(*(nodes.start(node) for node in nodes))
    await nodes.ready()
    for node in nodes:
        async with raftsched.AsyncClient(node.url, discover=False) as nobody:
            with pytest.raises(raftsched.AuthError):
                await ask(nobody, "GET", "/v1/jobs")
        async with raftsched.AsyncClient(node.url, token=secret, discover=False) as client:
            assert [t["name"] for t in (await ask(client, "GET", "/v1/tokens"))["items"]] == ["root", "editor"]
        file = node._config.data / "local.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        local = read_local_token(node._config.data)
        assert local != before[node.id]
        others = [other for other in nodes if other is not node]
        async with raftsched.AsyncClient(node.url, token=local, discover=False) as client:
            await ask(client, "GET", "/v1/tokens")
        async with raftsched.AsyncClient(others[0].url, token=local, discover=False) as client:
            with pytest.raises(raftsched.AuthError):
                await ask(client, "GET", "/v1/tokens")


@pytest.mark.parametrize("first", ["file", "revoke"])
def test_a_worker_whose_token_is_replaced_in_its_file_loses_no_run(tmp_path: Path, first: str) -> None:
    """The new token is in the file before the earlier one is revoked, or comes a moment after that. What runs goes on
    in the same attempt and the same session, and what is due later starts."""

    async def main() -> None:
        async with cluster(3, directory=tmp_path) as nodes:
            root = await turn_on(nodes)
            old, new = [await make(nodes[0], name, "worker") for name in ("old", "new")]
            file = tmp_path / "worker.token"
            file.write_text(old["secret"])
            gate = tmp_path / "gate"
            worker = raftsched.Worker(
                servers=[node.url for node in nodes],
                name="w1",
                data=str(tmp_path / "w1"),
                slots=4,
                token_file=str(file),
                jobs_as_node=True,
                labels={"where": "there"},
            )
            there: Any = {"placement": {"labels": {"where": "there"}}, "trigger": {"manual": True}}
            waits = {"handler": {"shell": f"while [ ! -e {gate} ]; do sleep 0.05; done"}}
            client = raftsched.AsyncClient([node.url for node in nodes], token=root)
            async with client, worker:
                run = await client.jobs.run(await client.jobs.create({**there, **waits}))
                await until(lambda: client.instances.get(run), lambda found: found.started_at is not None)
                session = worker.session
                if first == "file":
                    replace(file, new["secret"])
                    await until(lambda: bound(client), lambda count: count == 1)
                await ask(client, "DELETE", f"/v1/tokens/{old['id']}")
                if first == "revoke":
                    replace(file, new["secret"])
                    await until(lambda: bound(client), lambda count: count == 1)
                after = await client.jobs.run(await client.jobs.create({**there, "handler": {"exec": ["true"]}}))
                assert (await client.instances.wait(after, timeout=patient(60))).state == "SUCCEEDED"
                gate.touch()
                done = await client.instances.wait(run, timeout=patient(60))
                assert (done.state, done.attempt, worker.session) == ("SUCCEEDED", 1, session)

    asyncio.run(main())


def replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


async def bound(client: raftsched.AsyncClient) -> int:
    """How often a session was given to another token."""
    found = await ask(client, "GET", "/v1/audit?limit=200")
    return sum(one["operation"] == "worker_sessions_bind" for one in found["items"])


async def until(look: Callable[[], Awaitable[_T]], right: Callable[[_T], bool]) -> None:
    async with asyncio.timeout(patient(60)):
        while not right(await look()):  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(0.05)
