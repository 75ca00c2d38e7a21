"""The spans of requests: whose trace they join, which requests have none, and how a trace goes on to another node."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from raftsched.core.ids import instance_key, parse_instance, parse_job
from raftsched.embedded.logs import JsonFormatter
from raftsched.errors import NoLeader
from raftsched.tracing.current import here
from raftsched.tracing.requests import RequestTraces
from tests.integration.api.http.test_fastpath import JOB, read_answer, request
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.tokens import guarded, unknown
from tests.support.traces import CALLER, CALLER_SPAN, CALLER_TRACE, UNSAMPLED, Kept, attributes, ids, parent

JOINED = {"traceparent": CALLER}


def traced(directory: Path, test: Callable[[Client, Kept], Awaitable[None]], kept: Kept | None = None) -> None:
    """Runs a test against a node whose requests have traces."""

    async def main() -> None:
        cluster = LocalCluster(directory)
        found = kept or Kept(cluster.clock)
        cluster.traces = RequestTraces(found.tracer)
        try:
            async with serving(cluster, "n1") as client:
                await test(client, found)
        finally:
            cluster.close()

    asyncio.run(main())


async def fast(call: Client, body: bytes = JOB, extra: bytes = b"") -> tuple[int, Any]:
    """POST /v1/jobs as the fast path takes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
    try:
        writer.write(request(body, extra))
        status, _, answer = await read_answer(reader)
        return status, answer
    finally:
        writer.close()
        await writer.wait_closed()


def test_a_request_joins_the_trace_of_its_caller(tmp_path: Path) -> None:
    async def test(call: Client, kept: Kept) -> None:
        _, job = await call("POST", "/v1/jobs", json.loads(JOB), JOINED)
        entry, post = kept.spans
        assert (post.name, ids(post)[0], parent(post)) == ("POST /v1/jobs", CALLER_TRACE, CALLER_SPAN)
        assert (entry.name, parent(entry)) == ("log entry", ids(post)[1])
        assert attributes(post)["raftsched.job.id"] == job["id"]
        await call("GET", f"/v1/jobs/{job['id']}?fields=id", headers=JOINED)
        get = kept.named("GET /v1/jobs/{id}")
        assert attributes(get)["url.path"] == f"/v1/jobs/{job['id']}"
        assert attributes(get)["url.query"] == "fields=id"
        assert parent(get) == CALLER_SPAN
        await call("GET", f"/v1/jobs/{job['id']}")
        assert (parent(kept.spans[-1]), ids(kept.spans[-1])[0] == CALLER_TRACE) == ("", False)

    traced(tmp_path, test)


def test_the_fast_path_has_the_same_spans(tmp_path: Path) -> None:
    async def test(call: Client, kept: Kept) -> None:
        for extra in (b"", b"X-Other: 1\r\n"):
            assert (await fast(call, extra=extra))[0] == 201
        first, second = kept.spans[:2], kept.spans[2:]
        for entry, post in (first, second):
            assert (entry.name, post.name) == ("log entry", "POST /v1/jobs")
            assert parent(entry) == ids(post)[1]
            assert len(post.links) == 1
        known = [set(attributes(post)) - {"user_agent.original"} for _, post in (first, second)]
        assert known[0] == known[1]
        assert ids(first[1])[0] != ids(second[1])[0]
        assert (await fast(call, b"{}"))[0] == 422
        assert attributes(kept.spans[-1])["http.response.status_code"] == 422
        call.cluster.failure = NoLeader()
        assert (await fast(call))[0] == 503
        assert attributes(kept.spans[-1])["error.type"] == "503"

    traced(tmp_path, test)


def test_several_requests_of_a_connection_do_not_mix(tmp_path: Path) -> None:
    async def test(call: Client, kept: Kept) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
        writer.write(request() * 3)
        for _ in range(3):
            assert (await read_answer(reader))[0] == 201
        writer.close()
        await writer.wait_closed()
        posts = [span for span in kept.spans if span.name != "log entry"]
        assert len({ids(span)[0] for span in kept.spans}) == len(posts) == 3

    traced(tmp_path, test)


def test_links_lead_to_what_was_asked_for(tmp_path: Path) -> None:
    async def test(call: Client, kept: Kept) -> None:
        _, job = await call("POST", "/v1/jobs", {"trigger": {"in": "1h"}, "handler": {"exec": ["true"]}})
        number = parse_job(job["id"])
        assert number is not None
        due = instance_key(call.cluster.clock.wall + 3_600_000, number)
        _, run = await call("POST", f"/v1/jobs/{job['id']}/run")
        _, batch = await call("POST", "/v1/jobs:batch", [{"trigger": {"in": "1h"}, "handler": {"exec": ["true"]}}] * 2)
        asked = parse_instance(run["id"])
        assert asked is not None
        found = [span for span in kept.spans if span.name != "log entry"]
        links = [[link.context.trace_id for link in span.links] for span in found]
        assert links[0] == [kept.tracer.fire_context(due).trace_id]
        assert links[1] == [kept.tracer.fire_context(asked).trace_id]
        assert len(links[2]) == 2, batch

    traced(tmp_path, test)


def test_who_is_not_let_in_joins_no_trace(tmp_path: Path) -> None:
    kept = Kept(sampler=ParentBased(ALWAYS_OFF))

    async def test(call: Client, kept: Kept) -> None:
        by = await guarded(call)
        for headers in (by["nobody"].headers, {"Authorization": f"Bearer {unknown('x')}"}):
            assert (await call("GET", "/v1/jobs", headers={**headers, **JOINED}))[0] == 401
        assert kept.spans == ()
        assert (await by["viewer"]("GET", "/v1/jobs", headers=JOINED))[0] == 200
        assert [ids(span)[0] for span in kept.spans] == [CALLER_TRACE]
        assert (await by["viewer"]("DELETE", "/v1/jobs/0000000000001", headers=JOINED))[0] == 403
        assert (await by["viewer"]("GET", "/v1/jobs", headers={"traceparent": UNSAMPLED}))[0] == 200
        assert len(kept.spans) == 1

    traced(tmp_path, test, kept)


def test_refusals_have_spans(tmp_path: Path) -> None:
    async def test(call: Client, kept: Kept) -> None:
        by = await guarded(call)
        assert (await by["nobody"]("GET", "/v1/jobs", headers=JOINED))[0] == 401
        span = kept.spans[-1]
        assert (attributes(span)["http.response.status_code"], parent(span)) == (401, "")

    traced(tmp_path, test)


def test_what_comes_by_itself_has_no_span(tmp_path: Path) -> None:
    async def test(call: Client, kept: Kept) -> None:
        call.checked = False
        for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/ui/", "/nowhere"):
            await call("GET", path, headers=JOINED)
        await call("POST", "/v1/worker-sessions/1-0/poll", {}, JOINED)
        assert kept.spans == ()

    traced(tmp_path, test)


def test_a_trace_goes_on_to_the_node_that_is_asked(tmp_path: Path) -> None:
    from tests.integration.api.runs.test_output import end, start

    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2"))
        kept = Kept(cluster.clock)
        cluster.traces = RequestTraces(kept.tracer)
        try:
            async with serving(cluster, "n1") as first, serving(cluster, "n2") as second:
                cluster.open_session("n1", first.url.removeprefix("http://"))
                path, token = await start(first)
                end(cluster, token, b"")
                assert (await second("GET", f"{path}/output", headers=JOINED))[0] == 200
        finally:
            cluster.close()
        there, here_ = [span for span in kept.spans if span.name == "GET /v1/instances/{id}/output"]
        assert parent(there) == ids(here_)[1]
        assert parent(here_) == CALLER_SPAN

    asyncio.run(main())


@pytest.mark.parametrize("connection", ["fast", "slow"])
def test_lines_of_the_log_name_the_span(tmp_path: Path, caplog: pytest.LogCaptureFixture, connection: str) -> None:
    def broken() -> None:
        raise KeyError("a bug")

    async def test(call: Client, kept: Kept) -> None:
        lines: list[dict[str, Any]] = []
        shown = JsonFormatter("n1")

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                lines.append(json.loads(shown.format(record)))

        handler = Handler(logging.ERROR)
        logging.getLogger("raftsched").addHandler(handler)
        try:
            call.cluster.before = broken
            assert (await fast(call, extra=b"" if connection == "fast" else b"X-Other: 1\r\n"))[0] == 500
        finally:
            logging.getLogger("raftsched").removeHandler(handler)
        post = kept.named("POST /v1/jobs")
        (line,) = lines
        assert (line["trace_id"], line["span_id"]) == ids(post)
        assert here.get() is None

    traced(tmp_path, test)
