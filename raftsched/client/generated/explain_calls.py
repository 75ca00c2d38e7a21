"""Made from surface/explain.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from raftsched.client.generated.explain import Explanation, JobExplanation
from raftsched.client.refs import InstanceRef, JobRef, id_of, job_path
from raftsched.client.transport import Transport
from raftsched.client.wire import segment


class InstancesCalls:
    """Methods that make one call."""

    _transport: Transport

    async def explain(self, ref: InstanceRef) -> Explanation:
        """Why it ran then and there, waits or was skipped, step by step."""
        return await self._transport.get(Explanation, f"/v1/instances/{segment(id_of(ref))}/explain")


class JobsCalls:
    """Methods that make one call."""

    _transport: Transport

    async def explain(self, ref: JobRef) -> JobExplanation:
        """Why it does not run, or when it does: what is in its way, what moves its times, how its newest runs went."""
        return await self._transport.get(JobExplanation, f"{job_path(ref)}/explain")
