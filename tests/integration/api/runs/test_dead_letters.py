"""/v1/dead-letters: list, requeue, discard, by ids and by filter."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.runs import dead_letters
from raftsched.core.commands import Assign, Ended
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.errors import NoLeader, UnknownOutcome
from tests.support.clock import START_MS
from tests.support.local_api import Client

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}
PATH = "/v1/dead-letters"


async def job(call: Client, name: str, namespace: str = "default") -> str:
    status, made = await call("POST", "/v1/jobs", {**JOB, "name": name, "namespace": namespace})
    assert status == 201
    return str(made["id"])


async def dead(call: Client, job_id: str, count: int = 1) -> list[str]:
    """Runs that fail, a second after each other."""
    cluster = call.cluster
    session = cluster.sessions.get("n1") or cluster.open_session("n1", "h:1")
    ids = []
    for _ in range(count):
        cluster.clock.forward(1_000)
        _, made = await call("POST", f"/v1/jobs/{job_id}/run")
        key = parse_instance(made["id"])
        assert key is not None
        token = getattr(cluster.apply(Assign(key, session))[0], "number", 0)
        cluster.apply(Ended(session, token, Outcome.FAILED, None, cluster.clock.wall, 1, "no disk"))
        ids.append(str(made["id"]))
    return ids


async def listed(call: Client, query: str = "") -> list[str]:
    status, body = await call("GET", PATH + query)
    assert status == 200, body
    return [item["id"] for item in body["items"]]


async def test_listed_newest_first_with_what_a_person_needs(call: Client) -> None:
    ids = await dead(call, await job(call, "import", "billing"), 3)
    status, body = await call("GET", PATH)
    assert (status, body["next"]) == (200, None)
    assert [item["id"] for item in body["items"]] == ids[::-1]
    newest = body["items"][0]
    assert newest["job_name"] == "import"
    assert newest["namespace"] == "billing"
    assert newest["dead_since"] == "2030-01-01T00:00:03.000Z"
    assert (newest["state"], newest["error"], newest["dead_letter"]) == ("FAILED", "no disk", True)
    assert await listed(call, "?order=asc") == ids


async def test_their_number_is_a_metric(call: Client) -> None:
    ids = await dead(call, await job(call, "a"), 3)
    assert "raftsched_dead_letters 3.0" in (await call("GET", "/metrics"))[1]
    await call("DELETE", f"{PATH}?ids={ids[0]}")
    await call("POST", f"{PATH}/requeue", {"ids": ids[1:2]})
    assert "raftsched_dead_letters 1.0" in (await call("GET", "/metrics"))[1]


async def test_filters_and_pages(call: Client) -> None:
    a = await job(call, "import-a")
    first = await dead(call, a, 2)
    second = await dead(call, await job(call, "import-b", "billing"), 2)
    third = await dead(call, await job(call, "export"), 1)
    assert await listed(call, f"?job={a}&order=asc") == first
    assert await listed(call, "?job=import-b&namespace=billing&order=asc") == second
    assert await listed(call, "?namespace=default&order=asc") == first + third
    assert await listed(call, "?name_prefix=import-&order=asc") == first + second
    assert await listed(call, "?from=2030-01-01T00:00:02Z&to=2030-01-01T00:00:04Z&order=asc") == [
        first[1],
        second[0],
    ]
    for order in ("asc", "desc"):
        got: list[str] = []
        cursor = ""
        while True:
            _, body = await call("GET", f"{PATH}?order={order}&limit=2{cursor}")
            got += [item["id"] for item in body["items"]]
            if body["next"] is None:
                break
            cursor = f"&cursor={body['next']}"
        assert got == (first + second + third)[:: 1 if order == "asc" else -1]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?job=nobody", 404),
        ("?namespace=UPPER", 400),
        ("?from=yesterday", 400),
        ("?from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", 400),
        ("?state=FAILED", 400),
        ("?order=up", 400),
        ("?cursor=abc", 400),
    ],
)
async def test_wrong_filters(call: Client, query: str, status: int) -> None:
    assert (await call("GET", PATH + query))[0] == status


async def test_requeued_by_ids(call: Client) -> None:
    ids = await dead(call, await job(call, "a"), 3)
    status, done = await call("POST", f"{PATH}/requeue", {"ids": ids[:2]})
    assert (status, done["matched"], done["requeued"], done["refused"], done["next"]) == (200, 2, 2, [], None)
    _, row = await call("GET", f"/v1/instances/{ids[0]}")
    assert (row["state"], row["dead_letter"], row["attempt"]) == ("WAITING", False, 1)
    assert await listed(call) == ids[2:]
    status, again = await call("POST", f"{PATH}/requeue", {"ids": ids[:1]})
    assert (status, again["requeued"]) == (200, 0)
    assert [(r["id"], r["code"]) for r in again["refused"]] == [(ids[0], "illegal-transition")]


async def test_requeued_and_discarded_by_filter(call: Client) -> None:
    a, b = await job(call, "a"), await job(call, "b", "billing")
    ids = await dead(call, a, 3)
    others = await dead(call, b, 2)
    body: dict[str, Any] = {"filter": {"job": a}, "dry_run": True}
    status, would = await call("POST", f"{PATH}/requeue", body)
    assert (status, would["matched"], would["requeued"], would["dry_run"]) == (200, 3, 0, True)
    assert len(await listed(call)) == 5
    status, done = await call("POST", f"{PATH}/requeue", {"filter": {"job": a, "to": "2030-01-01T00:00:03Z"}})
    assert (status, done["matched"], done["requeued"]) == (200, 2, 2)
    assert await listed(call, "?order=asc") == [ids[2], *others]
    status, would = await call("DELETE", f"{PATH}?namespace=billing&dry_run=true")
    assert (status, would["matched"], would["discarded"]) == (200, 2, 0)
    status, done = await call("DELETE", f"{PATH}?namespace=billing")
    assert (status, done["matched"], done["discarded"]) == (200, 2, 2)
    _, row = await call("GET", f"/v1/instances/{others[0]}")
    assert (row["state"], row["dead_letter"]) == ("FAILED", False)
    status, done = await call("DELETE", f"{PATH}?ids={ids[2]},{others[0]}")
    assert (status, done["discarded"], len(done["refused"])) == (200, 1, 1)
    assert await listed(call) == []


async def test_many_in_bounded_steps(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request does so much; going on comes to an end although what is requeued fails again."""
    monkeypatch.setattr(dead_letters, "ACT_MAX", 3)
    monkeypatch.setattr(dead_letters, "CHUNK", 2)
    a = await job(call, "a")
    await dead(call, a, 8)
    body: dict[str, Any] = {"all": True}
    counts = []
    while True:
        before = call.cluster.proposals
        status, done = await call("POST", f"{PATH}/requeue", body)
        assert status == 200
        assert call.cluster.proposals - before <= 3
        counts.append(done["requeued"])
        if done["next"] is None:
            break
        body["cursor"] = done["next"]
        await dead(call, a, 2)
    assert counts == [3, 3, 2]
    assert len(await listed(call)) == 4


async def test_a_step_that_is_not_confirmed_says_what_was_done(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "CHUNK", 2)
    await dead(call, await job(call, "a"), 5)
    cluster = call.cluster
    propose = cluster.propose
    count = 0

    async def failing(commands: Any, timeout_s: float) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise UnknownOutcome
        return await propose(commands, timeout_s)

    call.context.log.propose = failing
    status, problem = await call("POST", f"{PATH}/requeue", {"all": True})
    assert (status, problem["code"]) == (504, "unknown-outcome")
    assert "2 were requeued before; ask again for the rest." in problem["detail"]
    status, done = await call("POST", f"{PATH}/requeue", {"all": True})
    assert (status, done["requeued"]) == (200, 3)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"filter": {}}, ""),
        ({"filter": {"namespace": "a"}, "all": True}, ""),
        ({"ids": [], "all": True}, ""),
        ({"ids": ["x"]}, "/ids/0"),
        ({"ids": "x"}, "/ids"),
        ({"filter": {"jobs": "x"}}, "/filter/jobs"),
        ({"filter": {"from": "x"}}, "/filter/from"),
        ({"filter": {"from": "2030-01-02T00:00:00Z", "to": "2030-01-01T00:00:00Z"}}, "/filter/from"),
        ({"all": True, "cursor": "x"}, "/cursor"),
        ({"all": "yes"}, "/all"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, body: dict[str, Any], pointer: str) -> None:
    status, problem = await call("POST", f"{PATH}/requeue", body)
    assert status == 422
    assert pointer in [error["pointer"] for error in problem["errors"]]


@pytest.mark.parametrize("query", ["", "?dry_run=true", "?all=true&job=x", "?ids=x", "?ids=", "?all=1", "?id=x"])
async def test_discard_wants_to_be_told_what(call: Client, query: str) -> None:
    await dead(call, await job(call, "a"))
    assert (await call("DELETE", PATH + query))[0] == 400
    assert len(await listed(call)) == 1


async def test_without_a_leader_it_is_listed_and_counted_and_nothing_is_changed(call: Client) -> None:
    await dead(call, await job(call, "a"))
    call.cluster.failure = NoLeader()
    assert len(await listed(call)) == 1
    assert (await call("POST", f"{PATH}/requeue", {"all": True, "dry_run": True}))[1]["matched"] == 1
    assert (await call("POST", f"{PATH}/requeue", {"all": True}))[0] == 503


async def test_a_cursor_belongs_to_its_filter_and_to_what_is_done(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "ACT_MAX", 1)
    await dead(call, await job(call, "a"), 3)
    _, done = await call("POST", f"{PATH}/requeue", {"all": True})
    cursor = done["next"]
    assert (await call("POST", f"{PATH}/requeue", {"filter": {"job": "a"}, "cursor": cursor}))[0] == 422
    assert (await call("DELETE", f"{PATH}?all=true&cursor={cursor}"))[0] == 400
    assert (await call("POST", f"{PATH}/requeue", {"ids": [], "cursor": cursor}))[0] == 422
    assert (await call("POST", f"{PATH}/requeue", {"all": True, "cursor": cursor}))[0] == 200


async def test_a_rerun_with_a_key_is_done_once(call: Client) -> None:
    (one,) = await dead(call, await job(call, "a"))
    key = {"Idempotency-Key": "again"}
    assert (await call("POST", f"/v1/instances/{one}/rerun", headers=key))[1]["state"] == "WAITING"
    assert (await call("POST", f"/v1/instances/{one}/kill"))[1]["state"] == "KILLED"
    status, row = await call("POST", f"/v1/instances/{one}/rerun", headers=key)
    assert (status, row["state"]) == (202, "KILLED")
    assert call.cluster.clock.wall > START_MS
