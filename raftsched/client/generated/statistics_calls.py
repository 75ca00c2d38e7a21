"""Made from surface/statistics.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Unpack

from raftsched.client.generated.statistics import Minutes, Now, Stats, StatsFilter
from raftsched.client.moments import Moment
from raftsched.client.refs import JobRef, job_path
from raftsched.client.transport import Transport


class JobsCalls:
    """Methods that make one call."""

    _transport: Transport

    async def stats(
        self, ref: JobRef, *, start: Moment | None = None, end: Moment | None = None, state: str | None = None
    ) -> Stats:
        """Returns statistics of its runs: of all instances that are kept, or of those due from `start` to before `end`.
        `state`: only of those in this state, or in one of several with commas."""
        return await self._transport.get(Stats, f"{job_path(ref)}/stats", {"from": start, "to": end, "state": state})


class AsyncClientCalls:
    """Methods that make one call."""

    _transport: Transport

    async def stats(
        self, *, start: Moment | None = None, end: Moment | None = None, **filters: Unpack[StatsFilter]
    ) -> Stats:
        """Returns how runs went: of instances due from `start` (None: an hour before `end`) to before `end` (None:
        now)."""
        return await self._transport.get(Stats, "/v1/stats", {"from": start, "to": end, **filters})

    async def now(self, *, namespace: str | None = None) -> Now:
        """Returns what runs, what waits and why, what is due next, and the newest dead letters. `namespace`: None, of
        all."""
        return await self._transport.get(Now, "/v1/stats/now", {"namespace": namespace})

    async def minutes(
        self, *, start: Moment | None = None, end: Moment | None = None, step: str = "1m", namespace: str | None = None
    ) -> Minutes:
        """Returns counts of runs over the last 24 hours, or a part of them. `step`: "1m", "5m", "15m" or "1h".
        `namespace`: None, all of them."""
        return await self._transport.get(
            Minutes, "/v1/stats/minutes", {"from": start, "to": end, "step": step, "namespace": namespace}
        )
