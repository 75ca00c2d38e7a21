"""What holds on every route of the table, also on those yet to come: headers, preconditions, refusals, lists."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.routes import ROUTES
from raftsched.api.serving import Route
from raftsched.errors import NoLeader
from raftsched.surface.operation import PageOf
from tests.support.local_api import Client, LocalCluster, serving

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "name": "a"}
BODIES = ("POST", "PUT", "PATCH")
WHOLE = (  # short, never in pages
    "/v1/nodes",
    "/v1/cluster/terms",
    "/v1/jobs/{id}/revisions",
    "/v1/namespaces/{ns}/jobs/{name}/revisions",
)
HUGE = 64 * 1024 * 1024
STAMPS = ("Raftsched-Leader", "Raftsched-Term", "Raftsched-Index", "Cache-Control")

PATHS: defaultdict[str, dict[str, Route]] = defaultdict(dict)
for _route in ROUTES:
    PATHS[_route.path][_route.method] = _route
GETS = [route for route in ROUTES if route.method == "GET"]
RESOURCES = [route for route in GETS if route.path.startswith("/v1/")]
# take pieces of a stream, and are no resources
UPLOADS = ("/v1/worker-sessions/{session}/runs/{token}/output", "/v1/nodes/{id}/output-copies")
CHANGES = [route for route in ROUTES if route.method in BODIES and route.path not in UPLOADS]
EDITED = [path for path, ways in PATHS.items() if ways.keys() & {"PUT", "PATCH"} and path not in UPLOADS]


def said(route: Route) -> Any:
    return route.operation


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def run(directory: Path, test: Callable[[Client, dict[str, str]], Awaitable[None]]) -> None:
    """`test` is given the values that stand for the parts of an address."""

    async def main() -> None:
        cluster = LocalCluster(directory, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as call:
                await test(call, await prepared(call))
        finally:
            cluster.close()

    asyncio.run(main())


async def prepared(call: Client) -> dict[str, str]:
    """One of each, as far as it can be made by one request."""
    call.cluster.open_session("n1", "127.0.0.1:1")
    _, job = await call("POST", "/v1/jobs", JOB)
    _, instance = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    _, operation = await call("POST", "/v1/jobs:actions", {"action": "resume", "ids": [job["id"]]})
    await call("PUT", "/v1/queues/a", {"max_running": 3})
    return {
        "jobs": job["id"],
        "instances": instance["id"],
        "workflows": instance["id"],
        "operations": operation["id"],
        "nodes": "n1",
        "members": "n1",
    }


def address(route: Route, parts: dict[str, str]) -> str:
    pieces = route.path.split("/")
    for i, piece in enumerate(pieces):
        if re.fullmatch(r"\{[a-z_]+(:.*)?\}", piece):
            by_name = piece.startswith("{name")
            pieces[i] = {"{ns}": "default"}.get(piece) or ("a" if by_name else parts.get(pieces[i - 1], "a"))
    path = "/".join(pieces)
    if "jobs" in said(route).required:
        return f"{path}?jobs={parts['jobs']}"
    if "q" in said(route).required:
        return f"{path}?q=x"
    return f"{path}?follow=false" if said(route).streams else path


def with_query(path: str, query: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{query}"


# ---------------------------------------------------------------- what routes say of themselves


@pytest.mark.parametrize("route", RESOURCES, ids=name)
def test_every_read_can_be_made_fresh(route: Route) -> None:
    assert {"consistency", "min_index"} <= set(said(route).query)


@pytest.mark.parametrize("path", EDITED)
def test_what_is_edited_has_a_tag_and_edits_can_be_made_conditional(path: str) -> None:
    ways = PATHS[path]
    if "GET" in ways:
        assert "ETag" in said(ways["GET"]).answers[200].headers, "GET answers no ETag"
    for method in ways.keys() & {"PUT", "PATCH", "DELETE"}:
        one = said(ways[method])
        assert "If-Match" in one.headers, f"{method} takes no If-Match"
        assert "stale-revision" in one.codes, method
        for status, answer in one.answers.items() if method != "DELETE" else ():
            assert "ETag" in answer.headers, f"{method} answers {status} without an ETag"
        if 201 in one.answers:
            assert "If-None-Match" in one.headers, f"{method} cannot be made to create only"


@pytest.mark.parametrize("route", GETS, ids=name)
def test_a_tag_that_the_reader_has_spares_the_answer(route: Route) -> None:
    one = said(route)
    if route.path.endswith("/state"):  # changes without the tag, which is that of the job's content
        assert "If-None-Match" not in one.headers
    elif "ETag" in one.answers[200].headers:
        assert "If-None-Match" in one.headers
        assert "ETag" in one.answers[304].headers


@pytest.mark.parametrize("route", ROUTES, ids=name)
def test_what_was_made_or_begun_is_named(route: Route) -> None:
    for status, answer in said(route).answers.items():
        if status in (201, 202):
            assert "Location" in answer.headers, status


@pytest.mark.parametrize("route", GETS, ids=name)
def test_lists_come_in_pages(route: Route) -> None:
    answer = said(route).answers[200]
    if isinstance(answer.schema, PageOf) and route.path not in WHOLE:
        assert {"limit", "cursor"} <= set(said(route).query)
        assert "Link" in answer.headers


# ---------------------------------------------------------------- what they do


@pytest.mark.parametrize("route", ROUTES, ids=name)
def test_every_answer_says_who_leads_and_how_far_this_node_is(tmp_path: Path, route: Route) -> None:
    async def test(call: Client, parts: dict[str, str]) -> None:
        for query in ("", "zzz=1"):  # done, and refused
            path = with_query(address(route, parts), query) if query else address(route, parts)
            await call(route.method, path, {} if route.method in BODIES else None)
            assert all(stamp in call.headers for stamp in STAMPS), query

    run(tmp_path, test)


@pytest.mark.parametrize("path", PATHS)
def test_other_methods_are_refused_with_those_there_are(tmp_path: Path, path: str) -> None:
    async def test(call: Client, parts: dict[str, str]) -> None:
        ways = PATHS[path]
        there = {*ways, *(["HEAD"] if "GET" in ways else [])}
        target = address(next(iter(ways.values())), parts).partition("?")[0]
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - there:
            status, problem = await call(method, target)
            assert status == 405, method
            assert call.headers["Allow"] == ", ".join(sorted(there))
            assert all(stamp in call.headers for stamp in STAMPS)
            assert method == "HEAD" or problem["code"] == "method-not-allowed"

    run(tmp_path, test)


@pytest.mark.parametrize("route", CHANGES, ids=name)
def test_bodies_are_json_of_a_bounded_size(tmp_path: Path, route: Route) -> None:
    async def test(call: Client, parts: dict[str, str]) -> None:
        path = address(route, parts)
        before = call.cluster.store.applied_index
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            status, problem = await call(route.method, path, b"{}", {"Content-Type": kind})
            assert (status, problem["code"]) == (415, "unsupported-media-type"), kind
        head = f"{route.method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        status, headers = await raw(call, f"{head}Content-Length: {HUGE}\r\n\r\n".encode())
        assert status == 413
        assert all(stamp.lower() in headers for stamp in STAMPS)
        assert call.cluster.store.applied_index <= before + 1  # a barrier perhaps, to find what is meant

    run(tmp_path, test)


@pytest.mark.parametrize("route", GETS, ids=name)
def test_every_get_may_be_asked_as_head(tmp_path: Path, route: Route) -> None:
    async def test(call: Client, parts: dict[str, str]) -> None:
        path = address(route, parts)
        status, body = await call("GET", path)
        wanted = {k: v for k, v in call.headers.items() if k in ("Content-Type", "Content-Length", "ETag", "Link")}
        if route.path in ("/metrics", "/v1/cluster/snapshot"):
            del wanted["Content-Length"]
        assert status in (200, 404), body
        head = await call("HEAD", path)
        assert head == (status, "")
        given = {k: v for k, v in call.headers.items() if k in wanted}
        assert {"Content-Length": "0", **given} == {"Content-Length": "0", **wanted}  # of nothing it may be left out

    run(tmp_path, test)


@pytest.mark.parametrize("route", [route for route in GETS if said(route).streams], ids=name)
def test_the_head_of_what_goes_on_does_not_wait(tmp_path: Path, route: Route) -> None:
    async def test(call: Client, parts: dict[str, str]) -> None:
        path = address(route, parts).partition("?")[0]
        for accept in ("*/*", "text/event-stream"):
            assert await call("HEAD", f"{path}?follow=true", None, {"Accept": accept}) == (200, "")

    run(tmp_path, test)


@pytest.mark.parametrize("route", RESOURCES, ids=name)
def test_reads_wait_for_what_is_asked_of_them_and_say_when_it_does_not_come(tmp_path: Path, route: Route) -> None:
    async def test(call: Client, parts: dict[str, str]) -> None:
        path = address(route, parts)
        status, plain = await call("GET", path)
        index = int(call.headers["Raftsched-Index"])
        assert (await call("GET", with_query(path, f"min_index={index}")))[0] == status, plain
        ahead, problem = await call("GET", with_query(path, f"min_index={index + 10}"))
        assert (ahead, problem["code"]) == (503, "behind")
        assert call.headers["Retry-After"]
        assert (await call("GET", with_query(path, "consistency=leader")))[0] == status
        assert int(call.headers["Raftsched-Index"]) > index
        for query in ("min_index=-1", "min_index=x", "consistency=strong"):
            assert (await call("GET", with_query(path, query)))[0] == 400, query
        call.cluster.failure = NoLeader()
        assert (await call("GET", with_query(path, "consistency=leader")))[0] == 503
        assert (await call("GET", path))[0] == status

    run(tmp_path, test)


async def raw(call: Client, request: bytes) -> tuple[int, dict[str, str]]:
    """What is answered to the head of a request whose body does not come."""
    host, _, port = call.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), {key.lower(): value for key, value in pairs}
    finally:
        writer.close()


def test_what_is_no_request_is_answered_with_who_leads_too(tmp_path: Path) -> None:
    async def test(call: Client, parts: dict[str, str]) -> None:
        for request in (
            b"NONSENSE\r\n\r\n",
            b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX" + b"x" * 9_000 + b": 1\r\n\r\n",
        ):
            status, headers = await raw(call, request)
            assert status == 400
            assert all(stamp.lower() in headers for stamp in STAMPS), headers
        status, _ = await call("GET", "/v2/jobs")
        assert status == 404
        assert all(stamp in call.headers for stamp in STAMPS)

    run(tmp_path, test)
