"""Workflows: the runs that were started by the end of others, from the first of them on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Unpack

import msgspec

from raftsched.client.instances import LOOK_S, InstanceRef
from raftsched.client.models_workflows import Workflow, WorkflowRun
from raftsched.client.pages import pages
from raftsched.client.spec import WorkflowFilter
from raftsched.client.transport import Transport
from raftsched.client.wire import segment

WorkflowRef = InstanceRef | Workflow


def path_of(ref: WorkflowRef) -> str:
    return f"/v1/workflows/{segment(ref if isinstance(ref, str) else ref.id)}"


class Workflows:
    """A workflow goes by its first run: what `jobs.run` of the first job answers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, *, most: int | None = None, **filters: Unpack[WorkflowFilter]) -> AsyncIterator[Workflow]:
        """The newest scheduled time first; `most` of them (None: all). Runs that started no others are none here."""
        async for page in pages(self._transport, Workflow, "/v1/workflows", filters, most):
            for workflow in page:
                yield workflow

    async def get(self, ref: WorkflowRef) -> Workflow:
        """By its first run, or any other of its runs. NotFoundError: there is none, or it is not kept any more."""
        return await self._transport.get(Workflow, path_of(ref), {"limit": 1})

    async def runs(self, ref: WorkflowRef, *, most: int | None = None) -> AsyncIterator[WorkflowRun]:
        """All of its runs, in the order in which their jobs were made; `most` of them (None: all)."""
        async for page in pages(self._transport, WorkflowRun, path_of(ref), {}, most):
            for run in page:
                yield run

    async def kill(self, ref: WorkflowRef) -> int:
        """Ends all of its runs that are active, or asks them to end, and lets nothing more of it start. Returns how
        many these were. ConflictError "illegal-transition" for a run that is not its first."""
        return (await self._transport.post(_Killed, f"{path_of(ref)}/kill")).killed

    async def wait(self, ref: WorkflowRef, *, timeout: float | None = None) -> Workflow:
        """Until nothing of it is active. `timeout` in seconds; TimeoutError after that."""
        pause, most = LOOK_S
        async with asyncio.timeout(timeout):
            while not (workflow := await self.get(ref)).final:
                await asyncio.sleep(pause)
                pause = min(most, pause * 1.5)
        return workflow


class _Killed(msgspec.Struct):
    killed: int
