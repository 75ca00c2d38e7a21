"""A token for some namespaces gets at nothing that is elsewhere: by no address, filter, body, cursor or stream."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from raftsched.api.http import streams
from raftsched.api.routes import ROUTES
from raftsched.core.commands import Prune
from tests.support import sse
from tests.support.local_api import Client
from tests.support.places import BY_BODY, JOB, Place, body_of, placed
from tests.support.tokens import guarded, limited


def test_no_route_leads_elsewhere(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for route in ROUTES:
            said = route.operation
            if said.role == "open" or said.scope == "shared" or (route.method, route.path) in BY_BODY:
                continue
            address = place.address(route, "theirs")
            for query in ("", "?namespace=theirs") if "namespace" in said.query else ("",):
                status, answer = await place.mine(route.method, address + query, body_of(route))
                assert status in (403, 404), f"{route.method} {address}{query} -> {status} {answer}"
                was_named = query or "{ns}" in route.path
                assert status == 403 or not was_named, f"{route.method} {address}: the namespace was named"
        _, job = await place.admin("GET", f"/v1/jobs/{place.jobs['theirs']}")
        assert (job["state"], job["revision"]) == ("SCHEDULED", 1)

    placed(tmp_path, test)


def test_what_is_ones_own_is_there(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for route in ROUTES:
            said = route.operation
            if said.role not in ("viewer", "editor") or (route.method, route.path) in BY_BODY or said.streams:
                continue
            if not (said.scope or "namespace" in said.query or "{ns}" in route.path):
                continue
            query = "?namespace=mine" if "namespace" in said.query else ""
            status, answer = await place.mine(route.method, place.address(route, "mine") + query, body_of(route))
            assert status != 403, f"{route.method} {route.path} -> {answer}"

    placed(tmp_path, test)


def test_every_way_in_by_a_body_is_known_here() -> None:
    for route in ROUTES:
        said = route.operation
        if said.scope == "checked" and "{" not in route.path and "namespace" not in said.query:
            assert (route.method, route.path) in BY_BODY, f"{route}: how is it tried that it stays in its namespaces?"


def test_runs_are_ended_where_one_may(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for wanted in ({"namespace": "theirs"}, {"namespace": "theirs", "job": "j"}, {"job": place.jobs["theirs"]}):
            status, _ = await place.mine("POST", "/v1/instances:kill", {"filter": wanted})
            assert status in (403, 404), wanted
        _, run = await place.admin("GET", f"/v1/instances/{place.instances['theirs']}")
        assert run["state"] == "WAITING"
        _, done = await place.mine("POST", "/v1/instances:kill", {"filter": {"namespace": "mine"}})
        assert done["killed"] == 1

    placed(tmp_path, test)


def test_jobs_are_compared_where_one_may_see_them(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        asked = [{**JOB, "name": name, "namespace": of} for of in ("mine", "theirs") for name in ("j", "none")]
        _, all_of_them = await place.admin("POST", "/v1/jobs:compare", asked)
        assert [one["result"] for one in all_of_them["items"]] == ["unchanged", "created"] * 2
        _, found = await place.mine("POST", "/v1/jobs:compare", asked)
        assert [one["result"] for one in found["items"]] == ["unchanged", "created", "refused", "refused"]
        assert found["items"][2] == found["items"][3], "one that is there and one that is not"

    placed(tmp_path, test)


def test_jobs_are_made_where_one_may(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        mine = place.mine
        for namespace, wanted in ((None, 403), ("theirs", 403), ("mine", 201), ("also-mine", 201)):
            job = {**JOB, "namespace": namespace} if namespace else JOB
            for more in ({}, {"X-Ordinary": "1"}):
                assert (await mine("POST", "/v1/jobs", job, more))[0] == wanted, namespace
            _, batch = await mine("POST", "/v1/jobs:batch", [job, {**JOB, "namespace": "mine"}])
            assert [item["status"] for item in batch["items"]] == [wanted, 201]
        waits = {**JOB, "namespace": "mine", "conditions": [{"job_succeeded": "theirs/j", "within": "1h"}]}
        status, problem = await mine("POST", "/v1/jobs", waits)
        assert (status, problem["errors"][0]["pointer"]) == (422, "/conditions/0/job_succeeded")
        status, problem = await mine("PATCH", f"/v1/jobs/{place.jobs['mine']}", {"conditions": waits["conditions"]})
        assert (status, problem["errors"][0]["pointer"]) == (422, "/conditions/0/job_succeeded")
        follows = {**JOB, "namespace": "mine", "trigger": {"after": {"any_of": ["j", "theirs/j"]}}}
        status, problem = await mine("POST", "/v1/jobs", follows)
        assert (status, problem["errors"][0]["pointer"]) == (422, "/trigger/after/any_of/1")

    placed(tmp_path, test)


@pytest.mark.parametrize(
    ("waits", "other", "pointer"),
    [
        ({"trigger": {"after": {"job": "theirs/j"}}}, {"job": "theirs/j", "pass": "result"}, "/trigger/after/job"),
        (
            {"trigger": {"after": {"all_of": ["j", "theirs/j"], "pass": "result"}}},
            {"any_of": ["j", "theirs/j"], "on": "failed"},
            "/trigger/after/any_of/1",
        ),
        (
            {"conditions": [{"job_succeeded": "theirs/j", "within": "1h"}]},
            {"job_succeeded": "theirs/j", "within": "2h"},
            "/conditions/0/job_succeeded",
        ),
    ],
)
def test_what_others_had_a_job_wait_for_may_stay(
    tmp_path: Path, waits: dict[str, Any], other: dict[str, Any], pointer: str
) -> None:
    """But not be changed into something else about it."""

    async def test(place: Place) -> None:
        job = {**JOB, **waits, "name": "waits", "namespace": "mine"}
        _, made = await place.admin("POST", "/v1/jobs", job)
        path, named = f"/v1/jobs/{made['id']}", "/v1/namespaces/mine/jobs/waits"
        assert (await place.mine("POST", f"{path}/check", {"priority": 7}))[0] == 200
        status, shown = await place.mine("PATCH", path, {"priority": 7})
        assert (status, shown["priority"]) == (200, 7)
        assert {key: shown[key] for key in waits} == {key: made[key] for key in waits}
        assert (await place.mine("PUT", path, {**shown, "priority": 6}))[0] == 200
        assert (await place.mine("POST", f"{named}/compare", job))[0] == 200
        assert (await place.mine("PUT", named, job))[0] == 200
        changed = {"conditions": [other]} if "conditions" in waits else {"trigger": {"after": other}}
        for method, address, body in (("PATCH", path, changed), ("POST", "/v1/jobs", {**job, "name": "another"})):
            status, problem = await place.mine(method, address, body)
            assert status == 422
            if method == "PATCH":
                assert [error["pointer"] for error in problem["errors"]] == [pointer]

    placed(tmp_path, test)


def test_of_a_workflow_is_seen_and_ended_what_one_may(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        follows = {**JOB, "name": "f", "trigger": {"after": {"job": "mine/first", "on": "ended"}}}
        _, first = await place.mine("POST", "/v1/jobs", {**JOB, "name": "first", "namespace": "mine"})
        for namespace in ("mine", "theirs"):
            assert (await place.admin("POST", "/v1/jobs", {**follows, "namespace": namespace}))[0] == 201
        _, made = await place.mine("POST", f"/v1/jobs/{first['id']}/run", {})
        await place.mine("POST", f"/v1/instances/{made['id']}/kill")
        path = f"/v1/workflows/{made['id']}"
        for who, wanted in (
            (place.mine, ["mine/first", "mine/f"]),
            (place.admin, ["mine/first", "mine/f", "theirs/f"]),
        ):
            _, shown = await who("GET", path)
            assert ([one["job"] for one in shown["items"]], shown["state"]) == (wanted, "running")
        assert (await place.mine("POST", f"{path}/kill"))[1]["killed"] == 1
        _, shown = await place.admin("GET", path)
        states = {one["job"]: one["state"] for one in shown["items"]}
        assert (states, shown["killed_at"] is None) == (
            {"mine/first": "KILLED", "mine/f": "KILLED", "theirs/f": "WAITING"},
            False,
        )
        assert (await place.admin("POST", f"{path}/kill"))[1]["killed"] == 1
        _, graph = await place.mine("GET", "/v1/jobs:graph?namespace=mine&job=first")
        assert {one["name"] for one in graph["jobs"]} == {"mine/first", "mine/f"}

    placed(tmp_path, test)


def test_what_a_deleted_job_began_is_of_those_who_have_runs_in_it(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        first = {**JOB, "name": "first", "namespace": "theirs"}
        follows = {**JOB, "name": "f", "trigger": {"after": {"job": "theirs/first", "on": "ended"}}}
        _, job = await place.admin("POST", "/v1/jobs", first)
        await place.admin("POST", "/v1/jobs", {**follows, "namespace": "also-mine"})
        _, made = await place.admin("POST", f"/v1/jobs/{job['id']}/run", {})
        await place.admin("POST", f"/v1/instances/{made['id']}/kill")
        path = f"/v1/workflows/{made['id']}"
        viewer = await limited(place.admin, "looks", "viewer", "also-mine")
        other = await limited(place.admin, "other", "editor", "mine")
        assert (await place.mine("POST", f"{path}/kill"))[0] == 404
        assert (await place.admin("DELETE", f"/v1/jobs/{job['id']}"))[0] < 300
        place.call.cluster.apply(Prune(place.call.cluster.clock.wall, 100))
        for who, wanted in ((other, 404), (viewer, 403), (place.mine, 202)):
            assert (await who("POST", f"{path}/kill"))[0] == wanted
        _, shown = await viewer("GET", path)
        assert [(one["job"], one["state"]) for one in shown["items"]] == [("also-mine/f", "KILLED")]
        assert (await other("GET", path))[0] == 404

    placed(tmp_path, test)


def test_from_here_on_runs_what_one_may(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        first = {**JOB, "name": "first", "namespace": "mine"}
        follows = {
            **JOB,
            "name": "f",
            "namespace": "theirs",
            "trigger": {"after": {"job": "mine/first", "on": "ended"}},
        }
        ids = [(await place.admin("POST", "/v1/jobs", job))[1]["id"] for job in (first, follows)]
        _, made = await place.mine("POST", f"/v1/jobs/{ids[0]}/run", {})
        path = f"/v1/instances/{made['id']}"
        await place.mine("POST", f"{path}/kill")
        _, runs = await place.admin("GET", f"/v1/jobs/{ids[1]}/instances")
        (behind,) = [one["id"] for one in runs["items"]]
        for state in ("WAITING", "KILLED"):
            assert (await place.admin("GET", f"/v1/instances/{behind}"))[1]["state"] == state
            status, problem = await place.mine("POST", f"{path}/rerun", {"downstream": True})
            assert status == 403
            assert not any(said in problem["detail"] for said in ("theirs", behind, "WAITING"))
            await place.admin("POST", f"/v1/instances/{behind}/kill")
        assert (await place.admin("POST", f"{path}/rerun", {"downstream": True}))[0] == 202
        _, noted = await place.admin("GET", "/v1/audit?operation=instances_rerun&kind=job")
        assert [(one["namespace"], one["change"]) for one in noted["items"]] == [("mine", {"downstream": True})]

    placed(tmp_path, test)


def test_only_ones_own_namespaces_are_listed(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for who, wanted in ((place.mine, ["mine"]), (place.admin, ["mine", "theirs"])):
            _, page = await who("GET", "/v1/namespaces")
            assert [namespace["name"] for namespace in page["items"]] == wanted
        assert (await place.mine("GET", "/v1/namespaces/mine"))[0] == 200
        for method, body in (("PUT", {}), ("PATCH", {}), ("DELETE", None)):  # an editor's limits are not his to set
            assert (await place.mine(method, "/v1/namespaces/mine", body))[0] == 403

    placed(tmp_path, test)


def test_bulk_stays_at_home(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        mine, theirs = place.mine, place.jobs["theirs"]

        async def act(**body: Any) -> tuple[int, Any]:
            return await mine("POST", "/v1/jobs:actions", {"action": "pause", **body})

        for body in ({"all": True}, {"filter": {"owner": "ana"}}, {"filter": {"namespace": "theirs"}}):
            assert (await act(**body))[0] == 403, body
            assert (await act(**body, dry_run=True))[0] == 403, body
        _, seen = await act(ids=[theirs, place.jobs["mine"]], dry_run=True)
        assert (seen["matched"], [one["id"] for one in seen["sample"]]) == (1, [place.jobs["mine"]])
        status, begun = await act(ids=[theirs, place.jobs["mine"]])
        assert status == 202
        _, done = await mine("GET", f"/v1/operations/{begun['id']}")
        assert (done["changed"], done["refused"]) == (1, 1)
        assert done["refusals"] == [{"id": theirs, "code": "not-found", "title": "Not found"}]
        assert (await place.admin("GET", f"/v1/jobs/{theirs}"))[1]["state"] == "SCHEDULED"
        for query in ("?all=true", "?owner=ana", "?namespace=theirs"):
            assert (await mine("DELETE", f"/v1/jobs{query}"))[0] == 403
        assert (await mine("DELETE", "/v1/jobs?namespace=mine"))[0] == 200

    placed(tmp_path, test)


def test_operations_of_others_are_not_seen(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        mine, operations = place.mine, place.operations
        await place.admin("POST", "/v1/jobs:actions", {"action": "resume", "all": True})
        await place.admin("POST", "/v1/jobs:actions", {"action": "resume", "ids": [place.jobs["mine"]]})
        _, listed = await mine("GET", "/v1/operations")
        assert [one["id"] for one in listed["items"]] == [operations["mine"]]
        assert (await mine("GET", f"/v1/operations/{operations['mine']}"))[0] == 200
        assert (await mine("POST", f"/v1/operations/{operations['theirs']}/cancel"))[0] == 404

    placed(tmp_path, test)


def test_dead_letters_by_their_ids(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        mine, theirs = place.mine, place.instances["theirs"]
        for body in ({"all": True}, {"filter": {"name_prefix": "j"}}, {"filter": {"namespace": "theirs"}}):
            assert (await mine("POST", "/v1/dead-letters/requeue", body))[0] == 403, body
        status, problem = await mine("POST", "/v1/dead-letters/requeue", {"filter": {"job": place.jobs["theirs"]}})
        assert (status, problem["code"]) == (404, "not-found")
        status, answer = await mine("POST", "/v1/dead-letters/requeue", {"ids": [theirs]})
        assert (status, answer["requeued"], answer["refused"][0]["code"]) == (200, 0, "not-found")
        status, answer = await mine("DELETE", f"/v1/dead-letters?ids={theirs}")
        assert (status, answer["discarded"], answer["refused"][0]["code"]) == (200, 0, "not-found")

    placed(tmp_path, test)


def test_filters_by_a_job(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for path in ("/v1/instances", "/v1/dead-letters"):
            assert (await place.mine("GET", f"{path}?job={place.jobs['mine']}"))[0] == 200
            assert (await place.mine("GET", f"{path}?job={place.jobs['theirs']}"))[0] == 404
            assert (await place.mine("GET", f"{path}?job={place.jobs['theirs']}&namespace=mine"))[0] == 404

    placed(tmp_path, test)


def test_a_cursor_of_another_list_opens_nothing(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for number in range(3):
            for namespace in ("mine", "theirs"):
                await place.admin("POST", "/v1/jobs", {**JOB, "name": f"n{number}", "namespace": namespace})
        _, page = await place.admin("GET", "/v1/jobs?namespace=theirs&limit=1")
        assert (await place.mine("GET", f"/v1/jobs?namespace=theirs&limit=1&cursor={page['next']}"))[0] == 403
        assert (await place.mine("GET", f"/v1/jobs?namespace=mine&limit=1&cursor={page['next']}"))[0] == 400
        assert (await place.mine("GET", f"/v1/jobs?cursor={page['next']}"))[0] == 403
        _, page = await place.admin("GET", "/v1/jobs?limit=1")
        assert (await place.mine("GET", f"/v1/jobs?limit=1&cursor={page['next']}"))[0] == 403

    placed(tmp_path, test)


def test_a_key_of_another_caller_answers_nothing(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        key = {"Idempotency-Key": "k"}
        job = {**JOB, "namespace": "theirs", "name": "secret"}
        assert (await place.admin("POST", "/v1/jobs", job, key))[0] == 201
        assert (await place.mine("POST", "/v1/jobs", job, key))[0] == 403
        assert (await place.mine("POST", "/v1/jobs", {**JOB, "namespace": "mine"}, key))[0] == 201
        path = f"/v1/jobs/{place.jobs['theirs']}/run"
        assert (await place.admin("POST", path, {}, key))[0] == 202
        assert (await place.mine("POST", path, {}, key))[0] == 404

    placed(tmp_path, test)


def test_events_are_those_of_ones_namespaces(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        async def kept(query: str) -> list[Any]:
            url = f"{place.call.url}/v1/events?follow=false{query}"
            async with place.call.session.get(url, headers=place.mine.headers) as answer:
                assert answer.status == 200, await answer.text()
                return [said.data async for said in sse.read(answer) if said.data is not None]

        assert {event["namespace"] for event in await kept("&namespace=mine")} == {"mine"}
        assert {event["job_id"] for event in await kept(f"&job={place.jobs['mine']}")} == {place.jobs["mine"]}
        for query in ("", "&namespace=theirs"):
            assert (await place.mine("GET", f"/v1/events?follow=false{query}"))[0] == 403
        for job in (place.jobs["theirs"], "0000000000001"):
            assert (await place.mine("GET", f"/v1/events?follow=false&job={job}"))[0] == 404

    placed(tmp_path, test)


@pytest.mark.parametrize("way", ["revoked", "expired", "required"])
async def test_a_stream_ends_with_its_token(call: Client, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(streams, "LOOK_S", 0.01)
    call.cluster.quiet = True
    if way == "required":
        url, headers = f"{call.url}/v1/events", {}
    else:
        people = await guarded(call)
        made = {"name": "r", "role": "viewer", "expires_at": "2031-01-01T00:00:00Z"}
        _, token = await people["admin"]("POST", "/v1/tokens", made)
        url, headers = f"{call.url}/v1/events", {"Authorization": f"Bearer {token['secret']}"}
    async with call.session.get(url, headers=headers) as answer:
        assert answer.status == 200
        reading = asyncio.create_task(_all(answer))
        if way == "revoked":
            assert (await people["admin"]("DELETE", f"/v1/tokens/{token['id']}"))[0] == 204
        elif way == "expired":
            call.cluster.clock.forward(400 * 86_400_000)
        else:
            await guarded(call)
        await reading
    async with call.session.get(url, headers=headers) as answer:
        assert answer.status == 401


async def _all(answer: aiohttp.ClientResponse) -> None:
    try:
        async for _ in sse.read(answer):
            pass
    except aiohttp.ClientError:
        pass  # it was cut


def test_webhooks_of_others_are_not_seen(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for name, namespace in (("mine", "mine"), ("theirs", "theirs"), ("every", None)):
            wanted = {} if namespace is None else {"filter": {"namespace": namespace}}
            made = {"name": name, "url": "https://127.0.0.1:1/", "events": ["failed"], **wanted}
            status, answer = await place.admin("POST", "/v1/webhooks", made)
            assert status == 201, answer
        _, listed = await place.mine("GET", "/v1/webhooks")
        assert [one["name"] for one in listed["items"]] == ["every", "mine"]
        for name, wanted_status in (("mine", 200), ("every", 200), ("theirs", 404)):
            assert (await place.mine("GET", f"/v1/webhooks/{name}"))[0] == wanted_status

    placed(tmp_path, test)
