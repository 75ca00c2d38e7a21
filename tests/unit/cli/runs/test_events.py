"""raftsched events: what is asked, what is printed, and what happens when the stream breaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftsched.cli.main import cli
from raftsched.client import event_stream
from raftsched.client.errors import ClientError
from raftsched.importers.documents import read_documents
from tests.support.stub_server import Request, problem, serve

ID = "0d3k5xw2a9f4m"
RUN = {
    "id": "7.0", "at": "2026-11-20T12:00:00.000Z", "type": "instance.failed", "namespace": "billing", "job_id": ID,
    "job": "report", "instance_id": f"{ID}@1763600400000", "state": "FAILED", "attempt": 1, "node": "n2",
    "reason": "retries_exhausted", "dead_letter": True,
}  # fmt: skip
QUEUE = {"id": "8.0", "at": "2026-11-20T12:00:01.000Z", "type": "queue.changed", "subject": "mail"}


def framed(*said: dict[str, Any]) -> bytes:
    frames = [f"id: {one['id']}\ndata: {json.dumps(one)}\n\n" for one in said]
    return ("retry: 1000\nid: 6\n\n" + "".join(frames)).encode()


def run(url: str, *args: str) -> Result:
    return CliRunner().invoke(cli, ["--server", url, "events", *args])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "AGAIN_S", 0.0)


def test_what_is_kept() -> None:
    with serve(lambda _: (200, framed(RUN, QUEUE))) as stub:
        result = run(stub.url, "--type", "instance,queue", "-N", "billing", "--state", "failed", "--after", "5.1")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines() == [
            f"2026-11-20T12:00:00.000Z instance.failed      {ID}@1763600400000 billing/report n2 retries_exhausted",
            "2026-11-20T12:00:01.000Z queue.changed        mail",
        ]
        assert stub.requests[0].path == (
            "/v1/events?follow=false&type=instance%2Cqueue&namespace=billing&state=FAILED&after=5.1"
        )
        lines = run(stub.url, "-o", "json").stdout.splitlines()
        assert [json.loads(line) for line in lines] == [RUN, QUEUE]
        documents = read_documents(run(stub.url, "-o", "yaml").stdout.encode(), "stdout")
        assert [document.value for document in documents] == [RUN, QUEUE]


def test_a_stream_that_breaks_is_taken_up_behind_the_last_event() -> None:
    answers = [
        (200, framed(RUN)),  # the node stops: an orderly end
        (0, None),  # nobody answers
        problem(503, "no-leader", "No leader."),
        (200, framed(QUEUE)[:-1] + b"\nid: 9\n\nid: 10.0\nda"),  # cut in the middle
        problem(410, "events-gone", "Too old."),
    ]
    asked: list[str | None] = []

    def answer(request: Request) -> tuple[int, Any]:
        asked.append(request.headers.get("last-event-id"))
        return answers[len(asked) - 1]

    with serve(answer) as stub:
        result = run(stub.url, "-f", "-o", "json")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [RUN, QUEUE]
    assert asked == [None, "7.0", "7.0", "7.0", "9"]
    assert (result.exit_code, result.stderr) == (3, "raftsched: Too old.\n")


def test_a_problem_in_the_stream_ends_it() -> None:
    said = {"type": "x", "title": "t", "status": 410, "code": "events-gone", "detail": "Read anew."}
    body = framed(RUN) + f"event: problem\ndata: {json.dumps(said)}\n\n".encode()
    with serve(lambda _: (200, body)) as stub:
        result = run(stub.url, "-f")
    assert (result.exit_code, result.stderr) == (3, "raftsched: Read anew.\n")


def test_nobody_there_at_the_beginning() -> None:
    with serve(lambda _: problem(503, "behind", "Not yet.")) as stub:
        result = run(stub.url, "-f")
        assert (result.exit_code, len(stub.requests)) == (6, 1)


class _Breaking:
    """A client whose streams break off where the test says."""

    def __init__(self, *answers: tuple[int | None, list[bytes], ClientError | None]) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def stream(
        self, path: str, query: Mapping[str, Any], *, answered: Callable[[Mapping[str, str]], None]
    ) -> Iterator[bytes]:
        self.asked.append({name: value for name, value in query.items() if value is not None})
        start, pieces, error = self._answers.pop(0)
        if start is not None:
            answered({"raftsched-attempt": "2", "raftsched-offset": str(start)})
        yield from pieces
        if error is not None:
            raise error


BROKEN = ClientError("unreachable", "The connection broke.")


def test_output_that_breaks_goes_on_behind_the_last_byte() -> None:
    client = _Breaking(
        (100, [b"ab", b"\xff"], BROKEN),
        (None, [], ClientError("output-unavailable", "Not there.", status=503)),
        (103, [b"c"], None),
    )
    got = b"".join(event_stream.output(client, "/x", {"follow": True, "tail": 3}))  # type: ignore[arg-type]
    assert got == b"ab\xffc"
    again = {"follow": True, "attempt": 2, "offset": 103}
    assert client.asked == [{"follow": True, "tail": 3}, again, again]


def test_output_that_is_gone_is_an_error() -> None:
    client = _Breaking((0, [b"a"], BROKEN), (None, [], ClientError("output-gone", "Lost.", status=410)))
    pieces = event_stream.output(client, "/x", {"follow": True})  # type: ignore[arg-type]
    assert next(pieces) == b"a"
    with pytest.raises(ClientError, match=r"Lost\."):
        next(pieces)


def test_pieces_say_their_stream_and_go_on_behind_the_last_one() -> None:
    def piece(place: int, text: str, stream: str) -> bytes:
        data = json.dumps({"offset": place - len(text), "text": text, "stream": stream})
        return f"id: 1.{place}\ndata: {data}\n\n".encode()

    ended = b'event: end\nid: 1.9\ndata: {"attempt":1,"outcome":"failed","exit_code":1,"truncated":0}\n\n'
    away = {"code": "output-unavailable", "detail": "Not there.", "status": 503}
    answers = [
        (200, piece(4, "one\n", "stdout") + piece(9, "oops\n", "stderr")[:-3]),  # cut in the middle
        (200, f"event: problem\ndata: {json.dumps(away)}\n\n".encode()),
        (200, piece(9, "oops\n", "stderr") + ended),
    ]
    asked: list[str | None] = []

    def answer(request: Request) -> tuple[int, Any]:
        asked.append(request.headers.get("last-event-id"))
        assert request.headers["accept"] == "text/event-stream"
        return answers[len(asked) - 1]

    with serve(answer) as stub:
        args = ["--server", stub.url, "instances", "output", "-f", "--split", f"{ID}@1"]
        result = CliRunner().invoke(cli, args)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "one\n", "oops\n")
    assert asked == [None, "1.4", "1.4"]
