"""Who may do what: every role against every route of the route table, so that a new route is tried by itself."""

from __future__ import annotations

import asyncio
import base64
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.auth.access import role_of
from raftsched.api.auth.peer_proof import PEER, peer_said
from raftsched.api.routes import ROUTES
from raftsched.core.subjects.access import Role, SetAccess
from raftsched.surface.operation import HEALTH
from tests.integration.api.http.test_fastpath import short_way_taken
from tests.support import tokens
from tests.support.documented import document
from tests.support.local_api import Client, LocalCluster, one_node, serving
from tests.support.matrix import Who, requests, wrong
from tests.support.places import Place, placed
from tests.support.tokens import As, guarded, limited, make, post_job

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


def test_every_route_says_which_role_it_needs() -> None:
    silent = [f"{r.method} {r.path} ({r.handler.__module__})" for r in ROUTES if r.operation.role is None]
    assert not silent, (
        "say who may do it, in @operation(..., role=...) above the handler, one of open, viewer, editor, operator, "
        f"admin (see raftsched/surface/operation.py, also for scope and work): {'; '.join(silent)}"
    )


def test_what_is_open_is_named_here() -> None:
    found = {route.path for route in ROUTES if route.operation.role == "open"}
    assert found == {"/openapi.json", "/docs", "/livez", "/readyz"}


def test_who_may_only_read_changes_nothing() -> None:
    harmless = {"/v1/schedules/preview", "/v1/namespaces/{ns}/jobs/{name}/compare", "/v1/jobs:compare"}
    for route in ROUTES:
        if route.operation.role == "viewer" and route.path not in harmless:
            assert route.method == "GET", route


async def walk(place: Place, people: list[Who], *, locked: bool = False) -> int:
    """Everybody at every route; how many answers were looked at."""
    faults, count = [], 0
    for who in people:
        for request in requests(place):
            place.call.cluster.clock.forward(20)  # nobody comes too often
            status, answer = await who.ask(request.route.method, request.path, request.body, dict(request.headers))
            fault = wrong(request, who, status, answer, locked=locked)
            faults += [] if fault is None else [fault]
            if status == 401:
                assert place.call.headers["WWW-Authenticate"].startswith('Bearer realm="raftsched"')
            count += 1
    assert not faults, f"{len(faults)} of {count}: " + "; ".join(faults[:20])
    return count


def test_everybody_at_every_route(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        admin = place.admin
        people = [Who("nobody", As(place.call, "")), Who("unknown", As(place.call, "rs_unknown"))]
        for role in (*tokens.ROLES, "worker"):
            secret = await make(admin, f"all-{role}", role)
            people.append(Who(role, As(place.call, secret), {None: role}))
            if role != "admin":
                mine = await limited(admin, f"mine-{role}", role, "mine")
                people.append(Who(f"{role} of mine", mine, {"mine": role}))
        both = {"namespaces": ["mine"], "grants": [{"namespace": "theirs", "role": "editor"}]}
        mixed = As(place.call, await make(admin, "mixed", "viewer", **both))
        people.append(Who("viewer of mine, editor of theirs", mixed, {"mine": "viewer", "theirs": "editor"}, "viewer"))
        assert await walk(place, people) > 1_500
        assert (await admin("GET", "/v1/cluster/access"))[1] == {"required": True}

    placed(tmp_path, test)


async def test_a_locked_node_answers_nobody_at_any_route(tmp_path: Path) -> None:
    """Also not who shows the token of an admin that was made while the cluster was open."""
    async with one_node(tmp_path, guarded=True) as call:
        call.context.security.local_digest = sha256(b"rl_local").digest()
        local = As(call, "rl_local")
        planted = {role: As(call, await make(local, role, role)) for role in (*tokens.ROLES, "worker")}
        place = Place(call, {"admin": local}, local)
        await place.fill()
        people = [Who("nobody", As(call, "")), Who("unknown", As(call, "rs_unknown"))]
        people += [Who(f"planted {role}", who, {None: role}) for role, who in planted.items()]
        await walk(place, [*people, Who("local", local, {None: "admin"})], locked=True)


RAW = [
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /livez/../metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
    b"TRACE /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nExpect: the-unexpected\r\n\r\n",
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\r\n\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nRaftsched-Peer: n2 1 " + b"0" * 64 + b"\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nRaftsched-Peer: n2 1 " + b"0" * 64 + b"\r\n\r\n",
]


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: raw.split(b"\r\n")[0].decode("latin-1")[:40])
async def test_a_locked_node_says_401_to_what_is_no_request_too(tmp_path: Path, raw: bytes) -> None:
    async with one_node(tmp_path, guarded=True) as call:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
        writer.write(raw)
        first = await reader.readline()
        writer.close()
        assert first.split()[1:2] == [b"401"], first


async def test_a_locked_node_tells_how_to_open_it_and_is_well(tmp_path: Path) -> None:
    async with one_node(tmp_path, guarded=True) as call:
        status, problem = await call("GET", "/v1/jobs")
        assert (status, problem["code"]) == (401, "locked")
        assert "raftsched tokens bootstrap --data DIR" in problem["detail"]
        for path in ("/livez", "/readyz"):
            assert (await call("GET", path))[0] == 200
            assert (await call("HEAD", path))[0] == 200


def bootstrap(name: str = "root", secret: str = "rs_mine", **more: Any) -> dict[str, Any]:
    return {"required": True, "admin": {"name": name, "sha256": sha256(secret.encode()).hexdigest()}, **more}


async def test_bootstrap_revokes_what_was_planted_and_says_what_it_found(tmp_path: Path) -> None:
    async with one_node(tmp_path, guarded=True) as call:
        call.context.security.local_digest = sha256(b"rl_local").digest()
        local = As(call, "rl_local")
        planted = As(call, await make(local, "planted", "admin"))
        rules = [{"claim": "sub", "value": "me", "role": "admin"}]
        issuer = {"issuer": "https://evil.example", "audience": "x", "rules": rules}
        assert (await local("PUT", "/v1/cluster/oidc", issuer))[0] == 200
        assert (await local("POST", "/v1/jobs", JOB))[0] == 201
        assert (await planted("PUT", "/v1/cluster/access", bootstrap()))[0] == 401
        assert (await call("PUT", "/v1/cluster/access", bootstrap()))[0] == 401
        status, said = await local("PUT", "/v1/cluster/access", bootstrap())
        assert (status, said["required"], said["token"]["name"]) == (200, True, "root")
        (found,) = said["found"]["tokens"]
        assert (found["name"], found["role"], found["state"], found["revoked_by"]) == (
            "planted", "admin", "revoked", "local at n1",
        )  # fmt: skip
        assert (said["found"]["jobs"], said["found"]["jobs_by"]) == (1, [{"by": "local at n1", "jobs": 1}])
        assert (await planted("GET", "/v1/jobs"))[0] == 401
        assert said["found"]["oidc"] == {"issuer": "https://evil.example", "state": "revoked"}
        assert (await local("GET", "/v1/cluster/oidc"))[0] == 404
        root = As(call, "rs_mine")
        assert (await root("GET", "/v1/jobs"))[0] == 200
        assert (await call("GET", "/docs"))[0] == 200
        status, again = await local("PUT", "/v1/cluster/access", bootstrap())
        assert (status, again["token"]["id"]) == (200, said["token"]["id"]), "who was not answered asks again"
        status, problem = await root("PUT", "/v1/cluster/access", {"required": False})
        assert (status, problem["code"]) == (409, "not-possible")
        assert "--open" in problem["detail"]


async def test_what_was_made_before_is_kept_when_that_is_said(call: Client) -> None:
    before = As(call, await make(call, "before", "editor"))
    rules = [{"claim": "groups", "value": "ops", "role": "operator"}]
    issuer = {"issuer": "https://login.example.com", "audience": "x", "rules": rules}
    assert (await call("PUT", "/v1/cluster/oidc", issuer))[0] == 200
    _, said = await call("PUT", "/v1/cluster/access", bootstrap(keep=True))
    assert [(one["name"], one["state"]) for one in said["found"]["tokens"]] == [("before", "active")]
    assert said["found"]["oidc"]["state"] == "active"
    assert (await before("GET", "/v1/jobs"))[0] == 200


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"required": False, "admin": {"name": "root", "sha256": "0" * 64}}, "/admin"),
        ({"required": True, "admin": {"name": "Root", "sha256": "0" * 64}}, "/admin/name"),
        ({"required": True, "admin": {"name": "anonymous", "sha256": "0" * 64}}, "/admin/name"),
        ({"required": True, "admin": {"name": "root", "sha256": "0" * 63}}, "/admin/sha256"),
        ({"required": True, "keep": True}, "/keep"),
    ],
)
async def test_what_is_wrong_with_a_first_admin(call: Client, body: Any, pointer: str) -> None:
    status, problem = await call("PUT", "/v1/cluster/access", body)
    assert (status, problem["code"], problem["errors"][0]["pointer"]) == (422, "invalid-body", pointer)
    assert (await call("GET", "/v1/cluster/access"))[1] == {"required": False}


async def test_others_hear_of_the_first_admin(tmp_path: Path) -> None:
    """A node that has not applied it yet asks how far the log is before it refuses; when it cannot, it stays shut."""
    async with one_node(tmp_path, guarded=True) as call:
        call.context.security.local_digest = sha256(b"rl_local").digest()
        cluster, context = call.cluster, call.context
        root = As(call, "rs_mine")

        async def behind(timeout_s: float) -> int | None:
            return None

        context.log.committed = behind
        assert (await root("GET", "/v1/jobs"))[0] == 401, "and not 503: nothing is told to who is not let in"

        async def committed(timeout_s: float) -> int | None:
            cluster.apply(SetAccess(True, b"s" * 32, None, "root", sha256(b"rs_mine").digest()))
            return cluster.store.applied_index

        context.log.committed = committed
        cluster.clock.forward(2_000)
        assert (await root("GET", "/v1/jobs"))[0] == 200


def test_a_cluster_with_a_node_beyond_loopback_is_not_opened_from_another(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2"))
        try:
            async with serving(cluster, "n1") as call:
                await call("PUT", "/v1/cluster/access", bootstrap())
                root = As(call, "rs_mine")
                cluster.http["n2"] = "10.0.0.2:7401"
                assert (await root("PUT", "/v1/cluster/access", {"required": False}))[0] == 409
                call.context.security.open = True  # was started to be open
                assert (await root("PUT", "/v1/cluster/access", {"required": False}))[0] == 200
                await call("PUT", "/v1/cluster/access", bootstrap("root-2", "rs_2"))
                call.context.security.open = False
                cluster.http["n2"] = "127.0.0.1:7402"
                assert (await As(call, "rs_2")("PUT", "/v1/cluster/access", {"required": False}))[0] == 200
        finally:
            cluster.close()

    asyncio.run(main())


async def test_a_cluster_is_open_until_it_is_told_otherwise(call: Client) -> None:
    viewer = As(call, await make(call, "v", "viewer"))
    for who in (As(call, ""), viewer, As(call, "rs_unknown")):
        assert (await who("POST", "/v1/jobs", JOB))[0] == 201
        assert (await who("GET", "/v1/tokens"))[0] == 200


async def test_who_turns_it_on_shows_a_token_that_lasts(call: Client) -> None:
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


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer rs_x rs_y", "Basic YTpi", "rs_x", "Bearer \xe9"])
async def test_what_is_no_token_opens_nothing(call: Client, header: str) -> None:
    await guarded(call)
    for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/jobs", JOB)):
        status, problem = await call(method, path, body, {"Authorization": header})
        assert (status, problem["code"]) == (401, "unauthorized")


async def test_the_short_way_asks_for_tokens_too(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """POST /v1/jobs as most send it is not answered by aiohttp; with an unknown header it is."""
    verdicts = short_way_taken(monkeypatch)
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
    verdicts.clear()
    for who, wanted in (("nobody", 401), ("viewer", 403), ("editor", 201), ("admin", 201)):
        assert (await post_job(people[who], JOB))[0] == wanted
    assert (await post_job(mine, JOB))[0] == 403
    assert (await post_job(mine, {**JOB, "namespace": "mine"}))[0] == 201
    assert len(verdicts) == 6
    assert all(verdict >= 0 for verdict in verdicts)


async def test_a_token_ends(call: Client) -> None:
    people = await guarded(call)
    soon = As(call, await make(people["admin"], "soon", "editor", expires_at="2030-01-01T00:00:10Z"))
    assert (await soon("GET", "/v1/jobs"))[0] == 200
    call.cluster.clock.forward(9_999)
    assert (await soon("POST", "/v1/jobs", JOB))[0] == 201
    call.cluster.clock.forward(1)
    for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/jobs", JOB)):
        status, problem = await soon(method, path, body)
        assert (status, problem["code"]) == (401, "unauthorized")
    assert "invalid_token" in call.headers["WWW-Authenticate"]
    _, listed = await people["admin"]("GET", "/v1/tokens")
    assert [one["state"] for one in listed["items"] if one["name"] == "soon"] == ["expired"]


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
        now = cluster.clock.wall
        for header in ("n1", f"n1 {now} {'0' * 64}", f"n1 {now - 100_000} {'0' * 64}", ""):
            assert (await call("GET", "/v1/cluster", headers={PEER: header}))[0] == 401

    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2"))
        try:
            async with serving(cluster, "n1") as client:
                await test(client)
        finally:
            cluster.close()

    asyncio.run(main())


async def test_a_locked_node_answers_the_other_nodes(tmp_path: Path) -> None:
    """Each call once, also behind the lock; and no call makes another one pass."""
    async with one_node(tmp_path, guarded=True) as call:
        now = call.cluster.clock.wall
        (key, *_) = call.context.security.peer_keys
        said = {PEER: peer_said(key, "n2", "n1", "/v1/cluster", now)}
        assert (await call("GET", "/v1/cluster", headers=said))[0] == 200
        assert (await call("GET", "/v1/cluster", headers=said))[0] == 401, "it was said before"
        other = {PEER: peer_said(key, "n2", "n1", "/v1/cluster", now)}
        assert (await call("GET", "/v1/jobs", headers=other))[0] == 401


async def test_the_secret_of_the_data_directory_opens_its_node(call: Client) -> None:
    await guarded(call)
    local = As(call, "rl_local")
    assert (await local("GET", "/v1/jobs"))[0] == 401
    call.context.security.local_digest = sha256(b"rl_local").digest()
    assert (await local("POST", "/v1/tokens", {"name": "again", "role": "admin"}))[0] == 201
    assert (await local("PUT", "/v1/cluster/access", {"required": True}))[0] == 200  # as it is already
    _, found = await local("GET", "/v1/audit?actor=local%20at%20n1")
    assert [one["operation"] for one in found["items"]] == ["tokens_create"]


def test_the_description_says_who_may() -> None:
    made = document()
    assert made["components"]["securitySchemes"]["token"] == {
        "type": "http", "scheme": "bearer",
        "description": made["components"]["securitySchemes"]["token"]["description"],
    }  # fmt: skip
    for route in ROUTES:
        said = route.operation
        one = made["paths"][route.path][route.method.lower()]
        if said.role == "open":
            assert one["security"] == []
            refusals = str(one["responses"].get("401", "")).lower()
            assert ("locked" in refusals) is (route.path not in HEALTH)
            assert "unauthorized" not in refusals
        else:
            assert one["x-role"] == said.role
            assert {"401", "403"} <= one["responses"].keys(), route.operation_id
    assert role_of(ROUTES[0].operation) is Role.EDITOR


async def test_basic_is_not_bearer(call: Client) -> None:
    people = await guarded(call)
    given = base64.b64encode(f"x:{people['admin'].secret}".encode()).decode()
    assert (await call("GET", "/v1/jobs", headers={"Authorization": f"Basic {given}"}))[0] == 401
