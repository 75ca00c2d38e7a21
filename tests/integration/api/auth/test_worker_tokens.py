"""Tokens of remote workers: made, shown, and good for nothing but sessions of workers."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.auth.access import caller_of, check_role
from raftsched.api.auth.callers import ROLES, Caller, RequestContext, begin_request, end_request, served
from raftsched.api.http.problems import Problem
from raftsched.api.routes import ROUTES
from raftsched.core.subjects.access import Role, Token
from tests.support.local_api import Client
from tests.support.tokens import As, guarded, make

GPU = {"name": "gpu", "role": "worker", "queues": ["render", "a", "a"], "namespaces": ["media"]}


async def test_one_is_made_and_shown_with_its_queues(call: Client) -> None:
    status, made = await call("POST", "/v1/tokens", GPU)
    assert status == 201, made
    assert (made["role"], made["queues"], made["namespaces"]) == ("worker", ["a", "render"], ["media"])
    assert (await call("GET", f"/v1/tokens/{made['id']}"))[1]["queues"] == ["a", "render"]
    _, all_queues = await call("POST", "/v1/tokens", {"name": "any", "role": "worker"})
    assert (all_queues["queues"], all_queues["namespaces"]) == (None, None)


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"role": "editor"}, "/queues"),
        ({"queues": []}, "/queues"),
        ({"queues": ["_x/"]}, "/queues/0"),
        ({"queues": [f"q{n}" for n in range(101)]}, "/queues"),
        ({"grants": [{"namespace": "web", "role": "editor"}]}, "/grants"),
        ({"namespaces": ["B A D"]}, "/namespaces/0"),
    ],
)
async def test_what_none_may_be(call: Client, given: dict[str, Any], pointer: str) -> None:
    status, problem = await call("POST", "/v1/tokens", {**GPU, **given})
    assert (status, problem["errors"][0]["pointer"]) == (422, pointer), problem


async def test_it_may_ask_who_it_is_and_use_no_other_operation(call: Client) -> None:
    """Of all that the description names, whatever is asked for."""
    people = await guarded(call)
    worker = As(call, await make(people["admin"], **GPU))
    status, who = await worker("GET", "/v1/whoami")
    assert (status, who["role"], who["queues"], who["namespaces"]) == (200, "worker", ["a", "render"], ["media"])
    _, description = await worker("GET", "/openapi.json")
    refused = 0
    for path, methods in description["paths"].items():
        for method, said in methods.items():
            if said.get("x-role", "open") in ("open", "worker") or path == "/v1/whoami":
                continue
            call.cluster.clock.forward(20)
            filled = path.replace("{ns}", "media").replace("{name}", "x").replace("{id}", "x")
            status, problem = await worker(method.upper(), filled, {} if method in ("post", "put") else None)
            assert (status, method == "head" or problem["code"]) == (403, "forbidden"), (method, path, status)
            refused += 1
    assert refused > 100


async def test_no_rule_of_an_issuer_gives_the_role(call: Client) -> None:
    rule = {"claim": "groups", "value": "w", "role": "worker"}
    given = {"issuer": "https://login.example.com", "audience": "x", "rules": [rule]}
    status, problem = await call("PUT", "/v1/cluster/oidc", given)
    assert (status, problem["errors"][0]["pointer"]) == (422, "/rules/0/role"), problem


def test_the_roles_of_workers_sessions_are_worker_and_admin() -> None:
    for name, role in ROLES.items():
        caller = Caller(role, name=name)
        if name in ("worker", "admin"):
            check_role(caller, Role.WORKER)
        else:
            with pytest.raises(Problem) as refused:
                check_role(caller, Role.WORKER)
            assert refused.value.code == "forbidden"


def test_what_a_caller_may_be_given() -> None:
    token = Token(
        id=1, name="gpu", role=Role.WORKER, digest=b"d" * 32, namespaces=("m",), created_at_ms=0, queues=("a", "b")
    )
    for caller, wanted in ((caller_of(token), ({"a", "b"}, {"m"})), (Caller(Role.ADMIN), (None, None))):
        entered = begin_request(RequestContext(caller, needed=Role.WORKER))
        assert served() == wanted
        end_request(entered)


def test_nothing_else_is_for_workers() -> None:
    """What names the role, or lets workers in, is known here."""
    allowed = [r.path for r in ROUTES if r.operation.role == "worker" or r.operation.of_caller]
    assert all(path == "/v1/whoami" or path.startswith("/v1/worker-sessions") for path in allowed), allowed
