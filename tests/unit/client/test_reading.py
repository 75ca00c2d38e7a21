"""raftsched.AsyncClient: lists, outputs and events to their ends, whichever node breaks off; which job is meant."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import raftsched
from tests.support.stub_server import Reply, Request, problem, serve
from tests.unit.client.test_transport import client, script


def test_pages_are_read_to_the_end_or_as_far_as_wanted() -> None:
    def answer(request: Request) -> Reply:
        if "cursor=b" in request.path:
            return 200, {"items": [_instance("3")], "next": None}
        if "cursor=a" in request.path:
            return 200, {"items": [], "next": "b"}
        return 200, {"items": [_instance("1"), _instance("2")], "next": "a"}

    async def main() -> None:
        with serve(answer) as stub:
            async with client(stub.url) as c:
                assert [i.id async for i in c.instances.list(state="FAILED")] == ["1", "2", "3"]
                assert all("state=FAILED" in r.path for r in stub.requests)
                stub.requests.clear()
                assert [i.id async for i in c.instances.list(most=2)] == ["1", "2"]
                assert len(stub.requests) == 1
                assert "limit=2" in stub.requests[0].path

    asyncio.run(main())


def _instance(name: str) -> dict[str, Any]:
    now = "2030-01-01T00:00:00Z"
    fields: dict[str, Any] = dict.fromkeys(raftsched.Instance.__struct_fields__)
    fields |= {"id": name, "job_id": "j", "state": "FAILED", "attempts": []}
    fields |= dict.fromkeys(("scheduled_at", "created_at", "modified_at"), now)
    fields |= dict.fromkeys(("manual", "kill_asked", "dead_letter"), False)
    return fields | dict.fromkeys(("priority", "attempt", "job_revision", "skipped", "snoozes"), 0)


def test_output_goes_on_where_a_node_broke_off() -> None:
    text = b"one\ntwo\nthree\n"
    running = {**_instance("i"), "state": "RUNNING", "attempt": 1, "attempts": [_attempt(None)]}
    over = {**running, "state": "SUCCEEDED", "attempts": [_attempt("succeeded")]}
    asked: list[str] = []

    def answer(request: Request) -> Reply:
        if "/output" not in request.path:
            return 200, running if len(asked) < 3 else over
        asked.append(request.path)
        offset = int(request.path.partition("offset=")[2].partition("&")[0])
        if len(asked) == 2:
            return 0, None
        return 200, text[offset : offset + 5] if len(asked) < 4 else text[offset:]

    async def main() -> None:
        with serve(answer) as stub:
            async with client(stub.url) as c:
                pieces = [piece async for piece in c.instances.follow("i")]
        assert b"".join(pieces) == text
        assert len(asked) >= 4

    asyncio.run(main())


def test_events_go_on_after_the_last_one_at_whichever_node() -> None:
    def event(ident: str) -> bytes:
        data = json.dumps({"id": ident, "at": "2030-01-01T00:00:00Z", "type": "job.created", "job_id": "j"})
        return f"id: {ident}\ndata: {data}\n\n".encode()

    gone = problem(410, "events-gone", "too old")

    async def main() -> None:
        first = b"id: 5\n\n" + event("7.0") + event("7.1") + b"id: 8.0\ndata: {"
        with serve(script((200, first), (0, None), (200, b"id: 9\n\n"), (200, event("10.0")), gone)) as stub:
            async with client(stub.url) as c:
                seen = []

                async def read() -> None:
                    async for found in c.events(type="job"):
                        seen.append((found.id, found.type, found.job_id))

                with pytest.raises(raftsched.NotFoundError) as caught:
                    await read()
                assert caught.value.code == "events-gone"
            assert seen == [(i, "job.created", "j") for i in ("7.0", "7.1", "10.0")], "half an event is none"
            asked = [r.path.partition("after=")[2].partition("&")[0] for r in stub.requests]
            assert asked == ["", "7.1", "7.1", "9", "10.0"]
            assert all("type=job" in r.path for r in stub.requests)

    asyncio.run(main())


def test_a_problem_within_a_stream_of_events_is_raised() -> None:
    frame = b"event: problem\ndata: " + json.dumps(problem(410, "events-gone", "too old")[1]).encode() + b"\n\n"

    async def main() -> None:
        with serve(script((200, frame))) as stub:
            async with client(stub.url) as c:
                with pytest.raises(raftsched.NotFoundError, match="too old"):
                    await anext(c.events(after="oldest"))

    asyncio.run(main())


def _attempt(outcome: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"number": 1, "node": "n1", "session": 1, "token": 1, "outcome": outcome}
    names = ("started_at", "ended_at", "exit_code", "error", "result", "output")
    return {**fields, "assigned_at": "2030-01-01T00:00:00Z", **dict.fromkeys(names)}


def test_a_job_is_meant_by_id_or_by_namespace_and_name() -> None:
    async def main() -> None:
        with serve(script(problem(404, "not-found", "none"))) as stub:
            async with client(stub.url) as c:
                for ref in ("0d3k5xw2a9f4m", "billing/night", raftsched.Created(id="x y", state="NEW", revision=1)):
                    with pytest.raises(raftsched.NotFoundError):
                        await c.jobs.get(ref)
                assert [r.path for r in stub.requests] == [
                    "/v1/jobs/0d3k5xw2a9f4m",
                    "/v1/namespaces/billing/jobs/night",
                    "/v1/jobs/x%20y",
                ]
                for bad in ("", "/a", "a/", "a/b/c", "../x", ".", ".."):
                    with pytest.raises(ValueError, match="names no job"):
                        await c.jobs.get(bad)

    asyncio.run(main())
