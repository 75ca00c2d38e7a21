"""POST /v1/jobs in its plainest form takes a fast path; nobody may be able to tell."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import raftsched
from raftsched.api.http.fast_heads import Heads
from raftsched.core.ids import parse_job
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table
from raftsched.errors import NoLeader, Overloaded, RaftschedError, UnknownOutcome
from tests.support.local_api import Client, run
from tests.support.patience import within
from tests.support.ports import free_ports
from tests.support.tokens import make

BODY = b'{"trigger":{"manual":true},"handler":{"exec":["true"]}}'
JOB = b'{"trigger":{"in":"30m"},"handler":{"exec":["true"]}}'


def request(body: bytes = JOB, extra: bytes = b"", kind: bytes = b"application/json") -> bytes:
    return (
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
        + kind
        + b"\r\n"
        + extra
        + b"Content-Length: %d\r\n\r\n" % len(body)
        + body
    )


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], Any]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:-2])}
    body = await reader.readexactly(int(headers["content-length"]))
    return int(lines[0].split()[1]), headers, msgspec.json.decode(body)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Client], Awaitable[None]]


def talk(directory: Path, test: Talk) -> None:
    async def connected(call: Client) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
        try:
            await within(test(reader, writer, call))
        finally:
            writer.close()
            await writer.wait_closed()

    run(directory, connected)


def short_way_taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The verdicts on heads, as they are asked for."""
    verdicts: list[int] = []
    asked = Heads.__call__

    def judge(self: Heads, head: bytes) -> tuple[int, bytes]:
        verdict = asked(self, head)
        verdicts.append(verdict[0])
        return verdict

    monkeypatch.setattr(Heads, "__call__", judge)
    return verdicts


ORDINARY = b"X-Unknown-To-The-Short-Way: 1\r\n"


@pytest.mark.parametrize(
    "body",
    [JOB, b'{"name":"a",' + JOB[1:], b"{}", b"{", b"", b'{"params":"' + b"x" * 70_000 + b'"}'],
    ids=["job", "named", "refused", "broken", "empty", "large"],
)
def test_both_ways_answer_alike(tmp_path: Path, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = short_way_taken(monkeypatch)

    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        answers: list[Any] = []
        for extra in (b"", ORDINARY):
            writer.write(request(body, extra))
            status, headers, answer = await read_answer(reader)
            headers = {k: v for k, v in headers.items() if k not in ("server", "date", "content-length")}
            if body == JOB:  # each time another job
                number = answer.pop("id")
                assert headers.pop("location") == f"/v1/jobs/{number}"
                assert headers.pop("etag") == f'"{number}.1"'
                headers.pop("raftsched-index")
            elif status in (200, 201):
                assert status == (200 if answers else 201)
                status, _ = 200, headers.pop("raftsched-index")
                headers.pop("location", None)
            answers.append((status, headers, answer))
        assert answers[0] == answers[1]

    talk(tmp_path, test)
    assert verdicts[0] >= 0
    assert len(body) > 65_536 or verdicts[-1] < 0  # what is too large goes over at once, and stays there


ELSEWHERE = b'{"name":"taken","owner":"\xc3\xa9","trigger":{"cron":"0 3 * * *"},"handler":{"shell":"true"}}'


@pytest.mark.parametrize(
    ("body", "failure", "expected"),
    [
        (b'{"name":"taken",' + JOB[1:], None, 409),
        (ELSEWHERE, None, 200),
        (b'{"notify":{"on":["failed"],"webhook":"nobody"},' + JOB[1:], None, 422),
        (b'{"owner":"a","owner":"b",' + JOB[1:], None, 400),
        (b'{"namespace":"none","queue":"' + b"x" * 200 + b'",' + JOB[1:], None, 422),
        (JOB, NoLeader(), 503),
        (JOB, UnknownOutcome(), 504),
        (JOB, Overloaded(), 503),
        (JOB, RaftschedError("disk-full", "No room."), 507),
    ],
)
def test_both_ways_refuse_alike(tmp_path: Path, body: bytes, failure: RaftschedError | None, expected: int) -> None:
    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        assert (await call("POST", "/v1/jobs", ELSEWHERE))[0] == 201
        call.cluster.failure = failure
        if isinstance(failure, NoLeader):
            call.cluster.leader = None
        answers = []
        for extra in (b"", ORDINARY):
            writer.write(request(body, extra))
            status, headers, answer = await read_answer(reader)
            assert status == expected
            assert ("raftsched-stale" in headers) == isinstance(failure, NoLeader)
            told = {k: v for k, v in headers.items() if k not in ("server", "date", "raftsched-index")}
            answers.append((told, answer))
        assert answers[0] == answers[1]

    talk(tmp_path, test)


def test_requests_in_any_pieces_are_answered_in_order(tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    rng = random.Random(seed)

    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        names = [f"j{i}" for i in range(60)]
        raw = b"".join(request(b'{"name":"%s",' % name.encode() + JOB[1:]) for name in names)

        async def send() -> None:
            at = 0
            while at < len(raw):
                step = rng.choice((1, 7, 60, 200, 1_000, 5_000))
                writer.write(raw[at : at + step])
                await writer.drain()
                await asyncio.sleep(0)
                at += step

        sending = asyncio.ensure_future(send())
        for name in names:
            status, _, answer = await read_answer(reader)
            assert (status, answer["name"]) == (201, name)
        await sending

    talk(tmp_path, test)


def test_a_connection_changes_over_in_the_middle_of_a_pipeline(tmp_path: Path) -> None:
    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        get = b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        writer.write(request() + request() + get + request() + get)
        counts = []
        for expected in (201, 201, 200, 201, 200):
            status, _, answer = await read_answer(reader)
            assert status == expected
            if "items" in answer:
                counts.append(len(answer["items"]))
        assert counts == [2, 3]

    talk(tmp_path, test)


UNUSUAL = [  # request, status
    (request(kind=b"text/plain"), 415),
    (request(extra=b"Origin: http://evil.example\r\n"), 403),
    (request().replace(b"Host: 127.0.0.1", b"Host: evil.example"), 403),
    (request(extra=b"Host: 127.0.0.1\r\n"), 400),
    (request(extra=b"Content-Length: 5\r\n"), 400),
    (request(extra=b"Transfer-Encoding: chunked\r\n"), 400),
    (request(extra=b"Bad Name: x\r\n"), 400),
    (request(extra=b"If-None-Match: *\r\n"), 201),
    (request(extra=b"Idempotency-Key: k\r\n"), 201),
    (request(extra=b"Expect: 100-continue\r\n"), 100),
    (request(extra=b"Connection: close\r\n"), 201),
    (request().replace(b"POST /v1/jobs ", b"POST /v1/jobs?x=1 "), 400),
    (request().replace(b"HTTP/1.1", b"HTTP/1.0"), 201),
    (request(extra=b"Content-Encoding: gzip\r\n"), 400),
    (request(extra=b"User-Agent: " + b"x" * 5_000 + b"\r\n"), 201),
]


@pytest.mark.parametrize(("raw", "expected"), UNUSUAL)
def test_the_unusual_goes_the_ordinary_way(
    tmp_path: Path, raw: bytes, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = short_way_taken(monkeypatch)

    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        writer.write(raw)
        answer = await reader.readuntil(b"\r\n")
        assert int(answer.split()[1]) == expected

    talk(tmp_path, test)
    assert all(verdict < 0 for verdict in verdicts)


def test_errors_of_the_cluster_on_the_short_way(tmp_path: Path) -> None:
    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        call.cluster.failure = NoLeader()
        call.cluster.leader = None
        writer.write(request())
        status, headers, answer = await read_answer(reader)
        assert (status, headers["retry-after"], headers["raftsched-stale"]) == (503, "1", "true")
        assert answer["code"] == "no-leader"
        call.cluster.failure = None
        writer.write(request())
        assert (await read_answer(reader))[0] == 201

    talk(tmp_path, test)


def test_a_request_being_answered_gets_its_answer_when_the_node_stops(tmp_path: Path) -> None:
    from tests.support.local_api import LocalCluster, serving

    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        applied = cluster.propose
        arrived, go = asyncio.Event(), asyncio.Event()

        async def slow(commands: Any, timeout_s: float) -> Any:
            arrived.set()
            await go.wait()
            return await applied(commands, timeout_s)

        async with serving(cluster, "n1") as call:
            call.context.log.propose = slow
            port = int(call.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request())
            await arrived.wait()
            asyncio.get_running_loop().call_later(0.05, go.set)
        status, _, _ = await read_answer(reader)
        assert status == 201
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        cluster.close()

    asyncio.run(main())


def test_a_read_shows_what_was_said(tmp_path: Path) -> None:
    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        writer.write(request())
        status, headers, answer = await read_answer(reader)
        assert (status, headers["raftsched-index"]) == (201, str(call.cluster.store.applied_index))
        status, job = await call("GET", f"/v1/jobs/{answer['id']}")
        assert (status, job["name"]) == (200, answer["name"])

    talk(tmp_path, test)


async def test_health_waits_for_nothing(call: Client) -> None:
    """A disk that hangs just then must not make the node look dead."""

    async def wait(*_: Any) -> Any:
        raise AssertionError("waits")

    call.context.log.wait_applied = call.context.log.barrier = call.context.log.committed = wait
    for path in ("/livez", "/readyz", "/metrics", "/openapi.json"):
        status, _ = await call("GET", path)
        assert status == 200, path


def test_of_requests_on_one_connection_each_is_of_who_sent_it(tmp_path: Path) -> None:
    async def test(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: Client) -> None:
        token = b"Authorization: Bearer " + (await make(call, "ci", "editor")).encode() + b"\r\n"
        sent = [token, b"", b"", token, b""]
        writer.write(b"".join(request(extra=extra) for extra in sent))
        for extra in sent:
            status, _, answer = await read_answer(reader)
            assert status == 201
            with call.cluster.store.read() as view:
                raw = view.get(Table.JOBS, (parse_job(answer["id"]) or 0).to_bytes(8, "big"))
            assert raw is not None
            assert decode_job(raw).by == ("ci" if extra else "")

    talk(tmp_path, test)


def test_both_ways_say_the_same_of_a_real_node(tmp_path: Path) -> None:
    async def main() -> None:
        http, raft = free_ports(2)
        address = f"127.0.0.1:{http}"
        async with raftsched.Node(id="n1", data=tmp_path / "n1", http=address, raft=f"127.0.0.1:{raft}") as node:
            await node.ready()
            reader, writer = await asyncio.open_connection("127.0.0.1", http)
            said = []
            for extra in (b"", ORDINARY):
                writer.write(request(extra=extra))
                status, headers, _ = await read_answer(reader)
                assert status == 201
                said.append([headers[f"raftsched-{name}"] for name in ("leader", "term", "index")])
                cluster = await node.client.cluster.status()
                assert said[-1][:2] == [cluster.leader, str(cluster.term)]
                assert int(said[-1][2]) <= (cluster.nodes[0].applied_index or 0)
            assert int(said[0][2]) < int(said[1][2])
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())
