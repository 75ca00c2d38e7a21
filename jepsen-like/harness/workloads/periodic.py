"""Recurring jobs. Those of kind `allow` must start once for each of their times (Chronos' test); those of kind `forbid`
must never run twice at once."""

from __future__ import annotations

from typing import Any

from harness.clock import rfc3339
from harness.world import World

JOBS = 8
LEAD_MS = 5_000  # from preparing to the first time
CRON_SECONDS = (4, 5, 6, 10)  # they divide the minute


class Periodic:
    name = "periodic"

    async def prepare(self, world: World) -> None:
        begin = world.began_wall_ms + LEAD_MS
        for number in range(JOBS):
            kind = "forbid" if number % 4 == 3 else "allow"
            name = f"{kind}-{number}"
            ends = {"starts_at": rfc3339(begin), "ends_at": rfc3339(world.end_wall_ms)}
            if number % 2:
                period = world.rng.choice(CRON_SECONDS) * 1000
                trigger: dict[str, Any] = {"cron": f"*/{period // 1000} * * * * *", "timezone": "UTC", **ends}
                first = -(-begin // period) * period
            else:
                period = world.rng.randint(2_500, 8_000)
                trigger = {"every": f"{period}ms", **ends}
                first = begin
            lives = period * 0.0006 if kind == "forbid" else 0.3
            job = {
                **world.handler(name, round(lives, 2)),
                "trigger": trigger,
                "overlap": kind,
                "misfire": {"policy": "all", "grace": "15m"},
                "retention": {"succeeded": 100_000, "failed": 100_000},
            }
            targets = list(range(first, world.end_wall_ms + 1, period))
            await world.insist("PUT", f"/v1/namespaces/default/jobs/{name}", job)
            world.history.note("recurs", job=name, kind=kind, targets_ms=targets)

    async def run(self, world: World) -> None:
        return None

    async def settle(self, world: World) -> None:
        return None
