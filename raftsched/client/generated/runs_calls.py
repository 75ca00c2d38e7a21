"""Made from surface/runs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.generated.runs import Instance, InstanceFilter
from raftsched.client.pages import each_of
from raftsched.client.refs import InstanceRef, JobRef, id_of, job_path
from raftsched.client.transport import Transport
from raftsched.client.wire import segment


class JobsCalls:
    """Methods that make one call."""

    _transport: Transport

    def instances(
        self, ref: JobRef, *, most: int | None = None, **filters: Unpack[InstanceFilter]
    ) -> AsyncIterator[Instance]:
        """The newest scheduled time first."""
        return each_of(self._transport, Instance, f"{job_path(ref)}/instances", filters, most)


class InstancesCalls:
    """Methods that make one call."""

    _transport: Transport

    def list(self, *, most: int | None = None, **filters: Unpack[InstanceFilter]) -> AsyncIterator[Instance]:
        """The newest scheduled time first; `most` of them (None: all)."""
        return each_of(self._transport, Instance, "/v1/instances", filters, most)

    async def get(self, ref: InstanceRef) -> Instance:
        """NotFoundError: there is none, or it is not kept any more."""
        return await self._transport.get(Instance, f"/v1/instances/{segment(id_of(ref))}")

    async def kill(self, ref: InstanceRef) -> Instance:
        """Asks what runs to end; ends at once what has not started."""
        return await self._transport.post(Instance, f"/v1/instances/{segment(id_of(ref))}/kill")
