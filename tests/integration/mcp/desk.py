"""A model's place: the SDK's own client, connected in memory to the server's tools over a real cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import mcp

import raftsched
from raftsched.cli.mcp.serving import Tools
from raftsched.testing import RunningCluster

_T = TypeVar("_T")
ANSWER_MAX = 64 * 1024  # bytes of all blocks of an answer, whatever was asked for


class Desk:
    def __init__(self, client: mcp.Client, cluster: raftsched.AsyncClient) -> None:
        self.client = client
        self.cluster = cluster  # the same that the tools ask

    async def texts(self, tool: str, arguments: dict[str, Any] | None = None) -> tuple[bool, list[str]]:
        """Whether it is an error, and the texts; each answer is bounded."""
        answer = await self.client.call_tool(tool, arguments or {})
        texts = [block.text for block in answer.content]  # type: ignore[union-attr]
        assert sum(len(text.encode()) for text in texts) <= ANSWER_MAX
        return bool(answer.is_error), texts

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """The JSON of an answer that is none of an error."""
        is_error, texts = await self.texts(tool, arguments)
        assert not is_error, texts
        return json.loads(texts[0])

    async def refused(self, tool: str, **arguments: Any) -> str:
        is_error, texts = await self.texts(tool, arguments)
        assert is_error, texts
        (text,) = texts
        return text

    async def names(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}


@asynccontextmanager
async def desk(
    servers: str, *, allow_writes: bool = False, token: str | None = None, timeout: float = 20
) -> AsyncIterator[Desk]:
    async with raftsched.AsyncClient(servers, token=token, timeout=timeout) as cluster:
        server = Tools(cluster, allow_writes=allow_writes).server()
        async with mcp.Client(server, raise_exceptions=True) as client:
            yield Desk(client, cluster)


def at_desk(cluster: RunningCluster, work: Callable[[Desk], Awaitable[_T]], **how: Any) -> _T:
    async def main() -> _T | Exception:
        async with desk(cluster.servers, **how) as one:
            try:
                return await work(one)
            except Exception as error:  # else it would come as a group of groups of it
                return error

    done = asyncio.run(main())
    if isinstance(done, Exception):
        raise done
    return done
