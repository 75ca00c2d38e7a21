"""The edges of the surface: what is not supported says so, and what is wrong is named in the API's own words."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import msgspec
import pytest

from tests.support.clock import START_MS
from tests.support.local_api import Client

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
RAW = msgspec.json.encode(JOB)


def job(**fields: Any) -> dict[str, Any]:
    return {**JOB, **fields}


def http(**fields: Any) -> dict[str, Any]:
    return job(handler={"http": {"url": "http://a/", **fields}})


REFUSED: list[tuple[Any, str, str]] = [  # body, pointer, something that the message says
    (job(max_concurrency=10_001), "/max_concurrency", "to 10,000"),
    (job(max_concurrency=1.5), "/max_concurrency", "integer"),
    (job(max_concurrency=0), "/max_concurrency", "from 1"),
    (http(headers={"Host": "b"}), "/handler/http/headers/Host", "leave it out"),
    (http(headers={"content-length": "5"}), "/handler/http/headers/content-length", "leave it out"),
    (http(headers={"Transfer-Encoding": "chunked"}), "/handler/http/headers/Transfer-Encoding", "leave it out"),
    (http(headers={"CONNECTION": "close"}), "/handler/http/headers/CONNECTION", "leave it out"),
    (http(headers={"raftsched-Attempt": "1"}), "/handler/http/headers/raftsched-Attempt", "leave it out"),
    (http(url="http://a:99999/"), "/handler/http/url", "port"),
    (http(url="http://a:0/"), "/handler/http/url", "port"),
    (http(url="http://a:x/"), "/handler/http/url", "port"),
    (http(url="http://a/b c"), "/handler/http/url", "%20"),
    (http(url="http://[a/"), "/handler/http/url", "http://127.0.0.1"),
    (http(url="http://a/" + "b" * 2_048), "/handler/http/url", "2048"),
    (job(trigger={"in": "PT"}), "/trigger/in", "is not a duration"),
    (job(trigger={"in": "P"}), "/trigger/in", "is not a duration"),
    (job(trigger={"in": "P1Y2M"}), "/trigger/in", "years or months"),
    (job(trigger={"in": "P1MT5M"}), "/trigger/in", "years or months"),
    (job(trigger={"every": "100d", "ends_at": "2030-02-01T00:00:00Z"}), "/trigger/ends_at", "never run"),
    (job(trigger={"cron": "0 2 * * *", "timezone": "posixrules"}), "/trigger/timezone", "name the zone itself"),
    (job(trigger={"cron": "0 2 * * *", "timezone": "Factory"}), "/trigger/timezone", "name the zone itself"),
    (job(trigger={"cron": "0 2 * * *", "timezone": "/etc/localtime"}), "/trigger/timezone", "Europe/Madrid"),
]


async def test_what_is_refused_says_what_would_be_right(call: Client) -> None:
    for body, pointer, says in REFUSED:
        status, problem = await call("POST", "/v1/jobs", body)
        assert status == 422, (body, problem)
        assert [e for e in problem["errors"] if e["pointer"] == pointer and says in e["detail"]], (body, problem)
    for fine in (job(max_concurrency=1), job(max_concurrency=None), http(headers={"X-Host": "b"})):
        status, made = await call("POST", "/v1/jobs", fine)
        assert (status, made["max_concurrency"]) == (201, 1)
    trigger = {"every": "10d", "ends_at": "2030-02-01T00:00:00Z"}
    assert (await call("POST", "/v1/jobs", job(trigger=trigger)))[0] == 201
    status, problem = await call("POST", f"/v1/jobs/{made['id']}/resume", {"now": True})
    assert (status, problem["errors"][0]["detail"]) == (422, "is not a known field; no fields are known here")


@pytest.mark.parametrize(
    ("raw", "pointer", "says"),
    [
        (b'{"params": {"a": [1, 1e999]}}', "/params/a/1", "out of range"),
        (b'{"priority": ' + b"9" * 5_000 + b"}", "/priority", "out of range"),
        (b'{"params": {"b": "\\ud800"}}', "/params/b", "surrogate"),
    ],
)
async def test_what_cannot_be_held_is_named(call: Client, raw: bytes, pointer: str, says: str) -> None:
    status, problem = await call("POST", "/v1/jobs", raw)
    assert (status, problem["code"]) == (400, "invalid-json")
    assert [e["pointer"] for e in problem["errors"]] == [pointer]
    assert says in problem["detail"]


TWICE = [
    b'"priority":1,"priority":2,',
    b'"name":"a","name":"b",',
    b'"params":{"a":1,"a":1},',
    b'"priority":5,"priority":5,',
    b'"labels":{"x":"1","\\u0078":"2"},',
    b'"owner":"x","owner":"\\u003a",',
    b'"params":{},"params":{},',
    b'"params":{"params":{}},"params":{},',
    b'"params": {},"owner":"x","owner":"y",',
    b'"priority":5,"params":{},"owner":"x","owner":"y",',
    b'"retry":{"delays":["1s"]},"owner":"x","owner":"y",',
    b'"misfire":{"grace":"1m"},"owner":"x","owner":"y",',
    b'"retention":{"failed":3},"owner":"x","owner":"y",',
]


@pytest.mark.parametrize("twice", TWICE)
async def test_a_key_given_twice_is_refused(call: Client, twice: bytes) -> None:
    body = b"{" + twice + RAW[1:]
    key = msgspec.json.decode(b"{" + twice[:-1] + b"}").popitem()
    name = next(iter(key[1])) if isinstance(key[1], dict) and key[1] else key[0]
    _, made = await call("POST", "/v1/jobs", JOB)
    for method, path in (
        ("POST", "/v1/jobs"),
        ("PUT", f"/v1/jobs/{made['id']}"),
        ("PATCH", f"/v1/jobs/{made['id']}"),
        ("PUT", "/v1/namespaces/default/jobs/a"),
    ):
        status, problem = await call(method, path, body)
        assert (status, problem["code"]) == (400, "invalid-json"), (method, path)
        assert f'"{name}"' in problem["detail"]
    status, page = await call("POST", "/v1/jobs:batch", b"[" + RAW + b"," + body + b"]")
    assert (status, [item["status"] for item in page["items"]]) == (200, [201, 400])
    status, problem = await call("POST", f"/v1/jobs/{made['id']}/run", b'{"priority":1,"priority":2}')
    assert (status, problem["code"]) == (400, "invalid-json")


async def test_keys_that_only_look_alike_are_fine(call: Client) -> None:
    given = job(params={"a": {"a": "a:a", "b": ["::", {"a": 1}]}}, labels={"a": "x:y"}, priority=5, queue="default")
    status, made = await call("POST", "/v1/jobs", given)
    assert (status, made["params"]) == (201, given["params"])
    pretty = msgspec.json.format(msgspec.json.encode({**given, "name": "n", "namespace": "m", "suspended": True}))
    assert (await call("POST", "/v1/jobs", pretty))[0] == 201


async def test_encodings_and_charsets(call: Client) -> None:
    for encoding in ("br", "zstd", "compress", "gzip, gzip", "x"):
        status, problem = await call("POST", "/v1/jobs", RAW, {"Content-Encoding": encoding})
        assert (status, problem["status"]) == (415, 415), encoding
        assert "gzip" in problem["detail"]
    status, _ = await call("POST", "/v1/jobs", zlib.compress(RAW), {"Content-Encoding": "deflate"})
    assert status == 201
    assert (await call("POST", "/v1/jobs", RAW, {"Content-Encoding": "identity"}))[0] == 201
    for charset, expected in (("latin-1", 415), ("utf-16", 415), ("UTF-8", 201), ('"utf-8"', 201)):
        kind = {"Content-Type": f"application/json; charset={charset}"}
        assert (await call("POST", "/v1/jobs", RAW, kind))[0] == expected, charset


PARAMETERS = [
    ("/livez?x=1", "x"),
    ("/metrics?x=1", "x"),
    ("/v1/jobs?colour=red", "colour"),
    ("/v1/jobs?limit=0", "limit"),
    ("/v1/jobs?limit=5&limit=6", "limit"),
    ("/v1/jobs?namespace=No%21", "namespace"),
    ("/v1/jobs?namespace=", "namespace"),
    ("/v1/instances?namespace=a%20b", "namespace"),
    ("/v1/instances?from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", "from"),
]


async def test_a_bad_parameter_is_named(call: Client) -> None:
    for path, name in PARAMETERS:
        status, problem = await call("GET", path)
        assert (status, problem["code"]) == (400, "invalid-parameter"), path
        assert [e["parameter"] for e in problem["errors"]] == [name], path


async def test_null_takes_out_no_field_that_there_is_not(call: Client) -> None:
    _, made = await call("POST", "/v1/jobs", JOB)
    for change, pointer in (
        ({"colour": None}, "/colour"),
        ({"revision": None}, "/revision"),
        ({"retry": {"delay": None}}, "/retry/delay"),
    ):
        status, problem = await call("PATCH", f"/v1/jobs/{made['id']}", change)
        assert (status, [e["pointer"] for e in problem["errors"]]) == (422, [pointer])
    fine = {"owner": None, "labels": {"x": None}, "params": {"y": None}, "retry": {"delays": None}}
    assert (await call("PATCH", f"/v1/jobs/{made['id']}", fine))[0] == 200


async def test_a_preview_of_what_is_past_says_that_it_runs_at_once(call: Client) -> None:
    status, shown = await call("POST", "/v1/schedules/preview", {"trigger": {"at": "2029-12-31T23:00:00Z"}})
    assert status == 200
    (only,) = shown["next"]
    assert only["at"] == "2030-01-01T00:00:00.000Z"
    assert "2029-12-31T23:00:00.000Z is past" in only["note"]
    assert call.cluster.clock.wall == START_MS


HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
NOT_HTTP = [
    (b"FROB /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400, 405}),
    (b"frob\r\n\r\n", {400}),
    (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400}),
    (b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", {400}),
    (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", {400}),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", {400}),
    (HEAD + b"Expect: the-unexpected\r\nContent-Length: 2\r\n\r\n{}", {417}),
]


@pytest.mark.parametrize(("raw", "expected"), NOT_HTTP)
async def test_what_is_not_http_is_answered_with_a_problem(call: Client, raw: bytes, expected: set[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
    writer.write(raw)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().lower()
    assert "content-type: application/problem+json" in lines, head
    length = int(lines.partition("content-length: ")[2].split()[0])
    text = await reader.readexactly(length)
    problem = msgspec.json.decode(text)
    assert problem["status"] == int(lines.split()[1])
    assert problem["status"] in expected
    for inside in (b"python", b"0x", b"aiohttp", b"b'", b"bytearray"):
        assert inside not in text.lower()
    writer.close()
    await writer.wait_closed()
