"""The status that a server answers to a GET, over a connection that is given: HTTP/1.1 by h11, within the bounds that
hold for the answers to jobs. Blocking. Imported where a condition asks a server: few do."""

from __future__ import annotations

import socket

import h11

from raftsched.worker.executors.answers import HEAD_MAX, Failed, Parser

_PIECE = 4 * 1024  # bytes that are read at a time: one holds the head, of most


class NoAnswer(ValueError):
    """The request cannot be sent, or what came is no answer; the text says why."""


class Question:
    """A GET that is ready to be sent."""

    def __init__(self, host: str, port: int, usual_port: int, target: str) -> None:
        """Raises NoAnswer, and UnicodeError for what has no place in a request."""
        name = host if host.isascii() else host.encode("idna").decode()
        name = f"[{name}]" if ":" in name else name
        headers = {
            "Host": name if port == usual_port else f"{name}:{port}",
            "Accept-Encoding": "identity",
            "Accept": "*/*",
            "User-Agent": "raftsched",
            "Connection": "close",
        }
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
        try:
            request = http.send(h11.Request(method="GET", target=target, headers=[*headers.items()]))
        except h11.LocalProtocolError as error:
            raise NoAnswer(f"the request cannot be sent: {error}") from None
        self._request = (request or b"") + (http.send(h11.EndOfMessage()) or b"")
        self._parser = Parser(http, beside_max=HEAD_MAX)

    def status(self, connection: socket.socket) -> int:
        """Sends it, and returns the status of the answer. Raises NoAnswer and OSError."""
        connection.sendall(self._request)
        try:
            while True:
                event = self._parser.event()
                if event is h11.NEED_DATA:
                    self._parser.receive(connection.recv(_PIECE))
                elif (response := self._parser.final(event)) is not None:
                    return int(response.status_code)
        except Failed as failed:
            raise NoAnswer(str(failed)) from None
