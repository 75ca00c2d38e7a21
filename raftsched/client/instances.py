"""Instances: runs of jobs, with what they printed; and those that failed for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Unpack

import aiohttp
import msgspec

from raftsched.client.generated import explain_calls, runs_calls
from raftsched.client.generated.dead_letters_calls import DeadLettersCalls
from raftsched.client.generated.output import OutputPiece, Searched
from raftsched.client.generated.runs import Instance, Recent, RecentRun, Refused
from raftsched.client.models import Sweep
from raftsched.client.pages import pages, part_of
from raftsched.client.refs import InstanceRef, id_of
from raftsched.client.spec import DeadFilter, InstanceFilter, KillFilter, SearchFilter
from raftsched.client.transport import Transport
from raftsched.client.watching import pieces
from raftsched.client.wire import at, own_key
from raftsched.surface.plain import dead_letters, output, runs

Stream = Literal["stdout", "stderr"]
LOOK_S = (0.02, 1.0)  # between two looks at an instance that is waited for: first, most
TEXT = {"Accept": "text/plain"}


def _path(address: str, ref: InstanceRef) -> str:
    return at(address, id=id_of(ref))


class Instances(runs_calls.InstancesCalls, explain_calls.InstancesCalls):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def kill_matching(self, *, dry_run: bool = False, **filters: Unpack[KillFilter]) -> Sweep:
        """All of a job or a namespace that are not at their end, the newest first; `state` narrows it. With `dry_run`
        nothing is done, and `done` is 0. ValueError when neither a job nor a namespace is named."""
        if not filters.get("job") and not filters.get("namespace"):
            raise ValueError("name a job or a namespace")
        total = _Total()
        body: dict[str, Any] = {"filter": filters, "dry_run": dry_run}
        while True:
            step = await self._transport.post(_Step, runs.KILL_MATCHING, body)
            cursor = total.add(step)
            if cursor is None:
                return total.sweep()
            body["cursor"] = cursor

    async def rerun(self, ref: InstanceRef, *, downstream: bool = False) -> Instance:
        """One more attempt of what is at its end. `downstream`: from here on, all that follows it in its workflow."""
        return await self._transport.post(Instance, _path(runs.RERUN, ref), {"downstream": True} if downstream else {})

    async def wait(self, ref: InstanceRef, *, timeout: float | None = None) -> Instance:
        """Until it is at its end. `timeout` in seconds; TimeoutError after that."""
        pause, most = LOOK_S
        async with asyncio.timeout(timeout):
            while not (instance := await self.get(ref)).final:
                await asyncio.sleep(pause)
                pause = min(most, pause * 1.5)
        return instance

    async def output(self, ref: InstanceRef, *, attempt: int | None = None, stream: Stream | None = None) -> bytes:
        """Returns what it printed up to now: stdout and stderr as they came, or one of them; of the last attempt,
        unless another one is named."""
        query = {"attempt": attempt, "stream": stream}
        answer = await self._transport.send("GET", _path(output.GET, ref), query=self._own(query), headers=TEXT)
        return answer.body

    async def follow(
        self, ref: InstanceRef, *, attempt: int | None = None, stream: Stream | None = None, offset: int = 0
    ) -> AsyncIterator[bytes]:
        """Yields what it prints, as it comes, from this byte on until the attempt ends. Goes on where it was when the
        node that is asked goes away; waits for an attempt that is still to come."""
        number = attempt or (await self.get(ref)).attempt or 1
        pause, most = LOOK_S
        while True:
            ended = await self._ended(ref, number)
            query = {"attempt": number, "stream": stream, "offset": offset, "follow": True}
            try:
                async with self._transport.stream(_path(output.GET, ref), self._own(query), TEXT) as response:
                    async for piece in response.content.iter_any():
                        offset += len(piece)
                        pause = LOOK_S[0]
                        yield piece
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass  # what is missing comes with the next request
            else:
                if ended:
                    return
                if await self._ended(ref, number):
                    continue  # once more, for what came last
            await asyncio.sleep(pause)
            pause = min(most, pause * 1.5)

    async def pieces(
        self,
        ref: InstanceRef,
        *,
        attempt: int | None = None,
        stream: Stream | None = None,
        tail_bytes: int | None = None,
        follow: bool = True,
    ) -> AsyncIterator[OutputPiece]:
        """Yields what it prints with the stream of each piece, in order, until the attempt ends; with `follow` False
        what there is. `tail_bytes`: begins so many before the end, and skips what is further back when it falls
        behind. Goes on where it was when the node that is asked goes away."""
        query = {"attempt": attempt, "stream": stream, "tail_bytes": tail_bytes, "follow": follow}
        async for piece in pieces(self._transport, _path(output.GET, ref), self._own(query)):
            yield piece

    async def list_fields(
        self, *fields: str, most: int | None = None, **filters: Unpack[InstanceFilter]
    ) -> AsyncIterator[dict[str, Any]]:
        """Gives only these fields of each, as JSON has them. InvalidError names the fields that there are."""
        async for page in pages(self._transport, dict[str, Any], runs.LIST, part_of(fields, filters), most):
            for instance in page:
                yield instance

    async def recent(self, jobs: Sequence[str], *, count: int = 30) -> Mapping[str, Sequence[RecentRun]]:
        """Returns the newest runs of each of these jobs, at most 50 ids, and at most 50 runs of each. A job that is not
        there is left out."""
        query = {"jobs": ",".join(jobs), "count": count}
        found = await self._transport.get(Recent, runs.RECENT, query)
        return {one.job_id: one.runs for one in found.items}

    async def search(
        self, text: str, *, ignore_case: bool = False, **filters: Unpack[SearchFilter]
    ) -> AsyncIterator[Searched]:
        """Yields what holds the text in the output of attempts that have ended, the newest instance first, a part of
        the search at a time. Each part says which nodes did not answer: what they have was not searched."""
        cursor: str | None = None
        while True:
            query = {"q": text, "ignore_case": ignore_case, **filters, "cursor": cursor}
            part = await self._transport.get(Searched, output.SEARCH, self._own(query))
            yield part
            cursor = part.next
            if cursor is None:
                return

    async def _ended(self, ref: InstanceRef, number: int) -> bool:
        """Nothing more comes of this attempt."""
        instance = await self.get(ref)
        for attempt in instance.attempts:
            if attempt.number == number:
                return attempt.outcome is not None
        return instance.final

    def _own(self, query: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**query, "min_index": self._transport.index} if self._transport.index else query


class _Step(msgspec.Struct):
    matched: int
    refused: list[Refused]
    requeued: int = 0
    discarded: int = 0
    killed: int = 0
    next: str | None = None


class DeadLetters(DeadLettersCalls):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def requeue(self, ids: Sequence[str] | None = None, /, **filters: Unpack[DeadFilter]) -> Sweep:
        """These, or all that match. ValueError when neither is given."""
        body: dict[str, Any] = {"ids": list(ids)} if ids is not None else {"filter": _named(filters)}
        total = _Total()
        cursor: str | None = None
        while True:
            step = await self._transport.post(
                _Step, dead_letters.REQUEUE, {**body, **({"cursor": cursor} if cursor else {})}
            )
            cursor = total.add(step)
            if cursor is None:
                return total.sweep()

    async def discard(self, **filters: Unpack[DeadFilter]) -> Sweep:
        """All that match. ValueError without a filter."""
        query = _named(filters)
        total = _Total()
        cursor: str | None = None
        while True:
            answer = await self._transport.send(
                "DELETE", dead_letters.DISCARD, query={**query, "cursor": cursor}, headers=own_key()
            )
            cursor = total.add(answer.decoded(_Step))
            if cursor is None:
                return total.sweep()


class _Total:
    """Over the steps of one sweep."""

    def __init__(self) -> None:
        self._matched = 0
        self._done = 0
        self._refused: list[Refused] = []

    def add(self, step: _Step) -> str | None:
        self._matched += step.matched
        self._done += step.requeued + step.discarded + step.killed
        self._refused += step.refused
        return step.next

    def sweep(self) -> Sweep:
        return Sweep(matched=self._matched, done=self._done, refused=self._refused)


def _named(filters: Mapping[str, Any]) -> dict[str, Any]:
    if not filters:
        raise ValueError("name a job, a namespace or a name_prefix; without a filter it would be all of them")
    return dict(filters)
