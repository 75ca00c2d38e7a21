"""Jobs that are deleted before they are due, and runs that are killed while they run."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.clock import rfc3339, wall_ms
from harness.world import World

PAUSE_S = (0.8, 3.0)
DUE_MS = (4_000, 8_000)
LONG_S = 25.0


class Cancel:
    name = "cancel"

    def __init__(self) -> None:
        self._number = 0
        self._under_way: set[asyncio.Task[None]] = set()

    async def prepare(self, world: World) -> None:
        return None

    async def run(self, world: World) -> None:
        while await world.pause(*PAUSE_S):
            self._number += 1
            one = self._deleted(world) if world.rng.random() < 0.5 else self._killed(world)
            task = asyncio.create_task(one)
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await asyncio.gather(*self._under_way)

    async def _make(self, world: World, name: str, at_ms: int, seconds: float) -> str | None:
        job: dict[str, Any] = {**world.handler(name, seconds), "trigger": {"at": rfc3339(at_ms)}, "name": name}
        node = world.any_node()
        reply = await world.call(
            "create-cancelled",
            "cancel",
            {"job": name, "at_ms": at_ms},
            lambda: node.ask("POST", "/v1/jobs", job),
            lambda reply: {"id": reply.json["id"]},
        )
        return str(reply.json["id"]) if reply is not None and reply.status == 201 else None

    async def _deleted(self, world: World) -> None:
        name = f"deleted-{self._number}"
        at_ms = wall_ms() + world.rng.randint(*DUE_MS)
        made = await self._make(world, name, at_ms, 0.2)
        if made is None:
            return
        await asyncio.sleep(world.rng.uniform(0, 3))
        node = world.any_node()
        await world.call(
            "delete", "cancel", {"job": name, "at_ms": at_ms}, lambda: node.ask("DELETE", f"/v1/jobs/{made}")
        )

    async def _killed(self, world: World) -> None:
        name = f"killed-{self._number}"
        made = await self._make(world, name, wall_ms(), LONG_S)
        if made is None:
            return
        await asyncio.sleep(world.rng.uniform(0.2, 5))
        for _ in range(10):
            node = world.any_node()
            view = await node.get(f"/v1/jobs/{made}")
            if view is not None and view["last_instance"] is not None:
                break
            await asyncio.sleep(0.3)
        else:
            return
        instance = view["last_instance"]
        node = world.any_node()
        await world.call(
            "kill",
            "cancel",
            {"job": name, "instance": instance},
            lambda: node.ask("POST", f"/v1/instances/{instance}/kill", {}),
        )

    async def settle(self, world: World) -> None:
        return None
