"""A copy of the store is no set of keys: nothing in it opens the cluster, or can be used to find out what does."""

from __future__ import annotations

import base64
import hmac
from hashlib import sha256
from pathlib import Path
from typing import Any

import lmdb
import pytest

from raftsched import webhooks
from raftsched.api.auth.peer_proof import PEER
from raftsched.api.resources.kept import unreadable
from raftsched.core.commands import encode
from raftsched.core.rows import decode_access, decode_secrets
from raftsched.core.subjects.access import ACCESS_KEY, SeedTokens, SetAccess
from raftsched.core.subjects.secret import PutSecret
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.core.tables import Table
from raftsched.security.keyring import Keyring, new_key
from raftsched.security.sealing import WEBHOOKS, Sealer, open_value
from tests.support.local_api import Client

TOKENS = "/v1/tokens"
HOOK = {"name": "ops", "url": "http://127.0.0.1:1/"}
PEM = "-----BEGIN SECRET-----\nof a job\n-----END SECRET-----"


def contents(file: Path, *, log: bool = True) -> bytes:
    """All that the tables of a copy hold, and the log."""
    found = []
    with lmdb.open(str(file), subdir=False, readonly=True, lock=False, max_dbs=64, lib_version=0) as env:
        with env.begin() as txn:
            names = [bytes(key) for key, _ in txn.cursor()]
        for name in names:
            if name == b"log" and not log:
                continue
            database = env.open_db(name, create=False)
            with env.begin(db=database) as txn:
                found += [bytes(key) + b"\0" + bytes(value) for key, value in txn.cursor()]
    return b"\n".join(found)


async def admin(call: Client) -> dict[str, str]:
    """Requests need a token from now on; what an admin sends."""
    _, made = await call("POST", TOKENS, {"name": "root", "role": "admin"})
    headers = {"Authorization": f"Bearer {made['secret']}"}
    assert (await call("PUT", "/v1/cluster/access", {"required": True}, headers))[0] == 200
    return headers


def held(call: Client, name: str = "ops") -> Any:
    with call.cluster.store.read() as view:
        raw = view.get(Table.WEBHOOK_SECRETS, name.encode())
    assert raw is not None
    return decode_secrets(raw)


def access(call: Client) -> Any:
    with call.cluster.store.read() as view:
        return decode_access(view.get(Table.ACCESS, ACCESS_KEY))


async def test_a_copy_of_the_store_opens_nothing(call: Client, tmp_path: Path) -> None:
    root = await admin(call)
    keyed = {**root, "Idempotency-Key": "ops-token-1"}
    body = {"name": "derivable", "role": "admin"}
    status, token = await call("POST", TOKENS, body, keyed)
    assert status == 201
    assert (await call("POST", TOKENS, body, keyed))[1]["secret"] == token["secret"]
    _, hook = await call("POST", "/v1/webhooks", HOOK, root)
    assert (await call("PUT", "/v1/namespaces/billing/secrets/pem", {"value": PEM}, root))[0] == 201
    call.cluster.store.copy(tmp_path / "copy.mdb")
    raw = contents(tmp_path / "copy.mdb")
    for secret in (
        token["secret"].encode(),
        root["Authorization"].removeprefix("Bearer ").encode(),
        webhooks.decode_secret(hook["secret"]),
        hook["secret"].encode(),
        PEM.encode(),
    ):
        assert secret not in raw
    assert (access(call).secret, access(call).seed) == (b"", b"")
    # neither can the secret be had from what lies there and a guess at the key
    name = sha256(b"token\0ops-token-1").digest()
    for seed in (b"", name):
        made = hmac.new(seed, b"ops-token-1\0" + name, sha256).digest()
        guess = "rs_" + base64.urlsafe_b64encode(made).rstrip(b"=").decode()
        assert (await call("GET", TOKENS, None, {"Authorization": f"Bearer {guess}"}))[0] == 401
    # nor can somebody who has no key speak as a node
    for secret in (b"", access(call).secret):
        said = f"n2 {call.cluster.clock.wall}"
        mac = hmac.new(secret, f"{said} GET /v1/jobs".encode(), sha256).hexdigest()
        assert (await call("GET", "/v1/jobs", None, {PEER: f"{said} {mac}"}))[0] == 401


async def test_secrets_that_no_key_of_the_node_opens_are_counted(call: Client) -> None:
    assert (await call("POST", "/v1/webhooks", HOOK))[0] == 201
    assert (await call("PUT", "/v1/namespaces/billing/secrets/pem", {"value": PEM}))[0] == 201
    assert unreadable(call.context) == 0
    call.context.security.sealer = Sealer(Keyring(new_key(), *call.context.security.keys))
    assert unreadable(call.context) == 0, "it was sealed with a key that is still in the file"
    for without in (Sealer(Keyring(new_key())), None):
        call.context.security.sealer = without
        assert unreadable(call.context) == 2


async def test_a_repeat_is_answered_with_the_secret_while_its_key_is_known(call: Client) -> None:
    root = {**await admin(call), "Idempotency-Key": "one"}
    body = {"name": "ci", "role": "viewer"}
    _, first = await call("POST", TOKENS, body, root)
    assert (await call("POST", TOKENS, body, root)) == (201, first)
    assert (await call("GET", "/v1/jobs", None, {"Authorization": f"Bearer {first['secret']}"}))[0] == 200
    before, call.context.security.sealer = call.context.security.sealer, Sealer(Keyring(new_key()))
    status, problem = await call("POST", TOKENS, body, root)
    assert (status, problem["code"]) == (409, "not-possible")
    assert "not shown again" in problem["detail"]
    call.context.security.sealer = before
    call.cluster.clock.forward(3_600_001)
    status, problem = await call("POST", TOKENS, body, root)  # it is another request by now
    assert (status, problem["code"]) == (409, "name-taken")


async def test_without_a_cluster_key_a_repeat_is_told_so(call: Client) -> None:
    call.context.security.sealer = None
    call.context.security.peer_keys = ()
    keyed = {"Idempotency-Key": "one"}
    body = {"name": "ci", "role": "admin"}
    _, first = await call("POST", TOKENS, body, keyed)
    status, problem = await call("POST", TOKENS, body, keyed)
    assert (status, problem["code"]) == (409, "not-possible")
    assert "Revoke it" in problem["detail"]
    headers = {"Authorization": f"Bearer {first['secret']}"}
    assert (await call("PUT", "/v1/cluster/access", {"required": True}, headers))[0] == 200
    assert access(call).secret, "nodes without a key need something to know each other by"
    status, problem = await call("POST", "/v1/secrets:reseal", None, headers)
    assert (status, problem["code"]) == (409, "not-possible")


async def test_old_stores_work_and_are_sealed_by_the_next_write_or_all_at_once(call: Client, tmp_path: Path) -> None:
    clear = [b"0123456789abcdefghijklmnopqrs" + bytes((n,)) for n in range(3)]
    for number, secret in enumerate(clear):
        await propose(call, PutWebhook(f"hook{number}", WebhookSpec(url="http://h/"), secret))
    await propose(call, PutSecret("billing", "old", b"in clear"))
    root = await admin(call)
    await propose(call, SetAccess(False))
    await propose(call, SetAccess(True, b"s" * 32))
    await propose(call, SeedTokens(b"s" * 32))
    given = {"url": "http://h/", "secret": webhooks.encode_secret(clear[0])}
    assert (await call("PUT", "/v1/webhooks/hook0", given, root))[0] == 200
    assert held(call, "hook0").nonce, "sealed by the next write, and known to be the same"
    assert (await call("PUT", "/v1/webhooks/hook1", {**given, "url": "http://i/"}, root))[0] == 409
    rotated = await call("POST", "/v1/webhooks/hook1/rotate", {"overlap": "1h"}, root)
    assert rotated[0] == 200
    status, said = await call("POST", "/v1/secrets:reseal", {}, root)
    assert (status, said) == (200, {**said, "resealed": 3, "left": 0, "unreadable": []})
    assert (access(call).secret, access(call).seed) == (b"", b"")
    call.cluster.store.copy(tmp_path / "copy.mdb")
    tables = contents(tmp_path / "copy.mdb", log=False)
    assert b"in clear" not in tables
    sealer = call.context.security.sealer
    assert sealer is not None
    one = held(call, "hook1")
    assert open_value(sealer, WEBHOOKS, "hook1", one.previous_nonce, one.previous) == clear[1]
    assert open_value(sealer, WEBHOOKS, "hook2", held(call, "hook2").nonce, held(call, "hook2").current) == clear[2]
    assert (await call("POST", "/v1/secrets:reseal", {}, root))[1]["resealed"] == 0


async def propose(call: Client, command: Any) -> None:
    (answer,) = await call.cluster.propose((encode(command),), 10.0)
    assert not hasattr(answer, "code"), answer


@pytest.mark.parametrize("count", [1, 450])
async def test_a_key_is_changed_and_nothing_is_left_under_the_old_one(call: Client, count: int) -> None:
    old, new = new_key(), new_key()
    call.context.security.sealer = Sealer(Keyring(old))
    for number in range(count):
        value = {"value": f"value {number}"}
        assert (await call("PUT", f"/v1/namespaces/billing/secrets/s{number}", value))[0] == 201
    _, hook = await call("POST", "/v1/webhooks", HOOK)
    call.context.security.sealer = Sealer(Keyring(new, old))
    done, left = 0, 1
    while left:
        status, said = await call("POST", "/v1/secrets:reseal", {})
        assert status == 200
        assert said["resealed"] or not said["left"], f"{left} are left and none is sealed again"
        done, left = done + said["resealed"], said["left"]
    assert done == count + 1
    sealer = call.context.security.sealer = Sealer(Keyring(new))
    assert said["key"] == Keyring(new).ids()[0]
    secret = open_value(sealer, WEBHOOKS, "ops", held(call).nonce, held(call).current)
    assert webhooks.encode_secret(secret) == hook["secret"]
    _, shown = await call("GET", "/v1/namespaces/billing/secrets/s0")
    assert shown["sealed"]


async def test_what_cannot_be_read_is_named_and_left(call: Client) -> None:
    call.context.security.sealer = Sealer(Keyring(new_key()))
    assert (await call("PUT", "/v1/namespaces/billing/secrets/lost", {"value": "x"}))[0] == 201
    call.context.security.sealer = Sealer(Keyring(new_key()))
    assert (await call("PUT", "/v1/namespaces/billing/secrets/kept", {"value": "x"}))[0] == 201
    _, said = await call("POST", "/v1/secrets:reseal")
    assert (said["resealed"], said["left"]) == (0, 1)
    assert said["unreadable"] == ["billing/lost: it was put under another cluster key; put it again"]
