"""Jobs to be created, gathered into batches by themselves.

What is asked for in one turn of the event loop goes out at once; what is asked for while that is on its way goes out
together when its answer comes, or before that when there is enough for a batch that is worth it. So a lone create does
not wait for others, and the more there are at a time the less each of them costs, without anything to be tuned.

Each batch has an Idempotency-Key: what was not answered, or only in part, is sent again as it was, and what was made of
it is answered again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from datetime import datetime

import msgspec

from raftsched.client.errors import ClientError, UnavailableError, UnknownOutcomeError, error_of_problem
from raftsched.client.generated.read_states import JobState
from raftsched.client.models import Created
from raftsched.client.transport import Transport
from raftsched.client.wire import own_key
from raftsched.surface.plain import jobs

BATCH_JOBS = 500
BATCH_BYTES = 1 << 20
FLIGHTS = 4  # batches on their way at a time
WORTH_A_FLIGHT = 250  # jobs that do not wait for the batch before them
WAITING_MAX = 100_000  # jobs that wait for their batch; who comes then waits before that
PAUSE_S = 0.1  # before what was refused for the moment is tried again


class _Item(msgspec.Struct, gc=False):
    """An item of the answer to a batch: a job, or a problem."""

    status: int
    id: str = ""
    state: JobState = "NEW"
    revision: int = 0
    next_fire_at: datetime | None = None


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


_item = msgspec.json.Decoder(_Item).decode
_problem = msgspec.json.Decoder(dict).decode
_created = msgspec.json.Decoder(Created).decode


class _Wanted(msgspec.Struct, eq=False):
    raw: bytes  # the job as JSON
    name: str | None
    namespace: str
    deadline: float
    done: asyncio.Future[Created]

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error.with_traceback(None))  # that of the batch is nobody's


class Creates:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: deque[_Wanted] = deque()
        self._flights: set[asyncio.Task[None]] = set()
        self._started = False  # sending is called in this turn of the loop, or as soon as a flight ends

    def create(self, raw: bytes, name: str | None, namespace: str, timeout: float) -> Awaitable[Created]:
        """`timeout` in seconds. Raises ClientError. Who stops waiting does not stop the job from being made."""
        if len(self._waiting) < WAITING_MAX and timeout >= self._transport.timeout:
            return self._want(raw, name, namespace, timeout).done  # what it travels with takes no longer
        return self._in_time(raw, name, namespace, timeout)

    async def _in_time(self, raw: bytes, name: str | None, namespace: str, timeout: float) -> Created:
        wanted: _Wanted | None = None
        try:
            async with asyncio.timeout(timeout):
                while len(self._waiting) >= WAITING_MAX:
                    await asyncio.wait(self._flights, return_when=asyncio.FIRST_COMPLETED)
                    await asyncio.sleep(0)  # what has landed lets others go
                wanted = self._want(raw, name, namespace, timeout)
                return await wanted.done
        except TimeoutError:
            raise self._late(wanted, timeout) from None

    def _want(self, raw: bytes, name: str | None, namespace: str, timeout: float) -> _Wanted:
        loop = asyncio.get_running_loop()
        wanted = _Wanted(raw, name, namespace, loop.time() + timeout, loop.create_future())
        self._waiting.append(wanted)
        if not self._started:
            self._started = True
            loop.call_soon(self._go)
        return wanted

    def _late(self, wanted: _Wanted | None, timeout: float) -> ClientError:
        if wanted is None or wanted in self._waiting:
            if wanted is not None:
                self._waiting.remove(wanted)
            return UnavailableError("unreachable", f"The job was not sent within {timeout:g} s; others are under way.")
        return UnknownOutcomeError("unknown-outcome", f"It is not known after {timeout:g} s whether the job was made.")

    async def close(self) -> None:
        """Sends what waits, and returns when all that was sent is answered."""
        while self._waiting or self._flights:
            if self._flights:
                await asyncio.wait(self._flights)
            else:
                await asyncio.sleep(0)

    def _go(self) -> None:
        self._started = False
        while self._waiting and self._may_fly():
            flight = asyncio.create_task(self._fly(self._take()), name="raftsched client: creates")
            self._flights.add(flight)
            flight.add_done_callback(self._landed)

    def _may_fly(self) -> bool:
        return not self._flights or (len(self._flights) < FLIGHTS and len(self._waiting) >= WORTH_A_FLIGHT)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        if self._waiting and not self._started:
            self._started = True  # a turn later: who was just answered may ask for more
            asyncio.get_running_loop().call_soon(self._go)

    def _take(self) -> list[_Wanted]:
        waiting = self._waiting
        batch = [waiting.popleft()]
        size = len(batch[0].raw)
        while waiting and len(batch) < BATCH_JOBS:
            size += len(waiting[0].raw)
            if size >= BATCH_BYTES:
                break
            batch.append(waiting.popleft())
        return batch

    async def _fly(self, batch: list[_Wanted]) -> None:
        try:
            if len(batch) == 1:
                await self._one(batch[0])
            else:
                await self._many(batch)
        except Exception as error:
            for wanted in batch:
                wanted.fail(error)

    async def _one(self, wanted: _Wanted) -> None:
        answer = await self._transport.send("POST", jobs.CREATE, body=wanted.raw, headers=own_key(), repeatable=True)
        if not wanted.done.done():
            made = _created(answer.body)
            wanted.done.set_result(made if answer.status == 201 else msgspec.structs.replace(made, created=False))

    async def _many(self, batch: list[_Wanted]) -> None:
        body = b"[" + b",".join([wanted.raw for wanted in batch]) + b"]"
        key = own_key()
        while True:
            answer = await self._transport.send("POST", jobs.CREATE_BATCH, body=body, headers=key, repeatable=True)
            items = answer.decoded(_Items).items
            settled = [_settle(wanted, raw) for wanted, raw in zip(batch, items, strict=True)]
            if all(settled):
                return
            await asyncio.sleep(PAUSE_S)


def _settle(wanted: _Wanted, raw: msgspec.Raw) -> bool:
    """False: it is to be asked for again, because nothing was done for the moment, or nobody knows whether."""
    done = wanted.done
    if done.done():
        return True
    item = _item(raw)
    if item.status < 400:
        done.set_result(
            Created(
                id=item.id,
                state=item.state,
                revision=item.revision,
                next_fire_at=item.next_fire_at,
                name=wanted.name,
                namespace=wanted.namespace,
                created=item.status == 201,
            )
        )
        return True
    if item.status in (503, 504) and asyncio.get_running_loop().time() < wanted.deadline:
        return False
    wanted.fail(error_of_problem(item.status, "", _problem(raw)))
    return True
