"""Output as server-sent events: every byte once, also for a reader who is cut off and comes again at another node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from raftsched.api.http import streams
from raftsched.api.http.streams import HEARTBEAT_S
from raftsched.api.runs import output_source
from raftsched.api.runs.output_stream import PIECE_MAX, _pieces
from raftsched.core.commands import EndSession, Kill
from raftsched.core.ids import parse_instance
from raftsched.output.format import spool
from raftsched.output.reading import chain
from tests.integration.api.runs.test_output import FRAMES, JOB, TEXT, between, end, start
from tests.support import sse
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.patience import within

SSE = {"Accept": "text/event-stream"}


def get(call: Client, path: str, ident: str | None = None, query: str = "") -> aiohttp.client._RequestContextManager:
    headers = SSE if ident is None else {**SSE, "Last-Event-ID": ident}
    return call.session.get(f"{call.url}{path}/output?follow=true{query}", headers=headers)


def write(call: Client, token: int, frames: bytes) -> None:
    """As the keeper of a run writes."""
    live = call.cluster.outputs["n1"]._live_path(token)
    live.parent.mkdir(parents=True, exist_ok=True)
    live.write_bytes(frames)


def test_it_comes_while_the_run_goes_on_here_and_through_the_other_node(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        for call in (first, second):
            path, token = await start(first)
            one = spool.pack(spool.STDOUT, b"one\n")
            write(first, token, one)
            async with get(call, path) as answer:
                assert answer.headers["Content-Type"] == "text/event-stream"
                lines = (said async for said in sse.read(answer) if said.data is not None)
                assert await anext(lines) == ("", "1.4", {"offset": 0, "text": "one\n", "stream": "stdout"})
                write(first, token, one + spool.pack(spool.STDERR, "gr\u00fc\u00df".encode()[:-1]))
                assert await anext(lines) == ("", "1.8", {"offset": 4, "text": "gr\u00fc", "stream": "stderr"})
                end(first.cluster, token, one + spool.pack(spool.STDERR, "gr\u00fc\u00df\n".encode()))
                assert await anext(lines) == ("", "1.11", {"offset": 8, "text": "\u00df\n", "stream": "stderr"})
                told = {"attempt": 1, "outcome": "succeeded", "exit_code": 0, "truncated": 0}
                assert await anext(lines) == ("end", "1.11", told)
                assert await anext(lines, None) is None

    between(tmp_path, test)


def test_a_reader_goes_on_at_the_other_node_behind_what_it_has(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, FRAMES)
        for call in (first, second):
            for at in (0, 4, len(TEXT)):
                async with get(call, path, f"1.{at}") as answer:
                    found = [said async for said in sse.read(answer) if said.data is not None]
                assert "".join(said.data["text"] for said in found[:-1]) == TEXT[at:]
                assert found[-1].event == "end"
            async with get(call, path, query="&stream=stderr&tail=1") as answer:
                found = [said async for said in sse.read(answer) if said.data is not None]
            assert [said.data.get("text") for said in found] == ["oops\n", None]

    between(tmp_path, test)


def test_before_it_starts_and_when_it_never_does(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        _, job = await first("POST", "/v1/jobs", JOB)
        _, made = await first("POST", f"/v1/jobs/{job['id']}/run")
        key = parse_instance(made["id"])
        assert key is not None
        async with get(second, f"/v1/instances/{made['id']}") as answer:
            assert answer.status == 200, "at once: who reads is not left to guess"
            first.cluster.apply(Kill(key))
            found = [said async for said in sse.read(answer) if said.data is not None]
        assert found == [("end", "", {"attempt": None, "outcome": None, "exit_code": None, "truncated": 0})]

    between(tmp_path, test)


def test_a_lost_attempt_ends(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        write(first, token, FRAMES)
        first.cluster.apply(EndSession(first.cluster.sessions["n1"], 1))
        async with get(second, path) as answer:
            found = [said async for said in sse.read(answer) if said.data is not None]
        assert [(said.event, said.data["outcome"]) for said in found] == [("end", "lost")]

    between(tmp_path, test)


def test_a_reader_of_one_stream_is_told_where_it_is_while_the_other_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_source, "POLL_S", 0.01)
    monkeypatch.setattr(chain, "FRESH_S", 0.0)

    async def test(first: Client, second: Client) -> None:
        for call in (first, second):
            path, token = await start(first)
            printed = spool.pack(spool.STDOUT, b"one\n")
            write(first, token, printed)
            async with get(call, path, query="&stream=stderr") as answer:
                lines = sse.read(answer)
                assert await within(anext(lines)) == ("", "", None), "the stream is there"
                for place in ("1.4", "1.8"):
                    assert await reached(lines, place, first) is None
                    printed += spool.pack(spool.STDOUT, b"more")
                    write(first, token, printed)
                end(first.cluster, token, printed + spool.pack(spool.STDERR, b"oops\n"))
                said = await reached(lines, "1.17", first)
                assert said == {"offset": 12, "text": "oops\n", "stream": "stderr"}

    between(tmp_path, test)


async def reached(lines: AsyncIterator[sse.Said], place: str, call: Client) -> Any:
    """What is said with this id; before it come earlier ones without data, as time goes on."""
    while True:
        call.cluster.clock.forward(HEARTBEAT_S * 1_000)
        said = await within(anext(lines))
        if said.id == place:
            return said.data
        assert said.data is None


def test_a_stream_says_that_it_is_there_while_the_node_that_has_the_output_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.01)
    answers = asyncio.Event()

    at_once = output_source.ask

    async def ask(*asked: Any) -> aiohttp.ClientResponse:
        await answers.wait()
        return await at_once(*asked)

    monkeypatch.setattr(output_source, "ask", ask)

    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, FRAMES)
        async with get(second, path) as answer:
            lines = sse.read(answer)
            for _ in range(5):
                assert await within(anext(lines)) == ("", "", None)
                first.cluster.clock.forward(10)
            answers.set()
            found = [said async for said in lines if said.data is not None]
        assert "".join(said.data["text"] for said in found[:-1]) == TEXT
        assert found[-1].event == "end"

    between(tmp_path, test)


@pytest.mark.parametrize("ident", ["1", "x.1", "1.x"])
def test_an_id_that_was_not_answered_here(ident: str, tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, _ = await start(first)
        async with get(second, path, ident) as answer:
            assert answer.status == 400
            assert "Last-Event-ID" in (await answer.json(content_type=None))["detail"]
        status, problem = await first("GET", "/v1/instances/0d3k5xw2a9f4m@1/output?follow=true", headers=SSE)
        assert (status, problem["code"]) == (404, "not-found")

    between(tmp_path, test)


def test_pieces_are_cut_between_characters() -> None:
    text = ("\u00e4\u20ac\U0001f600x" * PIECE_MAX).encode()
    pieces = _pieces(text, whole=True)
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= PIECE_MAX
    assert "".join(piece.decode() for piece in pieces) == text.decode()
    for cut in range(1, 5):
        assert b"".join(_pieces(text[:-cut], whole=False)).decode(errors="strict")
    raw = bytes(range(256)) * 1_000  # no UTF-8: nothing is kept back for ever
    assert b"".join(_pieces(raw, whole=True)) == raw
    assert len(raw) - len(b"".join(_pieces(raw, whole=False))) < 4


def test_plain_text_says_whose_it_is_and_where_it_begins(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, FRAMES)
        for call in (first, second):
            for query, offset in (("", 0), ("?offset=4", 4), ("?tail=1", 8), ("?follow=true&tail=2", 4)):
                assert await call("GET", f"{path}/output{query}") == (200, TEXT[offset:])
                assert (call.headers["Raftsched-Attempt"], call.headers["Raftsched-Offset"]) == ("1", str(offset))

    between(tmp_path, test)


def test_a_node_that_stops_cuts_the_answer_and_does_not_end_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        try:
            async with aiohttp.ClientSession() as session:
                async with serving(cluster, "n1") as call:
                    cluster.open_session("n1", call.url.removeprefix("http://"))
                    path, token = await start(call)
                    write(call, token, FRAMES)
                    answer = await session.get(f"{call.url}{path}/output?follow=true")
                    assert await answer.content.readexactly(len(TEXT)) == TEXT.encode()
                with pytest.raises(aiohttp.ClientError):
                    await answer.read()
        finally:
            cluster.close()

    asyncio.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
