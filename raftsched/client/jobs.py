"""Jobs: made, looked at, changed, run.

A job is meant by its id, by "namespace/name", or by a Job or Created that was answered before. A name alone is taken
for an id: "default/nightly" is the job "nightly" of the namespace "default".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice
from typing import Any, Unpack

from raftsched.client.creates import Creates
from raftsched.client.errors import ClientError
from raftsched.client.http import segment
from raftsched.client.models import Backfilled, Created, Instance, Job, Preview, Run
from raftsched.client.pages import pages
from raftsched.client.spec import InstanceFilter, JobFilter, JobSpec, Moment
from raftsched.client.transport import Transport, encode

Ref = str | Job | Created
AT_ONCE = 2_000  # creates of one create_many at a time


def path_of(ref: Ref) -> str:
    """ValueError for what is neither id nor namespace/name."""
    text = ref if isinstance(ref, str) else ref.id
    namespace, slash, name = text.partition("/")
    if not slash and text:
        return f"/v1/jobs/{segment(text)}"
    if not namespace or not name or "/" in name or {namespace, name} & {".", ".."}:
        raise ValueError(f'{text!r} names no job; give its id, or "namespace/name" such as "default/nightly"')
    return f"/v1/namespaces/{segment(namespace)}/jobs/{segment(name)}"


class Jobs:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._creates = Creates(transport)

    async def close(self) -> None:
        await self._creates.close()

    # ------------------------------------------------------------ making

    async def create(self, job: JobSpec | None = None, /, **fields: Unpack[JobSpec]) -> Created:
        """Returns when a majority has it on disk. Creates that are under way at one time travel together. With a name
        it can be called again after UnknownOutcomeError, also by another process: the same content gives the same job,
        another one a ConflictError."""
        spec: Mapping[str, Any] = {**(job or {}), **fields}
        name, namespace = spec.get("name"), spec.get("namespace")
        return await self._creates.create(
            encode(spec),
            name if isinstance(name, str) else None,
            namespace if isinstance(namespace, str) else "default",
        )

    async def create_many(self, jobs: Iterable[JobSpec]) -> list[Created | ClientError]:
        """What became of each, in order. Some may be made and others refused."""
        results: list[Created | ClientError] = []
        rest = iter(jobs)
        while some := list(islice(rest, AT_ONCE)):
            for done in await asyncio.gather(*(self.create(job) for job in some), return_exceptions=True):
                if isinstance(done, BaseException) and not isinstance(done, ClientError):
                    raise done
                results.append(done)
        return results

    async def put(self, ref: Ref, job: JobSpec, *, if_match: int | None = None) -> Job:
        """The whole new content. By name it creates what does not exist. `if_match`: only while it is this revision."""
        answer = await self._transport.send("PUT", path_of(ref), body=encode(job), headers=_condition(if_match))
        return answer.decoded(Job)

    async def patch(self, ref: Ref, changes: Mapping[str, Any], *, if_match: int | None = None) -> Job:
        """RFC 7396: what is given is changed, None takes out; `trigger` and `handler` are replaced whole."""
        answer = await self._transport.send("PATCH", path_of(ref), body=encode(changes), headers=_condition(if_match))
        return answer.decoded(Job)

    async def delete(self, ref: Ref, *, if_match: int | None = None) -> None:
        await self._transport.send("DELETE", path_of(ref), headers=_condition(if_match))

    # ------------------------------------------------------------ looking

    async def get(self, ref: Ref) -> Job:
        return await self._transport.get(Job, path_of(ref))

    async def list(self, *, most: int | None = None, **filters: Unpack[JobFilter]) -> AsyncIterator[Job]:
        """`most` of them (None: all), page after page; what is made or deleted meanwhile may be in it or not."""
        async for page in pages(self._transport, Job, "/v1/jobs", filters, most):
            for job in page:
                yield job

    async def instances(
        self, ref: Ref, *, most: int | None = None, **filters: Unpack[InstanceFilter]
    ) -> AsyncIterator[Instance]:
        """The newest scheduled time first."""
        async for page in pages(self._transport, Instance, f"{path_of(ref)}/instances", filters, most):
            for instance in page:
                yield instance

    async def next(self, ref: Ref, count: int = 10) -> Preview:
        return await self._transport.get(Preview, f"{path_of(ref)}/next", {"count": count})

    # ------------------------------------------------------------ doing

    async def run(self, ref: Ref, *, params: Mapping[str, Any] | None = None, priority: int | None = None) -> Run:
        """Now, beside its schedule; `params` and `priority` for this run only."""
        body = {k: v for k, v in (("params", params), ("priority", priority)) if v is not None}
        return await self._transport.post(Run, f"{path_of(ref)}/run", body)

    async def pause(self, ref: Ref) -> Job:
        return await self._transport.post(Job, f"{path_of(ref)}/pause")

    async def resume(self, ref: Ref) -> Job:
        """What was missed meanwhile is not caught up; see `backfill`."""
        return await self._transport.post(Job, f"{path_of(ref)}/resume")

    async def expire(self, ref: Ref, *, kill: bool = False) -> Job:
        """Never scheduled again; `kill` ends what runs."""
        return await self._transport.post(Job, f"{path_of(ref)}/expire", {"kill": kill})

    async def skip_next(self, ref: Ref, at: Moment | None = None) -> Job:
        """`at`: the nominal time that is meant. Without it the next one is looked up first, so that a request that has
        to be sent again leaves out no second one."""
        if at is None:
            coming = (await self.next(ref, 1)).next
            at = coming[0].at if coming else None
        return await self._transport.post(Job, f"{path_of(ref)}/skip-next", {} if at is None else {"at": at})

    async def backfill(
        self, ref: Ref, start: Moment, end: Moment | None = None, *, dry_run: bool = False
    ) -> Backfilled:
        """A run for each time from `start` on, to before `end` (now), that was not run."""
        body: dict[str, Any] = {"from": start, "dry_run": dry_run}
        if end is not None:
            body["to"] = end
        return await self._transport.post(Backfilled, f"{path_of(ref)}/backfill", body)


def _condition(revision: int | None) -> dict[str, str]:
    return {} if revision is None else {"If-Match": f'"{revision}"'}
