"""One token with different roles in different namespaces: what it may do in one it may not do in another, by no
address, filter, body, cursor or operation, and it is told why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.auth.callers import ROLES, Caller
from raftsched.api.routes import ROUTES
from raftsched.core.subjects.access import Role
from tests.integration.api.auth.test_namespace_isolation import BY_BODY, JOB, Place, body_of
from tests.integration.api.http.test_fastpath import short_way_taken
from tests.support import sse
from tests.support.local_api import Client, run
from tests.support.tokens import As, guarded, make, post_job

WHY = 'This needs the role editor in the namespace "theirs"; the token "mixed" has the role viewer there.'


def placed(
    directory: Path, test: Callable[[Place], Awaitable[None]], *, everywhere: bool = False, role: str = "editor"
) -> None:
    """The token is viewer in "theirs" (or everywhere), and has the role in "mine" and "also-mine"."""

    async def inside(call: Client) -> None:
        people = await guarded(call)
        grants = [{"namespace": namespace, "role": role} for namespace in ("mine", "also-mine")]
        more = {} if everywhere else {"namespaces": ["theirs"]}
        mixed = As(call, await make(people["admin"], "mixed", "viewer", grants=grants, **more))
        place = Place(call, people, mixed)
        await place.fill()
        await test(place)

    run(directory, inside)


@pytest.mark.parametrize("everywhere", [False, True])
def test_every_route_is_by_the_role_there(tmp_path: Path, everywhere: bool) -> None:
    async def test(place: Place) -> None:
        tried = 0
        for route in ROUTES:
            said = route.operation
            if said.role == "open" or said.scope == "shared" or (route.method, route.path) in BY_BODY or said.streams:
                continue
            if not (said.scope or "namespace" in said.query or "{ns}" in route.path):
                status, answer = await place.mine(route.method, place.address(route, "mine"), body_of(route))
                wanted = 200 if everywhere and said.role == "viewer" else 403
                assert status == wanted, f"{route.method} {route.path} is for all namespaces -> {status} {answer}"
                continue
            tried += 1
            address = place.address(route, "theirs")
            query = "?namespace=theirs" if "namespace" in said.query else ""
            status, answer = await place.mine(route.method, address + query, body_of(route))
            says = f"{route.method} {address}{query} -> {status} {answer}"
            if said.role == "viewer":
                assert status != 403, says
                assert status != 404 or address.endswith(("/none", "/output", "secrets/j", "webhooks/j")), says
            else:
                assert status == 403, says
                assert said.role in answer["detail"], says
                if said.role == "editor":
                    assert answer["detail"] == WHY, says
        assert tried > 40
        _, job = await place.admin("GET", f"/v1/jobs/{place.jobs['theirs']}")
        assert (job["state"], job["revision"]) == ("SCHEDULED", 1)

    placed(tmp_path, test, everywhere=everywhere)


def test_what_it_may_is_done(tmp_path: Path) -> None:
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


def test_jobs_are_made_where_it_edits(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        mixed = place.mine
        for namespace, wanted in ((None, 403), ("theirs", 403), ("mine", 201), ("also-mine", 201)):
            job = {**JOB, "namespace": namespace} if namespace else JOB
            for more in ({}, {"X-Ordinary": "1"}):
                status, answer = await mixed("POST", "/v1/jobs", job, more)
                assert status == wanted, (namespace, answer)
                if namespace == "theirs":
                    assert answer["detail"] == WHY
            _, batch = await mixed("POST", "/v1/jobs:batch", [job, {**JOB, "namespace": "mine"}])
            assert [item["status"] for item in batch["items"]] == [wanted, 201]
        path = "/v1/namespaces/theirs/jobs/j"
        assert (await mixed("PUT", path, JOB))[1]["detail"] == WHY
        assert (await mixed("POST", f"{path}/compare", JOB))[0] == 200, "what would change may be asked"

    placed(tmp_path, test)


def test_the_short_way_asks_for_the_role_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = short_way_taken(monkeypatch)

    async def test(place: Place) -> None:
        verdicts.clear()
        for namespace, wanted in (("default", 403), ("theirs", 403), ("mine", 201)):
            status, answer = await post_job(place.mine, {**JOB, "namespace": namespace})
            assert status == wanted, answer
            if namespace == "theirs":
                assert answer["detail"] == WHY
        assert len(verdicts) == 3
        assert all(verdict >= 0 for verdict in verdicts)

    placed(tmp_path, test)


@pytest.mark.parametrize("everywhere", [False, True])
def test_events_are_those_of_what_it_sees(tmp_path: Path, everywhere: bool) -> None:
    async def test(place: Place) -> None:
        async def heard(query: str) -> set[str]:
            url = f"{place.call.url}/v1/events?follow=false{query}"
            async with place.call.session.get(url, headers=place.mine.headers) as answer:
                assert answer.status == 200, await answer.text()
                data = [said.data async for said in sse.read(answer) if said.data is not None]
                return {one["namespace"] for one in data if "namespace" in one}  # others are of the cluster

        for namespace in ("mine", "theirs"):
            assert await heard(f"&namespace={namespace}") == {namespace}
            assert await heard(f"&job={place.jobs[namespace]}") == {namespace}
        if everywhere:
            assert await heard("") == {"mine", "theirs"}
        else:
            assert (await place.mine("GET", "/v1/events?follow=false"))[0] == 403
            assert (await place.mine("GET", "/v1/events?follow=false&namespace=third"))[0] == 403

    placed(tmp_path, test, everywhere=everywhere)


def test_a_job_may_wait_for_one_that_can_be_seen(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        def waiting(namespace: str) -> dict[str, Any]:
            return {**JOB, "namespace": "mine", "conditions": [{"job_succeeded": f"{namespace}/j", "within": "1h"}]}

        assert (await place.mine("POST", "/v1/jobs", waiting("theirs")))[0] == 201
        status, problem = await place.mine("POST", "/v1/jobs", waiting("third"))
        assert (status, problem["errors"][0]["pointer"]) == (422, "/conditions/0/job_succeeded")

    placed(tmp_path, test)


def test_a_job_may_tell_webhooks_that_can_be_seen(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        for name in ("theirs", "third"):
            made = {"name": name, "url": "https://127.0.0.1:1/", "events": ["failed"], "filter": {"namespace": name}}
            assert (await place.admin("POST", "/v1/webhooks", made))[0] == 201
        _, listed = await place.mine("GET", "/v1/webhooks")
        assert [one["name"] for one in listed["items"]] == ["theirs"]
        for name, wanted in (("theirs", 201), ("third", 422)):
            job = {**JOB, "namespace": "mine", "notify": {"webhook": name, "on": ["failed"]}}
            status, answer = await place.mine("POST", "/v1/jobs", job)
            assert status == wanted, answer

    placed(tmp_path, test)


@pytest.mark.parametrize("everywhere", [False, True])
def test_bulk_stays_where_it_edits(tmp_path: Path, everywhere: bool) -> None:
    async def test(place: Place) -> None:
        mixed, theirs = place.mine, place.jobs["theirs"]

        async def act(**body: Any) -> tuple[int, Any]:
            return await mixed("POST", "/v1/jobs:actions", {"action": "pause", **body})

        for body in ({"all": True}, {"filter": {"owner": "ana"}}, {"filter": {"namespace": "theirs"}}):
            for dry_run in (False, True):
                assert (await act(**body, dry_run=dry_run))[0] == 403, body
        _, seen = await act(ids=[theirs, place.jobs["mine"]], dry_run=True)
        assert [one["id"] for one in seen["sample"]] == [place.jobs["mine"]]
        status, begun = await act(ids=[theirs, place.jobs["mine"]])
        assert status == 202
        _, done = await mixed("GET", f"/v1/operations/{begun['id']}")
        assert (done["changed"], [one["id"] for one in done["refusals"]]) == (1, [theirs])
        for query in ("?all=true", "?owner=ana", "?namespace=theirs"):
            assert (await mixed("DELETE", f"/v1/jobs{query}"))[0] == 403
        for wanted in ({"namespace": "theirs"}, {"namespace": "theirs", "job": "j"}, {"job": theirs}):
            status, answer = await mixed("POST", "/v1/instances:kill", {"filter": wanted})
            assert (status, answer["detail"]) == (403, WHY), wanted
        assert (await place.admin("GET", f"/v1/jobs/{theirs}"))[1]["state"] == "SCHEDULED"
        run_of_theirs = f"/v1/instances/{place.instances['theirs']}"
        assert (await place.admin("GET", run_of_theirs))[1]["state"] == "WAITING"

    placed(tmp_path, test, everywhere=everywhere)


def test_dead_letters_are_let_go_where_it_edits(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        mixed, theirs = place.mine, place.instances["theirs"]
        for body in ({"all": True}, {"filter": {"name_prefix": "j"}}, {"filter": {"namespace": "theirs"}}):
            assert (await mixed("POST", "/v1/dead-letters/requeue", body))[0] == 403, body
        status, problem = await mixed("POST", "/v1/dead-letters/requeue", {"filter": {"job": place.jobs["theirs"]}})
        assert (status, problem["detail"]) == (403, WHY)
        _, answer = await mixed("POST", "/v1/dead-letters/requeue", {"ids": [theirs]})
        assert (answer["requeued"], answer["refused"][0]["id"]) == (0, theirs)
        _, answer = await mixed("DELETE", f"/v1/dead-letters?ids={theirs}")
        assert (answer["discarded"], answer["refused"][0]["id"]) == (0, theirs)
        for path in ("/v1/dead-letters", "/v1/instances"):
            assert (await mixed("GET", f"{path}?job={place.jobs['theirs']}"))[0] == 200

    placed(tmp_path, test)


@pytest.mark.parametrize("everywhere", [False, True])
def test_operations_are_seen_and_ended_by_the_role(tmp_path: Path, everywhere: bool) -> None:
    async def test(place: Place) -> None:
        mixed, operations = place.mine, place.operations
        _, every = await place.admin("POST", "/v1/jobs:actions", {"action": "resume", "all": True})
        _, listed = await mixed("GET", "/v1/operations")
        seen = [every["id"]] if everywhere else []
        assert [one["id"] for one in listed["items"]] == [*seen, operations["theirs"], operations["mine"]]
        assert (await mixed("POST", f"/v1/operations/{operations['theirs']}/cancel"))[1]["detail"] == WHY
        assert (await mixed("POST", f"/v1/operations/{every['id']}/cancel"))[0] == (403 if everywhere else 404)
        status, answer = await mixed("POST", f"/v1/operations/{operations['mine']}/cancel")
        assert status in (200, 409), answer

    placed(tmp_path, test, everywhere=everywhere)


def test_lists_show_what_it_sees(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        _, page = await place.mine("GET", "/v1/jobs")
        assert {job["namespace"] for job in page["items"]} == {"mine", "theirs"}
        _, page = await place.admin("GET", "/v1/jobs?limit=1")
        assert (await place.mine("GET", f"/v1/jobs?limit=1&cursor={page['next']}"))[0] == 200, "he may read all"
        _, page = await place.mine("GET", "/v1/namespaces")
        assert [one["name"] for one in page["items"]] == ["mine", "theirs"]

    placed(tmp_path, test, everywhere=True)


def test_an_operator_of_one_namespace_is_none_of_the_cluster(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        mixed = place.mine
        assert (await mixed("PUT", "/v1/namespaces/mine", {}))[0] in (200, 201)
        assert (await mixed("GET", "/v1/audit?namespace=mine"))[0] == 200
        for method, path, body in (
            ("PUT", "/v1/namespaces/theirs", {}),
            ("GET", "/v1/audit?namespace=theirs", None),
            ("GET", "/v1/audit", None),
            ("POST", "/v1/cluster/pause", {}),
            ("PUT", "/v1/queues/q", {}),
            ("PUT", "/v1/calendars/c", {"dates": []}),
            ("POST", "/v1/nodes/n1/drain", {}),
            ("POST", "/v1/webhooks", {}),
            ("POST", "/v1/tokens", {}),
        ):
            status, answer = await mixed(method, path, body)
            assert status == 403, f"{method} {path} -> {status} {answer}"
        _, answer = await mixed("POST", "/v1/cluster/pause", {})
        assert "in no namespace" in answer["detail"]
        assert "has the role viewer" in answer["detail"]

    placed(tmp_path, test, role="operator")


async def test_a_token_is_shown_with_its_grants(call: Client) -> None:
    grants = [{"namespace": "web", "role": "editor"}, {"namespace": "billing", "role": "operator"}]
    _, made = await call("POST", "/v1/tokens", {"name": "ci", "role": "viewer", "grants": grants})
    assert made["grants"] == grants[::-1]
    assert (made["role"], made["namespaces"]) == ("viewer", None)
    assert (await call("GET", f"/v1/tokens/{made['id']}"))[1]["grants"] == grants[::-1]


def test_who_may_what_where() -> None:
    web = {"web": Role.EDITOR}
    for who, wanted in (
        (Caller(Role.VIEWER), {"a": "viewer", "web": "viewer"}),
        (Caller(Role.VIEWER, grants=web), {"a": "viewer", "web": "editor"}),
        (Caller(Role.VIEWER, frozenset({"a"}), grants=web), {"a": "viewer", "web": "editor", "b": None}),
        (Caller(Role.OPERATOR, frozenset({"web"}), grants=web), {"web": "operator", "a": None}),
        (Caller(Role.VIEWER, frozenset(), grants=web), {"web": "editor", "a": None}),
    ):
        for namespace, name in wanted.items():
            role = None if name is None else ROLES[name]  # type: ignore[index]
            assert who.role_in(namespace) == role
            for needed in Role:
                allowed = who.within(needed)
                assert (allowed is None or namespace in allowed) == (role is not None and role >= needed)
