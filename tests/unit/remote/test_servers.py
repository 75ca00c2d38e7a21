"""Answers of nodes, as a worker takes them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.client.errors import ClientError
from raftsched.client.servers import parse_servers
from raftsched.client.token_file import TokenFile
from raftsched.remote.server_port import NoAnswer, Refused, SessionOver, WrongOffset
from raftsched.remote.servers import HttpServer, http_servers
from raftsched.surface.plain import worker_sessions as addresses
from raftsched.surface.worker_sessions import CloseIn, PollIn, WorkerSessionIn
from tests.support.stub_server import Reply, serve

POLLED = {"lease_ms": 9_000, "runs": [], "kill": [3], "refused": []}


def ask(reply: Reply, act: Callable[[HttpServer], Awaitable[Any]]) -> tuple[Any, list[str]]:
    """What comes of it, and what the node was asked."""
    with serve(lambda request: reply, headers={"Retry-After": "7"}) as stub:

        async def main() -> Any:
            (server,), transport = http_servers(parse_servers(stub.url), "secret")
            try:
                return await act(server)
            finally:
                await transport.close()

        value = asyncio.run(main())
        assert all(request.headers["authorization"] == "Bearer secret" for request in stub.requests)
        assert all(request.headers["raftsched-session-secret"] == "5-rsw_ab" for request in stub.requests)
        return value, [f"{request.method} {request.path}" for request in stub.requests]


def poll(server: HttpServer) -> Awaitable[Any]:
    return server.poll("5-rsw_ab", PollIn(after=2))


def test_a_poll() -> None:
    out, asked = ask((200, POLLED), poll)
    assert (out.lease_ms, out.kill) == (9_000, [3])
    assert asked == ["POST /v1/worker-sessions/5/poll"]


def test_a_piece_of_output() -> None:
    out, asked = ask((200, {"offset": 8}), lambda s: s.upload("5-rsw_ab", 3, 4, b"abcd", "stdout", end=True))
    assert out.offset == 8
    assert asked == ["PUT /v1/worker-sessions/5/runs/3/output?offset=4&stream=stdout&end=true"]


def test_nodes_of_before_find_the_secret_where_they_look_for_it() -> None:
    session = f"5-{'ab' * 16}"
    with serve(lambda request: (200, POLLED)) as stub:

        async def main() -> None:
            (server,), transport = http_servers(parse_servers(stub.url), "secret")
            await server.poll(session, PollIn())
            await transport.close()

        asyncio.run(main())
        assert [request.path for request in stub.requests] == [f"/v1/worker-sessions/{session}/poll"]


def test_an_end() -> None:
    _, asked = ask((200, {}), lambda s: s.close("5-rsw_ab", CloseIn(ran=[3])))
    assert asked == ["POST /v1/worker-sessions/5/close"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_another_node_may_answer(status: int) -> None:
    with pytest.raises(NoAnswer, match="No leader"):
        ask((status, {"code": "no-leader", "detail": "No leader at the moment."}), poll)


@pytest.mark.parametrize("reply", [(0, None), (200, b"<html>"), (200, {"lease_ms": "long"}), (302, {})])
def test_what_is_no_answer(reply: Reply) -> None:
    with pytest.raises(NoAnswer):
        ask(reply, poll)


def test_a_session_that_is_over() -> None:
    with pytest.raises(SessionOver):
        ask((410, {"code": "session-over", "detail": "It is over."}), poll)


def test_a_refusal_names_its_reason_and_when_to_ask_again() -> None:
    with pytest.raises(Refused, match="another process") as why:
        ask((409, {"code": "name-taken", "detail": "another process has it"}), poll)
    assert (why.value.code, why.value.status, why.value.after_s) == ("name-taken", 409, 7.0)


def test_an_offset_that_is_wrong() -> None:
    with pytest.raises(WrongOffset) as why:
        ask((409, {"code": "wrong-offset", "detail": "x", "offset": 12}), lambda s: s.upload("5-rsw_ab", 3, 4, b"a"))
    assert why.value.offset == 12


def test_a_node_that_is_not_there() -> None:
    async def main() -> None:
        (server,), transport = http_servers(parse_servers("http://127.0.0.1:9"))
        try:
            await poll(server)
        finally:
            await transport.close()

    with pytest.raises(NoAnswer):
        asyncio.run(main())


class Tokens:
    """A node that takes one token, and has one session, which is that token's, and a worker with a file."""

    def __init__(self, directory: Path, session: str = "5-rsw_ab") -> None:
        self.file = directory / "token"
        self.file.write_text("old\n")
        self.good = {"old"}
        self.whose = "old"
        self.session = session
        self.knows = True  # what is asked of it
        self.asked: list[str] = []

    def answer(self, request: Any) -> Reply:
        shown = request.headers["authorization"].removeprefix("Bearer ")
        self.asked.append(f"{request.path.rpartition('/')[2]} {shown}")
        if shown not in self.good:
            return 401, {"code": "unauthorized", "detail": "Nobody knows it."}
        if request.path.endswith("/token"):
            if not self.knows:
                return 404, {"code": "not-found", "detail": "There is nothing here."}
            said = json.loads(request.body)
            if said["secret"] not in (self.whose, "old") or self.whose not in ("old", shown):
                return 410, {"code": "session-over", "detail": "It is over."}
            self.whose = shown
            return 204, None
        if request.path == addresses.OPEN:
            self.whose = shown
            return 201, {**OPENED, "session": self.session}
        if shown != self.whose:
            return 410, {"code": "session-over", "detail": "It is over."}
        return 200, POLLED

    def run(self, act: Callable[[HttpServer], Awaitable[Any]]) -> list[str]:
        """What the node was asked, and with which token."""
        with serve(self.answer) as stub:

            async def main() -> None:
                (server,), transport = http_servers(parse_servers(stub.url), "old", file=TokenFile(self.file))
                try:
                    await act(server)
                finally:
                    await transport.close()

            asyncio.run(main())
        return self.asked


OPENED = {
    **{"name": "w", "lease_ms": 9, "ttl_ms": 9, "kill_before_ms": 1, "poll_ms": 1},
    **{"queues": None, "namespaces": None},
}


def opening(server: HttpServer) -> Awaitable[Any]:
    return server.open(WorkerSessionIn(name="w", handlers=["exec"]))


def closing(server: HttpServer) -> Awaitable[Any]:
    return server.close("5-rsw_ab", CloseIn())


def test_another_token_in_the_file_takes_the_session_over_before_it_is_used(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)

    async def act(server: HttpServer) -> None:
        await poll(server)
        tokens.file.write_text("new\n")
        tokens.good.add("new")
        for _ in range(2):
            await server.renew(lambda: tokens.session)
        await poll(server)

    assert tokens.run(act) == ["poll old", "token new", "poll new"]


@pytest.mark.parametrize("call", [poll, closing, opening])
def test_what_is_refused_for_its_token_is_sent_again_with_that_of_the_file(
    tmp_path: Path, call: Callable[[HttpServer], Awaitable[Any]]
) -> None:
    """It was revoked before anybody looked at the file. Its time may be that of before, as a copy has it."""
    tokens = Tokens(tmp_path)
    tokens.file.write_text("new\n")
    os.utime(tokens.file, (1, 1))
    tokens.good = {"new"}

    async def act(server: HttpServer) -> None:
        out = await call(server)
        assert out is None or out.lease_ms

    asked = tokens.run(act)
    assert asked[0].endswith(" old")
    assert asked[-1] == asked[0].replace("old", "new")


def test_a_session_that_changed_hands_unheard_goes_on(tmp_path: Path) -> None:
    """The answer that said so was lost: what is sent with the earlier token finds no session."""
    tokens = Tokens(tmp_path)
    tokens.file.write_text("new\n")
    tokens.good.add("new")
    tokens.whose = "new"
    assert tokens.run(poll) == ["poll old", "token new", "poll new"]


def test_a_token_that_nobody_knows_is_not_used_while_the_earlier_one_is_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = Tokens(tmp_path)

    async def act(server: HttpServer) -> None:
        tokens.file.write_text("typo\n")
        for _ in range(3):
            await server.renew(lambda: tokens.session)
        await poll(server)
        tokens.file.write_text("\n")  # half written
        for _ in range(3):
            await server.renew(lambda: tokens.session)
        await poll(server)

    assert tokens.run(act) == [*["token typo"] * 3, "poll old", *["token typo"] * 3, "poll old"]
    assert ["the one before stays" in record.message for record in caplog.records].count(True) == 1
    assert ["has no token" in record.message for record in caplog.records].count(True) == 1


def test_a_node_of_before_is_shown_the_new_token_at_once(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.knows = False

    async def act(server: HttpServer) -> None:
        tokens.file.write_text("new\n")
        tokens.good.add("new")
        await server.renew(lambda: tokens.session)
        tokens.whose = "new"
        await poll(server)

    assert tokens.run(act) == ["token new", "poll new"]


def test_a_session_that_is_no_token_s_is_not_asked_about(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, f"5-{'ab' * 16}")

    async def act(server: HttpServer) -> None:
        tokens.file.write_text("new\n")
        await server.renew(lambda: tokens.session)

    assert tokens.run(act) == []


def test_a_token_goes_to_no_other_machine_in_clear() -> None:
    with pytest.raises(ClientError, match="https"):
        http_servers(parse_servers("http://10.0.0.1:7401"), "secret")
