"""Actions on many jobs by HTTP: what is asked, what is refused, what the operation says afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.http import slices
from raftsched.api.jobs import bulk
from raftsched.core.subjects.operations import REFUSALS_MAX
from tests.support.local_api import Client

JOB = {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}}


async def make(call: Client, count: int, **fields: Any) -> list[str]:
    status, answer = await call("POST", "/v1/jobs:batch", [{**JOB, **fields} for _ in range(count)])
    assert status == 200
    return [item["id"] for item in answer["items"]]


async def act(call: Client, **body: Any) -> Any:
    """The operation as it is in the end."""
    status, answer = await call("POST", "/v1/jobs:actions", body)
    assert status == 202, answer
    assert call.headers["Location"] == f"/v1/operations/{answer['id']}"
    status, answer = await call("GET", call.headers["Location"])
    assert status == 200
    return answer


async def states(call: Client) -> list[str]:
    _, page = await call("GET", "/v1/jobs?limit=1000")
    return [job["state"] for job in page["items"]]


async def test_by_filter_and_back(call: Client) -> None:
    await make(call, 5, owner="ana", labels={"team": "fin"})
    await make(call, 3, owner="bo")
    done = await act(call, action="pause", filter={"owner": "ana"})
    assert (done["state"], done["matched"], done["changed"], done["unchanged"]) == ("DONE", 5, 5, 0)
    assert done["filter"] == {"owner": "ana", "state": ["NEW", "SCHEDULED", "SUSPENDED"]}
    assert (done["action"], done["ids"], done["refused"], done["refusals"]) == ("pause", None, 0, [])
    assert await states(call) == ["SUSPENDED"] * 5 + ["SCHEDULED"] * 3
    done = await act(call, action="pause", all=True)
    assert (done["filter"], done["total"], done["examined"]) == ({"state": ["NEW", "SCHEDULED", "SUSPENDED"]}, 8, 8)
    assert (done["matched"], done["changed"], done["unchanged"]) == (8, 3, 5)
    done = await act(call, action="resume", filter={"labels": {"team": "fin"}, "state": ["SUSPENDED"]})
    assert done["changed"] == 5
    assert await states(call) == ["SCHEDULED"] * 5 + ["SUSPENDED"] * 3


async def test_by_ids(call: Client) -> None:
    ids = await make(call, 5)
    done = await act(call, action="run", ids=[ids[0], ids[3], ids[0], "0" * 13])
    assert (done["ids"], done["matched"], done["changed"], done["refused"]) == (3, 3, 2, 1)
    assert done["refusals"] == [{"id": "0" * 13, "code": "not-found", "title": "Not found"}]
    _, page = await call("GET", "/v1/instances")
    assert sorted(item["job_id"] for item in page["items"]) == sorted([ids[0], ids[3]])
    assert all(item["manual"] for item in page["items"])


async def test_expire_tells_what_was_refused_up_to_a_bound(call: Client) -> None:
    count = REFUSALS_MAX + 5
    ids = await make(call, count)
    assert (await act(call, action="expire", all=True, kill=True))["changed"] == count
    for state, named in (("EXPIRED", {"filter": {"state": ["EXPIRED"]}}), ("id", {"ids": ids})):
        done = await act(call, action="pause", **named)
        assert (done["refused"], len(done["refusals"]), done["changed"]) == (count, REFUSALS_MAX, 0), state
        assert done["refusals"][0]["code"] == "illegal-transition"


@pytest.mark.parametrize("action", ["pause", "resume"])
@pytest.mark.parametrize("which", [{"all": True}, {"filter": {"namespace": "default"}}], ids=["all", "filter"])
async def test_jobs_that_have_ended_are_nothing_to_pause(call: Client, action: str, which: dict[str, Any]) -> None:
    ids = await make(call, 5)
    assert (await act(call, action="expire", ids=ids[:3]))["changed"] == 3
    if action == "resume":
        assert (await act(call, action="pause", all=True))["changed"] == 2
    _, dry = await call("POST", "/v1/jobs:actions", {"action": action, **which, "dry_run": True})
    assert dry["matched"] == 2
    done = await act(call, action=action, **which)
    assert (done["matched"], done["changed"], done["refused"], done["refusals"]) == (2, 2, 0, [])
    _, deleted = await call("DELETE", "/v1/jobs?all=true")
    assert deleted["deleted"] == 5, "what is deleted may have ended"


async def test_a_dry_run_changes_nothing(call: Client) -> None:
    ids = await make(call, 12, owner="ana")
    await make(call, 1)
    before = call.cluster.proposals
    status, answer = await call("POST", "/v1/jobs:actions", {"action": "delete", "all": True, "dry_run": True})
    assert (status, answer["matched"], answer["examined"], answer["complete"]) == (200, 13, 13, True)
    assert [one["id"] for one in answer["sample"]] == ids[: bulk.SAMPLE_MAX]
    body = {"action": "run", "ids": [ids[0], "0" * 13], "dry_run": True}
    status, answer = await call("POST", "/v1/jobs:actions", body)
    assert (status, answer["matched"], answer["dry_run"], answer["action"]) == (200, 1, True, "run")
    status, answer = await call("DELETE", "/v1/jobs?owner=ana&dry_run=true")
    assert (status, answer["matched"]) == (200, 12)
    assert call.cluster.proposals == before
    _, page = await call("GET", "/v1/operations")
    assert page["items"] == []


async def test_a_dry_run_looks_at_a_bounded_number_of_rows(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(bulk, "LOOK_MAX", 4)
    await make(call, 5)
    body = {"action": "delete", "all": True, "dry_run": True}
    _, answer = await call("POST", "/v1/jobs:actions", body)
    assert (answer["matched"], answer["examined"], answer["complete"]) == (4, 4, False)
    monkeypatch.setattr(bulk, "LOOK_MAX", 100)
    _, answer = await call("POST", "/v1/jobs:actions", body)
    assert (answer["matched"], answer["examined"], answer["complete"]) == (5, 5, True)


async def test_delete_by_filter_says_how_many(call: Client) -> None:
    await make(call, 4, namespace="old")
    await make(call, 2)
    status, answer = await call("DELETE", "/v1/jobs?namespace=old")
    assert (status, answer["deleted"], answer["operation"]["state"]) == (200, 4, "DONE")
    assert len(await states(call)) == 2
    status, answer = await call("DELETE", "/v1/jobs?all=true")
    assert (status, answer["deleted"]) == (200, 2)
    status, answer = await call("DELETE", "/v1/jobs?all=true")
    assert (status, answer["deleted"]) == (200, 0)


async def test_delete_that_takes_long_goes_on_as_an_operation_and_can_be_cancelled(call: Client) -> None:
    await make(call, 4)
    call.cluster.carries_out = False
    status, answer = await call("DELETE", "/v1/jobs?all=true")
    place = f"/v1/operations/{answer['operation']['id']}"
    assert (status, answer["deleted"], call.headers["Location"]) == (202, 0, place)
    status, page = await call("GET", "/v1/operations?state=RUNNING")
    assert [item["id"] for item in page["items"]] == [answer["operation"]["id"]]
    for _ in range(2):
        status, answer = await call("POST", f"{place}/cancel")
        assert (status, answer["state"]) == (200, "CANCELLED")
    call.cluster.carry_out()
    assert len(await states(call)) == 4
    done = await act(call, action="pause", all=True)
    call.cluster.carry_out()
    status, answer = await call("POST", f"/v1/operations/{done['id']}/cancel")
    assert (status, answer["code"]) == (409, "illegal-transition")


async def test_the_same_key_starts_one(call: Client) -> None:
    await make(call, 3)
    body, key = {"action": "run", "all": True}, {"Idempotency-Key": "k"}
    answers = [await call("POST", "/v1/jobs:actions", body, key) for _ in range(3)]
    assert [status for status, _ in answers] == [202] * 3
    assert len({answer["id"] for _, answer in answers}) == 1
    _, page = await call("GET", "/v1/instances")
    assert len(page["items"]) == 3
    status, answer = await call("POST", "/v1/jobs:actions", {"action": "pause", "all": True}, key)
    assert (status, answer["code"]) == (422, "idempotency-mismatch")


async def test_a_list_of_operations_in_pages(call: Client) -> None:
    made = []
    for _ in range(5):
        made.append((await act(call, action="pause", all=True))["id"])
    found, path = [], "/v1/operations?limit=2"
    while path:
        _, page = await call("GET", path)
        found += [item["id"] for item in page["items"]]
        path = f"/v1/operations?limit=2&cursor={page['next']}" if page["next"] else ""
    assert found == made[::-1]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"action": "pause"}, ""),
        ({"action": "pause", "all": True, "ids": ["0" * 13]}, ""),
        ({"action": "pause", "filter": {}}, ""),
        ({"action": "pause", "filter": {"state": [], "labels": {}}}, ""),
        ({"action": "pause", "ids": []}, ""),
        ({"action": "pause", "ids": ["a/b"]}, "/ids/0"),
        ({"action": "pause", "filter": {"ownr": "ana"}}, "/filter/ownr"),
        ({"action": "pause", "filter": {"state": ["DELETED"]}}, "/filter/state/0"),
        ({"action": "pause", "filter": {"labels": {"a": 1}}}, "/filter/labels/a"),
        ({"action": "pause", "filter": {"created_from": "yesterday"}}, "/filter/created_from"),
        (
            {"action": "run", "filter": {"next_from": "2030-01-02T00:00:00Z", "next_to": "2030-01-01T00:00:00Z"}},
            "/filter/next_from",
        ),
        ({"action": "pause", "filter": {"name": "a", "name_prefix": "a"}}, "/filter/name"),
        ({"action": "pause", "filter": {"owner": "x" * 5_000}}, "/filter"),
        ({"action": "stop", "all": True}, "/action"),
        ({"all": True}, "/action"),
        ({"action": "pause", "all": True, "kill": True}, "/kill"),
        ({"action": "pause", "all": "yes"}, "/all"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, body: Any, pointer: str) -> None:
    await make(call, 1)
    status, answer = await call("POST", "/v1/jobs:actions", body)
    assert (status, answer["code"]) == (422, "invalid-body")
    assert pointer in [error["pointer"] for error in answer["errors"]]
    assert await states(call) == ["SCHEDULED"]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?dry_run=true",
        "?all=false",
        "?all=true&owner=ana",
        "?all=yes",
        "?ownr=ana",
        "?state=DELETED",
        "?label=x",
        "?namespace=A",
        "?created_from=2030",
        "?created_from=2030-01-02T00:00:00Z&created_to=2030-01-01T00:00:00Z",
        "?owner=" + "x" * 5_000,
        "?limit=3&owner=a",
    ],
)
async def test_delete_wants_a_filter_or_all(call: Client, query: str) -> None:
    await make(call, 1)
    status, answer = await call("DELETE", f"/v1/jobs{query}")
    assert (status, answer["code"]) == (400, "invalid-parameter")
    assert await states(call) == ["SCHEDULED"]


@pytest.mark.parametrize("path", ["/v1/operations/x", "/v1/operations/0000000000000"])
async def test_there_is_no_such_operation(call: Client, path: str) -> None:
    assert (await call("GET", path))[0] == 404
    assert (await call("POST", f"{path}/cancel"))[0] == 404
