"""Tokens of an OpenID Connect issuer: what is taken, what is refused and why, and when the issuer is asked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web

from raftsched.api.auth import issuer as issuers
from raftsched.api.auth import unknown_tokens
from raftsched.api.auth.access import still_holds
from raftsched.api.auth.callers import Caller
from raftsched.api.context import ApiContext
from raftsched.api.http import streams
from tests.integration.api.http.test_fastpath import short_way_taken
from tests.support import sse
from tests.support.issuer import CLIENT, FakeIssuer, as_setting, ec_key, ed_key, issuing, jwk_of, rsa_key, text
from tests.support.local_api import Client, run
from tests.support.patience import until
from tests.support.tokens import As, guarded, post_job

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


class Bed:
    """A cluster that takes the tokens of an issuer."""

    def __init__(self, call: Client, issuer: FakeIssuer, admin: As) -> None:
        self.call, self.issuer, self.admin = call, issuer, admin

    def bearer(self, token: str) -> As:
        return As(self.call, token)

    def who(self, *groups: str, **more: Any) -> As:
        return As(self.call, self.issuer.token(groups=list(groups), **more))

    async def set(self, **more: Any) -> Any:
        status, answer = await self.admin("PUT", "/v1/cluster/oidc", as_setting(self.issuer, **more))
        assert status == 200, answer
        return answer

    def later(self, seconds: float) -> None:
        """For the node: its clocks both."""
        self.call.cluster.clock.forward(int(seconds * 1_000))

    async def refused(self, token: str) -> str:
        """Why it is, by both ways in."""
        found = []
        for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/jobs", JOB)):
            status, answer = await self.bearer(token)(method, path, body)
            assert (status, answer["code"]) == (401, "unauthorized"), answer
            assert "invalid_token" in self.call.headers["WWW-Authenticate"]
            found.append(answer["detail"])
        assert found[0] == found[1]
        return str(found[0])


def trusting(directory: Path, test: Callable[[Bed], Awaitable[None]], **more: Any) -> None:
    async def inside(call: Client) -> None:
        async with issuing() as issuer:
            issuer.now = call.cluster.clock.wall // 1_000
            people = await guarded(call)
            bed = Bed(call, issuer, people["admin"])
            await bed.set(**more)
            await test(bed)

    run(directory, inside)


def test_groups_are_roles(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        for groups, wanted in ((["all"], 403), (["ops"], 201), (["admins", "all"], 201)):
            who = bed.who(*groups)
            assert (await who("GET", "/v1/jobs"))[0] == 200
            for more in ({}, {"X-Ordinary": "1"}):
                assert (await who("POST", "/v1/jobs", JOB, more))[0] == wanted, groups
        assert (await bed.who("admins")("GET", "/v1/tokens"))[0] == 200
        assert (await bed.who("ops")("GET", "/v1/tokens"))[0] == 403
        assert bed.issuer.fetched == 1, "keys are asked for once"

    trusting(tmp_path, test)


def test_the_short_way_takes_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = short_way_taken(monkeypatch)

    async def test(bed: Bed) -> None:
        verdicts.clear()
        good, bad = bed.who("web"), bed.who("web", aud="others")
        for _ in range(2):
            for who, namespace, wanted in ((good, "web", 201), (good, "billing", 403), (bad, "web", 401)):
                status, answer = await post_job(who, {**JOB, "namespace": namespace})
                assert status == wanted, answer
        assert '"aud"' in (await post_job(bad, JOB))[1]["detail"]
        assert (await post_job(bed.who(), JOB))[0] == 403
        assert len(verdicts) == 8
        assert all(verdict >= 0 for verdict in verdicts)

    trusting(tmp_path, test)


def test_rules_with_namespaces_are_roles_there(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        who = bed.who("web")
        for namespace, wanted in (("web", 201), ("billing", 403), ("default", 403)):
            status, answer = await who("POST", "/v1/jobs", {**JOB, "namespace": namespace})
            assert status == wanted, answer
        assert (await who("GET", "/v1/jobs?namespace=billing"))[0] == 200
        assert (await who("GET", "/v1/jobs?namespace=default"))[0] == 403
        assert (await who("GET", "/v1/jobs"))[0] == 403
        _, me = await who("GET", "/v1/whoami")
        assert me == {
            "kind": "oidc", "name": "oidc:248289761001", "role": "viewer", "namespaces": [],
            "grants": [{"namespace": "billing", "role": "viewer"}, {"namespace": "web", "role": "editor"}],
            "expires_at": "2030-01-01T00:05:30.000Z", "issuer": bed.issuer.url, "subject": "248289761001",
            "queues": None,
        }  # fmt: skip
        _, me = await bed.who("web", "all")("GET", "/v1/whoami")
        assert (me["namespaces"], me["grants"]) == (None, [{"namespace": "web", "role": "editor"}])

    trusting(tmp_path, test)


def test_whom_no_rule_fits_is_told_so(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        for groups in ([], ["none"], ["admin"], ["ALL"]):
            for _ in range(2):
                for method, path, body in (("GET", "/v1/whoami", None), ("POST", "/v1/jobs", JOB)):
                    status, answer = await bed.who(*groups)(method, path, body)
                    assert (status, answer["code"]) == (403, "forbidden")
                    assert "No rule" in answer["detail"]
        for groups in ("all", {"all": 1}, [["all"]], None, 7, [7, None, "all"]):
            status, _ = await bed.bearer(bed.issuer.token(groups=groups))("GET", "/v1/whoami")
            assert status == (200 if groups in ("all", [7, None, "all"]) else 403), groups

    trusting(tmp_path, test)


def test_claims_within_claims(tmp_path: Path) -> None:
    rules = [{"claim": "realm_access.roles", "value": "ops", "role": "viewer"},
             {"claim": "email_verified", "value": "true", "role": "editor"}]  # fmt: skip

    async def test(bed: Bed) -> None:
        for claims, wanted in (
            ({"realm_access": {"roles": ["ops"]}}, "viewer"),
            ({"realm_access.roles": "ops"}, "viewer"),
            ({"email_verified": True}, "editor"),
            ({"realm_access": ["roles"], "email_verified": False}, None),
        ):
            status, me = await bed.bearer(bed.issuer.token(**claims))("GET", "/v1/whoami")
            assert (me["role"] if status == 200 else None) == wanted

    trusting(tmp_path, test, rules=rules)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"aud": "somebody"}, '"aud"'),
        ({"aud": None}, '"aud"'),
        ({"aud": ["x", "y"]}, '"aud"'),
        ({"aud": {"raftsched": 1}}, '"aud"'),
        ({"aud": ["raftsched", "x"]}, "several"),
        ({"aud": ["raftsched", "x"], "azp": "x"}, '"azp"'),
        ({"azp": "another-client"}, '"azp"'),
        ({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}, '"events"'),
        ({"exp": 1_893_455_969}, "past its end"),
        ({"exp": None}, "no end"),
        ({"exp": "2099-01-01"}, '"exp" is no time'),
        ({"exp": True}, '"exp" is no time'),
        ({"nbf": 1_893_456_031}, '"nbf"'),
        ({"iat": 1_893_456_031}, '"iat"'),
        ({"sub": None}, '"sub"'),
        ({"sub": ""}, '"sub"'),
        ({"sub": "a b"}, '"sub"'),
        ({"sub": "x" * 256}, '"sub"'),
        ({"headers": {"typ": "logout+jwt"}}, "type"),
        ({"headers": {"typ": "dpop+jwt"}}, "type"),
        ({"alg": "RS512"}, "algorithm"),
        ({"alg": "PS256"}, "algorithm"),
        ({"headers": {"crit": ["x"], "x": 1}}, "crit"),
        ({"kid": "ec-1", "headers": {"kid": "rsa-1"}}, "a key that its issuer does not show"),
        ({"headers": {"kid": "unknown"}}, "a key that its issuer does not show"),
    ],
)
def test_what_is_refused(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    async def test(bed: Bed) -> None:
        said = await bed.refused(bed.issuer.token(groups=["admins"], **more))
        assert why in said, said

    trusting(tmp_path, test, client_id=CLIENT)


@pytest.mark.parametrize(
    "more",
    [
        {"exp": 1_893_455_971},
        {"nbf": 1_893_456_029, "iat": 1_893_456_029},
        {"nbf": None, "iat": None},
        {"aud": ["raftsched"]},
        {"aud": ["raftsched", "x"], "azp": CLIENT},
        {"azp": CLIENT},
        {"headers": {"typ": "at+jwt"}},
        {"kid": "ec-1"},
        {"headers": {"jku": "https://127.0.0.1:1/", "x5u": "https://127.0.0.1:1/", "jwk": {"kty": "oct", "k": "AA"}}},
        {"exp": 1_893_456_300.5},
    ],
)
def test_what_is_taken(tmp_path: Path, more: dict[str, Any]) -> None:
    async def test(bed: Bed) -> None:
        assert (await bed.bearer(bed.issuer.token(groups=["all"], **more))("GET", "/v1/jobs"))[0] == 200

    trusting(tmp_path, test, client_id=CLIENT)


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_forged_tokens(tmp_path: Path) -> None:
    """alg none, HS256 with the public key, another issuer's key, changed claims, no signature, what is no JWT."""

    async def test(bed: Bed) -> None:
        issuer = bed.issuer
        claims = issuer.claims(groups=["admins"])
        good = issuer.token(groups=["all"])
        head, payload, signature = good.split(".")
        forged = _b64(json.dumps(claims).encode())
        for algorithm in ("none", "None", "NONE", ""):
            header = _b64(json.dumps({"alg": algorithm, "typ": "JWT", "kid": "rsa-1"}).encode())
            assert "algorithm" in await bed.refused(f"{header}.{forged}.{signature}")
            assert "no signed JWT" in await bed.refused(f"{header}.{forged}.")
        public = rsa_key(1).public_key()
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        for secret in (
            public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            json.dumps(jwk_of("rsa-1", rsa_key(1))).encode(),
        ):
            header = _b64(b'{"alg":"HS256","typ":"JWT","kid":"rsa-1"}')
            signed = f"{header}.{forged}"
            mac = _b64(hmac.new(secret, signed.encode(), hashlib.sha256).digest())
            assert "algorithm" in await bed.refused(f"{signed}.{mac}")
        assert "signature" in await bed.refused(f"{head}.{forged}.{signature}")
        other = jwt.encode(claims, rsa_key(7), "RS256", headers={"kid": "rsa-1", "jwk": jwk_of("rsa-1", rsa_key(7))})
        assert "signature" in await bed.refused(other)
        for name in ("alg", "typ", "kid"):
            header = _b64(json.dumps({"alg": "RS256", "kid": "rsa-1", name: ["RS256"]}).encode())
            await bed.refused(f"{header}.{payload}.{signature}")
        for odd in (
            "eyJ.a.b",
            "ey..",
            f"{head}.{payload}",
            f"{good}.x",
            f"{head}.{payload}.{signature}=",
            "ey" + "[" * 4_000 + ".a.b",
        ):
            await bed.refused(odd)
        deep = _b64(b'{"alg":' + b"[" * 2_500 + b"]" * 2_500 + b"}")
        await bed.refused(f"{deep}.{payload}.{signature}")

    trusting(tmp_path, test)


def test_huge_tokens(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        for size in (7_000, 20_000):
            token = bed.issuer.token(groups=["all"], more="x" * size)
            status, _ = await bed.bearer(token)("GET", "/v1/jobs")
            assert status in (400, 401), size
        assert (await bed.bearer(bed.issuer.token(groups=["all"], more="x" * 4_500))("GET", "/v1/jobs"))[0] == 200

    trusting(tmp_path, test)


def test_another_issuer(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        for other in ("https://127.0.0.1:1", bed.issuer.url + "/", None):
            await bed.refused(bed.issuer.token(groups=["admins"], iss=other))
        assert bed.issuer.fetched <= 1

    trusting(tmp_path, test)


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES256", "EdDSA"])
def test_algorithms(tmp_path: Path, algorithm: str) -> None:
    async def test(bed: Bed) -> None:
        bed.issuer.keys["ed-1"] = ed_key(1)
        kid = {"ES256": "ec-1", "EdDSA": "ed-1"}.get(algorithm, "rsa-1")
        assert (await bed.bearer(bed.issuer.token(kid=kid, alg=algorithm, groups=["all"]))("GET", "/v1/jobs"))[0] == 200
        other = bed.issuer.token(kid="ec-1" if kid != "ec-1" else "rsa-1", groups=["all"])
        assert "another algorithm" in await bed.refused(other)

    trusting(tmp_path, test, algorithms=[algorithm])


def test_keys_that_are_no_good(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        issuer = bed.issuer
        issuer.keys["small"] = rsa_key(2, 1_024)
        shown = [
            {"kty": "oct", "k": "AAAA", "kid": "oct"},
            {**jwk_of("rsa-1", rsa_key(1)), "use": "enc"},
            {**jwk_of("ec-1", ec_key(1)), "alg": "ES512"},
            {**jwk_of("rsa-2", rsa_key(2)), "key_ops": ["encrypt"]},
            jwk_of("small", rsa_key(2, 1_024)),
            {"kty": ["RSA"]}, {"kty": "RSA", "n": 1, "e": "AQAB"}, "x", None,
            {"kty": "RSA", "n": "!!", "e": "AQAB", "kid": "broken"},
        ]  # fmt: skip
        issuer.jwks = text({"keys": shown})
        issuer.keys["rsa-2"] = rsa_key(2)
        for kid in ("rsa-1", "ec-1", "rsa-2", "small"):
            with pytest.warns() if kid == "small" else _nothing():
                token = issuer.token(kid=kid, groups=["all"])
            assert "key" in await bed.refused(token), kid
        assert "signature" in await bed.refused(issuer.token(kid="rsa-1", headers={"kid": "broken"}, groups=["all"]))

    trusting(tmp_path, test)


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_a_token_that_names_no_key(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        token = bed.issuer.token(groups=["all"], headers={"kid": None})
        assert (await bed.bearer(token)("GET", "/v1/jobs"))[0] == 200, "there is one that fits"
        bed.issuer.keys["rsa-2"] = rsa_key(2)
        bed.later(issuers.FRESH_S)
        bed.issuer.now += int(issuers.FRESH_S)
        await bed.refused(bed.issuer.token(groups=["all"], headers={"kid": "unknown"}))
        assert '"kid"' in await bed.refused(bed.issuer.token(groups=["all"], headers={"kid": None}))

    trusting(tmp_path, test)


def test_keys_rotate(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        issuer = bed.issuer
        old = bed.who("all", exp=issuer.now + 3_000)
        assert (await old("GET", "/v1/jobs"))[0] == 200
        issuer.keys = {"rsa-2": rsa_key(2)}
        bed.later(issuers.AGAIN_S)
        new = bed.who("all", kid="rsa-2", exp=issuer.now + 3_000)
        assert (await new("GET", "/v1/jobs"))[0] == 200
        assert issuer.fetched == 2
        bed.later(issuers.AGAIN_S)
        assert (await old("GET", "/v1/jobs"))[0] == 401, "its key is not shown any more"

    trusting(tmp_path, test)


def test_strangers_do_not_make_a_node_ask(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        assert (await bed.who("all")("GET", "/v1/jobs"))[0] == 200
        for number in range(20):
            await bed.refused(bed.issuer.token(groups=["all"], headers={"kid": f"k{number}"}))
        assert bed.issuer.fetched == 1
        bed.later(issuers.AGAIN_S)
        many = [bed.bearer(bed.issuer.token(groups=["all"], headers={"kid": f"m{n}"})) for n in range(20)]
        answers = await asyncio.gather(*(_status(one) for one in many))
        assert set(answers) == {401}
        assert bed.issuer.fetched == 2

    trusting(tmp_path, test)


async def _status(who: As) -> int:
    async with who.call.session.get(f"{who.call.url}/v1/jobs", headers=who.headers) as answer:
        return answer.status


def test_the_issuer_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "STALE_S", 10_000.0)

    async def test(bed: Bed) -> None:
        issuer = bed.issuer
        issuer.down = True
        status, answer = await bed.who("all")("GET", "/v1/jobs")
        assert (status, answer["code"]) == (503, "overloaded")
        assert "503" in answer["detail"]
        issuer.down = False
        status, _ = await bed.who("all")("GET", "/v1/jobs")
        assert status == 503, "it is not asked again at once"
        bed.later(issuers.AGAIN_S)
        assert (await bed.who("all")("GET", "/v1/jobs"))[0] == 200
        issuer.down = True
        bed.later(9_000)
        issuer.now += 9_010
        assert (await bed.who("all")("GET", "/v1/jobs"))[0] == 200, "keys that are known stay good"
        assert (await bed.admin("GET", "/v1/jobs"))[0] == 200
        bed.later(1_000)
        issuer.now += 1_000
        status, answer = await bed.who("all", x=1)("GET", "/v1/jobs")
        assert (status, answer["code"]) == (503, "overloaded"), "but not for ever"

    trusting(tmp_path, test)


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("redirect", "302"), ("large", "262,144 bytes"), ("other", "another issuer"), ("deep", "nested"),
        ("no-keys", '"keys"'), ("plain", '"jwks_uri"'), ("many", "101 keys"), ("list", "another issuer"),
    ],
)  # fmt: skip
def test_what_the_issuer_answers_is_bounded(tmp_path: Path, way: str, why: str) -> None:
    async def test(bed: Bed) -> None:
        issuer = bed.issuer
        if way == "redirect":
            issuer.configuration = web.Response(status=302, headers={"Location": f"{issuer.url}/elsewhere"})
        elif way == "large":
            issuer.jwks = text({"keys": [jwk_of("rsa-1", rsa_key(1))]}) + b" " * issuers.DOCUMENT_MAX
        elif way == "other":
            issuer.documents = {"issuer": "https://other.example"}
        elif way == "deep":
            issuer.jwks = b"[" * 100_000
        elif way == "no-keys":
            issuer.jwks = b"{}"
        elif way == "plain":
            issuer.documents = {"jwks_uri": "http://192.0.2.1/keys"}
        elif way == "many":
            issuer.jwks = text({"keys": [jwk_of("rsa-1", rsa_key(1))] * 101})
        else:
            issuer.configuration = web.Response(body=b"[]")
        status, answer = await bed.who("all")("GET", "/v1/jobs")
        assert (status, answer["code"]) == (503, "overloaded"), answer
        assert why in answer["detail"]

    trusting(tmp_path, test)


def test_a_token_ends(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        who = bed.who("all")
        assert (await who("GET", "/v1/jobs"))[0] == 200
        bed.later(300 + 29)
        assert (await who("GET", "/v1/jobs"))[0] == 200, "there is a little leeway"
        bed.later(1)
        for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/jobs", JOB)):
            status, answer = await who(method, path, body)
            assert (status, answer["detail"]) == (401, "The token is past its end.")

    trusting(tmp_path, test)


def test_a_change_holds_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_tokens, "REFUSED_S", 0.0)

    async def test(bed: Bed) -> None:
        who = bed.who("all")
        assert (await who("GET", "/v1/jobs"))[0] == 200
        await bed.set(rules=[{"claim": "groups", "value": "others", "role": "viewer"}])
        assert (await who("GET", "/v1/jobs"))[0] == 403
        await bed.set(audience="others")
        assert (await who("GET", "/v1/jobs"))[0] == 401
        await bed.set()
        assert (await who("GET", "/v1/jobs"))[0] == 200
        assert (await bed.admin("DELETE", "/v1/cluster/oidc"))[0] == 204
        assert (await who("GET", "/v1/jobs"))[0] == 401
        assert (await bed.admin("GET", "/v1/cluster/oidc"))[0] == 404
        assert bed.issuer.fetched <= 2

    trusting(tmp_path, test)


@pytest.mark.parametrize("way", ["ended", "changed", "off"])
def test_a_stream_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    looks: list[Caller] = []

    def counted(ctx: ApiContext, who: Caller) -> bool:
        looks.append(who)
        return still_holds(ctx, who)

    monkeypatch.setattr(streams, "LOOK_S", 0.01)
    monkeypatch.setattr(streams, "still_holds", counted)

    async def test(bed: Bed) -> None:
        who = bed.who("all")
        async with bed.call.session.get(f"{bed.call.url}/v1/events", headers=who.headers) as answer:
            assert answer.status == 200
            reading = asyncio.create_task(_all(answer))
            if way == "ended":
                bed.later(300 + 29)
                before = len(looks)
                await until(lambda: len(looks) > before + 1)
                assert not reading.done(), "there is a little leeway"
                bed.later(1)
            elif way == "changed":
                await bed.set(username_claim="email")
            else:
                await bed.admin("DELETE", "/v1/cluster/oidc")
            await reading

    trusting(tmp_path, test)


async def _all(answer: aiohttp.ClientResponse) -> None:
    try:
        async for _ in sse.read(answer):
            pass
    except aiohttp.ClientError:
        pass  # it was cut


def test_who_did_it_is_on_record(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        for given, shown in (
            ("ana@example.org", "oidc:ana@example.org (u-1)"),
            ("root (u-2)", "oidc:u-1"),
            (["ana"], "oidc:u-1"),
            (None, "oidc:u-1"),
        ):
            who = bed.who("ops", sub="u-1", email=given)
            assert (await who("POST", "/v1/jobs", JOB))[0] == 201
            _, me = await who("GET", "/v1/whoami")
            assert me["name"] == shown
            _, found = await bed.admin("GET", "/v1/audit?limit=1")
            note = found["items"][0]
            assert (note["actor"], note["token"], note["operation"]) == (shown, None, "jobs_create")

    trusting(tmp_path, test, username_claim="email")


def test_a_key_is_that_of_its_subject(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        key = {"Idempotency-Key": "k"}
        _, made = await bed.who("ops", sub="a")("POST", "/v1/jobs", {**JOB, "name": "x"}, key)
        _, again = await bed.who("ops", sub="a", exp=bed.issuer.now + 100)(
            "POST", "/v1/jobs", {**JOB, "name": "x"}, key
        )
        assert again["id"] == made["id"]
        assert (await bed.who("ops", sub="b")("POST", "/v1/jobs", {**JOB, "name": "y"}, key))[0] == 201
        assert (await bed.who("ops", sub="a")("POST", "/v1/jobs", {**JOB, "name": "y"}, key))[0] != 201

    trusting(tmp_path, test)


async def test_where_no_token_is_needed_it_says_nothing(call: Client) -> None:
    async with issuing() as issuer:
        assert (await call("PUT", "/v1/cluster/oidc", as_setting(issuer)))[0] == 200
        _, me = await As(call, issuer.token(groups=[]))("GET", "/v1/whoami")
        assert (me["kind"], me["name"], me["role"]) == ("anonymous", "anonymous", "admin")
        assert issuer.fetched == 0


def test_who_one_is_with_a_token(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        _, me = await bed.admin("GET", "/v1/whoami")
        assert me == {
            "kind": "token", "name": "admin", "role": "admin", "namespaces": None, "grants": [], "expires_at": None,
            "issuer": None, "subject": None, "queues": None,
        }  # fmt: skip

    trusting(tmp_path, test)


def test_the_setting_is_an_admins(tmp_path: Path) -> None:
    async def test(bed: Bed) -> None:
        who = bed.who("ops")
        for method, body in (("GET", None), ("PUT", as_setting(bed.issuer)), ("DELETE", None)):
            assert (await who(method, "/v1/cluster/oidc", body))[0] == 403
        status, found = await bed.who("admins")("GET", "/v1/cluster/oidc")
        assert (status, found["revision"], found["algorithms"]) == (200, 1, ["RS256", "ES256"])
        tag = bed.call.headers["ETag"]
        for wanted in ('"9"', '"0"'):
            assert (await bed.admin("DELETE", "/v1/cluster/oidc", None, {"If-Match": wanted}))[0] == 412
        changed = as_setting(bed.issuer, audience="x")
        assert (await bed.admin("PUT", "/v1/cluster/oidc", changed, {"If-Match": tag}))[1]["revision"] == 2
        assert (await bed.admin("PUT", "/v1/cluster/oidc", changed, {"If-Match": tag}))[0] == 412
        for _ in range(2):
            assert (await bed.admin("DELETE", "/v1/cluster/oidc"))[0] == 204
        assert (await bed.admin("PUT", "/v1/cluster/oidc", changed, {"If-Match": "*"}))[0] == 412

    trusting(tmp_path, test)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"issuer": "http://issuer.example"}, "/issuer"),
        ({"issuer": "https://issuer.example/?x"}, "/issuer"),
        ({"issuer": "https://a:b@issuer.example"}, "/issuer"),
        ({"issuer": "https://issuer.example#x"}, "/issuer"),
        ({"issuer": "file:///etc/passwd"}, "/issuer"),
        ({"issuer": "https://"}, "/issuer"),
        ({"issuer": "https://\u00e9.example"}, "/issuer"),
        ({"issuer": None}, "/issuer"),
        ({"audience": ""}, "/audience"),
        ({"algorithms": []}, "/algorithms"),
        ({"algorithms": ["none"]}, "/algorithms/0"),
        ({"algorithms": ["HS256"]}, "/algorithms/0"),
        ({"rules": []}, "/rules"),
        ({"rules": [{"claim": "g", "value": "x", "role": "root"}]}, "/rules/0/role"),
        ({"rules": [{"claim": "", "value": "x", "role": "viewer"}]}, "/rules/0/claim"),
        ({"rules": [{"claim": "g", "value": "x", "role": "admin", "namespaces": ["a"]}]}, "/rules/0/namespaces"),
        ({"rules": [{"claim": "g", "value": "x", "role": "viewer", "namespaces": []}]}, "/rules/0/namespaces"),
        ({"rules": [{"claim": "g", "value": "x", "role": "viewer", "namespaces": ["A"]}]}, "/rules/0/namespaces/0"),
        ({"secret": "x"}, "/secret"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, change: dict[str, Any], pointer: str) -> None:
    rules = [{"claim": "groups", "value": "ops", "role": "viewer"}]
    body = {"issuer": "https://issuer.example", "audience": "a", "rules": rules, **change}
    status, problem = await call("PUT", "/v1/cluster/oidc", body)
    assert (status, problem["code"]) == (422, "invalid-body")
    assert pointer in [error["pointer"] for error in problem["errors"]], problem


def test_without_pyjwt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(bed: Bed) -> None:
        import sys

        monkeypatch.setitem(sys.modules, "jwt", None)
        status, problem = await bed.admin("PUT", "/v1/cluster/oidc", as_setting(bed.issuer))
        assert (status, problem["code"]) == (409, "not-possible")
        assert "raftsched[oidc]" in problem["detail"]
        token = bed.issuer
        monkeypatch.undo()
        made = token.token(groups=["all"])
        monkeypatch.setitem(sys.modules, "jwt", None)
        assert "raftsched[oidc]" in await bed.refused(made)

    trusting(tmp_path, test)
