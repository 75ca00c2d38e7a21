"""/v1/worker-sessions: who may open, poll and close them, what is wrong with a request, and what is not counted."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

import pytest

from raftsched.core.commands import Assign, OpenWorker
from raftsched.core.ids import parse_instance
from raftsched.core.rows import SESSIONS
from raftsched.surface.worker_sessions import SESSION_SECRET
from tests.support.local_api import Client
from tests.support.tokens import As, guarded, make
from tests.support.worker_sessions import sent

WORKER = {"name": "w1", "handlers": ["exec"], "incarnation": "i", "opening": 1}
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}
PATH = "/v1/worker-sessions"


async def opened(call: Any, **more: Any) -> str:
    status, answer = await call("POST", PATH, {**WORKER, **more})
    assert status == 201, answer
    session: str = answer["session"]
    return session


async def poll(call: Any, session: str, **said: Any) -> tuple[int, Any]:
    address, headers = sent(session, "/poll")
    status, answer = await call("POST", address, said, headers)
    return status, answer


async def close(call: Any, session: str, ran: Any = None) -> tuple[int, Any]:
    address, headers = sent(session, "/close")
    status, answer = await call("POST", address, ran, headers)
    return status, answer


async def give(call: Any, cluster: Any, session: str, **job: Any) -> int:
    """Returns the token of one more run of the session."""
    _, made = await call("POST", "/v1/jobs", {**JOB, **job})
    _, ran = await call("POST", f"/v1/jobs/{made['id']}/run", {})
    key = parse_instance(ran["id"])
    assert key is not None
    number: int = cluster.apply(Assign(key, int(session.partition("-")[0])))[0].number
    return number


async def waiting(call: Client) -> None:
    """Until a poll waits."""
    while not call.context.workers._waiting:  # noqa: ASYNC110 nothing tells of it
        await asyncio.sleep(0)


async def test_a_session_from_its_opening_to_its_end(call: Client) -> None:
    status, answer = await call("POST", PATH, {**WORKER, "queues": ["b", "a", "a"], "labels": {"gpu": "a100"}})
    assert status == 201
    assert (answer["queues"], answer["namespaces"], answer["lease_ms"]) == (["a", "b"], None, 10_000)
    session = answer["session"]
    token = await give(call, call.cluster, session)
    status, answer = await poll(call, session, wait_ms=1_000)
    assert (status, [one["token"] for one in answer["runs"]]) == (200, [token])
    report = {"token": token, "outcome": "succeeded", "exit_code": 0, "output": "done\n", "result": {"a": [1]}}
    status, answer = await poll(call, session, after=token, reports=[report])
    assert (status, answer["runs"], answer["refused"]) == (200, [], [])
    _, found = await call("GET", "/v1/instances?state=SUCCEEDED")
    (shown,) = found["items"]
    assert (shown["worker"], shown["node"], shown["result"]) == ("w1", None, {"a": [1]})
    _, output = await call("GET", f"/v1/instances/{shown['id']}/output")
    assert output == "done\n"
    assert await close(call, session, {"ran": []}) == (204, "")
    assert await close(call, session) == (204, ""), "over is over"
    status, answer = await poll(call, session)
    assert (status, answer["code"]) == (410, "session-over")


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        ("name", "a b", "/name"),
        ("name", "x" * 129, "/name"),
        ("handlers", [], "/handlers"),
        ("handlers", ["exce"], "/handlers/0"),
        ("handlers", ["call:"], "/handlers/0"),
        ("handlers", ["exec"] * 1_001, "/handlers"),
        ("queues", [], "/queues"),
        ("queues", ["ok", "not ok"], "/queues/1"),
        ("namespaces", [".."], "/namespaces/0"),
        ("labels", {"": "x"}, "/labels/"),
        ("labels", {"a": "x" * 257}, "/labels/a"),
        ("labels", {str(i): "x" for i in range(33)}, "/labels"),
        ("slots", 0, "/slots"),
        ("weight", 1_001, "/weight"),
        ("opening", -1, "/opening"),
        ("incarnation", "ü" * 100, "/incarnation"),
        ("sluts", 1, "/sluts"),
    ],
)
async def test_what_is_wrong_with_an_opening_is_named(call: Client, field: str, value: Any, pointer: str) -> None:
    status, answer = await call("POST", PATH, {**WORKER, field: value})
    assert (status, [one["pointer"] for one in answer["errors"]]) == (422, [pointer])


async def test_what_an_opening_lacks_is_named(call: Client) -> None:
    status, answer = await call("POST", PATH, {"name": "w1"})
    assert status == 422
    (error,) = answer["errors"]
    assert error["pointer"] == "/handlers"
    assert error["detail"].startswith("is missing; it must be a list of handlers: exec, ")
    status, answer = await call("POST", PATH, {})
    assert (status, [one["pointer"] for one in answer["errors"]]) == (422, ["/name", "/handlers"])


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"wait_ms": 30_001}, "/wait_ms"),
        ({"max_runs": 501}, "/max_runs"),
        ({"after": 2**63}, "/after"),
        ({"reports": [{"token": 0}]}, "/reports/0/token"),
        ({"reports": [{"outcome": "succeeded"}]}, "/reports/0/token"),
        ({"reports": 7}, "/reports"),
        ({"reports": [{"token": 1}] * 1_001}, "/reports"),
        ({"trouble": "x" * 513}, "/trouble"),
    ],
)
async def test_what_is_wrong_with_a_poll_is_named(call: Client, said: dict[str, Any], pointer: str) -> None:
    status, answer = await poll(call, await opened(call), **said)
    assert (status, [one["pointer"] for one in answer["errors"]]) == (422, [pointer])


async def test_a_result_that_nests_too_deeply_costs_no_end_and_no_reader(call: Client) -> None:
    """It is left out as one that is too large: the run has ended, and all that shows it can be read."""
    session = await opened(call, slots=9)
    for levels in (64, 65, 300, 900):
        token = await give(call, call.cluster, session)
        result = json.loads("[" * levels + "]" * levels)
        report = {"token": token, "outcome": "succeeded", "result": result}
        status, answer = await poll(call, session, after=token, reports=[report])
        assert (status, answer["refused"]) == (200, [])
        _, found = await call("GET", "/v1/instances?state=SUCCEEDED&limit=1")
        (shown,) = found["items"]
        if levels > 64:
            assert shown["result"] is None
            assert shown["error"] == "the result was dropped: it nests deeper than 64 levels"
        else:
            assert shown["result"] == result
        status, whole = await call("GET", f"/v1/instances/{shown['id']}")
        assert (status, whole["attempts"][0]["token"]) == (200, token)


async def test_a_large_poll_is_read_as_a_small_one(call: Client) -> None:
    session = await opened(call, slots=9)
    text = "\\u00e9" * 30_000  # 180,000 bytes as it is sent, 60,000 as it is kept
    results = {
        "small": ('{"a": [1]}', {"a": [1]}, None),
        "escaped": (f'"{text}"', "\u00e9" * 30_000, None),
        "spaced": ("[" + "1,\n" * 30_000 + "1]", [1] * 30_001, None),
        "large": ('["' + "x" * 70_000 + '"]', None, "has more than 65,536 bytes"),
        "huge": ('["' + "x" * 700_000 + '"]', None, "has more than 65,536 bytes"),
        "deep": ("[" * 65 + '"' + "]" * 70_000 + '"' + "]" * 65, None, "nests deeper than 64 levels"),
        "flat": ('["' + "[" * 60_000 + '"]', ["[" * 60_000], None),
        "none": ("null", None, None),
    }
    tokens = {name: await give(call, call.cluster, session) for name in results}
    reports = [
        f'{{"token": {tokens[name]}, "outcome": "succeeded", "exit_code": 0.0, "result": {result}, "output": "{name}"}}'
        for name, (result, _, _) in results.items()
    ]
    address, headers = sent(session, "/poll")
    headers["Content-Type"] = "application/json"
    body = f'{{"after": {max(tokens.values())}, "reports": [{", ".join(reports)}]}}'
    status, answer = await call("POST", address, body.encode(), headers)
    assert (status, answer["refused"], answer["runs"]) == (200, [], [])
    _, found = await call("GET", "/v1/instances?state=SUCCEEDED&limit=20")
    assert len(found["items"]) == len(results)
    for one in found["items"]:
        _, name = await call("GET", f"/v1/instances/{one['id']}/output")
        _, kept, why = results[name]
        assert one["result"] == kept, name
        assert (one["error"] is None) if why is None else (why in one["error"]), name


async def test_what_is_wrong_with_a_large_poll_is_said_at_its_place(call: Client) -> None:
    session = await opened(call)
    much = [{"token": 1, "result": "x" * 40_000}] * 2
    for said, pointer in (
        ({"reports": [*much, {"outcome": "won"}]}, ""),
        ({"reports": much, "max_runs": -1}, "/max_runs"),
        ({"reports": [{"token": 1, "text": "x" * 100}] * 1_001}, "/reports"),
    ):
        status, answer = await poll(call, session, **said)
        assert (status, [one["pointer"] for one in answer["errors"]]) == (422, [pointer])


_PRINTED = f'{{"stream": "stdout", "text": "{"x" * 40_000}"}}'
BAD = {
    "an outcome that there is not": ('"outcome": "won"', '/outcome is "won"; it must be one of "failed", "killed"'),
    "a number beyond bounds": ('"outcome": "failed", "exit_code": 1099511627776', "/exit_code is 1099511627776; it"),
    "a number that nobody can hold": ('"outcome": "succeeded", "result": 1e999', "/result is a number out of range"),
    "a text that is too long": (f'"error": "{"x" * 4_097}"', "/error has 4097 characters; at most 4096 are allowed"),
    "a field that there is not": ('"odd": 1', "/odd is not a known field"),
    "a field twice": ('"exit_code": 1, "exit_code": 2', 'The key "exit_code" is given twice'),
    "half of a pair": ('"result": ["half \\ud83d of it"]', "/result/0 holds half of a surrogate pair"),
    "what is no JSON": ('"outcome": "succeeded", "result": NaN', "The report is not JSON: "),
    "deeper than a decoder goes": (f'"result": {"[" * 3_000}1{"]" * 3_000}', "The JSON nests too deeply"),
    "deeper than any worker means": (f'"result": {"[" * 60_000}{"]" * 60_000}', "The JSON nests too deeply"),
    "a great many values": (f'"outcome": "succeeded", "result": [{"1," * 120_000}NaN]', "The report is not JSON: "),
    "no text": ('"outcome": "failed", "error": "\xff"', "The report is not UTF-8; JSON must be."),
    "a place that no node answered": (
        '"outcome": "succeeded", "output": {"node": "n1", "segment": 1, "offset": 0, "size": 1, "sha256": "x"}',
        "output must be what a node answered",
    ),
    "an output that is too long": (
        f'"outcome": "succeeded", "output": [{", ".join([_PRINTED] * 2)}]',
        "output must have 65,536 characters at most.",
    ),
}


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("said", list(BAD))
async def test_a_report_that_cannot_be_read_is_refused_alone(call: Client, said: str, large: bool) -> None:
    """The lease is renewed, and the others are taken."""
    session = await opened(call, slots=3)
    first, bad, last = [await give(call, call.cluster, session) for _ in range(3)]
    fields, why = BAD[said]
    good = f'"outcome": "succeeded", "result": ["a, \\"{{" , {{"b": "{"x" * 40_000 * large}"}}]'
    told = (f'{{"token": {first}, {good}}}', f'{{ "token" : {bad}, {fields}}}', f'{{"token": {last}, {good}}}')
    body = f'{{"after": {last}, "reports": [{" , ".join(told)}], "killing": []}}'.encode("latin-1")
    address, headers = sent(session, "/poll")
    status, answer = await call("POST", address, body, headers | {"Content-Type": "application/json"})
    assert status == 200, answer
    assert [(one["token"], one["code"]) for one in answer["refused"]] == [(bad, "invalid")]
    if not large:
        assert answer["refused"][0]["detail"].startswith(why)
    assert answer["lease_ms"] > 0
    _, found = await call("GET", "/v1/instances?state=SUCCEEDED")
    assert len(found["items"]) == 2
    mended = {"token": bad, "outcome": "failed", "error": answer["refused"][0]["detail"]}
    assert (await poll(call, session, after=last, reports=[mended]))[1]["refused"] == []
    _, found = await call("GET", "/v1/instances?state=FAILED")
    assert [one["error"] for one in found["items"]] == [mended["error"]]


async def test_a_token_may_be_written_with_a_point_in_a_report_that_is_refused_too(call: Client) -> None:
    session = await opened(call)
    token = await give(call, call.cluster, session)
    address, headers = sent(session, "/poll")
    body = f'{{"after": {token}, "reports": [{{"token": {token}.0, "result": NaN}}]}}'.encode()
    status, answer = await call("POST", address, body, headers | {"Content-Type": "application/json"})
    assert (status, [one["token"] for one in answer["refused"]]) == (200, [token])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('{"reports": [{"token": 1, "outcome": "succeeded", "result": [}]}', 400),
        ('{"reports": [{"token": 1}, {"token": 2, "error": "no end}]}', 400),
        ('{"reports": [{"token": 1, "odd": 1}], "reports": []}', 400),
        ('{"reports": [{"token": 1, "odd": 1}]} {}', 400),
        ('{"reports": [{"token": 1, "token": 2}]}', 400),
        ('{"reports": [{"token": "1", "odd": 1}]}', 422),
        ('{"reports": [[1]]}', 422),
        ('{"reports": [{"token": 1, "odd": 1}], "wait_ms": -1}', 422),
        ('{"reports": [{"token": 1, "result": [' + '"",' * 400_000 + "NaN]}]}", 400),
        ('{"reports": [{"token": 1.5, "result": NaN}]}', 400),
        ('{"reports": [{"token": 1e999, "result": NaN}]}', 400),
    ],
)
async def test_a_poll_that_does_not_say_whose_its_reports_are_is_refused_as_a_whole(
    call: Client, body: str, status: int
) -> None:
    address, headers = sent(await opened(call), "/poll")
    headers["Content-Type"] = "application/json"
    assert (await call("POST", address, body.encode(), headers))[0] == status


async def test_what_nobody_may_say_is_not_read(call: Client) -> None:
    session = await opened(call)
    assert (await close(call, session))[0] == 204
    address, headers = sent(session, "/poll")
    assert (await call("POST", address, b"[" * 100_000, headers | {"Content-Type": "application/json"}))[0] == 410
    address, headers = sent(session, "/runs/7/output?offset=0")
    headers["Content-Type"] = "application/vnd.raftsched.frames"
    assert (await call("PUT", address, b"no frame", headers))[0] == 410
    address, headers = sent(await opened(call, opening=2), "/runs/7/output?offset=0")
    headers["Content-Type"] = "application/vnd.raftsched.frames"
    assert (await call("PUT", address, b"no frame", headers))[0] == 404


async def test_what_cannot_be_a_session_is_none(call: Client) -> None:
    session = await opened(call)
    number = session.partition("-")[0]
    for address in ("x", "1-", "1-" + "g" * 32, "1-" + "0" * 32 + "%0A", "-1-" + "0" * 32, number):
        status, answer = await call("POST", f"{PATH}/{address}/poll", {})
        assert (status, "Raftsched-Session-Secret" in answer["detail"]) == (404, True)
        assert (await call("POST", f"{PATH}/{address}/close", {}))[0] == 404
    for headers in (
        {SESSION_SECRET: "x"},
        {SESSION_SECRET: session.partition("-")[2]},
        {SESSION_SECRET: f"{number}1{session[len(number) :]}"},
    ):
        assert (await call("POST", f"{PATH}/{number}/poll", {}, headers))[0] == 404


async def test_workers_of_before_have_it_all_in_the_address(call: Client) -> None:
    session = await opened(call)
    assert (await call("POST", f"{PATH}/{session}/poll", {}))[0] == 200
    assert (await call("POST", f"{PATH}/{session}/poll", {}, {SESSION_SECRET: session}))[0] == 200
    assert (await call("POST", f"{PATH}/{session}/close", {}))[0] == 204
    assert (await poll(call, session))[0] == 410


async def test_a_session_is_that_of_the_token_that_opened_it(call: Client) -> None:
    """Whatever the role of another token, it gets what it would get for a session that is over."""
    roles = await guarded(call)
    mine = As(call, await make(roles["admin"], "mine", "worker"))
    others = As(call, await make(roles["admin"], "others", "worker")), roles["admin"]
    session = await opened(mine)
    token = await give(roles["editor"], call.cluster, session)
    address, headers = sent(session, f"/runs/{token}/output?offset=0")
    headers["Content-Type"] = "application/octet-stream"
    for other in others:
        status, answer = await poll(other, session, reports=[{"token": token, "outcome": "succeeded"}])
        assert (status, answer["code"]) == (410, "session-over")
        assert (await close(other, session))[0] == 204, "as one that is over"
        assert (await other("PUT", address, b"forged", headers))[0] == 410
    _, answer = await poll(mine, session)
    assert [one["token"] for one in answer["runs"]] == [token], "nothing has become of it"


async def bind(call: Any, session: str, secret: str, incarnation: str = "i") -> tuple[int, Any]:
    address, headers = sent(session, "/token")
    status, answer = await call("POST", address, {"secret": secret, "incarnation": incarnation}, headers)
    return status, answer


@pytest.mark.parametrize("revoked", [False, True])
async def test_who_shows_both_tokens_goes_on_with_the_session(call: Client, revoked: bool) -> None:
    """What runs under it is not touched, also where the earlier token was revoked before the worker had the new one."""
    people = await guarded(call)
    admin = people["admin"]
    old, new = [As(call, await make(admin, name, "worker")) for name in ("old", "new")]
    session = await opened(old)
    token = await give(admin, call.cluster, session)
    if revoked:
        _, tokens = await admin("GET", "/v1/tokens")
        number = next(one["id"] for one in tokens["items"] if one["name"] == "old")
        assert (await admin("DELETE", f"/v1/tokens/{number}"))[0] == 204
        assert (await poll(old, session))[0] == 401
    assert await bind(new, session, old.secret) == (204, "")
    assert await bind(new, session, old.secret) == (204, ""), "the first answer may have been lost"
    status, answer = await poll(new, session)
    assert (status, [run["token"] for run in answer["runs"]]) == (200, [token])
    assert (await poll(old, session))[0] == (401 if revoked else 410)
    status, answer = await new("POST", PATH, {**WORKER, "opening": 2})
    assert status == 201, "the incarnation is the new token's, too"


async def test_a_session_is_given_to_nobody_who_shows_less(call: Client) -> None:
    people = await guarded(call)
    admin = people["admin"]
    queues = {"old": ["a", "b"], "new": ["a", "b"], "less": ["a"], "third": ["a", "b"]}
    made = {name: As(call, await make(admin, name, "worker", queues=found)) for name, found in queues.items()}
    session = await opened(made["old"])
    for who, secret, wanted in (
        (made["new"], "rs_x", 410),
        (made["new"], made["third"].secret, 410),
        (made["new"], made["new"].secret, 410),
        (admin, made["third"].secret, 410),
        (made["less"], made["old"].secret, 403),
        (people["operator"], made["old"].secret, 403),
        (people["nobody"], made["old"].secret, 401),
    ):
        assert (await bind(who, session, secret))[0] == wanted
    other = session[:-2] + ("AA" if session[-2:] != "AA" else "BB")
    assert (await bind(made["new"], other, made["old"].secret))[0] == 410, "the secret of the session"
    assert (await poll(made["old"], session))[0] == 200, "it is whose it was"
    assert (await bind(made["new"], session, made["old"].secret))[0] == 204
    _, audit = await admin("GET", "/v1/audit?limit=100")
    assert made["old"].secret not in json.dumps(audit)


async def test_a_session_of_a_cluster_below_the_level_is_nobody_s(call: Client) -> None:
    people = await guarded(call)
    admin = people["admin"]
    old, new = [As(call, await make(admin, name, "worker")) for name in ("old", "new")]
    number = call.cluster.apply(OpenWorker("worker/w1", 0, b"\xab" * 16, 1, handlers=("exec",)))[0].number
    session = f"{number}-{'ab' * 16}"
    address = f"{PATH}/{session}/token"
    assert (await new("POST", address, {"secret": old.secret}))[0] == 204
    with call.cluster.store.read() as view:
        row = SESSIONS.get(view, number)
    assert row is not None
    assert row.nonce == b"\xab" * 16, "who has it speaks for it, with whatever token"


@pytest.mark.parametrize("secret", ["", " ", "\t", "\u00a0", "two words", "\n"])
async def test_what_is_no_text_of_a_token_has_no_session(call: Client, secret: str) -> None:
    """Such a text has no hash, and nothing is looked up by none."""
    worker = As(call, await make((await guarded(call))["admin"], "w", "worker"))
    session = await opened(worker)
    status, answer = await bind(worker, session, secret)
    assert (status, answer["code"]) in {(410, "session-over"), (422, "invalid-body")}, answer


async def test_the_log_has_no_secret_of_a_session(call: Client) -> None:
    """Who reads it, or a backup, cannot speak for the session."""
    session = await opened(call)
    number, _, secret = session.partition("-")
    with call.cluster.store.read() as view:
        row = SESSIONS.get(view, int(number))
    assert row is not None
    assert secret.startswith("rsw_")
    for text in (row.nonce.hex(), row.nonce.hex()[:32]):
        assert (await call("POST", f"{PATH}/{number}-{text}/poll", {}))[0] in (404, 410)


async def test_a_name_that_is_taken_says_when_to_ask_again(call: Client) -> None:
    await opened(call)
    body, headers = json.dumps({**WORKER, "incarnation": "other"}), {"Content-Type": "application/json"}
    async with call.session.post(f"{call.url}{PATH}", data=body, headers=headers) as answer:
        assert (answer.status, (await answer.json(content_type=None))["code"]) == (409, "name-taken")
        assert int(answer.headers["Retry-After"]) > 0


async def test_a_token_opens_sessions_for_what_it_is_for(call: Client) -> None:
    roles = await guarded(call)
    mine = As(call, await make(roles["admin"], "m", "worker", namespaces=["media", "web"], queues=["gpu"]))
    status, out = await mine("POST", PATH, WORKER)
    assert (status, out["queues"], out["namespaces"]) == (201, ["gpu"], ["media", "web"]), "left out: all of these"
    status, out = await mine("POST", PATH, {**WORKER, "name": "w2", "namespaces": ["web"]})
    assert (status, out["namespaces"]) == (201, ["web"])
    for more in ({"namespaces": ["web", "bank"]}, {"queues": ["default"]}):
        status, out = await mine("POST", PATH, {**WORKER, "name": "w3", **more})
        assert (status, out["code"]) == (403, "forbidden")
    for role in ("viewer", "editor", "operator", "nobody"):
        assert (await roles[role]("POST", PATH, {**WORKER, "name": "w4"}))[0] in (401, 403), role
    assert (await roles["admin"]("POST", PATH, {**WORKER, "name": "w5"}))[0] == 201


async def test_a_token_does_not_speak_for_a_session_that_is_given_more_than_it(call: Client) -> None:
    """Of those that were opened when the cluster was of an earlier version."""
    roles = await guarded(call)
    of_all = As(call, await make(roles["admin"], "all", "worker"))
    of_web = As(call, await make(roles["admin"], "web", "worker", namespaces=["web"]))
    number = call.cluster.apply(OpenWorker("worker/w1", 0, b"sixteen bytes of", 1, handlers=("exec",)))[0].number
    session = f"{number}-{b'sixteen bytes of'.hex()}"
    assert (await poll(of_web, session))[0] == 403
    assert (await close(of_web, session))[0] == 403
    assert (await poll(of_all, session))[0] == 200
    assert (await poll(roles["operator"], session))[0] == 403
    assert (await poll(roles["nobody"], session))[0] == 401


async def test_the_incarnation_of_another_token_ends_no_session(call: Client) -> None:
    roles = await guarded(call)
    one = As(call, await make(roles["admin"], "one", "worker"))
    other = As(call, await make(roles["admin"], "other", "worker"))
    session = await opened(one)
    status, answer = await other("POST", PATH, {**WORKER, "opening": 2})
    assert (status, answer["code"]) == (409, "name-taken")
    assert (await poll(one, session))[0] == 200
    await opened(one, opening=2)
    assert (await poll(one, session))[0] == 410


async def test_a_poll_that_waits_while_its_token_is_revoked_is_given_nothing(call: Client) -> None:
    roles = await guarded(call)
    _, made = await roles["admin"]("POST", "/v1/tokens", {"name": "w", "role": "worker"})
    worker = As(call, made["secret"])
    session = await opened(worker)
    waits = asyncio.ensure_future(poll(worker, session, wait_ms=2_000))
    await waiting(call)
    call.cluster.clock.forward(1_500)
    assert (await roles["admin"]("DELETE", f"/v1/tokens/{made['id']}"))[0] == 204
    await give(roles["editor"], call.cluster, session)
    assert (await waits)[0] == 401


async def test_polls_count_nothing_for_the_token_and_other_requests_do(call: Client) -> None:
    roles = await guarded(call)
    rate = {"rate": {"count": 1, "per": "1h"}, "burst": 2}
    worker = As(call, await make(roles["admin"], "w", "worker", **rate))
    session = await opened(worker)
    for _ in range(20):
        assert (await poll(worker, session))[0] == 200
    assert (await poll(worker, "1-" + "0" * 32))[0] == 410
    status, answer = await poll(worker, "1-" + "0" * 32)
    assert (status, answer["code"]) == (429, "rate-limited"), "who guesses sessions is counted"
    assert (await poll(worker, session))[0] == 200


async def test_pieces_of_output_are_charged_with_what_they_take_and_polls_are_not(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = await guarded(call)
    worker = As(call, await make(roles["admin"], "w", "worker"))
    session = await opened(worker)
    token = await give(roles["editor"], call.cluster, session)
    monkeypatch.setattr("raftsched.api.auth.spending.thread_s", count(step=60).__next__)
    for _ in range(3):
        assert (await poll(worker, session))[0] == 200
    address, headers = sent(session, f"/runs/{token}/output?offset=0")
    headers["Content-Type"] = "application/octet-stream"
    assert (await worker("PUT", address, b"one", headers))[0] == 200
    assert (await worker("PUT", address, b"one", headers))[0] == 429
    assert (await poll(worker, session))[0] == 200, "its lease is renewed all the same"


async def test_an_opening_is_noted_as_work_and_a_poll_is_not_noted(call: Client) -> None:
    roles = await guarded(call)
    worker = As(call, await make(roles["admin"], "w", "worker"))
    session = await opened(worker)
    token = await give(roles["editor"], call.cluster, session)
    await poll(worker, session, reports=[{"token": token, "outcome": "succeeded"}])
    _, found = await roles["operator"]("GET", "/v1/audit?actor=w")
    assert [(one["operation"], one["kind"]) for one in found["items"]] == [("worker_sessions_open", "work")]
    assert session.partition("-")[2] not in str(found)


async def test_waiting_is_no_slow_request(call: Client) -> None:
    session = await opened(call)
    waits = asyncio.ensure_future(poll(call, session, wait_ms=2_000))
    await waiting(call)
    call.cluster.clock.forward(2_000)
    await give(call, call.cluster, session)
    assert (await waits)[0] == 200
    _, text = await call("GET", "/metrics")
    sums = [
        line for line in text.splitlines() if line.startswith("raftsched_http_request") and "_sum" in line
        and "/poll" in line
    ]  # fmt: skip
    assert sums
    assert all(float(line.split()[-1]) < 1 for line in sums)


async def test_there_are_no_more_workers_than_the_settings_allow(call: Client) -> None:
    assert (await call("PATCH", "/v1/cluster/settings", {"workers_max": 1}))[0] == 200
    session = await opened(call)
    status, answer = await call("POST", PATH, {**WORKER, "name": "w2"})
    assert (status, answer["code"]) == (429, "too-many")
    assert (await close(call, session, {}))[0] == 204
    number = int((await opened(call, name="w2")).partition("-")[0])
    with call.cluster.store.read() as view:
        row = SESSIONS.get(view, number)
    assert row is not None
    assert row.node == "worker/w2"
