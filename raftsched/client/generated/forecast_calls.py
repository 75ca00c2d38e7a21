"""Made from surface/forecast.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from raftsched.client.generated.enums import StepName
from raftsched.client.generated.forecast import Forecast
from raftsched.client.moments import Duration, Moment
from raftsched.client.transport import Transport


class JobsCalls:
    """Methods that make one call."""

    _transport: Transport

    async def forecast(
        self,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        length: Duration | None = None,
        step: StepName | None = None,
    ) -> Forecast:
        """Returns how many runs are due, step by step, and the slots for them: from `start` (None: now) to before
        `end`, or for `length` (None: 24 hours); of one namespace or queue, or (None) of all. `step` None: a minute, or
        the shortest that such a window allows."""
        return await self._transport.get(
            Forecast,
            "/v1/forecast",
            {"namespace": namespace, "queue": queue, "from": start, "to": end, "for": length, "step": step},
        )
