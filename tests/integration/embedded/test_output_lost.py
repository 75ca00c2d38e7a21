"""Output that is removed from under a running node: said, counted, and no reason to lose what comes later."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from raftsched.client.aio import AsyncClient
from raftsched.client.errors import ClientError
from raftsched.node import node as node_module
from raftsched.testing import cluster
from tests.support.patience import patient, until


async def printed(client: AsyncClient, words: str) -> str:
    """Returns the id of a run that has printed this."""
    job = await client.jobs.create(trigger={"manual": True}, handler={"exec": ["echo", words]})
    run = await client.instances.wait(await client.jobs.run(job), timeout=patient(60))
    assert run.state == "SUCCEEDED"
    return run.id


async def test_a_node_notices_that_its_output_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_module, "EACH_MINUTE_S", 0.05)
    async with cluster(1, directory=tmp_path) as (node,):
        old = await printed(node.client, "old")
        (directory,) = tmp_path.glob("*/output")
        shutil.rmtree(directory)
        new = await printed(node.client, "new")
        assert await node.instances.output(new) == b"new\n"
        await until(lambda: "not by this node" in caplog.text)
        with pytest.raises(ClientError, match="was removed from the disk of"):
            await node.instances.output(old)
        assert await node.instances.output(new) == b"new\n"


async def test_a_run_ends_where_its_output_can_neither_be_kept_nor_discarded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a disk that the kernel made read-only."""
    async with cluster(1, directory=tmp_path) as (node,):
        await printed(node.client, "old")
        (directory,) = tmp_path.glob("*/output")
        shutil.rmtree(directory)
        directory.touch()
        run = await node.client.instances.get(await printed(node.client, "new"))
        assert "the output could not be kept" in (run.attempts[-1].error or "")
        assert "cannot be removed: Not a directory" in caplog.text
