"""Usual requests and answers without h11: what is made and read of them is what h11 makes and reads."""

from __future__ import annotations

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raftsched.worker.executors import plain_http

HEADERS_MAX = 5
OK = b"HTTP/1.1 200 OK\r\n"
_VALUES = st.sampled_from(
    [b"", b"a", b"b c", b" a", b"a ", b"a\tb", b"\xe9", b"\x01", b"0", b"2", b"3", b"chunked", b"a: b"]
)
_NAMES = st.sampled_from(
    [
        b"Host",
        b"host",
        b"X",
        b"x-y",
        b"A b",
        b"A: b",
        b"",
        b"Content-Length",
        b"Transfer-Encoding",
        b"Connection",
        b"Expect",
    ]
)
_HEADERS = st.lists(st.tuples(_NAMES, _VALUES), max_size=6)
_WORD = st.sampled_from([b"", b"\r\n", b"\n", b" ", b"\t", b"x"])


def by_h11(method: str, target: str, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
    http = h11.Connection(h11.CLIENT)
    try:
        parts = [http.send(h11.Request(method=method, target=target, headers=headers))]
        if body:
            parts.append(http.send(h11.Data(data=body)))
        parts.append(http.send(h11.EndOfMessage()))
    except h11.LocalProtocolError:
        return None
    return b"".join(part for part in parts if part)


@given(
    st.sampled_from([*sorted(plain_http.METHODS), "HEAD", "CONNECT", "get", "GET\r\n", ""]),
    st.sampled_from(["/", "/a?b=c", "*", "", "/a b", "/\r\n", "/\xe9"]),
    _HEADERS,
    st.sampled_from([b"", b"ab", b"abc"]),
)
@example("GET", "/", [(b"Host", b"h"), (b"A: b", b"c")], b"")
@example("GET", "/a b", [(b"Host", b"h")], b"")
@example("POST", "/", [(b"X", b"y"), (b"Host", b"h"), (b"Content-Length", b"2")], b"abc")
@example("POST", "/", [(b"Host", b"h"), (b"host", b"i")], b"")
@example("POST", "/", [(b"Host", b"h"), (b"Content-Length", b"2"), (b"Transfer-Encoding", b"chunked")], b"ab")
def test_a_request_is_what_h11_makes_of_it(
    method: str, target: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    made = plain_http.request(method, target, headers, body)
    assert made is None or made == by_h11(method, target, headers, body)


def read_by_h11(data: bytes) -> plain_http.Plain | None:
    """Returns the answer, if it is one and there as a whole."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    try:
        http.receive_data(data)
        head = http.next_event()
        if not isinstance(head, h11.Response):
            return None
        body = b""
        while isinstance(event := http.next_event(), h11.Data):
            body += event.data
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.EndOfMessage):
        return None
    return plain_http.Plain(head.status_code, bytes(head.reason), list(head.headers), body)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Answers, and what almost is one."""
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"http/1.1"]))
    status = draw(st.sampled_from([b"200", b"200", b"204", b"304", b"404", b"100", b"101", b"600", b"20", b"2000"]))
    reason = draw(st.sampled_from([b" OK", b" ", b"", b" Not Found", b" \xe9", b"  OK", b" O\x00K"]))
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]))
    lines = [name + b":" + draw(_WORD) + value + draw(_WORD) + end for name, value in draw(_HEADERS)]
    framed = draw(st.sampled_from([b"Content-Length: 2", b"content-length:2", b"CONTENT-LENGTH: 02", b""]))
    head = version + b" " + status + reason + end + b"".join(lines) + (framed + end if framed else b"") + end
    return head + draw(st.sampled_from([b"", b"o", b"ok", b"ok and more", b"2\r\nok\r\n0\r\n\r\n"]))


@given(answers())
@example(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc")
@example(OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
@example(OK + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n")
@example(OK + b"Content-Length: 2, 2\r\n\r\nok")
@example(OK + b"Content-Length: +2\r\n\r\nok")
@example(OK + b"Content-Length : 2\r\n\r\nok")
@example(OK + b"X: y\r\n Content-Length: 2\r\n\r\nok")
@example(OK + b"Content-Length: 2\r\n\r\no")
@example(OK + b"X: y\n\r\nContent-Length: 2\r\n\r\nok")
def test_an_answer_is_what_h11_reads_of_it(data: bytes) -> None:
    found = plain_http.answer(data, HEADERS_MAX)
    assert found is None or (found == read_by_h11(data) and len(found.headers) <= HEADERS_MAX)


@pytest.mark.parametrize(
    "data, body",
    [
        (OK + b"Content-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.0 404 Not Found\r\ncontent-length:0\r\nX: y z\r\n\r\n", b""),
        (b"HTTP/1.1 204 \r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b""),
    ],
)
def test_usual_answers_are_read(data: bytes, body: bytes) -> None:
    found = plain_http.answer(data, HEADERS_MAX)
    assert found is not None
    assert found.body == body
    assert found == read_by_h11(data)


def test_a_usual_request_is_made() -> None:
    headers = [(b"User-Agent", b"raftsched"), (b"host", b"a.test:80"), (b"Content-Length", b"2")]
    made = plain_http.request("POST", "/a?b=c", headers, b"ok")
    assert made == b"POST /a?b=c HTTP/1.1\r\nhost: a.test:80\r\nUser-Agent: raftsched\r\nContent-Length: 2\r\n\r\nok"


def test_what_has_too_many_headers_is_left_to_h11() -> None:
    data = OK + b"X: y\r\n" * HEADERS_MAX + b"Content-Length: 0\r\n\r\n"
    assert plain_http.answer(data, HEADERS_MAX) is None
    assert plain_http.answer(data, HEADERS_MAX + 1) is not None
