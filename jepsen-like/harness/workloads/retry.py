"""Runs that fail a known number of times and are tried again; and runs that fail until somebody mends what they need:
they become dead letters, and are requeued after that."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.world import World

PAUSE_S = (0.6, 2.5)
DELAYS = ["200ms", "500ms", "1s"]
HOPELESS_SHARE = 0.3
NAMESPACE = "retry"
REQUEUED_S = 30.0


class Retry:
    name = "retry"

    def __init__(self) -> None:
        self._number = 0

    async def prepare(self, world: World) -> None:
        return None

    async def run(self, world: World) -> None:
        while await world.pause(*PAUSE_S):
            self._number += 1
            hopeless = world.rng.random() < HOPELESS_SHARE
            name = f"{'hopeless' if hopeless else 'fails'}-{self._number}"
            failures = world.rng.randint(1, len(DELAYS))
            job: dict[str, Any] = {
                **world.handler(name, 0.1, failures, _flag(world) if hopeless else None),
                "trigger": {"in": f"{world.rng.randint(0, 2000)}ms"},
                "retry": {"delays": DELAYS, "on": ["failed"]},
            }
            node = world.any_node()
            await world.call(
                "create-failing",
                "retry",
                {"job": name, "hopeless": hopeless, "failures": failures},
                lambda node=node, name=name, job=job: node.ask(  # type: ignore[misc]
                    "PUT", f"/v1/namespaces/{NAMESPACE}/jobs/{name}", job, headers={"If-None-Match": "*"}
                ),
                lambda reply: {"id": reply.json["id"]},
            )

    async def settle(self, world: World) -> None:
        """What is dead is read, mended and requeued."""
        dead = await _dead_letters(world)
        world.history.note("dead-letters", jobs=sorted(row["job_name"] for row in dead))
        _flag(world).write_text("mended\n")
        await world.insist("POST", "/v1/dead-letters/requeue", {"filter": {"namespace": NAMESPACE}})
        for _ in range(int(REQUEUED_S / 0.5)):
            if not await _dead_letters(world):
                return
            await asyncio.sleep(0.5)


def _flag(world: World) -> Any:
    return world.lives.parent / "mended"


async def _dead_letters(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    path = f"/v1/dead-letters?namespace={NAMESPACE}&limit=1000&consistency=leader"
    while True:
        page = (await world.insist("GET", path)).json
        found += page["items"]
        if page["next"] is None:
            return found
        path = f"/v1/dead-letters?namespace={NAMESPACE}&limit=1000&consistency=leader&cursor={page['next']}"
