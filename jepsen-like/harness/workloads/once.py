"""Jobs that run once, created all along, due in seconds; created as programs do it, through the SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import raftsched
from harness.clock import rfc3339, wall_ms
from harness.world import World
from raftsched.client.errors import ClientError, UnknownOutcomeError

PER_SECOND = 6.0
CLIENTS = 4
AHEAD_MS = (300, 6_000)
LIVES_S = (0.05, 1.5)
LONG_S = (5.0, 12.0)  # still alive when a worker that stood still wakes up
LONG_SHARE = 0.12
TIMEOUT_S = 8.0  # a client's patience


class Once:
    name = "once"

    def __init__(self) -> None:
        self._number = 0

    async def prepare(self, world: World) -> None:
        return None

    async def run(self, world: World) -> None:
        servers = [f"http://{host}:{port}" for host, port in (node.address for node in world.cluster.nodes)]
        async with raftsched.AsyncClient(servers, timeout=TIMEOUT_S) as client:
            await asyncio.gather(*(self._client(world, client, f"once-{n}") for n in range(CLIENTS)))

    async def _client(self, world: World, client: raftsched.AsyncClient, process: str) -> None:
        mean = CLIENTS / PER_SECOND
        under_way: set[asyncio.Task[None]] = set()
        while await world.pause(0, 2 * mean):  # whether or not the last one was answered
            self._number += 1
            task = asyncio.create_task(self._create(world, client, process, f"once-{self._number}"))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        if under_way:
            await asyncio.gather(*under_way)

    async def _create(self, world: World, client: raftsched.AsyncClient, process: str, name: str) -> None:
        at_ms = wall_ms() + world.rng.randint(*AHEAD_MS)
        seconds = world.rng.uniform(*(LONG_S if world.rng.random() < LONG_SHARE else LIVES_S))
        job: Any = {"trigger": {"at": rfc3339(at_ms)}, **world.handler(name, round(seconds, 2))}
        if world.rng.random() < 0.5:
            job["name"] = name
        number = world.history.invoke("create", process, job=name, at_ms=at_ms)
        try:
            made = await client.jobs.create(job)
        except UnknownOutcomeError as error:
            world.history.complete(number, "unknown", error=error.detail)
        except ClientError as error:
            kind = "unknown" if error.status == 500 else "fail"
            world.history.complete(number, kind, error=error.detail, status=error.status, code=error.code)
        else:
            world.history.complete(number, "ok", id=made.id)

    async def settle(self, world: World) -> None:
        return None
