"""Answers of nodes, as a worker takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raftsched.client.errors import ClientError
from raftsched.client.servers import parse_servers
from raftsched.remote.ports import NoAnswer, Refused, SessionOver, WrongOffset
from raftsched.remote.protocol import CloseIn, PollIn
from raftsched.remote.servers import HttpServer, http_servers
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


def test_a_token_goes_to_no_other_machine_in_clear() -> None:
    with pytest.raises(ClientError, match="https"):
        http_servers(parse_servers("http://10.0.0.1:7401"), "secret")
