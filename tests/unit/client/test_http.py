"""The HTTP client: which node is asked next, what is never sent twice, and what errors look like."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from raftsched.client import http
from raftsched.client.errors import (
    AuthError,
    ClientError,
    FieldError,
    InvalidError,
    NotFoundError,
    NotRaftschedError,
    UnavailableError,
    error_of_problem,
)
from raftsched.client.http import Client
from raftsched.client.servers import Server, parse_servers
from raftsched.client.wire import segment
from raftsched.errors import Exit
from tests.support import ports
from tests.support.stub_server import Request, problem, serve


def closed_port() -> str:
    return f"http://127.0.0.1:{ports.closed_port()}"


def client(*urls: str, timeout: float = 10.0) -> Client:
    return Client(parse_servers(",".join(urls)), timeout=timeout)


def failing(c: Client, method: str = "GET", path: str = "/v1/x", **kwargs: object) -> ClientError:
    with pytest.raises(ClientError) as e:
        c.request(method, path, **kwargs)  # type: ignore[arg-type]
    return e.value


@pytest.mark.parametrize(
    "text, servers",
    [
        ("http://a:1", [Server("http", "a", 1)]),
        ("a:1, b:2,", [Server("http", "a", 1), Server("http", "b", 2)]),
        ("a", [Server("http", "a", 7401)]),
        ("https://a/p/", [Server("https", "a", 443, "/p")]),
        ("http://[::1]:9", [Server("http", "::1", 9)]),
        ("a:1,http://a:1", [Server("http", "a", 1)]),
    ],
)
def test_servers(text: str, servers: list[Server]) -> None:
    assert parse_servers(text) == servers
    assert parse_servers(",".join(map(str, servers))) == servers


@pytest.mark.parametrize(
    "text", ["", " , ", "ftp://a", "http://", "http://a:b", "http://a:99999", "http://u@a", "http://a?q"]
)
def test_what_is_no_server(text: str) -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        parse_servers(text)


def test_a_refused_connection_goes_to_the_next_node_and_the_good_one_is_kept() -> None:
    with serve(lambda r: (200, {"ok": r.path})) as stub:
        c = client(closed_port(), stub.url)
        assert c.get("/v1/jobs", {"limit": 5, "state": None, "all": True, "id": ["a b", "c"]}) == {
            "ok": "/v1/jobs?limit=5&all=true&id=a+b&id=c"
        }
        assert c.post("/v1/jobs", {"x": 1}) == {"ok": "/v1/jobs"}
        assert str(c.servers[0]) == stub.url
    assert stub.requests[1].json == {"x": 1}
    assert stub.requests[1].headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_503_goes_to_the_next_node_for_nothing_was_done(method: str) -> None:
    with serve(lambda r: problem(503, "no-leader", "none")) as bad, serve(lambda r: (200, {})) as good:
        assert client(bad.url, good.url).request(method, "/v1/x").status == 200
    assert (len(bad.requests), len(good.requests)) == (1, 1)


def test_503_everywhere_is_unavailable() -> None:
    with serve(lambda r: problem(503, "no-leader", "No leader at the moment")) as stub:
        error = failing(client(stub.url, closed_port()))
    assert (error.code, error.status, error.exit) == ("no-leader", 503, Exit.UNAVAILABLE)


def test_a_post_without_an_answer_is_never_sent_again() -> None:
    with serve(lambda r: (0, None)) as silent, serve(lambda r: (200, {})) as good:
        error = failing(client(silent.url, good.url), "POST", "/v1/jobs", body={})
    assert (error.code, error.exit) == ("unknown-outcome", Exit.TIMEOUT)
    assert "look before you repeat it" in error.detail
    assert good.requests == []


def test_a_post_answered_504_is_never_sent_again() -> None:
    with (
        serve(lambda r: problem(504, "unknown-outcome", "perhaps")) as slow,
        serve(lambda r: (200, {})) as good,
    ):
        error = failing(client(slow.url, good.url), "POST", "/v1/jobs", body={})
    assert (error.code, error.detail, good.requests) == ("unknown-outcome", "perhaps", [])


@pytest.mark.parametrize("first", [(0, None), problem(504, "unknown-outcome", "perhaps")])
def test_what_may_be_repeated_goes_to_the_next_node(first: tuple[int, object]) -> None:
    with serve(lambda r: first) as bad, serve(lambda r: (200, {})) as good:
        for method, repeatable in (("GET", None), ("PUT", None), ("DELETE", None), ("POST", True)):
            answer = client(bad.url, good.url).request(method, "/v1/x", repeatable=repeatable)
            assert answer.status == 200
    assert len(good.requests) == len(bad.requests) == 4


@pytest.mark.parametrize("first", [(0, None), problem(504, "unknown-outcome", "perhaps")])
def test_what_has_a_key_is_the_same_request_at_every_node(first: tuple[int, object]) -> None:
    with serve(lambda r: first) as bad, serve(lambda r: (201, {"id": 1})) as good:
        c = client(bad.url, good.url)
        assert c.post("/v1/jobs", {"a": 1}) == {"id": 1}
        assert c.post("/v1/jobs", {"a": 1}) == {"id": 1}  # asked again by the user: another request
    sent = [(r.headers["idempotency-key"], r.body) for r in (*bad.requests, *good.requests)]
    assert len(sent) == 3  # the good one is asked first by then
    assert sent[0] == sent[1]
    assert sent[2][0] != sent[0][0]


@pytest.mark.parametrize("then", [None, problem(503, "no-leader", "none")])
def test_what_was_sent_and_never_answered_may_have_happened(then: tuple[int, object] | None) -> None:
    with serve(lambda r: (0, None)) as silent, serve(lambda r: then or (0, None)) as second:
        for method, repeatable in (("PUT", None), ("DELETE", None), ("POST", True)):
            error = failing(client(silent.url, second.url), method, body={}, repeatable=repeatable)
            assert (error.code, error.exit) == ("unknown-outcome", Exit.TIMEOUT)
            assert silent.url in error.detail
        assert failing(client(silent.url, second.url)).exit == Exit.UNAVAILABLE  # a GET changes nothing


def test_a_504_is_not_forgotten_for_a_503() -> None:
    with (
        serve(lambda r: problem(504, "unknown-outcome", "perhaps")) as slow,
        serve(lambda r: problem(503, "no-leader", "none")) as other,
    ):
        error = failing(client(slow.url, other.url), "PUT", body={})
    assert (error.code, error.detail) == ("unknown-outcome", "perhaps")


def test_not_found_after_an_unanswered_delete_says_so() -> None:
    with (
        serve(lambda r: (0, None)) as bad,
        serve(lambda r: problem(404, "not-found", "No such job.")) as good,
    ):
        error = failing(client(bad.url, good.url), "DELETE", "/v1/jobs/x")
    assert error.exit == Exit.NOT_FOUND
    assert "earlier attempt may have deleted it" in error.detail


def test_a_node_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        error = failing(client(f"127.0.0.1:{mute.getsockname()[1]}", timeout=0.05), "POST", "/v1/jobs", body={})
    assert error.code == "unknown-outcome"
    assert "0.05 s" in error.detail


@pytest.mark.parametrize(
    "status, code, exit_code",
    [
        (400, "invalid-parameter", Exit.USAGE),
        (401, "who-are-you", Exit.AUTH),
        (403, "forbidden-host", Exit.AUTH),
        (404, "not-found", Exit.NOT_FOUND),
        (409, "name-taken", Exit.CONFLICT),
        (412, "stale-revision", Exit.CONFLICT),
        (422, "invalid-job", Exit.ERROR),
        (500, "internal", Exit.ERROR),
        (507, "disk-full", Exit.UNAVAILABLE),
    ],
)
def test_problems(status: int, code: str, exit_code: Exit) -> None:
    with serve(lambda r: problem(status, code, "why", ("/trigger/cron", "bad"))) as stub:
        error = failing(client(stub.url))
    assert (error.code, error.status, error.detail, error.exit) == (code, status, "why", exit_code)
    assert error.errors == (FieldError("/trigger/cron", "bad"),)


def test_a_field_that_is_refused_for_what_it_means_has_its_code() -> None:
    wrong = {"pointer": "/trigger/after", "detail": "it would never run", "code": "circular"}
    found = error_of_problem(422, "", {"code": "invalid-job", "detail": "why", "errors": [wrong]})
    assert found.errors == (FieldError("/trigger/after", "it would never run", "circular"),)


def test_an_error_that_is_not_a_problem_still_reads_well() -> None:
    with serve(lambda r: (502, b"<html>proxy\nsad</html>")) as stub:
        error = failing(client(stub.url))
    assert (error.status, error.exit) == (502, Exit.UNAVAILABLE)
    assert error.detail.startswith(f"{stub.url} answers as BaseHTTP/")
    assert error.detail.endswith(": 502 Bad Gateway; that is not raftsched's: is it a proxy's?")
    with serve(lambda r: (503, b"no healthy upstream\nmore")) as stub:
        error = failing(client(stub.url))
    assert (type(error), error.exit) == (UnavailableError, Exit.UNAVAILABLE)
    assert error.detail.endswith("is it a proxy's? It says: no healthy upstream")


@pytest.mark.parametrize("status", [503, 504, 520, 524, 561, 599])
def test_what_a_proxy_lost_on_its_way_is_not_sent_to_the_next(status: int) -> None:
    with serve(lambda r: (status, b"<html>a timeout occurred</html>")) as proxy, serve(lambda r: (202, {})) as other:
        with pytest.raises(ClientError) as raised:
            Client(parse_servers(f"{proxy.url},{other.url}")).request("POST", "/v1/jobs/j/run", body={})
        assert not other.requests, "it may have been done"
    assert (raised.value.code, raised.value.status) == (f"http-{status}", status)
    assert raised.value.detail.startswith(f"{proxy.url} answers as BaseHTTP/")


def test_an_answer_that_is_not_json() -> None:
    with (
        serve(lambda r: (200, b"hello")) as stub,
        pytest.raises(NotRaftschedError, match=r"127.0.0.1:\d+ is not raftsched \(answers as BaseHTTP/.* with 200\)"),
    ):
        client(stub.url).get("/v1/jobs")


STRANGERS = [
    (404, b"<!DOCTYPE HTML>\n<title>File not found</title>"),
    (404, b"404 page not found"),
    (404, {"detail": "Not Found"}),
    (405, b""),
    (501, b"<!DOCTYPE HTML>\n<title>Unsupported method</title>"),
    (400, {"kind": "Status", "code": 400}),
]


@pytest.mark.parametrize(("status", "body"), STRANGERS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_who_is_no_node_is_named_as_such(status: int, body: Any, method: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with serve(lambda r: (status, raw)) as stub, pytest.raises(NotRaftschedError) as refused:
        client(stub.url).request(method, "/v1/jobs")
    assert (refused.value.code, refused.value.exit, refused.value.status) == ("not-raftsched", Exit.UNAVAILABLE, 0)
    assert refused.value.detail.startswith(f"{stub.url} is not raftsched (answers as BaseHTTP/")
    assert len(stub.requests) == 1


@pytest.mark.parametrize("body", [{"items": "none"}, {"hello": 1}, [1]])
def test_a_list_of_somebody_else_is_none(body: Any) -> None:
    with serve(lambda r: (200, body)) as stub, pytest.raises(NotRaftschedError):
        list(client(stub.url).items("/v1/jobs", {}, None))


def test_a_page_that_answers_well_is_no_node() -> None:
    page = {"Content-Type": "text/html; charset=utf-8"}
    with serve(lambda r: (200, b"<html>Log in</html>"), headers=page) as stub, pytest.raises(NotRaftschedError):
        client(stub.url).request("POST", "/v1/jobs")


def test_a_node_is_asked_where_the_first_address_is_somebody_else_s() -> None:
    with serve(lambda r: (404, b"<html>")) as other, serve(lambda r: (200, {"items": []})) as node:
        assert client(other.url, node.url).get("/v1/jobs") == {"items": []}
        assert len(other.requests) == 1


def test_a_delete_is_not_done_because_somebody_else_knows_nothing_of_it() -> None:
    """404 after an attempt without an answer means that it was that attempt which deleted: of a node alone."""
    answers = iter([(0, None), (404, b"<html>")])
    with serve(lambda r: next(answers)) as a, serve(lambda r: next(answers)) as b, pytest.raises(ClientError) as error:
        client(a.url, b.url).request("DELETE", "/v1/jobs/x")
    assert error.value.code == "unknown-outcome"


@pytest.mark.parametrize(("status", "kind"), [(401, AuthError), (413, InvalidError), (429, UnavailableError)])
def test_what_a_proxy_says_for_itself_is_told_as_its_own(status: int, kind: type[ClientError]) -> None:
    with serve(lambda r: (status, b"<html>"), headers={"Server": "nginx/1.22.1"}) as stub:
        error = failing(client(stub.url))
    assert type(error) is kind
    assert "is it a proxy's?" in error.detail


def test_a_node_behind_a_proxy_is_known_by_its_problems_and_its_headers() -> None:
    for headers in ({"Raftsched-Leader": "n1"}, {"RAFTSCHED-TERM": "3"}, {"Server": "raftsched"}):
        with serve(lambda r: (404, b"gone"), headers=headers) as stub:
            assert failing(client(stub.url)).code == "http-404"
    with serve(lambda r: (404, {"code": "not-found", "detail": "No such job."})) as stub:
        assert (type(found := failing(client(stub.url))), found.detail) == (NotFoundError, "No such job.")


def test_nobody_there_is_one_line_that_names_everybody() -> None:
    a, b = closed_port(), closed_port()
    error = failing(client(a, b))
    assert (error.code, error.exit) == ("unreachable", Exit.UNAVAILABLE)
    assert a in error.detail
    assert b in error.detail
    assert "\n" not in error.detail


def test_pages_are_followed_also_empty_ones() -> None:
    pages = {None: ([1, 2], "a"), "a": ([], "b"), "b": ([3], None)}

    def answer(r: Request) -> tuple[int, object]:
        cursor = r.path.partition("cursor=")[2] or None
        items, following = pages[cursor]
        return 200, {"items": items, "next": following}

    with serve(answer) as stub:
        c = client(stub.url)
        assert list(c.items("/v1/jobs", {}, None)) == [1, 2, 3]
        assert list(c.items("/v1/jobs", {}, 2)) == [1, 2]
    assert [r.path for r in stub.requests][-1] == "/v1/jobs?limit=2"


def test_stream_gives_bytes() -> None:
    with serve(lambda r: (200, b"\xff\x00" * 100_000)) as stub:
        assert b"".join(client(stub.url).stream("/v1/instances/x/output", {"follow": True})) == b"\xff\x00" * 100_000
    assert stub.requests[0].path.endswith("?follow=true")


def test_segment() -> None:
    assert segment("a/b c") == "a%2Fb%20c"


def test_another_node_is_asked_for_what_was_just_written() -> None:
    """Else it might not have it yet, and say that there is no such thing."""
    written, dead = {"Raftsched-Index": "17"}, [False]

    def first(request: Request) -> tuple[int, object]:
        return (0, None) if dead[0] else (201, {"id": 1})

    with serve(first, headers=written) as one, serve(lambda r: (200, {})) as two:
        c = client(one.url, two.url)
        c.get("/v1/jobs/1")
        c.post("/v1/jobs", {"a": 1})
        c.get("/v1/jobs/1")
        assert [r.path for r in one.requests] == ["/v1/jobs/1", "/v1/jobs", "/v1/jobs/1"]  # it has applied it itself
        dead[0] = True
        c.get("/v1/jobs/1")
        c.get("/v1/jobs", {"limit": 5})
        c.get("/v1/cluster")
        c.get("/readyz")
    asked = ["/v1/jobs/1?min_index=17", "/v1/jobs?limit=5&min_index=17", "/v1/cluster", "/readyz"]
    assert [r.path for r in two.requests] == asked


def test_who_is_told_to_come_again_later_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with what may not be repeated: nothing of it was done. Another node is not asked instead."""
    slept: list[float] = []
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=slept.append))
    asked: list[Request] = []

    def answer(request: Request) -> tuple[int, object]:
        asked.append(request)
        return problem(429, "rate-limited", "Slower.") if len(asked) < 3 else (201, {"ok": True})

    with serve(answer, headers={"Retry-After": "4"}) as one, serve(answer) as two:
        assert client(one.url, two.url).request("POST", "/v1/jobs", body={}).json() == {"ok": True}
        assert (slept, len(one.requests), len(two.requests)) == ([4.0, 4.0], 3, 0)


@pytest.mark.parametrize(("code", "after"), [("rate-limited", "11"), ("rate-limited", ""), ("too-many", "1")])
def test_not_longer_than_the_time_for_an_answer(code: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=lambda _: pytest.fail("waits")))
    with serve(lambda r: problem(429, code, "Later."), headers={"Retry-After": after}) as stub:
        error = failing(client(stub.url))
        assert (error.status, error.code, error.exit) == (429, code, Exit.UNAVAILABLE)
        assert len(stub.requests) == 1
