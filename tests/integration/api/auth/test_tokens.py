"""/v1/tokens: made, listed, read, revoked; what is wrong with one is named; a secret is kept nowhere."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from raftsched.core.tables import Table
from tests.support.local_api import Client
from tests.support.tokens import As, guarded, make

CI = {"name": "ci", "role": "editor"}


async def test_a_life_of_a_token(call: Client) -> None:
    given = {**CI, "namespaces": ["b", "a", "b"], "expires_at": "2031-01-01T00:00:00Z"}
    status, made = await call("POST", "/v1/tokens", given)
    assert status == 201
    assert call.headers["Location"] == f"/v1/tokens/{made['id']}"
    secret = made.pop("secret")
    assert secret.startswith("rs_")
    assert len(secret) == 46
    assert made == {
        "id": made["id"], "name": "ci", "role": "editor", "namespaces": ["a", "b"], "state": "active",
        "created_at": "2030-01-01T00:00:00.000Z", "created_by": None, "expires_at": "2031-01-01T00:00:00.000Z",
        "revoked_at": None, "revoked_by": None, "grants": [], "rate": None, "burst": None, "queues": None,
    }  # fmt: skip
    assert (await call("GET", f"/v1/tokens/{made['id']}")) == (200, made)
    assert (await call("GET", "/v1/tokens"))[1]["items"] == [made]
    assert (await call("POST", "/v1/tokens", CI))[1]["code"] == "name-taken"
    root = As(call, await make(call, "root", "admin"))
    for _ in range(2):
        assert (await root("DELETE", f"/v1/tokens/{made['id']}"))[0] == 204
    _, shown = await call("GET", f"/v1/tokens/{made['id']}")
    assert (shown["state"], shown["revoked_by"], shown["revoked_at"]) == (
        "revoked", "root", "2030-01-01T00:00:00.000Z",
    )  # fmt: skip
    for path in ("/v1/tokens/0000000000001", "/v1/tokens/x"):
        assert (await call("GET", path))[0] == 404
        assert (await call("DELETE", path))[0] == 404


async def test_a_secret_is_kept_nowhere(call: Client) -> None:
    _, plain = await call("POST", "/v1/tokens", CI)
    _, named = await call("POST", "/v1/tokens", {**CI, "name": "cd"}, {"Idempotency-Key": "a-key-of-mine"})
    with call.cluster.store.read() as view:
        rows = [key + b"|" + value for table in Table for key, value in view.scan(table)]
    for made in (plain, named):
        assert any(sha256(made["secret"].encode()).digest() in row for row in rows), "this is how it is known again"
        assert not any(made["secret"][3:].encode() in row for row in rows)
    assert not any(b"a-key-of-mine" in row for row in rows), "with it the secret could be made again"


async def test_under_a_key_the_secret_is_the_same_and_nobody_elses(call: Client) -> None:
    key = {"Idempotency-Key": "k"}
    _, first = await call("POST", "/v1/tokens", CI, key)
    assert await call("POST", "/v1/tokens", CI, key) == (201, first)
    _, other = await call("POST", "/v1/tokens", {**CI, "name": "cd"}, {"Idempotency-Key": "l"})
    assert other["secret"] != first["secret"]
    people = await guarded(call)
    _, third = await people["admin"]("POST", "/v1/tokens", {**CI, "name": "ce"}, key)
    assert third["secret"] not in (first["secret"], other["secret"])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/name"),
        ({}, "/role"),
        ([], ""),
        ({"role": "editor"}, "/name"),
        ({"name": "x"}, "/role"),
        ({**CI, "role": "root"}, "/role"),
        ({**CI, "role": None}, "/role"),
        ({**CI, "name": ""}, "/name"),
        ({**CI, "name": ".x"}, "/name"),
        ({**CI, "name": "A"}, "/name"),
        ({**CI, "name": "x" * 65}, "/name"),
        ({**CI, "name": "anonymous"}, "/name"),
        ({**CI, "name": "a\n"}, "/name"),
        ({**CI, "namespaces": []}, "/namespaces"),
        ({**CI, "namespaces": ["a", "B"]}, "/namespaces/1"),
        ({**CI, "namespaces": ["a"] * 101}, "/namespaces"),
        ({**CI, "namespaces": "a"}, "/namespaces"),
        ({**CI, "role": "admin", "namespaces": ["a"]}, "/namespaces"),
        ({**CI, "expires_at": "tomorrow"}, "/expires_at"),
        ({**CI, "expires_at": "2029-01-01T00:00:00Z"}, "/expires_at"),
        ({**CI, "secret": "rs_mine"}, "/secret"),
        ({**CI, "grants": None}, "/grants"),
        ({**CI, "grants": [{"namespace": "a"}]}, "/grants/0/role"),
        ({**CI, "grants": [{"namespace": "A", "role": "operator"}]}, "/grants/0/namespace"),
        ({**CI, "grants": [{"namespace": "a", "role": "admin"}]}, "/grants/0/role"),
        ({**CI, "grants": [{"namespace": "a", "role": "editor"}]}, "/grants/0/role"),
        ({**CI, "role": "admin", "grants": [{"namespace": "a", "role": "operator"}]}, "/grants/0/role"),
        ({**CI, "namespaces": ["a"], "grants": [{"namespace": "a", "role": "viewer"}]}, "/grants/0/role"),
        ({**CI, "grants": [{"namespace": "a", "role": "operator"}] * 2}, "/grants/1/namespace"),
        ({**CI, "grants": [{"namespace": f"n{n}", "role": "operator"} for n in range(101)]}, "/grants"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, body: Any, pointer: str) -> None:
    status, problem = await call("POST", "/v1/tokens", body)
    assert (status, problem["code"]) == (422, "invalid-body")
    assert pointer in [error["pointer"] for error in problem["errors"]], problem
    assert (await call("GET", "/v1/tokens"))[1]["items"] == []


@pytest.mark.parametrize("body", [{}, {"required": "yes"}, {"required": None}, {"required": True, "x": 1}, []])
async def test_what_is_wrong_with_access_is_named(call: Client, body: Any) -> None:
    root = As(call, await make(call, "root", "admin"))
    status, problem = await root("PUT", "/v1/cluster/access", body)
    assert (status, problem["code"]) == (422, "invalid-body")
    assert (await call("GET", "/v1/cluster/access"))[1] == {"required": False}


async def test_access_is_changed_as_it_was_read(call: Client) -> None:
    root = As(call, await make(call, "root", "admin"))
    await root("GET", "/v1/cluster/access")
    tag = call.headers["ETag"]
    assert (await root("PUT", "/v1/cluster/access", {"required": True}, {"If-Match": '"9"'}))[0] == 412
    assert (await root("PUT", "/v1/cluster/access", {"required": True}, {"If-Match": tag}))[0] == 200
    assert (await root("PUT", "/v1/cluster/access", {"required": False}, {"If-Match": tag}))[0] == 412
    await root("GET", "/v1/cluster/access")
    assert (await root("PUT", "/v1/cluster/access", {"required": False}, {"If-Match": call.headers["ETag"]}))[0] == 200


async def test_pages(call: Client) -> None:
    for number in range(5):
        await make(call, f"t{number}", "viewer")
    names, cursor = [], ""
    while True:
        _, page = await call("GET", f"/v1/tokens?limit=2{cursor}")
        names += [one["name"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert names == [f"t{number}" for number in range(5)]
