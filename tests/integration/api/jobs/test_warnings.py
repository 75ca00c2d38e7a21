"""Creates, edits and checks say what a job asks for that nobody offers now."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.rules.allowed import Allowed
from tests.support.local_api import Client

JOB: dict[str, Any] = {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}}


def node(call: Client, *handlers: str, replaces: int = 0, **fields: Any) -> int:
    """Opens a session of a node with these handlers. Returns its number."""
    opened = c.OpenSession("n1", replaces, "boot", f"nonce{replaces}".encode(), 4, handlers=handlers, **fields)
    (answer,) = call.cluster.apply(opened)
    assert isinstance(answer, c.Accepted), answer
    assert answer.number is not None
    return answer.number


def codes(answer: Any) -> list[tuple[str, str]]:
    return [(one["code"], one["field"]) for one in answer.get("warnings", [])]


CASES: list[tuple[dict[str, Any], list[tuple[str, str]], str]] = [
    ({}, [], ""),
    ({"handler": {"call": "send-invoice"}}, [], ""),
    ({"handler": {"call": "nosuch"}}, [("no-executor", "handler")], 'has the handler "call:nosuch"'),
    ({"handler": {"shell": "true"}}, [("no-executor", "handler")], 'has the handler "shell"'),
    ({"handler": {"exec": ["/bin/rm"]}}, [], ""),
    ({"placement": {"labels": {"zone": "b"}}}, [("no-executor", "placement")], "carries the label zone=b"),
    ({"queue": "reports"}, [("no-queue", "queue")], 'no queue "reports"'),
    ({"queue": "made"}, [], ""),
    ({"queue": "nosuch", "handler": {"call": "nosuch"}}, [("no-executor", "handler"), ("no-queue", "queue")], ""),
]


@pytest.mark.parametrize(("fields", "expected", "says"), CASES)
async def test_each_way_to_write_a_job_warns(
    call: Client, fields: dict[str, Any], expected: list[tuple[str, str]], says: str
) -> None:
    node(call, "exec", "call:send-invoice")
    assert (await call("PUT", "/v1/queues/made", {"max_running": 1}))[0] == 201
    status, checked = await call("POST", "/v1/jobs:check", {**JOB, **fields})
    assert (status, codes(checked)) == (200, expected)
    assert says in str(checked["warnings"])
    status, made = await call("POST", "/v1/jobs", {**JOB, **fields})
    assert (status, codes(made)) == (201, expected)
    assert "warnings" in made or not expected
    status, named = await call("PUT", "/v1/namespaces/default/jobs/named", {**JOB, **fields})
    assert (status, codes(named)) == (201, expected)
    status, plain = await call("POST", "/v1/jobs", JOB)
    assert (status, codes(plain)) == (201, [])
    status, changed = await call("PATCH", f"/v1/jobs/{plain['id']}", fields)
    assert (status, codes(changed)) == (200, expected)
    status, checked = await call("POST", f"/v1/jobs/{plain['id']}/check", fields)
    assert (status, codes(checked)) == (200, expected)
    status, read = await call("GET", f"/v1/jobs/{made['id']}")
    assert (status, "warnings" in read) == (200, False)


async def test_what_a_node_refuses_is_named(call: Client) -> None:
    node(call, "exec", allowed=Allowed(exec=("/opt/jobs/",)))
    status, made = await call("POST", "/v1/jobs", {**JOB, "handler": {"exec": ["/bin/rm"]}})
    assert (status, codes(made)) == (201, [("no-executor", "handler")])
    assert "n1" in made["warnings"][0]["detail"].lower()


async def test_the_defaults_of_a_namespace_count(call: Client) -> None:
    node(call, "exec")
    await call("PUT", "/v1/namespaces/billing", {"defaults": {"queue": "slow"}})
    status, made = await call("POST", "/v1/jobs", {**JOB, "namespace": "billing"})
    assert (status, codes(made)) == (201, [("no-queue", "queue")])


async def test_a_warning_goes_when_somebody_offers_it(call: Client) -> None:
    session = node(call, "exec")
    status, made = await call("POST", "/v1/jobs", {**JOB, "handler": {"shell": "true"}})
    assert (status, codes(made)) == (201, [("no-executor", "handler")])
    node(call, "exec", "shell", replaces=session)
    call.cluster.clock.forward(1_001)
    status, made = await call("POST", "/v1/jobs", {**JOB, "handler": {"shell": "true"}})
    assert (status, codes(made)) == (201, [])


async def test_nothing_is_known_before_a_node_says_what_it_offers(call: Client) -> None:
    status, made = await call("POST", "/v1/jobs", {**JOB, "queue": "nosuch"})
    assert (status, "warnings" in made) == (201, False)


async def test_an_answer_can_be_sent_back(call: Client) -> None:
    """As it was read, warnings and all."""
    node(call, "exec")
    _, made = await call("POST", "/v1/jobs", {**JOB, "handler": {"shell": "true"}, "name": "a"})
    assert made["warnings"]
    status, again = await call("PUT", f"/v1/jobs/{made['id']}", made)
    assert (status, again["revision"]) == (200, 1)
