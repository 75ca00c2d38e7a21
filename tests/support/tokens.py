"""Requests with tokens: a cluster that wants them, and one client for each role."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import aiohttp

from tests.support.local_api import Client

ROLES = ("viewer", "editor", "operator", "admin")


def unknown(name: str) -> str:
    """A secret as nodes make them, of a token that nobody made."""
    return "rs_" + urlsafe_b64encode(sha256(name.encode()).digest()).rstrip(b"=").decode()


class As:
    """Asks with a token; an empty one: with none."""

    def __init__(self, call: Client, secret: str) -> None:
        self.call = call
        self.secret = secret
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    async def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        return await self.call(method, path, body, {**self.headers, **(headers or {})})


async def post_job(who: As, job: Any) -> tuple[int, Any]:
    """By a connection of its own, which POST /v1/jobs takes the fast path on: one that had anything else is aiohttp's
    from then on."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{who.call.url}/v1/jobs", json=job, headers=who.headers) as answer,
    ):
        return answer.status, await answer.json(content_type=None)


async def make(call: Any, name: str, role: str, **more: Any) -> str:
    """The secret."""
    status, made = await call("POST", "/v1/tokens", {"name": name, "role": role, **more})
    assert status == 201, made
    secret: str = made["secret"]
    return secret


async def guarded(call: Client) -> dict[str, As]:
    """Tokens are required from here on. Clients by their roles, "nobody" among them."""
    found = {role: As(call, await make(call, role, role)) for role in ROLES}
    status, answer = await found["admin"]("PUT", "/v1/cluster/access", {"required": True})
    assert (status, answer) == (200, {"required": True})
    return {**found, "nobody": As(call, "")}


async def limited(admin: As, name: str, role: str, *namespaces: str) -> As:
    return As(admin.call, await make(admin, name, role, namespaces=list(namespaces)))
