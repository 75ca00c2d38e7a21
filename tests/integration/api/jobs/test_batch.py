"""POST /v1/jobs:batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.core.commands import Answer, CreateJob, CreateJobs, decode
from raftsched.core.levels import JOBS_ARE_JOINED
from raftsched.core.tables import Table
from raftsched.errors import UnknownOutcome
from tests.support.local_api import Client, one_node

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


async def test_results_come_in_order_good_and_bad(call: Client) -> None:
    given: list[Any] = [
        {**JOB, "name": "a"},
        {**JOB, "name": "B"},
        {**JOB, "name": "a"},
        {**JOB, "name": "a", "priority": 1},
        5,
        {**JOB, "params": {"x": "y" * 70_000}},
        {"trigger": {"cron": "0 2 * * *"}, "handler": {"shell": "true"}},
    ]
    status, body = await call("POST", "/v1/jobs:batch", given)
    assert status == 200
    items = body["items"]
    assert [i["status"] for i in items] == [201, 422, 200, 409, 422, 413, 201]
    assert items[0]["id"] == items[2]["id"]
    assert items[1]["errors"][0]["pointer"] == "/name"
    assert items[3]["code"] == "name-taken"
    assert (items[0]["revision"], items[0]["state"]) == (1, "SCHEDULED")
    assert items[0]["next_fire_at"] == "2030-01-01T00:30:00.000Z"
    assert items[6]["next_fire_at"] == "2030-01-01T02:00:00.000Z"
    assert (await call("GET", f"/v1/jobs/{items[6]['id']}"))[1]["handler"] == {"shell": "true"}


async def test_lines_do_as_well(call: Client) -> None:
    lines = b"\n".join([msgspec.json.encode(JOB), b"", msgspec.json.encode({**JOB, "name": "x"}), b""])
    kind = {"Content-Type": "application/x-ndjson"}
    status, body = await call("POST", "/v1/jobs:batch", lines, kind)
    assert (status, [i["status"] for i in body["items"]]) == (200, [201, 201])
    status, body = await call("POST", "/v1/jobs:batch", lines + b"{broken\n" + msgspec.json.encode(JOB), kind)
    assert (status, [i["status"] for i in body["items"]]) == (200, [201, 200, 400, 201])


async def test_what_is_no_batch(call: Client) -> None:
    assert await call("POST", "/v1/jobs:batch", []) == (200, {"items": []})
    for body, expected in ((b"", 400), (b"[{}", 400), (b'{"a": 1}', 422), (b"\xff", 400), (b"[[[", 400)):
        status, problem = await call("POST", "/v1/jobs:batch", body)
        assert (status, problem["status"]) == (expected, expected), body
    status, problem = await call("POST", "/v1/jobs:batch", b"[" + b",".join([b"{}"] * 10_001) + b"]")
    assert (status, problem["code"]) == (413, "too-large")
    status, problem = await call("POST", "/v1/jobs:batch", b" " * (16 * 1024 * 1024 + 1))
    assert (status, problem["code"]) == (413, "too-large")


async def test_a_large_batch_travels_in_several_proposals_that_fail_on_their_own(call: Client) -> None:
    count = 10_000
    status, body = await call("POST", "/v1/jobs:batch", [{**JOB, "name": f"j{i}"} for i in range(count)])
    assert status == 200
    assert [i["status"] for i in body["items"]] == [201] * count
    assert call.cluster.proposals == 10
    ids = [i["id"] for i in body["items"]]
    for place in (0, 999, 1000, 9999):
        assert (await call("GET", f"/v1/jobs/{ids[place]}"))[1]["name"] == f"j{place}"


async def test_a_part_whose_outcome_is_unknown_says_so(call: Client) -> None:
    direct = call.cluster.propose

    async def second_fails(commands: Any, timeout_s: float) -> list[Answer]:
        if call.cluster.proposals == 1:
            call.cluster.proposals += 1
            raise UnknownOutcome()
        return await direct(commands, timeout_s)

    call.context.log.propose = second_fails
    status, body = await call("POST", "/v1/jobs:batch", [JOB] * 2_500)
    assert status == 200
    assert [i["status"] for i in body["items"]] == [201] * 1000 + [504] * 1000 + [201] * 500


async def test_a_batch_that_names_itself_is_not_done_again(call: Client) -> None:
    key = {"Idempotency-Key": "b1"}
    given: list[Any] = [JOB, {"trigger": {"at": "2030-01-01T00:00:05Z"}, "handler": {"exec": ["true"]}}, {}, JOB]
    _, first = await call("POST", "/v1/jobs:batch", given, key)
    assert [i["status"] for i in first["items"]] == [201, 201, 422, 201]
    call.cluster.clock.forward(60_000)
    status, again = await call("POST", "/v1/jobs:batch", given, key)
    assert (status, again) == (200, first)
    assert len((await call("GET", "/v1/jobs"))[1]["items"]) == 3
    status, problem = await call("POST", "/v1/jobs:batch", [JOB], key)
    assert (status, problem["code"]) == (422, "idempotency-mismatch")
    _, other = await call("POST", "/v1/jobs:batch", [JOB], {"Idempotency-Key": "b2"})
    assert other["items"][0]["id"] not in [i.get("id") for i in first["items"]]
    assert (await call("DELETE", f"/v1/jobs/{first['items'][0]['id']}"))[0] == 200
    _, gone = await call("POST", "/v1/jobs:batch", given, key)
    assert [i["status"] for i in gone["items"]] == [404, 201, 422, 201]


async def test_a_batch_that_found_a_job_there_says_so_again(call: Client) -> None:
    key = {"Idempotency-Key": "b1"}
    given = [JOB, {**JOB, "name": "B"}, {**JOB, "name": "c"}]
    _, first = await call("POST", "/v1/jobs:batch", given[:1] + given[2:], {"Idempotency-Key": "other"})
    _, made = await call("POST", "/v1/jobs:batch", given, key)
    assert [i["status"] for i in made["items"]] == [201, 422, 200]
    assert made["items"][2]["id"] == first["items"][1]["id"]
    assert (await call("POST", "/v1/jobs:batch", given, key))[1] == made


async def test_a_batch_of_many_that_names_itself(call: Client) -> None:
    key = {"Idempotency-Key": "b1"}
    direct = call.context.log.propose

    async def second_is_lost(commands: Sequence[bytes], timeout_s: float) -> list[Answer]:
        answers = await direct(commands, timeout_s)
        if call.cluster.proposals == 2:
            raise UnknownOutcome()
        return answers

    call.context.log.propose = second_is_lost
    given = [JOB] * 2_500
    _, first = await call("POST", "/v1/jobs:batch", given, key)
    assert [i["status"] for i in first["items"]] == [201] * 1000 + [504] * 1000 + [201] * 500
    call.context.log.propose = direct
    _, again = await call("POST", "/v1/jobs:batch", given, key)
    assert [i["status"] for i in again["items"]] == [201] * 2_500
    assert len({i["id"] for i in again["items"]}) == 2_500
    assert again["items"][:1000] + again["items"][2000:] == first["items"][:1000] + first["items"][2000:]
    with call.cluster.store.read() as view:
        assert sum(1 for _ in view.scan(Table.JOBS)) == 2_500
        assert sum(1 for _ in view.scan(Table.KEYS)) == 5, "a row for each 512"


@pytest.mark.parametrize(("level", "kinds"), [(JOBS_ARE_JOINED, [CreateJobs]), (5, [CreateJob] * 3)])
async def test_jobs_that_are_alike_are_one_command_once_all_nodes_know_it(
    tmp_path: Path, level: int, kinds: list[type]
) -> None:
    async with one_node(tmp_path, level=level) as call:
        direct, proposed = call.context.log.propose, []

        async def noted(commands: Sequence[bytes], timeout_s: float) -> list[Answer]:
            proposed.extend(map(type, map(decode, commands)))
            return await direct(commands, timeout_s)

        call.context.log.propose = noted
        _, body = await call("POST", "/v1/jobs:batch", [{**JOB, "name": name} for name in "abc"])
        assert [item["status"] for item in body["items"]] == [201] * 3
        assert proposed == kinds
        _, body = await call("POST", "/v1/jobs:batch", [{**JOB, "name": name} for name in "abd"])
        assert [item["status"] for item in body["items"]] == [200, 200, 201]
