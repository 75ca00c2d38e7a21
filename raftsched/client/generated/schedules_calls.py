"""Made from surface/schedules.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from raftsched.client.generated.content import Trigger
from raftsched.client.generated.schedules import Crontab, Preview
from raftsched.client.moments import Moment
from raftsched.client.refs import JobRef, job_path
from raftsched.client.transport import Transport
from raftsched.client.wire import said


class JobsCalls:
    """Methods that make one call."""

    _transport: Transport

    async def next(
        self,
        ref: JobRef,
        count: int = 10,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        by_day: str | None = None,
    ) -> Preview:
        """Its trigger in words and its next `count` times, from `start` (None: now) to before `end`. `by_day`: as for
        `Client.preview`."""
        return await self._transport.get(
            Preview, f"{job_path(ref)}/next", {"count": count, "from": start, "to": end, "by_day": by_day}
        )

    async def from_crontab(
        self,
        text: str,
        *,
        timezone: str = "UTC",
        namespace: str = "default",
        user_column: bool | None = None,
        seconds: bool | None = None,
        prefix: str = "",
        file: str = "crontab",
    ) -> Crontab:
        """Returns the jobs that the lines of a crontab would become, and why others would not. Nothing is stored:
        `create` takes the jobs. `user_column`, `seconds`: whether a user, or seconds, stand before each command; None:
        found out from the text. The same text, `file` and `prefix` give the same names."""
        return await self._transport.post(
            Crontab,
            "/v1/schedules/crontab",
            said(
                {
                    "text": text,
                    "timezone": timezone,
                    "namespace": namespace,
                    "user_column": user_column,
                    "seconds": seconds,
                    "prefix": prefix,
                    "file": file,
                }
            ),
        )


class AsyncClientCalls:
    """Methods that make one call."""

    _transport: Transport

    async def preview(
        self,
        trigger: Trigger,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        count: int = 10,
        by_day: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
    ) -> Preview:
        """Returns a trigger in words and its next times, from `start` (None: now) to before `end`. `by_day`: a time
        zone; how many each of its days has is counted, too, up to `end`. `name`, `namespace`: of the job that is to be
        made with it, for `H` in a cron expression. Nothing is saved."""
        return await self._transport.post(
            Preview,
            "/v1/schedules/preview",
            said(
                {
                    "trigger": trigger,
                    "from": start,
                    "to": end,
                    "count": count,
                    "by_day": by_day,
                    "name": name,
                    "namespace": namespace,
                }
            ),
        )
