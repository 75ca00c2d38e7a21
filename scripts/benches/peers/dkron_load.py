"""Dkron under load: creates over HTTP at its leader, with the client that puts raftsched under load."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from scripts.benches.event_loop import event_loop
from scripts.benches.load import closed_loop, far, request, rfc3339
from scripts.benches.peers.loops import begin, percentile, say

WARM_S = 1.0


def creates(port: int) -> Callable[[], bytes]:
    """Makes requests that each create a one-shot of another name: a job of the same name would be changed."""
    numbers = itertools.count()

    def make() -> bytes:
        job = {
            "name": f"job-{next(numbers):012x}", "schedule": f"@at {rfc3339(far())}", "executor": "shell",
            "executor_config": {"command": "true"},
        }  # fmt: skip
        return request("POST", "/v1/jobs", port, json.dumps(job).encode())

    return make


async def create(port: int, in_flight: int, seconds: float, make: Callable[[], bytes]) -> None:
    await closed_loop(port, in_flight, min(WARM_S, seconds), make, 201)
    begin()
    before = time.process_time()
    count, took, latencies = await closed_loop(port, in_flight, seconds, make, 201)
    say(
        "create", in_flight=in_flight, per_second=count / took, p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99), cpu_load=(time.process_time() - before) / took / (os.cpu_count() or 1),
    )  # fmt: skip


def main(given: dict[str, Any]) -> None:
    run, make = event_loop(), creates(given["port"])
    for in_flight in given["in_flight"]:
        run(create(given["port"], in_flight, given["seconds"], make))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
