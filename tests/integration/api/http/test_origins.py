"""Pages of other members may ask a node; pages of anybody else may not, however their origin looks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftsched.api.http.origins import normal
from raftsched.core.subjects.cluster import Member
from tests.support.local_api import Client, LocalCluster, serving

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
PAGE = "http://n2.example:7402"
ASKS = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}


def three(call: Client, second: str = "n2.example:7402") -> LocalCluster:
    call.cluster.configure((*call.cluster.members, Member("n2", "127.0.0.1:9100", b"n2")))
    call.cluster.open_session("n2", second)
    return call.cluster


async def test_a_page_of_another_member_may_ask(call: Client) -> None:
    three(call)
    for method, path, body, expected in [
        ("GET", "/v1/jobs", None, 200),
        ("POST", "/v1/jobs", JOB, 201),
        ("GET", "/v1/events?follow=false", None, 200),
        ("GET", "/v1/jobs/0000000000000", None, 404),
        ("GET", "/v1/jobs?x=1", None, 400),
    ]:
        status, _ = await call(method, path, body, ASKS)
        assert status == expected
        assert call.headers.getall("Access-Control-Allow-Origin") == [PAGE]
        assert call.headers["Vary"] == "Origin"
        shown = {name.strip() for name in call.headers["Access-Control-Expose-Headers"].split(",")}
        said = {name for name in call.headers if name.startswith("Raftsched-")}
        assert said | {"ETag", "Retry-After", "Location"} <= shown
        assert "Access-Control-Allow-Credentials" not in call.headers


async def test_what_streams_is_shown_to_it_too(call: Client) -> None:
    three(call)
    async with call.session.get(f"{call.url}/v1/events?follow=true", headers=ASKS) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == PAGE


async def test_nothing_of_this_is_said_to_others(call: Client) -> None:
    """Also not over the connection over which such a page asked before."""
    three(call)
    assert (await call("GET", "/v1/jobs", headers=ASKS))[0] == 200
    for headers in ({}, {"Origin": call.url}):
        for method, body in (("GET", None), ("POST", JOB)):
            await call(method, "/v1/jobs", body, headers)
            assert not [name for name in call.headers if name.startswith("Access-Control-")]
            assert "Vary" not in call.headers


async def test_browsers_are_told_what_such_a_page_may_send(call: Client) -> None:
    three(call)
    asks = {**ASKS, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization"}
    for path in ("/v1/jobs", "/v1/jobs/0000000000000", "/nowhere"):
        assert await call("OPTIONS", path, headers=asks) == (204, "")
        assert call.headers["Access-Control-Allow-Origin"] == PAGE
        methods = {name.strip() for name in call.headers["Access-Control-Allow-Methods"].split(",")}
        assert methods == {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
        named = {name.strip() for name in call.headers["Access-Control-Allow-Headers"].split(",")}
        assert {"authorization", "content-type", "if-match", "if-none-match", "idempotency-key"} <= named
        assert "*" not in named
        assert int(call.headers["Access-Control-Max-Age"]) <= 7_200
        assert "Access-Control-Allow-Credentials" not in call.headers
    # what is no such question is no operation
    assert (await call("OPTIONS", "/v1/jobs", headers=ASKS))[0] == 405
    assert (await call("OPTIONS", "/v1/jobs", headers={**asks, "Origin": call.url, "Sec-Fetch-Site": "same-origin"}))[
        0
    ] == 405


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://n2.example:7402",
        "http://n2.example",
        "http://n2.example:74021",
        "http://n2.example:740",
        "http://n2.example:7402.evil.example",
        "http://n2.example:7402@evil.example",
        "http://n2.example.evil.example:7402",
        "http://evil-n2.example:7402",
        "http://n2.example.:7402",
        "http://n2.example:7402/",
        "http://n2.example:7402 http://evil.example",
        "http://n2.example:7402,http://evil.example",
        "n2.example:7402",
        "ftp://n2.example:7402",
        "http://n3.example:7403",
        "http://*",
    ],
)
async def test_pages_of_anybody_else_may_not(call: Client, origin: str) -> None:
    three(call)
    for method, body in (("GET", None), ("POST", JOB), ("OPTIONS", None)):
        asks = {**ASKS, "Origin": origin, "Access-Control-Request-Method": "GET"}
        status, problem = await call(method, "/v1/jobs", body, asks)
        assert (status, problem["code"]) == (403, "forbidden-host"), method
        assert not [name for name in call.headers if name.startswith("Access-Control-")]
    assert (await call("GET", "/v1/jobs"))[1]["items"] == []


async def test_without_an_origin_a_request_of_another_site_is_refused(call: Client) -> None:
    three(call)
    asks = {name: value for name, value in ASKS.items() if name != "Origin"}
    assert (await call("GET", "/v1/jobs", headers=asks))[0] == 403
    assert (await call("GET", "/v1/jobs", headers={**asks, "Origin": call.url}))[0] == 403


async def test_the_page_of_a_removed_member_may_not_ask_any_more(call: Client) -> None:
    cluster = three(call)
    assert (await call("GET", "/v1/jobs", headers=ASKS))[0] == 200
    cluster.configure(tuple(m for m in cluster.members if m.node != "n2"))
    cluster.clock.forward(2_000)
    assert (await call("GET", "/v1/jobs", headers=ASKS))[0] == 403


@pytest.mark.parametrize(
    ("announced", "origin", "allowed"),
    [
        ("N2.Example:7402", "http://n2.example:7402", True),
        ("n2.example:80", "http://n2.example", True),
        ("n2.example:80", "https://n2.example", False),
        ("https://n2.example:443", "https://n2.example", True),
        ("https://n2.example:443", "http://n2.example", False),
        ("https://n2.example:443", "http://n2.example:443", False),
        ("[2001:DB8:0:0::7]:7402", "http://[2001:db8::7]:7402", True),
        ("[2001:db8::7]:7402", "http://[2001:db8::8]:7402", False),
    ],
)
async def test_origins_are_compared_as_browsers_write_them(
    call: Client, announced: str, origin: str, allowed: bool
) -> None:
    three(call, announced)
    status, _ = await call("GET", "/v1/jobs", headers={**ASKS, "Origin": origin})
    assert status == (200 if allowed else 403)


def test_where_tokens_are_needed_the_page_needs_one(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        async with serving(cluster, "n1", guarded=True) as call:
            three(call)
            status, problem = await call("GET", "/v1/jobs", headers=ASKS)
            assert (status, problem["code"]) == (401, "locked")
        cluster.close()

    asyncio.run(main())


def test_texts_that_are_no_origins_have_no_normal_form() -> None:
    assert normal("http://[::1]:7401") == "http://[::1]:7401"
    assert normal("HTTP://EXAMPLE:080") == "http://example"
    for text in (
        "",
        "null",
        "http://",
        "http://a b",
        "http://a:",
        "http://a:123456",
        "http://[::g]",
        "http://a\r\nb",
        "http://a/b",
    ):
        assert normal(text) is None, text
