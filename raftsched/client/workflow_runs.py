"""Workflows: the runs that were started by the end of others, from the first of them on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from raftsched.client.generated.workflows import Workflow, WorkflowRun
from raftsched.client.generated.workflows_calls import WorkflowsCalls
from raftsched.client.instances import LOOK_S
from raftsched.client.pages import pages
from raftsched.client.refs import WorkflowRef, id_of
from raftsched.client.transport import Transport
from raftsched.client.wire import at
from raftsched.surface.plain import workflows


class Workflows(WorkflowsCalls):
    """A workflow goes by its first run: what `jobs.run` of the first job answers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, ref: WorkflowRef) -> Workflow:
        """By its first run, or any other of its runs. NotFoundError: there is none, or it is not kept any more."""
        return await self._transport.get(Workflow, at(workflows.GET, id=id_of(ref)), {"limit": 1})

    async def runs(self, ref: WorkflowRef, *, most: int | None = None) -> AsyncIterator[WorkflowRun]:
        """All of its runs, in the order in which their jobs were made; `most` of them (None: all)."""
        async for page in pages(self._transport, WorkflowRun, at(workflows.GET, id=id_of(ref)), {}, most):
            for run in page:
                yield run

    async def wait(self, ref: WorkflowRef, *, timeout: float | None = None) -> Workflow:
        """Until nothing of it is active. `timeout` in seconds; TimeoutError after that."""
        pause, most = LOOK_S
        async with asyncio.timeout(timeout):
            while not (workflow := await self.get(ref)).final:
                await asyncio.sleep(pause)
                pause = min(most, pause * 1.5)
        return workflow
