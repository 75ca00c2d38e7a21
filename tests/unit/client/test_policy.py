"""One table of what servers do and what becomes of a request, held against the policy and against both clients."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Literal

import pytest

import raftsched
from raftsched.client import http, transport
from raftsched.client.errors import ClientError
from raftsched.client.policy import PAUSE_MAX_S, Exchange, Rules
from raftsched.client.server_order import Nodes
from raftsched.client.servers import Server, parse_servers
from raftsched.client.wire import own_key
from tests.support.patience import patient
from tests.support.stub_server import Reply, Request, problem, serve
from tests.unit.client.pauses import skip_pauses
from tests.unit.client.test_transport import closed_port

DOWN = "down"  # refuses connections, all the time
SILENT = "silent"  # takes the request, and closes the connection
OK = (200, "")
NO_LEADER, STOPPING, OVERLOADED = (503, "no-leader"), (503, "stopping"), (503, "overloaded")
PERHAPS = (504, "unknown-outcome")
GONE, STALE = (404, "not-found"), (412, "stale-revision")
UNHEARD = (404, "not-found", "stale")
LIMITED = (429, "rate-limited", "1")
LATER = (429, "rate-limited", "3600")

Does = str | tuple[int, str] | tuple[int, str, str]


@dataclasses.dataclass(frozen=True)
class Case:
    """`a`, `b`: what two servers do, one after the other; the last one from then on.

    `asked`: which of them get the request, in their order; `ends`: the status, or the code of an error. With rounds,
    where that differs: `asked_again`, the first of them, and `ends_again`.
    """

    name: str
    method: str
    a: tuple[Does, ...]
    b: tuple[Does, ...]
    asked: str
    ends: int | str
    asked_again: str | None = None
    ends_again: int | str | None = None
    keyed: bool = False
    timeout: float = 10.0


CASES = [
    Case("the first that answers", "GET", (OK,), (OK,), "A", 200),
    Case("nothing was sent", "POST", (DOWN,), (OK,), "B", 200),
    Case("nothing was done", "POST", (NO_LEADER,), (OK,), "AB", 200),
    Case("the node does not have it", "GET", ((503, "output-unavailable"),), (OK,), "AB", 200),
    Case("nowhere to be had", "GET", ((503, "output-unavailable"),), ((503, "output-unavailable"),), "AB",
         "output-unavailable"),
    Case("a proxy without nodes", "GET", ((503, ""),), (OK,), "AB", 200),
    Case("a read that is not answered", "GET", (SILENT,), (OK,), "AB", 200),
    Case("a post without a key", "POST", (SILENT,), (OK,), "A", "unknown-outcome"),
    Case("a post without a key, perhaps done", "POST", (PERHAPS,), (OK,), "A", "unknown-outcome"),
    Case("a post with a key", "POST", (SILENT,), (OK,), "AB", 200, keyed=True),
    Case("a post with a key, perhaps done", "POST", (PERHAPS,), (OK,), "AB", 200, keyed=True),
    Case("a put", "PUT", (SILENT,), (OK,), "AB", 200),
    Case("a merge patch", "PATCH", (SILENT,), (OK,), "AB", 200),
    Case("a delete", "DELETE", (SILENT,), (OK,), "AB", 200),
    Case("a delete that was done before", "DELETE", (SILENT,), (GONE,), "AB", "done-before"),
    Case("a delete perhaps done, of what a node has not heard of yet", "DELETE", (SILENT, OK), (UNHEARD,), "AB",
         "unknown-outcome", "ABBA", 200),
    Case("a delete of nothing", "DELETE", (GONE,), (OK,), "A", "not-found"),
    Case("a node that has not heard of it yet", "GET", (UNHEARD,), (OK,), "AB", 200),
    Case("a delete of what a node has not heard of yet", "DELETE", (UNHEARD,), (OK,), "AB", 200),
    Case("what no node has heard of", "GET", (UNHEARD,), (UNHEARD,), "AB", "not-found"),
    Case("what a node has not heard of, and none else is there", "GET", (UNHEARD,), (DOWN,), "A", "not-found"),
    Case("an edit that was done before", "PATCH", (SILENT,), (STALE,), "AB", "unknown-outcome"),
    Case("an edit of something changed", "PATCH", (STALE,), (OK,), "A", "stale-revision"),
    Case("a refusal", "PUT", ((409, "name-taken"),), (OK,), "A", "name-taken"),
    Case("a fault", "GET", ((500, "internal"),), (OK,), "A", "internal"),
    Case("a full disk", "PUT", ((507, "disk-full"),), (OK,), "A", "disk-full"),
    Case("a limit that passes", "POST", (LIMITED, OK), (OK,), "AA", 200),
    Case("a limit that does not pass in time", "POST", (LATER,), (OK,), "A", "rate-limited"),
    Case("a limit that does not pass", "GET", ((429, "quota"),), (OK,), "A", "quota"),
    Case("a limit after no answer", "PUT", (SILENT,), (LATER,), "AB", "unknown-outcome", "AB", timeout=0.5),
    Case("a write that nobody answers", "PUT", (SILENT,), (SILENT,), "AB", "unknown-outcome", "ABAB", timeout=0.6),
    Case("a write that somebody got", "PUT", (SILENT,), (NO_LEADER,), "AB", "unknown-outcome", "AB", timeout=0.6),
    Case("a write that is perhaps done", "PUT", (PERHAPS,), (NO_LEADER,), "AB", "unknown-outcome", "AB", timeout=0.6),
    Case("a read that nobody answers", "GET", (SILENT,), (SILENT,), "AB", "unreachable", "ABAB", timeout=0.6),
    Case("nobody is there", "POST", (DOWN,), (DOWN,), "", "unreachable", timeout=0.3),
    Case("no leader for a while", "POST", (NO_LEADER, OK), (STOPPING, OK), "AB", "stopping", "ABA", 200),
    Case("no leader", "PUT", (NO_LEADER,), (NO_LEADER,), "AB", "no-leader", "ABAB", timeout=1.0),
    Case("overloaded for long", "PUT", ((503, "overloaded", "3600"),), (OVERLOADED,), "AB", "overloaded"),
    Case("a proxy that sends elsewhere", "GET", ((302, "elsewhere"),), (OK,), "A", "redirected"),
]  # fmt: skip


class Script:
    """What one server does, each time it is asked."""

    def __init__(self, name: str, does: tuple[Does, ...], asked: list[str]) -> None:
        self.name, self.rest, self.asked = name, list(does), asked

    def __call__(self) -> Does:
        does = self.rest.pop(0) if len(self.rest) > 1 else self.rest[0]
        if does != DOWN:
            self.asked.append(self.name)
        return does


def headers_of(status: int, after: str = "") -> dict[str, str]:
    if status == 302:
        return {"Location": "http://c:1"}
    if after == "stale":
        return {"Raftsched-Stale": "true"}
    return {"Retry-After": after} if after else {}


def unknown(method: str, path: str, why: str, answer: ClientError | None) -> ClientError:
    return ClientError("unknown-outcome", why)


def unreachable(failures: Any, timeout: float) -> ClientError:
    return ClientError("unreachable", str(failures))


def by_policy(case: Case, rounds: bool) -> tuple[str, int | str]:
    """Plays a case without I/O, at a time of its own."""
    a, b = parse_servers("a:1,b:1")
    asked: list[str] = []
    scripts = {a: Script("A", case.a, asked), b: Script("B", case.b, asked)}
    only = None if rounds else frozenset({"rate-limited"})
    rules = Rules(case.timeout, rounds, unknown, unreachable, only)
    now = 100.0
    repeatable = True if case.keyed else None
    exchange = Exchange(rules, Nodes([a, b], discover=False), case.method, "/v1/x", now=now, repeatable=repeatable)
    try:
        for _ in range(1000):
            server, seconds = exchange.next(now)
            if server is None:
                now += seconds
                continue
            now += 0.001
            does = scripts[server]()
            if isinstance(does, str):
                if does == DOWN:
                    exchange.not_sent("refuses connections", now)
                else:
                    exchange.unanswered("broke the connection", now)
                continue
            status, code, *after = does
            headers = {name.lower(): value for name, value in headers_of(status, *after).items()}
            verdict = exchange.answered(status, headers)
            if verdict == "take":
                return "".join(asked), status
            if verdict == "done before":
                return "".join(asked), "done-before"
            exchange.refused(ClientError(code, "why", status=status), headers)
        raise AssertionError("no end")
    except ClientError as error:
        assert now <= 100.0 + case.timeout + 0.1, "no longer than asked for"
        return "".join(asked), error.code


@contextmanager
def stubs(case: Case) -> Iterator[tuple[list[str], list[str]]]:
    """(addresses, who is asked)"""
    asked: list[str] = []

    def answer(script: Script, headers: dict[str, str]) -> Callable[[Request], Reply]:
        def reply(request: Request) -> Reply:
            does = script()
            headers.clear()
            if isinstance(does, str):
                return 0, None
            status, code, *after = does
            headers.update(headers_of(status, *after))
            return (status, {}) if status < 400 else (status, b"") if not code else problem(status, code, "why")

        return reply

    with ExitStack() as stack:
        urls = []
        for name, does in (("A", case.a), ("B", case.b)):
            if does == (DOWN,):
                urls.append(closed_port())
                continue
            headers: dict[str, str] = {}
            urls.append(stack.enter_context(serve(answer(Script(name, does, asked), headers), headers=headers)).url)
        yield urls, asked


def by_command_line(case: Case) -> tuple[str, int | str]:
    with stubs(case) as (urls, asked):
        client = http.Client(parse_servers(",".join(urls)), timeout=patient(case.timeout))
        headers, repeatable = (own_key(), True) if case.keyed else ({}, None)
        body = None if case.method in ("GET", "DELETE") else {}
        try:
            end: int | str = client.request(
                case.method, "/v1/x", body=body, headers=headers, repeatable=repeatable
            ).status
        except ClientError as error:
            end = "done-before" if "earlier attempt" in error.detail else error.code
        return "".join(asked), end


def by_sdk(case: Case) -> tuple[str, int | str]:
    async def main() -> int | str:
        headers, repeatable = (own_key(), True) if case.keyed else ({}, None)
        body = None if case.method in ("GET", "DELETE") else b"{}"
        async with raftsched.AsyncClient(urls, timeout=patient(case.timeout), discover=False) as client:
            try:
                answer = await client.transport.send(
                    case.method, "/v1/x", body=body, headers=headers, repeatable=repeatable
                )
                return "done-before" if answer.status == 204 else answer.status
            except ClientError as error:
                return error.code

    with stubs(case) as (urls, asked):
        end = asyncio.run(main())
        return "".join(asked), end


def expected(case: Case, rounds: bool) -> tuple[str, int | str, bool]:
    """(who is asked, how it ends, more may be asked)"""
    if not rounds:
        return case.asked, case.ends, False
    asked = case.asked if case.asked_again is None else case.asked_again
    return asked, case.ends if case.ends_again is None else case.ends_again, case.asked_again is not None


def held_against(case: Case, rounds: bool, was: tuple[str, int | str]) -> None:
    asked, ends, more = expected(case, rounds)
    assert was[0].startswith(asked) if more else was[0] == asked
    assert was[1] in (ends, f"http-{ends}")


@pytest.mark.parametrize("rounds", [False, True], ids=["once", "rounds"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_policy(case: Case, rounds: bool) -> None:
    held_against(case, rounds, by_policy(case, rounds))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_command_line(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=lambda _: None))
    held_against(case, False, by_command_line(case))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_sdk(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_pauses(monkeypatch)
    held_against(case, True, by_sdk(case))


@pytest.mark.parametrize("rounds", [False, True], ids=["once", "rounds"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_every_request_ends(method: str, rounds: Literal[False, True]) -> None:
    """Whatever two servers do: within the time, and not as "nothing was done" when one of them was silent."""
    kinds: tuple[Does, ...] = (DOWN, SILENT, NO_LEADER, PERHAPS, LIMITED, OVERLOADED, (503, "disk"))
    for a in itertools.product(kinds, repeat=2):
        for b in kinds:
            for keyed in {False, method == "POST"}:
                case = Case("", method, a, (b,), "", 0, keyed=keyed, timeout=3.0)
                asked, end = by_policy(case, rounds)
                certain = {"unreachable", "no-leader", "rate-limited", "overloaded", "disk"}
                silent = [does for does in (a[0], b) if does == SILENT]
                if method != "GET" and silent and end in certain:
                    first = {"A": a[0], "B": b}
                    assert all(first[name] != SILENT for name in asked), f"{case}: {asked}, {end}"


def test_pauses_grow() -> None:
    server = Server("http", "a", 1)
    rules = Rules(60.0, True, unknown, unreachable)
    now, pauses = 0.0, []
    exchange = Exchange(rules, Nodes([server]), "GET", "/", now=now)
    while now < 60.0:
        to, seconds = exchange.next(now)
        if to is None:
            pauses.append(seconds)
            now += seconds
        else:
            exchange.not_sent("refuses connections", now)
    with pytest.raises(ClientError, match="refuses"):
        exchange.next(now)
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert max(pauses) == PAUSE_MAX_S


def test_certificates_do_not_get_better_by_waiting() -> None:
    server = Server("https", "a", 443)
    rules = Rules(60.0, True, unknown, unreachable)
    exchange = Exchange(rules, Nodes([server]), "GET", "/", now=0.0)
    exchange.next(0.0)
    exchange.not_sent("is not trusted", 0.0, untrusted=True)
    with pytest.raises(ClientError, match="is not trusted"):
        exchange.next(0.0)


def test_servers_may_be_left_out() -> None:
    a, b = parse_servers("a:1,b:1")
    rules = Rules(60.0, False, unknown, unreachable)
    exchange = Exchange(rules, Nodes([a, b]), "GET", "/", now=0.0, may_ask=lambda server: server == b)
    assert exchange.next(0.0)[0] == b


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    """Its head was good. What may not be repeated is not: its outcome is unknown."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"

    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(broken, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with serve(lambda r: (200, {"whole": True})) as good:
            async with server, raftsched.AsyncClient([url, good.url], timeout=10, discover=False) as client:
                assert (await client.transport.send("GET", "/v1/x")).body == b'{"whole": true}'
                async with raftsched.AsyncClient([url], timeout=10, discover=False) as alone:
                    with pytest.raises(raftsched.UnknownOutcomeError, match="during its answer"):
                        await alone.transport.send("POST", "/v1/x")
                both = http.Client(parse_servers(f"{url},{good.url}"))
                assert (await asyncio.to_thread(both.get, "/v1/x")) == {"whole": True}
                with pytest.raises(ClientError, match="during its answer") as caught:
                    await asyncio.to_thread(http.Client(parse_servers(url)).request, "POST", "/v1/x")
                assert caught.value.code == "unknown-outcome"

    assert transport.CONNECT_TIMEOUT_S == http.CONNECT_TIMEOUT_S
    asyncio.run(main())
