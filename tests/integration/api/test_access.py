"""Who may do what: every role against every route of the route table, so that a new route is tried by itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.access import PEER, role_of
from raftsched.api.callers import ROLES
from raftsched.api.openapi import operation_id
from raftsched.api.operation import OPERATIONS
from raftsched.api.routes import ROUTES, Route
from raftsched.core.access import Role
from raftsched.core.ids import job_text
from tests.support import tokens
from tests.support.documented import document
from tests.support.local_api import Client, LocalCluster, run, serving
from tests.support.tokens import As, guarded, limited, make

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
NOBODY = job_text(1)


def requests() -> Iterator[tuple[Route, str, str, Any]]:
    """(route, method, address, body) for each operation, about things that are not there."""
    for route in ROUTES:
        path = route.path
        for part in ("jobs", "operations", "tokens"):
            path = path.replace(f"/{part}/{{id}}", f"/{part}/{NOBODY}")
        path = path.replace("/instances/{id}", f"/instances/{NOBODY}@1").replace("{ns}", "none").replace("{id}", "none")
        path = path.replace("{name}", "none")
        if OPERATIONS[route.handler].streams:
            path += "?follow=false"
        body = {"to": "n1"} if path == "/v1/cluster/leader" else {}
        yield route, route.method, path, body if route.method in ("POST", "PUT", "PATCH") else None


def test_every_route_says_which_role_it_needs() -> None:
    silent = [f"{r.method} {r.path} ({r.handler.__module__})" for r in ROUTES if OPERATIONS[r.handler].role is None]
    assert not silent, (
        "say who may do it, in @operation(..., role=...) above the handler, one of open, viewer, editor, operator, "
        f"admin (see raftsched/api/operation.py, also for scope and work): {'; '.join(silent)}"
    )


def test_what_is_open_is_named_here() -> None:
    found = {route.path for route in ROUTES if OPERATIONS[route.handler].role == "open"}
    assert found == {"/openapi.json", "/docs", "/livez", "/readyz", "/metrics"}


def test_who_may_only_read_changes_nothing() -> None:
    harmless = {"/v1/schedules/preview", "/v1/namespaces/{ns}/jobs/{name}/compare"}
    for route in ROUTES:
        if OPERATIONS[route.handler].role == "viewer" and route.path not in harmless:
            assert route.method == "GET", route


def test_each_role_at_each_route(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await guarded(call)
        for route, method, path, body in requests():
            needed = role_of(OPERATIONS[route.handler])
            for who in ("nobody", *tokens.ROLES):
                status, answer = await people[who](method, path, body)
                said = f"{who}: {method} {path} -> {status} {answer}"
                if needed is None:
                    assert status not in (401, 403), said
                elif who == "nobody":
                    assert (status, answer["code"]) == (401, "unauthorized"), said
                    assert call.headers["WWW-Authenticate"] == 'Bearer realm="raftsched"'
                elif ROLES[who] < needed:  # type: ignore[index]
                    assert (status, answer["code"]) == (403, "forbidden"), said
                    assert OPERATIONS[route.handler].role in answer["detail"], said
                else:
                    assert status not in (401, 403), said
        assert (await people["admin"]("GET", "/v1/cluster/access"))[1] == {"required": True}

    run(tmp_path, test)


def test_a_cluster_is_open_until_it_is_told_otherwise(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        viewer = As(call, await make(call, "v", "viewer"))
        for who in (As(call, ""), viewer, As(call, "rs_unknown")):
            assert (await who("POST", "/v1/jobs", JOB))[0] == 201
            assert (await who("GET", "/v1/tokens"))[0] == 200

    run(tmp_path, test)


def test_who_turns_it_on_shows_a_token_that_lasts(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        async def ask(secret: str) -> int:
            return (await As(call, secret)("PUT", "/v1/cluster/access", {"required": True}))[0]

        assert await ask("") == 409
        assert await ask(await make(call, "o", "operator")) == 409
        assert await ask(await make(call, "soon", "admin", expires_at="2031-01-01T00:00:00Z")) == 409
        secret = await make(call, "root", "admin")
        assert await ask("rs_wrong") == 409
        assert await ask("") == 409
        assert await ask(secret) == 200
        admin = As(call, secret)
        _, listed = await admin("GET", "/v1/tokens")
        number = next(one["id"] for one in listed["items"] if one["name"] == "root")
        status, problem = await admin("DELETE", f"/v1/tokens/{number}")
        assert (status, problem["code"]) == (409, "not-possible")
        assert (await admin("PUT", "/v1/cluster/access", {"required": False}))[0] == 200
        assert (await call("POST", "/v1/jobs", JOB))[0] == 201

    run(tmp_path, test)


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer rs_x rs_y", "Basic YTpi", "rs_x", "Bearer \xe9"])
def test_what_is_no_token_opens_nothing(tmp_path: Path, header: str) -> None:
    async def test(call: Client) -> None:
        await guarded(call)
        for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/jobs", JOB)):
            status, problem = await call(method, path, body, {"Authorization": header})
            assert (status, problem["code"]) == (401, "unauthorized")

    run(tmp_path, test)


def test_the_short_way_asks_for_tokens_too(tmp_path: Path) -> None:
    """POST /v1/jobs as most send it is not answered by aiohttp; with an unknown header it is."""

    async def test(call: Client) -> None:
        people = await guarded(call)
        mine = await limited(people["admin"], "mine", "editor", "mine")
        for more in ({}, {"X-Ordinary": "1"}):
            for who, wanted in (("nobody", 401), ("viewer", 403), ("editor", 201), ("admin", 201)):
                status, _ = await people[who]("POST", "/v1/jobs", JOB, more)
                assert status == wanted, (who, more)
                if status == 401:
                    assert call.headers["WWW-Authenticate"] == 'Bearer realm="raftsched"'
            assert (await mine("POST", "/v1/jobs", JOB, more))[0] == 403
            assert (await mine("POST", "/v1/jobs", {**JOB, "namespace": "mine"}, more))[0] == 201
        assert (await people["nobody"]("POST", "/v1/jobs", JOB))[0] == 401, "also after somebody who may"

    run(tmp_path, test)


def test_a_token_ends(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await guarded(call)
        soon = As(call, await make(people["admin"], "soon", "editor", expires_at="2030-01-01T00:00:10Z"))
        assert (await soon("GET", "/v1/jobs"))[0] == 200
        call.cluster.clock.now_ms += 9_999
        assert (await soon("POST", "/v1/jobs", JOB))[0] == 201
        call.cluster.clock.now_ms += 1
        for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/jobs", JOB)):
            status, problem = await soon(method, path, body)
            assert (status, problem["code"]) == (401, "unauthorized")
        assert "invalid_token" in call.headers["WWW-Authenticate"]
        _, listed = await people["admin"]("GET", "/v1/tokens")
        assert [one["state"] for one in listed["items"] if one["name"] == "soon"] == ["expired"]

    run(tmp_path, test)


def test_a_node_trusts_the_other_nodes(tmp_path: Path) -> None:
    """A follower asks the leader how far everybody is; whoever only says that he is a node is not believed."""

    async def test(call: Client) -> None:
        people = await guarded(call)
        cluster = call.cluster
        async with serving(cluster, "n2") as other:
            cluster.http["n1"] = call.url.removeprefix("http://")
            status, seen = await other("GET", "/v1/cluster", headers=people["viewer"].headers)
            assert status == 200
            assert {node["id"] for node in seen["nodes"]} == {"n1", "n2"}
            applied = {node["id"]: node["applied_index"] for node in seen["nodes"]}
            assert applied["n1"] is not None, "the leader was asked, and answered"
        now = cluster.clock.now_ms
        for header in ("n1", f"n1 {now} {'0' * 64}", f"n1 {now - 100_000} {'0' * 64}", ""):
            assert (await call("GET", "/v1/cluster", headers={PEER: header}))[0] == 401

    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2"))
        try:
            async with serving(cluster, "n1") as client:
                await test(client)
        finally:
            cluster.close()

    import asyncio

    asyncio.run(main())


def test_the_secret_of_the_data_directory_opens_its_node(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        from hashlib import sha256

        await guarded(call)
        local = As(call, "rl_local")
        assert (await local("GET", "/v1/jobs"))[0] == 401
        call.context.local_digest = sha256(b"rl_local").digest()
        assert (await local("POST", "/v1/tokens", {"name": "again", "role": "admin"}))[0] == 201
        assert (await local("PUT", "/v1/cluster/access", {"required": True}))[0] == 200
        _, found = await local("GET", "/v1/audit?actor=local%20at%20n1")
        assert [one["operation"] for one in found["items"]] == ["tokens_put_access", "tokens_create"]

    run(tmp_path, test)


def test_the_description_says_who_may() -> None:
    made = document()
    assert made["components"]["securitySchemes"]["token"] == {
        "type": "http", "scheme": "bearer",
        "description": made["components"]["securitySchemes"]["token"]["description"],
    }  # fmt: skip
    for route in ROUTES:
        said = OPERATIONS[route.handler]
        one = made["paths"][route.path][route.method.lower()]
        if said.role == "open":
            assert one["security"] == []
            assert "401" not in one["responses"]
        else:
            assert one["x-role"] == said.role
            assert {"401", "403"} <= one["responses"].keys(), operation_id(route)
    assert role_of(OPERATIONS[ROUTES[0].handler]) is Role.EDITOR


def test_basic_is_not_bearer(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await guarded(call)
        given = base64.b64encode(f"x:{people['admin'].secret}".encode()).decode()
        assert (await call("GET", "/v1/jobs", headers={"Authorization": f"Basic {given}"}))[0] == 401

    run(tmp_path, test)
