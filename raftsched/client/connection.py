"""An HTTP/1.1 connection for one request (RFC 9112), as far as the command line needs it.

The command line starts fast because of it: http.client imports the whole email package, and ssl.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from raftsched.client.servers import Server
from raftsched.client.strangers import not_http
from raftsched.client.trust import SYSTEM, Trust, is_cut

LINE_MAX = 65_536  # bytes
HEADERS_MAX = 100
CHUNK = 65_536  # bytes of a body at a time
_HTTP = b"HTTP/"
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: (.*))?", re.DOTALL)
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TOKENS = re.compile(r"[^\x00-\x1f\x7f]*")
_NO_BODY = frozenset({204, 304})


class BrokenAnswer(Exception):
    """The bytes that came are not proper HTTP, or ended too early."""


class NotHttp(BrokenAnswer):
    """Somebody else speaks there, in another way."""


class NoAnswer(BrokenAnswer):
    """The connection was closed before the first byte of an answer."""


class Connection:
    """Raises OSError from everything that uses the socket; TimeoutError among them."""

    def __init__(self, server: Server, timeout_s: float, trust: Trust = SYSTEM) -> None:
        """Connects; raises UnicodeError for what cannot be a host name, ClientError "untrusted" when what `trust` says
        cannot be used."""
        host: Any = server.host
        if host.isascii():
            host = host.encode()  # as it is; else the IDNA codec would be loaded for it
        self._server = server
        self._socket = socket.create_connection((host, server.port), timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if server.scheme == "https":
                self._socket = trust.context().wrap_socket(self._socket, server_hostname=server.host)
        except BaseException:
            self._socket.close()
            raise
        self._buffer = b""
        self._bodyless = False
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}  # names in lower case; of one given several times the last

    def close(self) -> None:
        self._socket.close()

    @property
    def server(self) -> Server:
        return self._server

    def wait_for(self, seconds: float | None) -> None:
        """Sets the seconds to wait for each piece from now on."""
        self._socket.settimeout(seconds)

    # ------------------------------------------------------------ the request

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> None:
        """Sends it and reads the head of the answer. Raises BrokenAnswer; ValueError for what no header may hold."""
        server = self._server
        host = f"[{server.host}]" if ":" in server.host else server.host
        usual = {"http": 80, "https": 443}[server.scheme]
        sent = {"Host": host if server.port == usual else f"{host}:{server.port}", "Accept-Encoding": "identity"}
        sent |= headers
        sent["Connection"] = "close"
        if body is not None or method in ("POST", "PUT", "PATCH"):
            sent["Content-Length"] = str(len(body or b""))
        lines = [f"{method} {server.path}{target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        for line in lines:
            if not _TOKENS.fullmatch(line):
                raise ValueError(f"not possible in a request: {line!r}")
        head = "\r\n".join(lines).encode("latin-1", "strict") + b"\r\n\r\n"
        try:
            self._socket.sendall(head + (body or b""))
        except (BrokenPipeError, ConnectionResetError):
            self._answer_anyway(method)  # a server may refuse a body before it has all of it
            return
        except OSError as error:
            if not is_cut(error):
                raise
            self._answer_anyway(method)
            return
        self._read_head(method)

    def _answer_anyway(self, method: str) -> None:
        """Raises OSError: the connection broke."""
        try:
            self._read_head(method)
        except BrokenAnswer:
            raise BrokenPipeError(32, "broken pipe") from None

    # ------------------------------------------------------------ the answer

    def _read_head(self, method: str) -> None:
        while True:
            line = self._line(_HTTP)
            if line is None:
                raise NoAnswer("closed the connection without an answer")
            match = _STATUS.fullmatch(line)
            if match is None:
                raise NotHttp(not_http(line))
            self.status = int(match[1])
            self.reason = (match[2] or b"").decode("latin-1").strip()
            self.headers = self._read_headers()
            if self.status >= 200 or self.status == 101:
                break
        self._bodyless = method == "HEAD" or self.status in _NO_BODY

    def _read_headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _ in range(HEADERS_MAX):
            line = self._line()
            if not line:
                if line is None:
                    raise BrokenAnswer("it ended too early")
                return found
            name, colon, value = line.partition(b":")
            if not colon or not _NAME.fullmatch(name):
                raise BrokenAnswer("a header of the answer is malformed")
            found[name.decode("latin-1").lower()] = value.strip(b" \t").decode("latin-1")
        raise BrokenAnswer(f"the answer has more than {HEADERS_MAX} headers")

    def pieces(self) -> Iterator[bytes]:
        """Gives the body as it comes, once. Raises BrokenAnswer when it ends too early."""
        if self._bodyless:
            return
        coding = self.headers.get("transfer-encoding", "").lower()
        if coding == "chunked":
            yield from self._chunks()
        elif coding:
            raise BrokenAnswer(f"the answer comes as {coding!r}")
        elif (length := self.headers.get("content-length")) is not None:
            if not (length.isascii() and length.isdigit()):
                raise BrokenAnswer("the length of the answer is malformed")
            yield from self._exactly(int(length))
        else:
            while piece := self._some(CHUNK):
                yield piece

    def body(self, most: int | None = None) -> bytes:
        """Returns the body, or its first `most` bytes."""
        found = bytearray()
        for piece in self.pieces():
            found += piece
            if most is not None and len(found) >= most:
                return bytes(found[:most])
        return bytes(found)

    def _chunks(self) -> Iterator[bytes]:
        while True:
            line = self._line()
            match = None if line is None else _SIZE.fullmatch(line)
            if match is None:
                raise BrokenAnswer("it ended too early" if line is None else "a chunk of the answer is malformed")
            size = int(match[1], 16)
            if size == 0:
                self._read_headers()  # trailers
                return
            yield from self._exactly(size)
            if self._line() != b"":
                raise BrokenAnswer("a chunk of the answer is malformed")

    def _exactly(self, size: int) -> Iterator[bytes]:
        left = size
        while left > 0:
            piece = self._some(min(left, CHUNK))
            if not piece:
                raise BrokenAnswer(f"it ended {left} bytes too early")
            left -= len(piece)
            yield piece

    # ------------------------------------------------------------ bytes

    def _some(self, most: int) -> bytes:
        """Returns the bytes that are there, at least one; empty at the end."""
        if not self._buffer:
            return self._socket.recv(most)
        piece, self._buffer = self._buffer[:most], self._buffer[most:]
        return piece

    def _line(self, begins: bytes = b"") -> bytes | None:
        """Returns the next line without its end; None at the end. Raises NotHttp: it begins otherwise."""
        while True:
            if begins[: len(self._buffer)] != self._buffer[: len(begins)]:
                raise NotHttp(not_http(self._buffer))
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                return line.removesuffix(b"\r")
            if len(self._buffer) > LINE_MAX:
                raise BrokenAnswer("a line of the answer is too long")
            more = self._socket.recv(CHUNK)
            if not more:
                if line:
                    raise BrokenAnswer("it ended too early")
                return None
            self._buffer += more
