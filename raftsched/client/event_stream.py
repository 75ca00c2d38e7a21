"""Reading server-sent events (WHATWG HTML, section 9.2) with the synchronous client, across nodes that come and go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from raftsched.client.errors import ClientError
from raftsched.client.http import Client

SILENT_S = 60.0  # without a byte; a node says each 15 s that it is there
AGAIN_S = 1.0  # between two tries
TRIES = 60  # in a row, before it is given up


@dataclass
class Said:
    event: str = ""
    id: str = ""
    data: str = ""


class Parser:
    """Assembles events from the pieces of a stream, also those with an id alone. It leaves out comments, and an event
    that breaks off."""

    def __init__(self) -> None:
        self._rest = b""
        self._said = Said()

    def feed(self, piece: bytes) -> Iterator[Said]:
        """Gives the events that are complete with this piece. Use them up before the next call."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.decode("utf-8", "replace").partition(":")
                if name in ("event", "id", "data"):
                    setattr(self._said, name, value.removeprefix(" "))
                continue
            said, self._said = self._said, Said()
            if said != Said():
                yield said


def parse(pieces: Iterable[bytes]) -> Iterator[Said]:
    parser = Parser()
    for piece in pieces:
        yield from parser.feed(piece)


def output(client: Client, path: str, query: Mapping[str, Any]) -> Iterator[bytes]:
    """Gives the output of a run, byte for byte, to its end. A stream that breaks is continued after the last byte, at
    any node. Raises ClientError when that fails `TRIES` times in a row."""
    asked, failures = dict(query), 0
    begun = False

    def answered(headers: Mapping[str, str]) -> None:
        nonlocal begun
        if not begun and "raftsched-attempt" in headers:
            begun = True
            asked.update(attempt=int(headers["raftsched-attempt"]), offset=int(headers["raftsched-offset"]), tail=None)

    while True:
        try:
            for piece in client.stream(path, asked, answered=answered):
                failures = 0
                asked["offset"] = asked.get("offset", 0) + len(piece)
                yield piece
            return
        except ClientError as error:
            failures += 1
            if not begun or failures >= TRIES or not _passes(error):
                raise
        time.sleep(AGAIN_S)


def pieces(client: Client, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Gives what a run prints, with the stream of each piece, as `query` asks for it. A stream that breaks is
    continued behind the last piece, at any node. Raises ClientError when that fails `TRIES` times in a row."""
    headers, failures = {"Accept": "text/event-stream"}, 0
    while True:
        try:
            for said in parse(client.stream(path, query, headers=headers, silent_s=SILENT_S)):
                failures = 0
                if said.id:
                    headers["Last-Event-ID"] = said.id
                if said.event == "problem":
                    problem = json.loads(said.data)
                    raise ClientError(problem["code"], problem["detail"], status=problem["status"])
                if said.event in ("end", "more"):
                    return
                if said.data:
                    yield json.loads(said.data)
        except ClientError as error:
            failures += 1
            if failures >= TRIES or not _passes(error):
                raise
        time.sleep(AGAIN_S)


def _passes(error: ClientError) -> bool:
    """Returns True when another try may find a node that answers."""
    return error.code == "unreachable" or error.status == 503


def watch(client: Client, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Gives the data of each event. A stream that breaks is continued after the last event, at any node. Raises
    ClientError when that fails `TRIES` times in a row, or a node answers that it cannot be continued."""
    last, failures = "", 0
    while True:
        try:
            headers = {"Last-Event-ID": last} if last else None
            for said in parse(client.stream(path, query, headers=headers, silent_s=SILENT_S)):
                failures = 0
                last = said.id or last
                if said.event == "problem":
                    problem = json.loads(said.data)
                    raise ClientError(problem["code"], problem["detail"], status=problem["status"])
                if said.data:
                    yield json.loads(said.data)
            if query.get("follow") is False:
                return
        except ClientError as error:
            failures += 1
            if not last or failures >= TRIES or not _passes(error):
                raise
        time.sleep(AGAIN_S)
