"""One action on many jobs, by filter: paused, looked at, resumed, looked at."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.clock import SECOND, boot_ns
from harness.http import NoAnswer, NotSent
from harness.world import Helpless, World

JOBS = 40
NAMESPACE = "bulk"
PAUSE_S = (1.0, 5.0)
PATIENCE_S = 60.0
FORGOTTEN_S = 15.0  # longer than a node repeats a proposal
WANTED = {"pause": "SUSPENDED", "resume": "SCHEDULED"}


class Bulk:
    name = "bulk"

    async def prepare(self, world: World) -> None:
        for number in range(JOBS):
            job = {"trigger": {"every": "1h"}, "handler": {"shell": "true"}, "labels": {"of": "bulk"}}
            await world.insist("PUT", f"/v1/namespaces/{NAMESPACE}/jobs/bulk-{number}", job)

    async def run(self, world: World) -> None:
        turn = 0
        while await world.pause(*PAUSE_S):
            turn += 1
            action = ("resume", "pause")[turn % 2]
            number = world.history.invoke("bulk", "bulk", action=action, wanted=WANTED[action], jobs=JOBS)
            try:
                states = await self._act(world, action, f"bulk-{turn}-{world.began_ns}")
            except Helpless as error:
                world.history.complete(number, "unknown", error=str(error))
                await self._until_over(world)
            else:
                world.history.complete(number, "ok", states=states)

    async def _until_over(self, world: World) -> None:
        """What was asked for in vain may still begin for a while, and would mix with what is asked for next."""
        await asyncio.sleep(FORGOTTEN_S)
        path = "/v1/operations?state=RUNNING&consistency=leader"
        while (await world.insist("GET", path)).json["items"]:  # noqa: ASYNC110 - it is another process that ends them
            await asyncio.sleep(0.5)

    async def _act(self, world: World, action: str, key: str) -> dict[str, int]:
        """The states of the jobs when the operation was done, as the leader has them."""
        body = {"action": action, "filter": {"namespace": NAMESPACE, "labels": {"of": "bulk"}}}
        end = boot_ns() + int(PATIENCE_S * SECOND)
        operation: Any = None
        while boot_ns() < end:
            node = world.any_node()
            try:
                reply = await node.ask("POST", "/v1/jobs:actions", body, headers={"Idempotency-Key": key})
                if reply.status == 202:
                    operation = reply.json["id"]
                    break
            except (NotSent, NoAnswer):
                pass
            await asyncio.sleep(0.2)
        if operation is None:
            raise Helpless("no node took the request")
        path = f"/v1/operations/{operation}?consistency=leader"
        while (await world.insist("GET", path)).json["state"] == "RUNNING":
            if boot_ns() > end:
                raise Helpless(f"operation {operation} still runs")
            await asyncio.sleep(0.2)
        path = f"/v1/jobs?namespace={NAMESPACE}&limit=1000&consistency=leader"
        states: dict[str, int] = {}
        for job in (await world.insist("GET", path)).json["items"]:
            states[job["state"]] = states.get(job["state"], 0) + 1
        return states

    async def settle(self, world: World) -> None:
        return None
