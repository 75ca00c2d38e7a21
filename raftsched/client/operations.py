"""Operations on many jobs: started, watched, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import Any

from raftsched.client.generated.bulk import Operation
from raftsched.client.generated.bulk_calls import OperationsCalls
from raftsched.client.refs import OperationRef
from raftsched.client.transport import Transport

LOOK_S = (0.02, 1.0)  # between two looks at an operation: first, most


class Operations(OperationsCalls):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def wait(self, ref: OperationRef, *, timeout: float | None = None) -> Operation:
        """Until it is at its end, done or cancelled. `timeout` in seconds; TimeoutError after that, and the operation
        goes on."""
        pause, most = LOOK_S
        async with asyncio.timeout(timeout):
            while not (found := await self.get(ref)).final:
                await asyncio.sleep(pause)
                pause = min(most, pause * 1.5)
        return found

    async def follow(self, ref: OperationRef) -> AsyncIterator[Operation]:
        """As it is now, and then whenever it got further; the last one is at its end."""
        pause, most = LOOK_S
        seen: Operation | None = None
        while True:
            found = await self.get(ref)
            if found != seen:
                yield found
            if found.final:
                return
            seen = found
            await asyncio.sleep(pause)
            pause = min(most, pause * 1.5)


class Underway:
    """An operation that was accepted. It goes on by itself, whether it is watched or not.

    done = await (await client.jobs.act("pause", owner="ana"))          # to its end
    async for seen in await client.jobs.act("delete", owner="ana"):     # with its progress
        print(seen.examined, seen.total)
    """

    def __init__(self, operations: Operations, operation: Operation) -> None:
        self.operation = operation  # as it was seen last
        self._operations = operations

    @property
    def id(self) -> str:
        return self.operation.id

    def __await__(self) -> Generator[Any, None, Operation]:
        return self.wait().__await__()

    async def __aiter__(self) -> AsyncIterator[Operation]:
        async for seen in self._operations.follow(self.operation):
            self.operation = seen
            yield seen

    async def wait(self, *, timeout: float | None = None) -> Operation:
        """To its end. `timeout` in seconds; TimeoutError after that, and the operation goes on."""
        self.operation = await self._operations.wait(self.operation, timeout=timeout)
        return self.operation

    async def cancel(self) -> Operation:
        """It makes no more steps; what was done stays."""
        self.operation = await self._operations.cancel(self.operation)
        return self.operation
