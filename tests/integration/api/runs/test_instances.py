"""Instances say whose they are, are found by the name of their job, counted by state, and cancelled by DELETE."""

from __future__ import annotations

from typing import Any

from raftsched.core import commands as c
from raftsched.core.ids import parse_instance
from tests.support.local_api import Client

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}


async def ran(call: Client, **fields: Any) -> tuple[str, str]:
    """(job, instance)"""
    status, job = await call("POST", "/v1/jobs", {**JOB, **fields})
    assert status == 201, job
    status, made = await call("POST", f"/v1/jobs/{job['id']}/run")
    assert status == 202, made
    return str(job["id"]), str(made["id"])


def assign(call: Client, instance: str) -> int:
    """Gives it to a node; its token."""
    key = parse_instance(instance)
    assert key is not None
    cluster = call.cluster
    session = cluster.sessions.get("n1") or cluster.open_session("n1", "127.0.0.1:1")
    (assigned,) = cluster.apply(c.Assign(key, session))
    assert isinstance(assigned, c.Accepted)
    assert assigned.number is not None
    return assigned.number


async def test_name_and_namespace_are_in_every_instance(call: Client) -> None:
    job, instance = await ran(call, name="import", namespace="billing")
    _, nameless = await ran(call)
    _, one = await call("GET", f"/v1/instances/{instance}")
    assert (one["job_name"], one["namespace"]) == ("import", "billing")
    _, page = await call("GET", "/v1/instances")
    named = {i["id"]: (i["job_name"], i["namespace"]) for i in page["items"]}
    assert named == {instance: ("import", "billing"), nameless: (None, "default")}
    _, page = await call("GET", f"/v1/jobs/{job}/instances")
    assert [(i["job_name"], i["namespace"]) for i in page["items"]] == [("import", "billing")]
    status, ended = await call("POST", f"/v1/instances/{instance}/kill")
    assert (status, ended["job_name"], ended["state"]) == (202, "import", "KILLED")


async def test_lists_take_the_name_of_a_job_with_its_namespace(call: Client) -> None:
    _, instance = await ran(call, name="import", namespace="billing")
    await ran(call, name="import")
    for path in ("/v1/instances?job=billing/import", "/v1/instances?job=billing/import&namespace=billing"):
        _, page = await call("GET", path)
        assert [i["id"] for i in page["items"]] == [instance], path
    for wrong in ("billing/other", "billing/", "/import", "billing/import/x", "other/import"):
        for path in ("/v1/instances", "/v1/dead-letters", "/v1/events"):
            status, problem = await call("GET", f"{path}?job={wrong}")
            assert (status, problem["code"]) == (404, "not-found"), (path, wrong)
            assert 'give its id, or "namespace/name"' in problem["detail"]
    status, _ = await call("GET", "/v1/instances?job=billing/import&namespace=default")
    assert status == 404
    status, page = await call("GET", "/v1/dead-letters?job=billing/import")
    assert (status, page["items"]) == (200, [])
    status, text = await call("GET", "/v1/events?after=oldest&follow=false&job=billing/import")
    assert status == 200
    assert '"namespace":"billing"' in str(text)
    assert '"namespace":"default"' not in str(text)


async def test_an_instance_is_cancelled(call: Client) -> None:
    _, waiting = await ran(call)
    _, running = await ran(call)
    assign(call, running)
    status, ended = await call("DELETE", f"/v1/instances/{waiting}")
    assert (status, ended["state"]) == (202, "KILLED")
    status, asked = await call("DELETE", f"/v1/instances/{running}")
    assert (status, asked["state"], asked["kill_asked"]) == (202, "LAUNCHED", True)
    status, problem = await call("DELETE", f"/v1/instances/{waiting}")
    assert (status, problem["code"]) == (409, "illegal-transition")
    assert (await call("DELETE", f"/v1/instances/{waiting[:13]}@1"))[0] == 404
    assert (await call("GET", f"/v1/instances/{waiting}"))[0] == 200


async def test_statistics_of_some_states(call: Client) -> None:
    job, first = await ran(call, owner="ana")
    await call("POST", f"/v1/jobs/{job}/run")
    await call("DELETE", f"/v1/instances/{first}")
    for path in ("/v1/stats?", "/v1/stats?owner=ana&", f"/v1/jobs/{job}/stats?"):
        found = {}
        for states in ("KILLED", "WAITING", "KILLED,WAITING", "FAILED"):
            status, answer = await call("GET", f"{path}state={states}")
            assert status == 200, answer
            found[states] = {k: n for k, n in answer["instances"].items() if n}
        both = {"KILLED": 1, "WAITING": 1}
        assert found == {"KILLED": {"KILLED": 1}, "WAITING": {"WAITING": 1}, "KILLED,WAITING": both, "FAILED": {}}
    status, problem = await call("GET", "/v1/stats?state=DONE")
    assert status == 400
    assert "must be one or more of WAITING, LAUNCHED" in str(problem)


async def test_deleting_a_job_says_what_it_ends(call: Client) -> None:
    job, running = await ran(call, name="import")
    assign(call, running)
    await call("POST", f"/v1/jobs/{job}/run")
    assert await call("DELETE", "/v1/namespaces/default/jobs/import") == (200, {"deleted": 1, "ending": 1})
    status, shown = await call("GET", f"/v1/instances/{running}")
    assert (status, shown["job_name"], shown["kill_asked"]) == (200, "import", True)
    idle, _ = await ran(call)
    assert await call("DELETE", f"/v1/jobs/{idle}") == (200, {"deleted": 1, "ending": 0})


async def test_a_description_is_kept_and_bounded(call: Client) -> None:
    status, job = await call("POST", "/v1/jobs", {**JOB, "description": "Sends the invoices of the day."})
    assert (status, job["description"]) == (201, "Sends the invoices of the day.")
    _, plain = await call("POST", "/v1/jobs", JOB)
    assert plain["description"] is None
    status, job = await call("PATCH", f"/v1/jobs/{job['id']}", {"description": None})
    assert (status, job["description"]) == (200, None)
    status, problem = await call("POST", "/v1/jobs", {**JOB, "description": "x" * 1_025})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/description")
    assert "1,024 is the limit" in problem["errors"][0]["detail"]
