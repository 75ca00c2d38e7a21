"""An OpenID Connect issuer for tests: discovery, keys that rotate, tokens of any kind, the device flow (RFC 8628)."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from raftsched.api.auth.issuer import FETCH_S
from tests.support.patience import patient

AUDIENCE = "raftsched"
CLIENT = "raftsched-cli"


@cache
def rsa_key(number: int, bits: int = 2_048) -> rsa.RSAPrivateKey:
    """Made once for all tests: that takes a while."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def ec_key(number: int) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key(number: int) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def jwk_of(kid: str | None, key: Any) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        made = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        made = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        made = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"use": "sig", **made, **({} if kid is None else {"kid": kid})}


class FakeIssuer:
    """`keys`: by kid, those that are shown. `document`: answers of the two documents, when they are not as they should
    be. `fetched`: how often the keys were asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, Any] = {"rsa-1": rsa_key(1), "ec-1": ec_key(1)}
        self.configuration: web.Response | None = None
        self.documents: dict[str, Any] = {}
        self.jwks: bytes | None = None
        self.down = False
        self.fetched = 0
        self.now = 1_893_456_000  # seconds: the time of the tests' clock
        self.grants: dict[str, dict[str, Any]] = {}  # device codes
        self.refresh: dict[str, dict[str, Any]] = {}
        self.when_asked: Callable[[], None] = lambda: None  # somebody waits for a device to be let in
        self.revoked: list[str] = []
        self.given = 0

    def claims(self, **more: Any) -> dict[str, Any]:
        """Of a token that is good; None takes a claim out."""
        made = {
            "iss": self.url, "aud": AUDIENCE, "sub": "248289761001", "iat": self.now, "exp": self.now + 300, **more,
        }  # fmt: skip
        return {name: value for name, value in made.items() if value is not None}

    def token(
        self, *, kid: str = "rsa-1", alg: str | None = None, headers: dict[str, Any] | None = None, **more: Any
    ) -> str:
        key = self.keys[kid]
        usual = {rsa.RSAPrivateKey: "RS256", ed25519.Ed25519PrivateKey: "EdDSA"}
        said = {name: value for name, value in {"kid": kid, **(headers or {})}.items() if value is not None}
        algorithm = alg or next((a for kind, a in usual.items() if isinstance(key, kind)), "ES256")
        return jwt.encode(self.claims(**more), key, algorithm, headers=said)

    # ------------------------------------------------------------ what it answers

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._configuration)
        app.router.add_get("/keys", self._keys)
        app.router.add_get("/elsewhere", self._moved)
        app.router.add_post("/device", self._device)
        app.router.add_post("/token", self._token)
        app.router.add_post("/revoke", self._revoke)
        return app

    async def _configuration(self, request: web.Request) -> web.Response:
        if self.down:
            raise web.HTTPServiceUnavailable
        return await self._moved(request) if self.configuration is None else self.configuration

    async def _moved(self, request: web.Request) -> web.Response:
        found = {
            "issuer": self.url, "jwks_uri": f"{self.url}/keys", "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device", "revocation_endpoint": f"{self.url}/revoke",
        }  # fmt: skip
        return web.json_response({**found, **self.documents})

    async def _keys(self, request: web.Request) -> web.Response:
        if self.down:
            raise web.HTTPServiceUnavailable
        self.fetched += 1
        if self.jwks is not None:
            return web.Response(body=self.jwks)
        return web.json_response({"keys": [jwk_of(kid, key) for kid, key in self.keys.items()]})

    async def _device(self, request: web.Request) -> web.Response:
        given = await request.post()
        if given.get("client_id") != CLIENT:
            return web.json_response({"error": "invalid_client"}, status=401)
        code = f"device-{len(self.grants)}"
        self.grants[code] = {"state": "waits", "scope": given.get("scope", "")}
        return web.json_response(
            {
                "device_code": code,
                "user_code": "WDJB-MJHT",
                "verification_uri": f"{self.url}/activate",
                "expires_in": 600,
                "interval": 0,
            }
        )

    def let_in(self, **claims: Any) -> None:
        """All that wait."""
        for grant in self.grants.values():
            if grant["state"] == "waits":
                grant.update(state="in", claims=claims)

    def refuse(self) -> None:
        for grant in self.grants.values():
            grant["state"] = "refused"

    async def _token(self, request: web.Request) -> web.Response:
        given = await request.post()
        if given["grant_type"] == "refresh_token":
            claims = self.refresh.pop(str(given["refresh_token"]), None)
            return web.json_response({"error": "invalid_grant"}, status=400) if claims is None else self._tokens(claims)
        assert given["grant_type"] == "urn:ietf:params:oauth:grant-type:device_code"
        grant = self.grants.get(str(given["device_code"]))
        self.when_asked()
        if grant is None or grant["state"] == "refused":
            return web.json_response({"error": "access_denied"}, status=400)
        if grant["state"] == "waits":
            return web.json_response({"error": "authorization_pending"}, status=400)
        return self._tokens(grant["claims"])

    def _tokens(self, claims: dict[str, Any]) -> web.Response:
        self.given += 1
        name = f"refresh-{self.given}"
        self.refresh[name] = claims
        token = self.token(**claims)
        made = {"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": token}
        return web.json_response({**made, "refresh_token": name})

    async def _revoke(self, request: web.Request) -> web.Response:
        self.revoked.append(str((await request.post())["token"]))
        return web.Response()


@asynccontextmanager
async def issuing() -> AsyncIterator[FakeIssuer]:
    """An issuer on loopback. Nodes of this process wait for its keys as long as this machine needs."""
    issuer = FakeIssuer()
    runner = web.AppRunner(issuer.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        assert site._server is not None
        issuer.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
        with patch("raftsched.api.auth.issuer.FETCH_S", patient(FETCH_S)):
            yield issuer
    finally:
        await runner.cleanup()


@contextmanager
def issuing_beside() -> Iterator[FakeIssuer]:
    """The same in a thread of its own: for commands, which wait."""
    ready: queue.SimpleQueue[tuple[FakeIssuer, asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        async with issuing() as issuer:
            done = asyncio.Event()
            ready.put((issuer, asyncio.get_running_loop(), done))
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    issuer, loop, done = ready.get(timeout=patient(30))
    try:
        yield issuer
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(patient(30))


def as_setting(issuer: FakeIssuer, **more: Any) -> dict[str, Any]:
    """Groups are roles; "web" edits there and reads in "billing"."""
    rules = [
        {"claim": "groups", "value": "admins", "role": "admin"},
        {"claim": "groups", "value": "ops", "role": "operator"},
        {"claim": "groups", "value": "web", "role": "editor", "namespaces": ["web"]},
        {"claim": "groups", "value": "web", "role": "viewer", "namespaces": ["billing"]},
        {"claim": "groups", "value": "all", "role": "viewer"},
    ]
    return {"issuer": issuer.url, "audience": AUDIENCE, "rules": rules, **more}


def text(value: Any) -> bytes:
    return json.dumps(value).encode()
