"""A job's retries: delays as a list or by a rule, jitter, on which outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.ids import parse_job
from raftsched.core.model import Outcome, Retry
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, u64
from tests.support.local_api import Client

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}
BOTH = (Outcome.FAILED, Outcome.TIMED_OUT)


def kept(call: Client, job: dict[str, Any]) -> Retry:
    with call.cluster.store.read() as view:
        raw = view.get(Table.JOBS, u64(parse_job(job["id"]) or 0))
    assert raw is not None
    return decode_job(raw).policy.retry


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"delays": ["5s", "1m"]}, Retry((5_000, 60_000), BOTH)),
        ({"delays": ["5s"], "jitter_percent": 20, "on": ["timed_out"]}, Retry((5_000,), (Outcome.TIMED_OUT,), 20)),
        ({"exponential": {}}, Retry((1_000, 2_000, 4_000, 8_000, 16_000), BOTH)),
        (
            {"exponential": {"first": "10s", "factor": 3, "max": "1m", "attempts": 4}},
            Retry((10_000, 30_000, 60_000, 60_000), BOTH),
        ),
        ({"exponential": {"first": "1s", "factor": 1.5, "attempts": 3}}, Retry((1_000, 1_500, 2_250), BOTH)),
        (
            {"exponential": {"first": "1h", "max": "1h", "factor": 100, "attempts": 100}},
            Retry((3_600_000,) * 100, BOTH),
        ),
    ],
)
async def test_delays_by_list_or_by_rule(call: Client, given: dict[str, Any], wanted: Retry) -> None:
    status, job = await call("POST", "/v1/jobs", {**JOB, "name": "a", "retry": given})
    assert status == 201
    assert kept(call, job) == wanted
    assert {key: job["retry"][key] for key in given if key != "exponential"} == {
        key: value for key, value in given.items() if key != "exponential"
    }
    # as it is shown it may be put back, and given again it is the same job
    status, again = await call("PUT", f"/v1/jobs/{job['id']}", job)
    assert (status, again["revision"]) == (200, 1)
    assert (await call("POST", "/v1/jobs", {**JOB, "name": "a", "retry": given}))[0] == 200


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"exponential": {}, "delays": ["1s"]}, "/retry/exponential"),
        ({"exponential": {"first": "2m", "max": "1m"}}, "/retry/exponential/max"),
        ({"exponential": {"first": "soon"}}, "/retry/exponential/first"),
        ({"exponential": {"factor": 0.5}}, "/retry/exponential/factor"),
        ({"exponential": {"factor": "2"}}, "/retry/exponential/factor"),
        ({"exponential": {"factor": True}}, "/retry/exponential/factor"),
        ({"exponential": {"attempts": 101}}, "/retry/exponential/attempts"),
        ({"exponential": {"atempts": 1}}, "/retry/exponential/atempts"),
        ({"exponential": 5}, "/retry/exponential"),
        ({"jitter_percent": 101}, "/retry/jitter_percent"),
        ({"jitter_percent": 0.5}, "/retry/jitter_percent"),
        ({"on": ["lost"]}, "/retry/on/0"),
        ({"on": []}, "/retry/on"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, given: dict[str, Any], pointer: str) -> None:
    status, problem = await call("POST", "/v1/jobs", {**JOB, "retry": given})
    assert status == 422
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_of_delays_and_a_rule_the_one_that_is_given_takes_the_place_of_the_other(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "retry": {"exponential": {"attempts": 2}, "jitter_percent": 5}})
    status, now = await call("PATCH", f"/v1/jobs/{job['id']}", {"retry": {"delays": ["7s"]}})
    assert (status, now["retry"]["delays"], now["retry"]["exponential"]) == (200, ["7s"], None)
    assert now["retry"]["jitter_percent"] == 5
    status, now = await call("PATCH", f"/v1/jobs/{job['id']}", {"retry": {"exponential": {"attempts": 3}}})
    assert (status, now["retry"]["delays"], now["retry"]["exponential"]["attempts"]) == (200, [], 3)
    both = {"retry": {"exponential": {"attempts": 3}, "delays": ["1s"]}}
    assert (await call("PATCH", f"/v1/jobs/{job['id']}", both))[0] == 422

    rule = {"defaults": {"retry": {"exponential": {"attempts": 2}}}}
    assert (await call("PUT", "/v1/namespaces/fin", rule))[0] == 201
    status, now = await call("PATCH", "/v1/namespaces/fin", {"defaults": {"retry": {"delays": ["7s"]}}})
    retry = now["defaults"]["retry"]
    assert (status, retry["delays"], retry["exponential"]) == (200, ["7s"], None)
