"""Output outlives the node that has it first: three real nodes, of which that one stops."""

from __future__ import annotations

from pathlib import Path

from raftsched.testing import cluster
from tests.support.patience import patient, until


async def test_output_is_read_after_its_node_has_stopped(tmp_path: Path) -> None:
    async with cluster(3, directory=tmp_path) as nodes:
        client = nodes[0].client
        await client.cluster.set_settings(output_copies=2)
        job = await client.jobs.create(trigger={"manual": True}, handler={"exec": ["echo", "it is here"]})
        run = await client.instances.wait(await client.jobs.run(job), timeout=patient(60))
        assert (run.state, await client.instances.output(run)) == ("SUCCEEDED", b"it is here\n")
        assert run.output is not None
        # the other node's disk says it, and nobody else
        await until(lambda: any(path.stat().st_size for path in tmp_path.glob("*/output-copies/*/seg-*")))
        await next(node for node in nodes if node.id == run.output.node).stop()
        for node in nodes:
            if node.id != run.output.node:
                assert await node.instances.output(run) == b"it is here\n"
