"""Single creates that come together on many connections: each is answered for itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from tests.integration.api.http.test_fastpath import read_answer, request
from tests.support.local_api import Client, run
from tests.support.patience import within

ALIKE = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
TAKEN = {**ALIKE, "name": "taken"}


def test_of_creates_that_come_together_each_is_answered_for_itself(tmp_path: Path) -> None:
    """New ones, names that are taken, a namespace that gets full, what is no job, and callers that hang up."""

    async def test(call: Client) -> None:
        assert (await call("PUT", "/v1/namespaces/few", {"limits": {"max_jobs": 2}}))[0] in (200, 201)
        assert (await call("POST", "/v1/jobs", TAKEN))[0] == 201
        given: list[dict[str, Any]] = []
        for place in range(40):
            text = {"text": f"{place}" + "x" * 1_000}
            given.append({**ALIKE, "name": f"new-{place}", "params": text})
            if place % 4 == 0:
                given.append({**TAKEN, "priority": 1})
                given.append(
                    {**ALIKE, "name": "few", "namespace": "few"} if place < 8 else {**ALIKE, "namespace": "few"}
                )
                given.append({**ALIKE, "priority": "high"})
        port = int(call.url.rpartition(":")[2])
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(len(given) + 5)]
        for (_, writer), job in zip(connections, given, strict=False):
            writer.write(request(msgspec.json.encode(job)))
        for _, writer in connections[len(given) :]:  # who hangs up
            writer.write(request(msgspec.json.encode({**ALIKE, "name": "left"})))
            writer.close()
        answers = await asyncio.gather(*[read_answer(reader) for reader, _ in connections[: len(given)]])
        few = []
        for job, (status, _, body) in zip(given, answers, strict=True):
            if job.get("name", "").startswith("new"):
                assert status == 201, body
                assert (body["name"], body["params"]) == (job["name"], job["params"])
            elif job.get("namespace"):
                few.append((status, body.get("code")))
            elif job.get("name"):
                assert (status, body["code"]) == (409, "name-taken")
            else:
                assert (status, body["code"]) == (422, "invalid-job")
        assert sum(status == 201 for status, _ in few) == 2, few
        for _, writer in connections[: len(given)]:
            writer.close()
        listed = await call("GET", "/v1/jobs?limit=1000")
        assert sum(job.get("name") == "taken" for job in listed[1]["items"]) == 1

    async def limited(call: Client) -> None:
        await within(test(call))

    run(tmp_path, limited)
