"""What the description says of requests and answers, and the API did not do."""

from __future__ import annotations

import pytest

from tests.support.documented import document
from tests.support.local_api import Client

JOB = {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}}


@pytest.mark.parametrize("namespace", ["AAA", "", "a b", ".."])
async def test_the_namespace_of_a_filter_in_a_body_is_checked(call: Client, namespace: str) -> None:
    body = {"filter": {"namespace": namespace}}
    for path, more in (("/v1/jobs:actions", {"action": "pause"}), ("/v1/dead-letters/requeue", {})):
        status, answer = await call("POST", path, {**body, **more})
        assert (status, answer["errors"][0]["pointer"]) == (422, "/filter/namespace"), answer


async def test_a_key_is_checked_also_where_nothing_is_done(call: Client) -> None:
    headers = {"Idempotency-Key": "a b"}
    for method, path, body in (
        ("DELETE", "/v1/jobs?all=true&dry_run=true", None),
        ("POST", "/v1/jobs:actions", {"action": "run", "all": True, "dry_run": True}),
    ):
        status, answer = await call(method, path, body, headers)
        assert (status, answer["code"]) == (400, "invalid-parameter"), answer


async def test_more_than_there_may_be_at_one_time_is_no_fault_of_the_server(call: Client) -> None:
    await call("POST", "/v1/jobs", JOB)
    call.cluster.carries_out = False
    body = {"action": "pause", "all": True}
    statuses = [(await call("POST", "/v1/jobs:actions", body))[0] for _ in range(21)]
    assert statuses == [202] * 20 + [429]
    assert call.headers["Retry-After"] == "1"


async def test_statistics_from_a_time_to_come_on_are_of_nothing(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", JOB)
    for path in ("/v1/stats", f"/v1/jobs/{job['id']}/stats"):
        status, answer = await call("GET", f"{path}?from=2040-01-01T00:00:00Z")
        assert (status, answer["complete"], answer["duration"]["count"]) == (200, True, 0), answer


def test_links_lead_to_operations_by_what_their_addresses_name() -> None:
    paths = document()["paths"]
    addresses = {one["operationId"]: path for path, methods in paths.items() for one in methods.values()}
    links = document()["components"]["links"]
    for link in links.values():
        (name,) = link["parameters"]
        assert f"{{{name}}}" in addresses[link["operationId"]], link
        assert link["parameters"][name] in (f"$response.body#/{name}", "$response.body#/name")
    made = paths["/v1/jobs"]["post"]["responses"]["201"]["links"]
    assert {"jobs_get", "jobs_patch", "jobs_delete", "actions_run"} <= set(made)
    assert "instances_kill" in paths["/v1/jobs/{id}/run"]["post"]["responses"]["202"]["links"]
    assert "jobs_get" not in paths["/v1/jobs/{id}/run"]["post"]["responses"]["202"]["links"]
