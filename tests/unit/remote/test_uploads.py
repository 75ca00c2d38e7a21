"""A worker's uploads: nothing for runs that print little, everything and in order whatever nodes do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.format.spool import STDERR, STDOUT, Capture, pack
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.reading.text import SPAN, Span
from raftsched.remote import frames, server_port, uploads
from raftsched.remote.uploads import Uploads
from raftsched.surface.worker_sessions import PIECE_MAX, OutputPlace, Printed, UploadOut
from tests.support.async_tests import entered
from tests.unit.remote.test_outputs import Node


class Server:
    """A worker's way to a node; `fail` is asked before each request, `after` before its answer."""

    def __init__(self, node: Node) -> None:
        self.name = "a node"
        self.node = node
        self.requests = 0
        self.taken = asyncio.Event()
        self.fail: Callable[[], Exception | None] = lambda: None
        self.after: Callable[[], Exception | None] = lambda: None

    async def open(self, request: object) -> server_port.WorkerSessionOut:
        raise NotImplementedError

    async def poll(self, session: str, request: object) -> server_port.PollAnswer:
        raise NotImplementedError

    async def close(self, session: str, request: object) -> None:
        raise NotImplementedError

    async def upload(
        self, session: str, token: int, offset: int, data: bytes, stream: str | None = None, *, end: bool = False
    ) -> UploadOut:
        self.requests += 1
        error = self.fail()
        if error is not None:
            raise error
        try:
            answer = await self.node.outputs.put(session, token, offset, frames.decode(data), end=end)
        except WrongOffset as wrong:
            raise server_port.WrongOffset(wrong.offset) from None
        except RaftschedError as refused:
            if refused.code == "session-over":
                raise server_port.SessionOver from None
            raise server_port.Refused(
                refused.code, refused.detail, 404 if refused.code == "not-found" else 429
            ) from None
        self.taken.set()
        error = self.after()
        if error is not None:
            raise error
        return answer


class Worker:
    def __init__(self, directory: Path, limit: int = 64 * 1024 * 1024) -> None:
        self.nodes = [Node(directory / name, limit) for name in ("n1", "n2")]
        self.servers = [Server(node) for node in self.nodes]
        self.store = OutputStore(directory / "worker", max_attempt_bytes=limit)
        self.uploads = Uploads(self.store, self.servers)
        self.session = self.nodes[0].text
        self.capture = Capture(str(self.store.live_directory), limit)

    async def __aenter__(self) -> Worker:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.uploads.close()
        for node in self.nodes:
            await node.__aexit__(*error)
        self.store.close()

    def run(self) -> int:
        """A run is started; both nodes know of it."""
        first, second = (node.assign() for node in self.nodes)
        assert first == second
        self.uploads.begin(self.session, first)
        return first

    def prints(self, token: int, data: bytes, stream: int = STDOUT) -> None:
        self.capture.write(stream, data, 0)
        self.capture.flush(token)

    def ends(self, token: int) -> OutputRef:
        body, spooled, left_out = self.capture.finish(token)
        (ref,) = self.store.append([Record(token, 1, body, spooled, left_out)])
        assert ref is not None
        return ref

    async def finish(self, token: int, ref: OutputRef) -> OutputPlace | str | list[Printed] | None:
        return await self.uploads.finish(self.session, token, ref)

    def kept(self, place: object, token: int, node: int = 0) -> bytes:
        """All that a node has kept there."""
        assert isinstance(place, OutputPlace)
        text = self.nodes[node].store.open(self.nodes[node].outputs.verify(place)[1], token=token)
        return b"".join(text.read(at) for at in range(0, text.size, 64 * 1024))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "LIVE_AFTER_S", "RETRY_S", "RETRY_MAX_S"):
        monkeypatch.setattr(uploads, name, 0.001)


@pytest.fixture
def worker(tmp_path: Path, hasty: None, asyncio_runner: asyncio.Runner) -> Iterator[Worker]:
    with entered(asyncio_runner, Worker(tmp_path)) as worker:
        yield worker


LONG = b"".join(b"line %d\n" % number for number in range(200_000))


async def test_little_output_needs_no_request(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "LIVE_AFTER_S", 1_000.0)
    token = worker.run()
    worker.prints(token, "wörds\n".encode())
    assert await worker.finish(token, worker.ends(token)) == "wörds\n"
    token = worker.run()
    worker.prints(token, b"out\n")
    worker.prints(token, b"err\n", STDERR)
    assert await worker.finish(token, worker.ends(token)) == [
        Printed(stream="stdout", text="out\n"),
        Printed(stream="stderr", text="err\n"),
    ]
    assert sum(server.requests for server in worker.servers) == 0


@pytest.mark.parametrize("data", [b"\xff is no UTF-8", b"x" * (uploads.INLINE_BYTES + 1)])
async def test_what_a_report_cannot_carry_is_one_request(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(uploads, "LIVE_AFTER_S", 1_000.0)
    token = worker.run()
    worker.prints(token, data)
    assert worker.kept(await worker.finish(token, worker.ends(token)), token) == data
    assert worker.servers[0].requests == 1


async def test_pieces_are_at_the_node_while_the_run_goes_on(worker: Worker) -> None:
    token = worker.run()
    server, node = worker.servers[0], worker.nodes[0]
    for number in range(3):
        worker.prints(token, b"%d\n" % number)
        while not (node.store.live(token) or b"").endswith(b"%d\n" % number):
            server.taken.clear()
            await server.taken.wait()
    requests = server.requests
    await asyncio.sleep(0.02)
    assert server.requests == requests, "a silent run asks nothing"
    worker.prints(token, b"end\n")
    assert worker.kept(await worker.finish(token, worker.ends(token)), token) == b"0\n1\n2\nend\n"


async def test_answers_that_are_lost_and_nodes_that_fail_change_nothing(worker: Worker) -> None:
    count = 0

    def sometimes() -> Exception | None:
        nonlocal count
        count += 1
        return server_port.NoAnswer("it fell silent") if count % 3 == 0 else None

    for server in worker.servers:
        server.fail = server.after = sometimes
    token = worker.run()
    ends = range(len(LONG) // 5, len(LONG) + 1, len(LONG) // 5)
    for begin, end in zip((0, *ends), ends, strict=False):
        worker.prints(token, LONG[begin:end])
        await asyncio.sleep(0.005)
    worker.prints(token, LONG[ends[-1] :])
    place = await worker.finish(token, worker.ends(token))
    found = [node for node in (0, 1) if _has(worker, place, token, node)]
    assert any(worker.kept(place, token, node) == LONG for node in found)


def _has(worker: Worker, place: object, token: int, node: int) -> bool:
    try:
        worker.kept(place, token, node)
    except RaftschedError:
        return False
    return True


def test_single_bytes_of_both_streams_in_turn_fit_what_a_node_takes() -> None:
    class InTurn:
        def spans(self, at: int) -> list[Span]:
            return [Span(place, STDERR if place % 2 else STDOUT, b"x") for place in range(at, at + SPAN)]

    text: Any = InTurn()
    body, size = uploads._next(text, 0)
    assert len(body) <= PIECE_MAX
    assert sum(piece.printed for piece in frames.decode(body)) == size


async def test_another_node_is_sent_everything_again(worker: Worker) -> None:
    first, second = worker.servers
    token = worker.run()
    worker.prints(token, LONG[:500_000])
    await first.taken.wait()
    first.fail = lambda: server_port.NoAnswer("it is gone")
    worker.prints(token, LONG[500_000:])
    assert worker.kept(await worker.finish(token, worker.ends(token)), token, 1) == LONG
    assert second.requests > len(LONG) // uploads.PIECE_BYTES


async def test_what_both_left_out_is_told_once(tmp_path: Path) -> None:
    limit = 200_000
    async with Worker(tmp_path, limit) as worker:
        token = worker.run()
        worker.prints(token, LONG)
        kept = worker.kept(await worker.finish(token, worker.ends(token)), token)
        note = b"\n[... %d bytes of output left out ...]\n" % (len(LONG) - limit)
        assert kept == LONG[: limit // 2] + note + LONG[-limit // 2 :]


@pytest.mark.parametrize("error", [server_port.NoAnswer("silence"), server_port.Refused("disk-full", "no room", 507)])
async def test_it_gives_up_in_the_end_and_says_so(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(uploads, "GIVE_UP_S", 0.02)
    for server in worker.servers:
        server.fail = lambda: error
    token = worker.run()
    worker.prints(token, b"x" * 100_000)
    told = await worker.finish(token, worker.ends(token))
    assert isinstance(told, list)
    assert told[0].text == f"raftsched: the output could not be sent: {error}\n"


async def test_an_address_that_leads_elsewhere_each_time_is_left(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "RESTARTS_MAX", 5)
    for server in worker.servers:
        server.after = lambda: server_port.WrongOffset(0)
    token = worker.run()
    worker.prints(token, LONG)
    told = await worker.finish(token, worker.ends(token))
    assert isinstance(told, list)
    assert "one by one" in told[0].text


async def test_a_session_that_is_over_ends_it(worker: Worker) -> None:
    for server in worker.servers:
        server.fail = server_port.SessionOver
    token = worker.run()
    worker.prints(token, b"x" * 100_000)
    assert isinstance(await worker.finish(token, worker.ends(token)), list)


async def test_copies_that_nobody_asks_for_are_deleted(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "TIDY_BYTES", 100)
    first, second = worker.run(), worker.run()
    for token in (first, second):
        (ref,) = worker.store.append([Record(token, 1, pack(STDOUT, b"x" * 1_000))])
        assert ref is not None
        await worker.finish(token, ref)
    worker.uploads.forget(first)
    assert worker.store.size() > 2_000, "the other one is not answered"
    worker.uploads.forget(second)
    assert worker.uploads._tidying is not None
    await worker.uploads._tidying
    assert worker.store.size() == 0


async def test_who_is_asked_to_slow_down_stays_with_the_node_that_has_the_beginning(worker: Worker) -> None:
    first, second = worker.servers

    def every_other() -> Exception | None:
        return None if first.requests % 2 else server_port.Refused("rate-limited", "Too many requests", 429, 0.001)

    first.fail = every_other
    token = worker.run()
    worker.prints(token, LONG)
    assert worker.kept(await worker.finish(token, worker.ends(token)), token) == LONG
    assert second.requests == 0
