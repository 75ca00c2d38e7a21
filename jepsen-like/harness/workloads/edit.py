"""Versioned registers: jobs whose label is written with If-Match and read with consistency=leader, by several clients
at once, each through any node, without repeating anything."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.http import Reply
from harness.world import World

REGISTERS = 6
CLIENTS = 5
PAUSE_S = (0.1, 0.9)
TIMEOUT_S = 5.0
WRITE_SHARE = 0.5
LAST_READS = 20


class Edit:
    name = "edit"

    def __init__(self) -> None:
        self._value = 0

    async def prepare(self, world: World) -> None:
        for number in range(REGISTERS):
            job = {"trigger": {"manual": True}, "handler": {"shell": "true"}, "labels": {"value": "0"}}
            made = await world.insist("PUT", _path(number), job)
            world.history.note("register", key=number, value="0", revision=made.json["revision"])

    async def run(self, world: World) -> None:
        await asyncio.gather(*(self._client(world, f"edit-{n}") for n in range(CLIENTS)))

    async def _client(self, world: World, process: str) -> None:
        seen: dict[int, int] = {}  # the newest revision that this client knows of each register
        while await world.pause(*PAUSE_S):
            key = world.rng.randrange(REGISTERS)
            if key in seen and world.rng.random() < WRITE_SHARE:
                await self._write(world, process, key, seen)
            else:
                await self._read(world, process, key, seen)

    async def _read(self, world: World, process: str, key: int, seen: dict[int, int]) -> None:
        node = world.any_node()

        def answer(reply: Reply) -> dict[str, Any]:
            job = reply.json
            return {"revision": job["revision"], "value": job["labels"]["value"]}

        request = {"key": key, "node": node.name}
        path = f"{_path(key)}?consistency=leader"
        reply = await world.call("read", process, request, lambda: node.ask("GET", path, timeout_s=TIMEOUT_S), answer)
        if reply is not None and reply.status == 200:
            seen[key] = reply.json["revision"]

    async def _write(self, world: World, process: str, key: int, seen: dict[int, int]) -> None:
        node = world.any_node()
        self._value += 1
        value, expected = str(self._value), seen[key]
        request = {"key": key, "value": value, "expected": expected, "node": node.name}
        reply = await world.call(
            "write",
            process,
            request,
            lambda: node.ask(
                "PATCH",
                _path(key),
                {"labels": {"value": value}},
                headers={"If-Match": f'"{expected}"'},
                timeout_s=TIMEOUT_S,
            ),
            lambda reply: {"revision": reply.json["revision"]},
        )
        if reply is not None and reply.status == 200:
            seen[key] = reply.json["revision"]
        else:
            seen.pop(key)

    async def settle(self, world: World) -> None:
        """What each register is in the end: an edit that was lost last would not be seen by anybody else."""
        for key in range(REGISTERS):
            for _ in range(LAST_READS):
                seen: dict[int, int] = {}
                await self._read(world, "edit-last", key, seen)
                if seen:
                    break
                await asyncio.sleep(0.3)
            else:
                world.history.note("not-over", amiss=f"register {key} cannot be read although all is well")


def _path(number: int) -> str:
    return f"/v1/namespaces/default/jobs/register-{number}"
