"""Output as events: which stream printed what, in order, with places that hold when the middle is left out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from raftsched.output.format import spool
from raftsched.output.format.spool import STDERR, STDOUT, Capture, pack
from raftsched.output.reading import chain
from raftsched.output.reading import text as reading
from tests.integration.api.runs.test_output import between, end, start
from tests.support import sse
from tests.support.local_api import Client, LocalCluster

SSE = {"Accept": "text/event-stream"}
MIXED = pack(STDOUT, b"one\n") + pack(STDERR, b"oops\n") + pack(STDOUT, b"two\n") + pack(STDOUT, b"three\n")


@pytest.fixture(autouse=True)
def each_looks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test takes what a reader before it has seen, which may be a moment old."""
    monkeypatch.setattr(chain, "FRESH_S", 0.0)


async def read(call: Client, path: str, query: str = "", ident: str | None = None) -> list[sse.Said]:
    headers = SSE if ident is None else {**SSE, "Last-Event-ID": ident}
    async with call.session.get(f"{call.url}{path}/output?{query}", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return [said async for said in sse.read(answer) if said.data is not None]


def shown(found: list[sse.Said]) -> list[tuple[int, str, str, int]]:
    """(offset, stream, text, skipped) of each piece."""
    pieces = [said.data for said in found if not said.event]
    return [(piece["offset"], piece["stream"], piece["text"], piece.get("skipped", 0)) for piece in pieces]


def spooled(cluster: LocalCluster, token: int, limit: int, *writes: tuple[int, bytes]) -> Capture:
    """As the keeper of a run writes that keeps so many bytes."""
    store = cluster.outputs["n1"]
    store.max_attempt_bytes = limit
    capture = Capture(str(store.live_directory), limit)
    for stream, data in writes:
        capture.write(stream, data, 0)
    capture.flush(token)
    return capture


def test_each_piece_says_its_stream_here_and_through_the_other_node(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, MIXED)
        for call in (first, second):
            for query in ("", "follow=true", "follow=false"):
                found = await read(call, path, query)
                assert shown(found) == [
                    (0, "stdout", "one\n", 0),
                    (4, "stderr", "oops\n", 0),
                    (9, "stdout", "two\nthree\n", 0),
                ]
                assert [said.id for said in found] == ["1.4", "1.9", "1.19", "1.19"]
                assert (found[-1].event, found[-1].data["outcome"]) == ("end", "succeeded")
            for stream, pieces in (
                ("stderr", [(4, "stderr", "oops\n", 0)]),
                ("stdout", [(0, "stdout", "one\n", 0), (9, "stdout", "two\nthree\n", 0)]),
            ):
                assert shown(await read(call, path, f"stream={stream}")) == pieces
                begun = await read(call, path, f"stream={stream}", pieces[0][1] and "1.9")
                assert shown(begun) == [piece for piece in pieces if piece[0] >= 9], "places are those of both streams"
            assert shown(await read(call, path, "stream=stdout&tail=2")) == [(9, "stdout", "two\nthree\n", 0)]

    between(tmp_path, test)


def test_a_page_of_it(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, MIXED)
        for call in (first, second):
            at, pieces = 0, []
            for _ in range(10):
                found = await read(call, path, f"offset={at}&limit_bytes=6")
                pieces += shown(found)
                if found[-1].event == "end":
                    break
                assert (found[-1].event, found[-1].data) == ("more", {"offset": min(at + 6, 19)})
                at = found[-1].data["offset"]
            assert "".join(text for _, _, text, _ in pieces) == "one\noops\ntwo\nthree\n"
            assert [stream for _, stream, _, _ in pieces] == [
                "stdout",
                "stderr",
                "stderr",
                "stdout",
                "stdout",
                "stdout",
            ]

    between(tmp_path, test)


def test_what_there_is_of_one_that_goes_on(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        assert [(said.event, said.data) for said in await read(second, path)] == [("more", {"offset": 0})]
        capture = spooled(first.cluster, token, 1_000, (STDOUT, b"one\n"), (STDERR, "gr\u00fc".encode()[:-1]))
        found = await read(second, path)
        assert shown(found) == [(0, "stdout", "one\n", 0), (4, "stderr", "gr", 0)]
        assert (found[-1].event, found[-1].id) == ("more", "1.6")
        capture.write(STDOUT, b"two\n", 0)
        capture.write(STDERR, "\u00fc\n".encode()[1:], 0)
        capture.flush(token)
        found = await read(second, path, ident=found[-1].id)
        assert shown(found) == [(6, "stdout", "two\n", 0), (10, "stderr", "\u00fc\n", 0)], "no character is torn"

    between(tmp_path, test)


def test_a_follower_goes_on_behind_what_is_left_out(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        capture = spooled(first.cluster, token, 20, (STDOUT, b"0123456789"), (STDERR, b"abc"))
        async with second.session.get(f"{second.url}{path}/output?follow=true", headers=SSE) as answer:
            said = (said async for said in sse.read(answer) if said.data is not None)
            head = [await anext(said), await anext(said)]
            assert shown(head) == [(0, "stdout", "0123456789", 0), (10, "stderr", "abc", 0)]
            capture.write(STDOUT, b"defgh", 0)  # still all of it
            capture.flush(token)
            assert shown([await anext(said)]) == [(13, "stdout", "defgh", 0)]
            capture.write(STDOUT, b"i" * 100 + b"tail text!", 0)
            capture.flush(token)
            assert shown([await anext(said)]) == [(118, "stdout", "tail text!", 100)]
            capture.write(STDERR, b"+", 0)
            _, _, cut = capture.finish(token)
            end(first.cluster, token, b"", spooled=True)
            last = [await anext(said), await anext(said)]
            assert shown(last) == [(128, "stderr", "+", 0)]
            assert last[-1].id == "1.129"
            assert cut == 109
        for ident, expected in (
            ("1.4", [(4, "stdout", "456789", 0), (119, "stdout", "ail text!", 109), (128, "stderr", "+", 0)]),
            ("1.50", [(119, "stdout", "ail text!", 69), (128, "stderr", "+", 0)]),
            ("1.120", [(120, "stdout", "il text!", 0), (128, "stderr", "+", 0)]),
            ("1.129", []),
        ):
            assert shown(await read(second, path, ident=ident)) == expected, "after the end the places are the same"

    between(tmp_path, test)


def test_a_reader_of_the_end_begins_there_and_jumps_when_it_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SPAN", 10_000)
    body = "\u20ac".encode() * 40_000  # 120,000 bytes; the place 64 KiB before the end is within a character

    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        capture = spooled(first.cluster, token, 10_000_000, (STDOUT, body))
        async with second.session.get(f"{second.url}{path}/output?follow=true&tail_bytes=65536", headers=SSE) as answer:
            said = (said async for said in sse.read(answer) if said.data is not None)
            pieces = shown([await anext(said)])
            while pieces[-1][0] + len(pieces[-1][2].encode()) < len(body):
                pieces += shown([await anext(said)])
            assert pieces[0][0] == 54_465, "the next character"
            assert "".join(text for _, _, text, _ in pieces) == body[54_465:].decode()
            assert not any(skipped for _, _, _, skipped in pieces)
            capture.write(STDERR, b"x" * 300_000, 0)
            capture.flush(token)
            offset, stream, _, skipped = shown([await anext(said)])[0]
            assert (offset, stream, skipped) == (420_000 - 65_536, "stderr", 300_000 - 65_536)
        found = await read(second, path, "follow=false&tail_bytes=65536", ident="1.120000")
        assert shown(found)[0][0] == 420_000 - 65_536
        found = await read(second, path, "follow=false&tail_bytes=65536", ident="1.400000")
        assert shown(found)[0][0] == 400_000, "who is not behind goes on where it was"

    between(tmp_path, test)


def test_parts_of_plain_text(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, pack(STDOUT, b"x" * 70_000) + pack(STDERR, b"oops\n"))
        for call in (first, second):
            for follow in ("", "&follow=true"):
                assert await call("GET", f"{path}/output?offset=69998&limit_bytes=4{follow}") == (200, "xxoo")
                status, text = await call("GET", f"{path}/output?tail_bytes=65536{follow}")
                assert (status, text) == (200, "x" * 65_531 + "oops\n")

    between(tmp_path, test)


def test_output_that_is_gone_is_said(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, MIXED)
        first.cluster.outputs["n1"].drop_before(2**62)
        for call in (first, second):
            found = await read(call, path, "follow=false")
            assert [(said.event, said.data["code"]) for said in found] == [("problem", "output-gone")]

    between(tmp_path, test)


def test_parameters_that_do_not_fit(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, _ = await start(first)
        for query, headers in (
            ("tail_bytes=65536&tail=3", SSE),
            ("tail_bytes=65536&offset=3", SSE),
            ("tail_bytes=65536&limit_bytes=3", SSE),
            ("limit_bytes=3&tail=3", SSE),
            ("tail_bytes=65535", SSE),
            ("limit_bytes=0", SSE),
            ("tail_bytes=65536&offset=3", {}),
        ):
            status, problem = await first("GET", f"{path}/output?{query}", headers=headers)
            assert (status, problem["code"]) == (400, "invalid-parameter"), query

    between(tmp_path, test)


def test_one_that_takes_nothing_costs_a_bounded_part(tmp_path: Path) -> None:
    """The answer of a reader who takes nothing waits, and does not gather what is printed."""

    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        spooled(first.cluster, token, 64 << 20, *[(STDOUT, b"x" * 65_536)] * 400)
        read = 0
        spans = reading.Text.spans

        def counted(text: reading.Text, at: int) -> list[reading.Span]:
            nonlocal read
            found = spans(text, at)
            read += sum(len(span.data) for span in found)
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading.Text, "spans", counted)
            async with first.session.get(f"{first.url}{path}/output?follow=true", headers=SSE) as answer:
                before = -1
                while not read or read != before:  # until it stands still
                    before = read
                    for _ in range(20):
                        assert await first("GET", path), "others are answered meanwhile"
                assert 0 < read < 12 << 20, "what fits into the buffers of the connection"
                got = 0
                async for said in sse.read(answer):
                    got += len(said.data["text"]) if said.data else 0
                    if got == 400 * 65_536:
                        break
                assert read == got

    between(tmp_path, test)


def test_a_keeper_never_waits_for_a_reader(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        _, token = await start(first)
        capture = spooled(first.cluster, token, 20, (STDOUT, b"0123456789abc"))
        text = first.cluster.outputs["n1"].open_live(token)
        assert text is not None
        before = text.spans(0)
        with text._quiet() as quiet:
            assert quiet
            capture.write(STDOUT, b"later", 1_000)
            capture.flush(token, 1_000)
            assert capture.flush_at == 1_000 + spool.AGAIN_AFTER_MS
            assert text._read_spans(0) == before, "not changed under the reader's hands"
        capture.flush(token, 1_050)
        assert capture.flush_at is None
        assert text.refresh()
        assert b"".join(span.data for span in text.spans(0)) == b"0123456789abclater"

    between(tmp_path, test)


def test_many_readers_share_what_is_read(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, pack(STDOUT, b"y" * 1_000_000))
        found: list[Any] = await asyncio.gather(*(read(second, path) for _ in range(8)))
        assert {"".join(text for _, _, text, _ in shown(said)) for said in found} == {"y" * 1_000_000}

    between(tmp_path, test)
