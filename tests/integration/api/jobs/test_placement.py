"""Where a job may run: accepted, shown, and handed to the leader."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.core.commands import EditJob
from raftsched.core.ids import parse_job
from raftsched.core.model import Job, Trigger, TriggerKind
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, u64
from tests.support.local_api import Client

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


def stored(call: Client, job: dict[str, Any]) -> Job:
    number = parse_job(job["id"])
    assert number is not None
    with call.cluster.store.read() as view:
        return decode_job(view.get(Table.JOBS, u64(number)) or b"")


@pytest.mark.parametrize(
    ("placement", "shown"),
    [
        ({"labels": {"disk": "ssd", "arch": "arm"}}, {"labels": {"arch": "arm", "disk": "ssd"}}),
        ({"labels": {"disk": "ssd"}, "on": "one"}, {"labels": {"disk": "ssd"}}),
        ({"on": "one"}, None),
        ({}, None),
        (None, None),
    ],
)
async def test_placement_goes_in_and_comes_out_everywhere(call: Client, placement: Any, shown: Any) -> None:
    given = {**JOB, "name": "a", "placement": placement}
    labels = tuple(sorted((shown or {"labels": {}})["labels"].items()))
    status, job = await call("POST", "/v1/jobs", given)
    assert (status, job["placement"]) == (201, shown)
    assert stored(call, job).policy.node_labels == labels
    assert (await call("POST", "/v1/jobs", given))[0] == 200
    status, page = await call("POST", "/v1/jobs:batch", [{**given, "name": "b"}])
    assert (status, page["items"][0]["status"]) == (200, 201)
    path = f"/v1/jobs/{job['id']}"
    assert (await call("GET", path))[1]["placement"] == shown
    status, page = await call("GET", "/v1/jobs")
    assert (status, [item["placement"] for item in page["items"]]) == (200, [shown, shown])
    status, job = await call("PUT", path, job)
    assert (status, job["revision"], job["placement"]) == (200, 1, shown)
    status, job = await call("PUT", path, {**job, "placement": {"labels": {"x": "y"}}})
    assert (status, job["revision"], job["placement"]) == (200, 2, {"labels": {"x": "y"}})
    assert stored(call, job).policy.node_labels == (("x", "y"),)
    status, job = await call("PATCH", path, {"placement": {"labels": {"x": None, "z": "1"}}})
    assert (status, job["placement"]) == (200, {"labels": {"z": "1"}})
    assert stored(call, job).policy.node_labels == (("z", "1"),)
    status, job = await call("PATCH", path, {"placement": None})
    assert (status, job["placement"]) == (200, None)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"trigger":{"in":"5m"}}', b'{"handler":5,"trigger":{},"retry":1}', b"", b"{"]
)
async def test_a_row_that_cannot_be_shown_whole_does_not_hide_the_others(call: Client, body: bytes) -> None:
    _, odd = await call("POST", "/v1/jobs", JOB)
    _, other = await call("POST", "/v1/jobs", JOB)
    call.cluster.apply(EditJob(parse_job(odd["id"]) or 0, stored(call, odd).policy, body))
    call.checked = False  # the API would not have written such a row
    status, page = await call("GET", "/v1/jobs")
    assert (status, [item["id"] for item in page["items"]]) == (200, [odd["id"], other["id"]])
    assert page["items"][1] == other
    status, shown = await call("GET", f"/v1/jobs/{odd['id']}")
    assert (status, shown["id"], shown["state"]) == (200, odd["id"], "SCHEDULED")
    assert (await call("GET", "/v1/jobs?owner=ana"))[0] == 200


async def test_a_zone_that_this_node_does_not_know_hides_nothing(call: Client) -> None:
    _, odd = await call("POST", "/v1/jobs", JOB)
    row = stored(call, odd)
    trigger = Trigger(kind=TriggerKind.CRON, expr="0 2 * * *", timezone="Mars/Olympus")
    policy = msgspec.structs.replace(row.policy, trigger=trigger)
    call.cluster.apply(EditJob(row.id, policy, row.body))
    status, page = await call("GET", "/v1/jobs")
    assert (status, page["items"][0]["next_fire_at"]) == (200, None)


async def test_a_call_goes_where_its_name_is_known(call: Client) -> None:
    given = {**JOB, "handler": {"call": "send-invoice", "env": {"A": "b"}}}
    status, job = await call("POST", "/v1/jobs", given)
    assert (status, job["handler"]) == (201, given["handler"])
    assert stored(call, job).policy.required_capability == "call:send-invoice"
