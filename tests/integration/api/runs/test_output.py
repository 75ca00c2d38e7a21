"""The output of a run, from the node that has it and from one that has to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from raftsched.config.bounds import Bounds
from raftsched.core.commands import Assign, Ended, Started
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome, OutputRef
from raftsched.output.format import spool
from raftsched.output.keeping.store import NOWHERE, OutputStore, Record
from raftsched.raft.membership.configuration import removed
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.patience import within

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}
FRAMES = spool.pack(spool.STDOUT, b"one\ntwo\n") + spool.pack(spool.STDERR, b"oops\n")
TEXT = "one\ntwo\noops\n"


def between(directory: Path, test: Callable[[Client, Client], Awaitable[None]], bounds: Bounds | None = None) -> None:
    """Two nodes; the first runs what is run."""

    async def main() -> None:
        cluster = LocalCluster(directory, ("n1", "n2"))
        cluster.bounds = bounds or Bounds()
        try:
            async with serving(cluster, "n1") as first, serving(cluster, "n2") as second:
                cluster.open_session("n1", first.url.removeprefix("http://"))
                await test(first, second)
        finally:
            cluster.close()

    asyncio.run(main())


async def start(call: Client) -> tuple[str, int]:
    """(path of the instance, token of its attempt on n1)"""
    cluster = call.cluster
    _, job = await call("POST", "/v1/jobs", JOB)
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run")
    key = parse_instance(made["id"])
    assert key is not None
    (answer,) = cluster.apply(Assign(key, cluster.sessions["n1"]))
    token = getattr(answer, "number", None)
    assert token is not None
    cluster.apply(Started(cluster.sessions["n1"], token, cluster.clock.wall))
    return f"/v1/instances/{made['id']}", token


def end(cluster: LocalCluster, token: int, frames: bytes, *, spooled: bool = False) -> None:
    now = cluster.clock.wall
    (ref,) = cluster.outputs["n1"].append([Record(token, now, frames, spooled)])
    cluster.apply(Ended(cluster.sessions["n1"], token, Outcome.SUCCEEDED, now, now, 0, output=ref))


def test_output_from_here_and_from_there_is_the_same(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, FRAMES)
        for call in (first, second):
            assert await call("GET", f"{path}/output") == (200, TEXT)
            assert call.headers["Content-Type"] == "text/plain; charset=utf-8"
            assert call.headers["X-Content-Type-Options"] == "nosniff"
            assert call.headers.get("Raftsched-Served-By") == (None if call is first else "n1")
            assert await call("GET", f"{path}/output?attempt=1&stream=stderr") == (200, "oops\n")
            assert await call("GET", f"{path}/output?offset=4") == (200, TEXT[4:])
            assert await call("GET", f"{path}/output?offset=400") == (200, "")
            assert await call("GET", f"{path}/output?tail=2") == (200, "two\noops\n")
            assert await call("GET", f"{path}/output?tail=0") == (200, "")
            assert await call("GET", f"{path}/output?tail=10") == (200, TEXT)
            assert await call("GET", f"{path}/output?follow=true") == (200, TEXT)
            assert await call("GET", f"{path}/output", headers={"Range": "bytes=4-6"}) == (206, "two")
            assert call.headers["Content-Range"] == f"bytes 4-6/{len(TEXT)}"
            assert await call("GET", f"{path}/output", headers={"Range": "bytes=-5"}) == (206, "oops\n")
            status, problem = await call("GET", f"{path}/output", headers={"Range": "bytes=99-"})
            assert (status, problem["code"]) == (416, "unsatisfiable-range")
            for ignored in ("", "bytes=5-2", "bytes=x", "bytes=0-1,4-5", "lines=1-2"):
                assert await call("GET", f"{path}/output", headers={"Range": ignored}) == (200, TEXT), ignored
            for ident in ("", "1.0", "1.4096"):
                assert await call("GET", f"{path}/output", headers={"Last-Event-ID": ident}) == (200, TEXT), ident
            for ident in ("0", "4711.2.1", "x", "1.x"):
                status, problem = await call("GET", f"{path}/output", headers={"Last-Event-ID": ident})
                assert (status, problem["code"]) == (400, "invalid-parameter"), ident
            assert (await call("GET", f"{path}/output?attempt=2"))[0] == 404
            assert (await call("GET", f"{path}/output?stream=both"))[0] == 400
            assert (await call("GET", f"{path}/output?offset=1&tail=1"))[0] == 400
        _, row = await first("GET", path)
        assert await first("GET", row["output"]["url"]) == (200, TEXT)
        served = TEXT.encode()
        assert (row["output"]["size"], row["output"]["sha256"]) == (len(served), sha256(served).hexdigest())

    between(tmp_path, test)


def test_following_shows_what_comes_until_the_end(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        live = first.cluster.outputs["n1"].live_directory / spool.live_name(token)
        assert await second("GET", f"{path}/output") == (200, "")
        live.write_bytes(spool.pack(spool.STDOUT, b"one\n"))
        assert await second("GET", f"{path}/output") == (200, "one\n")
        async with second.session.get(second.url + path + "/output?follow=true") as answer:
            assert answer.headers["Raftsched-Served-By"] == "n1"
            assert await answer.content.readexactly(4) == b"one\n"
            live.write_bytes(live.read_bytes() + spool.pack(spool.STDOUT, b"two\n"))
            assert await answer.content.readexactly(4) == b"two\n"
            live.write_bytes(live.read_bytes() + spool.pack(spool.STDERR, b"oops\n"))
            end(first.cluster, token, b"", spooled=True)
            assert await answer.content.read() == b"oops\n"
        assert await second("GET", f"{path}/output") == (200, TEXT)

    between(tmp_path, test)


def test_followers_are_streams(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        url = f"{first.url}{path}/output?follow=true"
        async with first.session.get(url) as one, first.session.get(url) as two:
            assert (one.status, two.status) == (200, 200)
            status, problem = await first("GET", f"{path}/output?follow=true")
            assert (status, problem["code"]) == (503, "overloaded")
            assert (await first("GET", f"{path}/output"))[0] == 200
            end(first.cluster, token, FRAMES)
            assert (await one.text(), await two.text()) == (TEXT, TEXT)
        assert await first("GET", f"{path}/output?follow=true") == (200, TEXT)

    between(tmp_path, test, Bounds(streams=2))


def test_large_output_comes_whole(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(100_000))

    async def test(first: Client, second: Client) -> None:
        path, token = await start(first)
        end(first.cluster, token, spool.pack(spool.STDOUT, text.encode()))
        for call in (first, second):
            assert await call("GET", f"{path}/output") == (200, text)
            assert await call("GET", f"{path}/output?follow=true") == (200, text)
            assert await call("HEAD", f"{path}/output") == (200, "")
            assert call.headers["Content-Length"] == str(len(text))
            answer = await call("GET", f"{path}/output?offset=10", headers={"Range": "bytes=5-300004"})
            assert answer == (206, text[15:300_015])
            assert await call("GET", f"{path}/output?tail=50000") == (200, text[text.index("line 50000") :])

    between(tmp_path, test)


def test_following_waits_for_the_start(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster = first.cluster
        _, job = await first("POST", "/v1/jobs", JOB)
        _, made = await first("POST", f"/v1/jobs/{job['id']}/run")
        path = f"/v1/instances/{made['id']}/output"
        assert await second("GET", path) == (200, "")
        following = asyncio.ensure_future(second("GET", f"{path}?follow=true"))
        key = parse_instance(made["id"])
        assert key is not None
        (answer,) = cluster.apply(Assign(key, cluster.sessions["n1"]))
        token = getattr(answer, "number", None)
        assert token is not None
        end(cluster, token, FRAMES)
        assert await within(following) == (200, TEXT)

    between(tmp_path, test)


def test_output_that_cannot_be_had(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster = first.cluster
        path, token = await start(first)
        end(cluster, token, FRAMES)
        status, problem = await second("GET", f"{path}/output", headers={"Raftsched-Hop": "n3"})
        assert (status, problem["code"]) == (503, "output-unavailable")
        cluster.outputs["n1"].drop_before(2**53)
        for call in (first, second):
            status, problem = await call("GET", f"{path}/output")
            assert (status, problem["code"]) == (410, "output-gone")
        cluster.open_session("n1", "127.0.0.1:1")
        status, problem = await second("GET", f"{path}/output")
        assert (status, problem["code"]) == (503, "output-unavailable")

    between(tmp_path, test)


def test_output_of_a_member_that_was_removed_is_gone(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster = first.cluster
        path, token = await start(first)
        end(cluster, token, FRAMES)
        catching_up = tuple(msgspec.structs.replace(m, voter=m.node != "n1") for m in cluster.members)
        cluster.configure(catching_up)
        assert await second("GET", f"{path}/output") == (200, TEXT), "a member all the same"
        cluster.configure(removed(cluster.members, "n1"))
        status, problem = await second("GET", f"{path}/output")
        assert (status, problem["code"]) == (410, "output-gone")
        assert "n1" in problem["detail"]
        _, why = await second("GET", f"{path}/explain")
        assert [(note["reason"], note["attempt"]) for note in why["outputs"]] == [("lost", 1)]
        assert "no longer a member" in why["outputs"][0]["text"]

    between(tmp_path, test)


def test_output_on_a_disk_that_was_replaced_is_gone(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster = first.cluster
        path, token = await start(first)
        end(cluster, token, FRAMES)
        cluster.clock.wall += 60_000
        fresh = first.context.output = OutputStore(tmp_path / "fresh", now_ms=cluster.clock.wall)
        fresh.append([Record(token + 1, cluster.clock.wall, spool.pack(spool.STDOUT, b"another run's\n"))])
        for call in (first, second):
            status, problem = await call("GET", f"{path}/output")
            assert (status, problem["code"]) == (410, "output-gone")
            assert "with a disk that was replaced" in problem["detail"]
        fresh.close()

    between(tmp_path, test)


def test_an_output_that_is_not_there_says_what_became_of_it(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster, store = first.cluster, first.cluster.outputs["n1"]

        async def told(path: str) -> tuple[str, list[Any]]:
            """What both nodes say of the output, and what is explained."""
            answers = [await call("GET", f"{path}/output") for call in (first, second)]
            assert [(status, problem["code"]) for status, problem in answers] == [(410, "output-gone")] * 2
            assert answers[0][1]["detail"] == answers[1][1]["detail"]
            _, why = await second("GET", f"{path}/explain")
            return answers[0][1]["detail"], why["outputs"]

        path, token = await start(first)
        end(cluster, token, FRAMES)
        assert (await first("GET", f"{path}/explain"))[1]["outputs"] == []
        store.drop_before(2**62)
        detail, outputs = await told(path)
        assert "deleted for room (--output-keep-bytes of n1, or the limit output_bytes of the namespace" in detail
        assert outputs == [], "that it is gone is not known elsewhere"
        cluster.clock.wall += 7 * 86_400_000 + 1
        until = "It was kept until 2030-01-08T00:00:00.000Z: "
        detail, outputs = await told(path)
        assert f"{until}the setting output_keep is 7d." in detail
        assert outputs == [{"attempt": 1, "reason": "aged", "text": f"{until}the setting output_keep is 7d."}]
        await first("PUT", "/v1/namespaces/default", {"limits": {"output_keep": "2d"}})
        until = "It was kept until 2030-01-03T00:00:00.000Z: "
        detail, outputs = await told(path)
        assert f'{until}output_keep of the namespace "default" is 2d.' in detail
        await first("PUT", "/v1/namespaces/default", {"limits": {"output_keep": "90d"}})
        first.context.output_keep_most_ms = 86_400_000
        detail, outputs = await told(path)
        assert "It was kept until 2030-01-02T00:00:00.000Z: n1 keeps output for 1d (--output-keep)." in detail
        assert outputs == []

    between(tmp_path, test)


def test_an_output_whose_file_somebody_removed_says_so(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster, store = first.cluster, first.cluster.outputs["n1"]
        path, token = await start(first)
        end(cluster, token, FRAMES)
        for file in store.directory.glob("seg-*"):
            file.unlink()
        for looks in (False, True):
            if looks:
                store.scan()
            for call in (first, second):
                status, problem = await call("GET", f"{path}/output")
                assert (status, problem["code"]) == (410, "output-gone")
                assert "its file was removed from the disk of n1, and not by n1" in problem["detail"]
                assert "--output-keep-bytes" not in problem["detail"]
        cluster.clock.wall += 7 * 86_400_000 + 1
        _, problem = await first("GET", f"{path}/output")
        assert "the setting output_keep is 7d" in problem["detail"], "it would be gone all the same"

    between(tmp_path, test)


def test_where_an_output_is_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster, store = first.cluster, first.cluster.outputs["n1"]
        path, token = await start(first)

        async def told(call: Client) -> list[tuple[str, str]]:
            _, why = await call("GET", f"{path}/explain")
            return [(note["reason"], note["text"]) for note in why["outputs"]]

        assert await told(first) == await told(second) == []
        end(cluster, token, FRAMES)
        assert await told(first) == await told(second) == []
        cluster.away = {"n1"}
        ((reason, text),) = await told(second)
        assert (reason, "It is on n1, which n2 does not reach" in text) == ("unreachable", True)
        assert "a second copy alone" in text
        cluster.away = set()
        for file in store.directory.glob("seg-*"):
            file.unlink()
        ((reason, text),) = await told(first)
        assert (reason, "removed from the disk of n1" in text) == ("lost", True)
        cluster.clock.wall += 7 * 86_400_000 + 1
        assert [reason for reason, _ in await told(first)] == ["aged"]

    between(tmp_path, test)


def test_an_output_that_was_cut_or_too_large_is_explained(tmp_path: Path) -> None:
    async def test(first: Client, second: Client) -> None:
        cluster = first.cluster
        now = cluster.clock.wall
        path, token = await start(first)
        (ref,) = cluster.outputs["n1"].append([Record(token, now, FRAMES, truncated=5_000)])
        cluster.apply(Ended(cluster.sessions["n1"], token, Outcome.SUCCEEDED, now, now, 0, output=ref))
        _, why = await second("GET", f"{path}/explain")
        (note,) = why["outputs"]
        assert (note["attempt"], note["reason"]) == (1, "cut")
        assert "5,000 bytes in the middle of its output are not there: the setting output_max_bytes" in note["text"]
        assert "is 1,048,576 now" in note["text"]
        path, token = await start(first)
        gone = OutputRef(NOWHERE, 0, 2 << 20, b"", 0)
        cluster.apply(Ended(cluster.sessions["n1"], token, Outcome.SUCCEEDED, now, now, 0, output=gone))
        _, why = await second("GET", f"{path}/explain")
        assert [note["reason"] for note in why["outputs"]] == ["too_large"]
        status, problem = await second("GET", f"{path}/output")
        assert (status, problem["code"], problem["detail"]) == (410, "output-gone", why["outputs"][0]["text"])
        assert "2,097,152 bytes are more than all that the namespace" in problem["detail"]

    between(tmp_path, test)
