"""What a page of another site can make a browser do with a node: nothing, and it is shown nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftsched.api.http.fast_answers import _stamp
from raftsched.api.http.replies import GUARDS, STRICT
from raftsched.api.http.server import ApiServer
from raftsched.api.http.tls import Certificates, TlsFiles
from tests.support.authority import certificate, put
from tests.support.local_api import Client, LocalCluster

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}

EVERYWHERE = [
    ("GET", "/livez", 200),
    ("GET", "/docs", 200),
    ("GET", "/openapi.json", 200),
    ("GET", "/v1/jobs", 200),
    ("GET", "/v1/cluster/snapshot", 200),
    ("GET", "/v1/events?follow=false", 200),
    ("GET", "/v1/jobs?x=1", 400),
    ("GET", "/nowhere", 404),
    ("PUT", "/v1/jobs", 405),
    ("POST", "/v1/jobs", 415),
]


async def test_every_answer_tells_browsers_what_not_to_do(call: Client) -> None:
    call.checked = False
    for method, path, expected in EVERYWHERE:
        status, _ = await call(method, path)
        assert status == expected, path
        for name, value in GUARDS.items():
            assert call.headers.getall(name) == [value], (path, name)
        assert "Strict-Transport-Security" not in call.headers
    for headers in ({}, {"X-Unknown-To-The-Short-Way": "1"}):
        assert (await call("POST", "/v1/jobs", JOB, headers))[0] == 201
        for name, value in GUARDS.items():
            assert call.headers.getall(name) == [value], (headers, name)
    assert call.headers["Cache-Control"] == "no-store"


async def _refused_as_no_http(url: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return head


async def test_so_do_answers_to_what_is_no_http(call: Client) -> None:
    head = await _refused_as_no_http(call.url)
    assert head.split()[1] == b"400"
    for name, value in GUARDS.items():
        assert f"\r\n{name}: {value}\r\n".encode() in head


@pytest.mark.parametrize(("host", "told"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_browsers_keep_to_tls_where_they_came_by_it(tmp_path: Path, host: str, told: bool) -> None:
    """But not for all that listens on loopback."""

    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        context = cluster.context("n1")
        listening = asyncio.get_running_loop().create_server

        async def on_loopback(door: object, _: object, port: object, **more: object) -> asyncio.Server:
            return await listening(door, "127.0.0.1", port, **more)  # type: ignore[arg-type, return-value, call-overload, no-any-return]

        asyncio.get_running_loop().create_server = on_loopback  # type: ignore[method-assign, assignment]
        tls = Certificates(TlsFiles(*put(tmp_path, certificate())), cluster.clock)
        server = await ApiServer.start(context, host, 0, tls=tls)
        await server.stop()
        cluster.close()
        assert context.security.strict_transport is told

    asyncio.run(main())
    assert (f"Strict-Transport-Security: {STRICT}\r\n" in _stamp(0, "n1", 1, told)) is told


SITES = [
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, "/v1/cluster/snapshot"),
    ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, "/v1/jobs"),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, "/v1/jobs"),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, "/docs"),
    ({"Sec-Fetch-Site": "cross-site"}, "/livez"),
]


@pytest.mark.parametrize(("headers", "path"), SITES)
async def test_what_other_sites_ask_for_is_refused(call: Client, headers: dict[str, str], path: str) -> None:
    status, problem = await call("GET", path, headers=headers)
    assert (status, problem["code"]) == (403, "forbidden-host")


async def test_links_lead_to_pages_and_pages_to_what_is_theirs(call: Client) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await call("GET", "/docs", headers=link))[0] == 200
    for site in ("same-origin", "none"):
        own = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors"}
        assert (await call("GET", "/v1/jobs", headers=own))[0] == 200
    assert (await call("POST", "/v1/jobs", JOB, {"Sec-Fetch-Site": "cross-site"}))[0] == 403
    assert (await call("POST", "/v1/jobs", JOB, {"Sec-Fetch-Site": "same-origin"}))[0] == 201


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_no_form_does_what_needs_no_body(call: Client, kind: str) -> None:
    for body in (None, b""):
        status, problem = await call("POST", "/v1/cluster/pause", body, {"Content-Type": kind})
        assert (status, problem["code"]) == (415, "unsupported-media-type"), body
    assert (await call("POST", "/v1/cluster/pause"))[0] == 200
    assert (await call("POST", "/v1/cluster/resume", b"", {"Content-Type": "application/json"}))[0] == 200
