"""The secrets that a cluster makes itself: one of each kind, used and refused, and where none of them may be found."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from raftsched.api.auth.peer_proof import peer_said
from raftsched.api.routes import ROUTES
from raftsched.cli.doctor.hiding import hidden_in, lines_without_secrets, without_secrets
from raftsched.client.wire import own_key
from raftsched.security.certificates import make_ca
from raftsched.security.keyring import new_key
from raftsched.security.local_token import LocalToken
from raftsched.security.sealed_backup import new_identity
from raftsched.tracing.requests import RequestTraces
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.modules import ROOT
from tests.support.tokens import As, guarded, make
from tests.support.traces import CALLER, Kept
from tests.support.worker_sessions import PATH, sent

WEBHOOK = {"name": "w", "url": "https://ops.example/hook", "events": ["failed"]}
OPENING = {"name": "w1", "handlers": ["exec"], "opening": 1}
LEGACY = "1-0a1b2c3d4e5f60718293a4b5c6d7e8f9"  # a worker's session, as clusters of before 0.3.0 made its text
# Where random bytes are drawn -> what they become. What is new here is secret, and made below, or is no secret.
DRAWN = {
    "api/auth/peer_proof.py": "a number that is good once",
    "api/auth/tokens.py": "token; key of peers",
    "api/http/failures.py": "the id of a request",
    "api/resources/webhook_endpoints.py": "webhook",
    "cli/auth/tokens.py": "token",
    "cli/cluster/bench.py": "a name",
    "cli/mcp/bounded.py": "a mark",
    "client/wire.py": "Idempotency-Key",
    "objectstore/directory.py": "the name of a file",
    "output/following/store_mark.py": "a mark",
    "raft/facade.py": "numbers that are good once",
    "raft/transport/transport.py": "numbers that are good once",
    "remote/gateway.py": "session",
    "remote/process.py": "incarnation",
    "security/files.py": "the name of a file",
    "security/keyring.py": "cluster key",
    "security/local_token.py": "local token",
    "security/sealing.py": "a number that is good once",
}


def test_it_is_known_where_secrets_are_made() -> None:
    drawn = re.compile(r"\b(token_(bytes|hex|urlsafe)|urandom)\b")
    found = {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if drawn.search(file.read_text())}
    assert found == set(DRAWN)


class Made(NamedTuple):
    """`texts`: the secret in each form in which it is said or stored, and nothing else of it."""

    kind: str
    texts: tuple[str, ...]


async def make_all(call: Client, by: dict[str, As]) -> list[Made]:
    admin = by["admin"]
    local = LocalToken()
    call.context.security.local_digest = local.digest
    assert (await As(call, local.secret)("GET", "/v1/tokens"))[0] == 200
    status, webhook = await admin("POST", "/v1/webhooks", WEBHOOK)
    assert status == 201, webhook
    _, rotated = await admin("POST", "/v1/webhooks/w/rotate", {})
    worker = As(call, await make(admin, "gpu", "worker"))
    _, opened = await worker("POST", PATH, OPENING)
    key = own_key()["Idempotency-Key"]
    _, named = await admin("POST", "/v1/tokens", {"name": "named", "role": "viewer"}, {"Idempotency-Key": key})
    key_of_cluster = new_key().decode()
    authority = make_ca("prod", call.cluster.clock.wall).key.decode()
    return [
        Made("token", (admin.secret, worker.secret, named["secret"])),
        Made("local token", (local.secret,)),
        Made("session", (opened["session"].partition("-")[2], LEGACY.partition("-")[2])),
        Made("webhook", (webhook["secret"], rotated["secret"])),
        Made("cluster key", (key_of_cluster,)),
        Made("identity of a backup", (new_identity()[0],)),
        Made("key of a certificate", tuple(authority.splitlines()[1:-1])),
        Made("login", ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYXJsIn0.c2lnbmF0dXJlLW9mLWFuLWlzc3Vlcg",)),
        Made("proof of a node", (peer_said(b"k" * 32, "n2", "n1", "/v1/jobs", call.cluster.clock.wall),)),
        Made("Idempotency-Key", (key,)),
    ]


async def say_all(call: Client, by: dict[str, As], made: list[Made]) -> None:
    """Uses them as callers do, and as they do by mistake: most of it is refused."""
    (worker,) = [one.texts[1] for one in made if one.kind == "token"]
    (session,) = [f"1-{one.texts[0]}" for one in made if one.kind == "session"]
    for who in (by["nobody"], by["viewer"], As(call, worker), by["admin"]):
        for text in (session, LEGACY):
            address, headers = sent(text, "/poll")
            await who("POST", address, {}, {**headers, "traceparent": CALLER})
            for path in ("poll", "close", "runs/1/output?offset=0", "nowhere"):
                method = "PUT" if path.startswith("runs") else "POST"
                await who(method, f"{PATH}/{text}/{path}", b"{}", {"traceparent": CALLER})
            await who("GET", f"{PATH}/{text}", headers={"traceparent": CALLER})
    for one in made:
        for text in one.texts:
            if re.fullmatch("[!-~]+", text):
                await As(call, text)("GET", "/v1/jobs", headers={"traceparent": CALLER})
            await by["viewer"]("POST", "/v1/tokens", {"name": "x", "role": "admin"}, {"Raftsched-Peer": text})
            if one.kind in ("token", "local token", "webhook", "identity of a backup"):  # by mistake
                for who in (by["nobody"], by["viewer"]):
                    await who("DELETE", f"/v1/tokens/{text.replace('/', '_')}", headers={"traceparent": CALLER})
                    await who("GET", f"/v1/tokens?cursor={text.replace('+', '_')}", headers={"traceparent": CALLER})


def test_none_is_in_the_log_the_audit_traces_metrics_or_any_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "raftsched")

    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        kept = Kept(cluster.clock)
        cluster.traces = RequestTraces(kept.tracer)
        try:
            async with serving(cluster, "n1") as call:
                call.checked = False
                by = await guarded(call)
                made = await make_all(call, by)
                await say_all(call, by, made)
                found = {
                    "the log": caplog.text,
                    "traces": str([(s.name, dict(s.attributes or {})) for s in kept.spans]),
                }
                for route in ROUTES:
                    if route.method != "GET" or "{" in route.path or route.path in ("/v1/cluster/snapshot",):
                        continue
                    follow = "?follow=false&after=oldest" if route.path in ("/v1/events", "/v1/changes") else ""
                    _, answer = await by["admin"]("GET", route.path + follow)
                    found[route.path] = answer if isinstance(answer, str) else json.dumps(answer)
        finally:
            cluster.close()
        assert "/v1/worker-sessions/1/poll" in found["the log"]
        assert "/v1/worker-sessions/1/poll" in found["/v1/audit/refusals"]
        assert "/v1/worker-sessions/1/close" in found["traces"]
        for one in made:
            for text in one.texts:
                for part in {text, text.replace("/", "_"), text.removeprefix("whsec_")[:24]}:
                    assert [place for place, shown in found.items() if part in shown] == [], one.kind

    asyncio.run(main())


def test_a_bundle_has_none_though_it_is_in_what_the_bundle_is_made_of(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        try:
            async with serving(cluster, "n1") as call:
                made = await make_all(call, await guarded(call))
        finally:
            cluster.close()
        for one in made:
            if one.kind == "key of a certificate":
                whole = ["-----BEGIN PRIVATE KEY-----", *one.texts, "-----END PRIVATE KEY-----"]
                assert not any(text in lines_without_secrets(whole) for text in one.texts)
                continue
            for text in one.texts:
                line = {
                    "session": f"refused: POST /v1/worker-sessions/13-{text}/poll by nobody",
                    "proof of a node": f"Raftsched-Peer: {text}",
                    "Idempotency-Key": f"Idempotency-Key: {text}",
                }.get(one.kind, f"refused: {text} of n1")
                for shown in (
                    without_secrets(line),
                    lines_without_secrets([json.dumps({"message": line})]),
                    str(hidden_in({"detail": [line]})),
                ):
                    assert text[-16:] not in shown, (one.kind, shown)
        trace = f"traceparent {CALLER}"
        assert without_secrets(trace) == trace

    asyncio.run(main())


def test_addresses_of_sessions_are_noted_by_their_numbers() -> None:
    from raftsched.security.shown import path_without_secrets

    for text, shown in (
        (f"{PATH}/{LEGACY}/poll", f"{PATH}/1/poll"),
        (f"{PATH}/12/poll", f"{PATH}/12/poll"),
        (f"{PATH}/x{LEGACY}/runs/7/output", f"{PATH}//runs/7/output"),
        (f"/v1//worker-sessions/{LEGACY}/poll", "/v1//worker-sessions/1/poll"),
        (f"/{PATH}//{LEGACY}/poll", f"/{PATH}//1/poll"),
        (f"/v1%2Fworker%2Dsessions%2F{LEGACY}%2Fpoll", f"{PATH}/1/poll"),
        (f"/v1/{LEGACY}", "/v1/1"),
        ("/v1/jobs/a%2Fb", "/v1/jobs/a%2Fb"),
        (PATH, PATH),
        ("/v1/jobs/0000000000001/run", "/v1/jobs/0000000000001/run"),
    ):
        assert path_without_secrets(text) == shown
