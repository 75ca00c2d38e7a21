"""raftsched mcp: who may change what. The cluster decides by the token; the flag only takes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import raftsched
from raftsched.cli.mcp.reads import READS
from raftsched.cli.mcp.serving import ALL
from raftsched.cli.mcp.writes import WRITES
from raftsched.client.encoding import encode
from raftsched.testing import RunningCluster, running_cluster
from tests.integration.mcp.desk import Desk, at_desk

JOB: dict[str, Any] = {"trigger": {"manual": True}, "handler": {"shell": "echo hello"}}
RUN = "0d3k5xw2a9f4m@1763600400000"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "create_job": {"job": {**JOB, "name": "other", "namespace": "shop"}},
    "edit_job": {"job": "shop/mine", "changes": {"priority": 1}},
    "delete_job": {"job": "shop/mine"},
    "run_job": {"job": "shop/mine"},
    "pause_job": {"job": "shop/mine"},
    "resume_job": {"job": "shop/mine"},
    "kill_run": {"run": RUN},
    "retry_dead_letters": {"runs": [RUN]},
}
Secrets = dict[str, str]


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[RunningCluster, Secrets]]:
    """A cluster with a job, that wants tokens, and one of each kind."""
    with running_cluster(1) as cluster:

        async def main() -> Secrets:
            secrets: Secrets = {}
            async with raftsched.AsyncClient(cluster.servers) as client:
                for namespace in ("shop", "hr"):
                    spec: Any = {**JOB, "name": "mine", "namespace": namespace}
                    await client.jobs.create(spec)
                for name, given in (
                    ("admin", {"role": "admin"}),
                    ("viewer", {"role": "viewer"}),
                    ("editor", {"role": "editor"}),
                    ("shop", {"role": "viewer", "grants": [{"namespace": "shop", "role": "editor"}]}),
                    ("worker", {"role": "worker"}),
                ):
                    raw = encode({"name": name, **given})
                    answer = await client.transport.send("POST", "/v1/tokens", body=raw)
                    secrets[name] = answer.decoded(dict)["secret"]
            async with raftsched.AsyncClient(cluster.servers, token=secrets["admin"]) as admin:
                await admin.transport.send("PUT", "/v1/cluster/access", body=encode({"required": True}))
            return secrets

        yield cluster, asyncio.run(main())


async def content(secret: str, cluster: RunningCluster) -> list[Any]:
    async with raftsched.AsyncClient(cluster.servers, token=secret) as client:
        jobs = [(job.id, job.revision, job.state, job.last_instance) async for job in client.jobs.list()]
        return [jobs, [run.id async for run in client.instances.list()]]


def test_a_viewer_cannot_write_even_where_writes_are_allowed(guarded: tuple[RunningCluster, Secrets]) -> None:
    cluster, secrets = guarded
    before = asyncio.run(content(secrets["admin"], cluster))

    async def work(desk: Desk) -> None:
        assert await desk.names() == {tool.name for tool in READS}
        assert list(ARGUMENTS) == [tool.name for tool in WRITES]
        for name, given in ARGUMENTS.items():
            said = await desk.refused(name, **given)
            assert said.startswith("forbidden: "), said
            assert "editor" in said
            for dry in (True,) if name in ("create_job", "edit_job") else ():
                assert "forbidden" in await desk.refused(name, **given, dry_run=dry)
        assert (await desk("get_job", job="shop/mine"))["name"] == "mine"

    at_desk(cluster, work, allow_writes=True, token=secrets["viewer"])
    assert asyncio.run(content(secrets["admin"], cluster)) == before


def test_an_editor_cannot_write_without_the_flag(guarded: tuple[RunningCluster, Secrets]) -> None:
    cluster, secrets = guarded
    before = asyncio.run(content(secrets["admin"], cluster))

    async def work(desk: Desk) -> None:
        assert await desk.names() == {tool.name for tool in READS}
        for name, given in ARGUMENTS.items():
            assert "--allow-writes" in await desk.refused(name, **given)

    at_desk(cluster, work, token=secrets["editor"])
    assert asyncio.run(content(secrets["admin"], cluster)) == before


def test_an_editor_of_one_namespace_writes_there_alone(guarded: tuple[RunningCluster, Secrets]) -> None:
    cluster, secrets = guarded

    async def work(desk: Desk) -> None:
        assert await desk.names() == set(ALL)
        assert (await desk("who_am_i"))["grants"] == [{"namespace": "shop", "role": "editor"}]
        assert (await desk("pause_job", job="shop/mine"))["state"] == "SUSPENDED"
        assert (await desk("resume_job", job="shop/mine"))["state"] == "SCHEDULED"
        said = await desk.refused("pause_job", job="hr/mine")
        assert said.startswith("forbidden: ")
        assert (await desk("get_job", job="hr/mine"))["state"] == "SCHEDULED"

    at_desk(cluster, work, allow_writes=True, token=secrets["shop"])


@pytest.mark.parametrize(
    ("token", "code"), [("", "unauthorized"), ("rs_" + "0" * 43, "unauthorized"), ("worker", "forbidden")]
)
def test_who_may_not_read_is_told_so(guarded: tuple[RunningCluster, Secrets], token: str, code: str) -> None:
    cluster, secrets = guarded

    async def work(desk: Desk) -> None:
        assert set(await desk.names()) >= {tool.name for tool in READS}
        said = await desk.refused("list_jobs")
        assert said.startswith(f"{code}: ")
        assert ("RAFTSCHED_TOKEN" in said) == (code == "unauthorized")
        assert secrets.get(token, token) not in said or not token
        for name, given in ARGUMENTS.items():
            assert code in await desk.refused(name, **given)

    at_desk(cluster, work, allow_writes=True, token=secrets.get(token, token))
