"""A node whose store is mostly free gives that back when it starts, before it does anything else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftsched.store import compaction
from raftsched.testing import cluster
from tests.support.patience import patient


def test_a_node_starts_on_tables_that_were_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compaction, "is_due", lambda usage, room: True)
    caplog.set_level("INFO")

    async def main() -> None:
        async with cluster(1, directory=tmp_path) as (node,):
            assert [path.name for path in tmp_path.glob("*/store/tables-*")] == ["tables-2"]
            assert "tables take" in caplog.text
            job = await node.client.jobs.create(trigger={"manual": True}, handler={"exec": ["true"]})
            run = await node.client.instances.wait(await node.client.jobs.run(job), timeout=patient(60))
            assert run.state == "SUCCEEDED"

    asyncio.run(main())
