"""Tokens on three nodes: any of them takes them and knows when they are revoked; the way back in; after a restart."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.client.transport import encode
from raftsched.security.local_token import read_local_token
from raftsched.testing import cluster
from raftsched.testing.nodes import Cluster
from tests.support.patience import patient

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
