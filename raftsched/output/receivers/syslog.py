"""Ships output as syslog: messages of RFC 5424, by UDP (RFC 5426), TCP with octet counting (RFC 6587, 3.4.1), TLS (RFC
5425), or datagrams on a Unix socket.

A line is one message, or several when it is too long for one: their `part` counts from 1. What stands in the message is
UTF-8 without a byte order mark; control characters other than tabs are written as rsyslog writes them, #033 for ESC.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import ssl
import struct
import termios
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from raftsched.config.addresses import Address
from raftsched.output.following.calls import in_daemon_thread
from raftsched.output.following.follower import NotTaken
from raftsched.output.keeping.owner_record import OutputOwner
from raftsched.output.receivers.standard_output import time_text
from raftsched.output.receivers.trust import Trust
from raftsched.output.receivers.unshipped import Entry, Packed

FACILITY = 1  # user-level messages
SEVERITIES = {"stdout": 6, "stderr": 5}  # informational, and a little more than that: many programs log to stderr
SD_ID = "raftsched@32473"  # the number that RFC 5612 keeps for documents, and who has none of their own
APP = "raftsched"
UDP_MAX = 2_048  # bytes of a message: what every receiver should take (RFC 5426, 3.2),
STREAM_MAX = 8_192  # by TCP and TLS (RFC 5425, 4.3.1), and on this machine
TEXT_MIN = 480  # bytes of it that are left for text, however long the names are
HOST_MAX = 255
PARTS_MAX = 9_999  # of a line, by far
CONNECT_S = 5.0
TIMEOUT_S = 30.0
DATAGRAM_S = 2.0  # how long one may wait for room in a local socket
BURST = 32 * 1024  # bytes of datagrams at once; a receiver's buffer is small, and what does not fit is lost,
BURST_S = 0.01  # so there is a pause behind them
ACKED_S = 0.005  # how often is looked whether all was acknowledged
SAID_MAX = 2**20  # bytes that a receiver may say between two batches; one of syslog has nothing to say

_CONTROLS = {c: f"#{c:03o}" for c in (*range(32), 127) if c != 9}
_INT = struct.Struct("i")


class Format:
    """Makes messages of lines."""

    def __init__(self, node_id: str, host: str, most: int) -> None:
        """`most`: bytes of a message."""
        self._node_id = node_id
        self._host = printable(host, HOST_MAX)
        self._most = most
        self._about: tuple[OutputOwner, int, str] | None = None  # the stream of an attempt that a line was of last,
        self._of_all = ("", "")  # and what all of them have

    def messages(self, entry: Entry) -> Iterator[bytes]:
        """Yields the messages of a line."""
        text = entry.line.text
        raw = (text if text.isprintable() else text.translate(_CONTROLS)).encode("utf-8", "replace")
        head = self._head(entry, 0)
        if len(head) + 1 + len(raw) <= self._most:
            yield head + b" " + raw if raw else head
            return
        room = max(TEXT_MIN, self._most - len(self._head(entry, PARTS_MAX)) - 1)
        for number, part in enumerate(parts_of(raw, room), 1):
            yield self._head(entry, number) + b" " + part

    def _head(self, entry: Entry, part: int) -> bytes:
        """HEADER and STRUCTURED-DATA."""
        line = entry.line
        about = entry.owner, entry.token, line.stream
        if about != self._about:
            self._about, self._of_all = about, self._of_each_line(*about)
        before, behind = self._of_all
        own = f' line="{line.number}"'
        if part:
            own += f' part="{part}"'
        if line.goes_on:
            own += ' goes_on="true"'
        return f"{before}{time_text(entry.at_ns)}{behind}{own}]".encode("utf-8", "replace")

    def _of_each_line(self, owner: OutputOwner, token: int, stream: str) -> tuple[str, str]:
        """Returns what is before the time, and what is behind it, in every line of this stream of an attempt."""
        told = {
            "namespace": owner.namespace,
            "job": owner.job,
            "instance": owner.instance,
            "attempt": owner.attempt,
            "token": token,
            "node": self._node_id,
            "stream": stream,
        }
        if owner.worker:
            told["worker"] = owner.worker
        data = " ".join(f'{name}="{escaped(str(value))}"' for name, value in told.items())
        procid = printable(owner.instance, 128)
        before = f"<{FACILITY * 8 + SEVERITIES[stream]}>1 "
        return before, f" {self._host} {APP} {procid} {stream} [{SD_ID} {data}"


def printable(text: str, most: int) -> str:
    """Returns it as a field of the header may be: 33 to 126, and "-" for nothing."""
    return "".join(c if 33 <= ord(c) <= 126 else "?" for c in text)[:most] or "-"


def escaped(value: str) -> str:
    """Returns the value of a parameter (RFC 5424, 6.3.3)."""
    return value.translate(_CONTROLS).replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def parts_of(text: bytes, most: int) -> Iterator[bytes]:
    """Yields it in pieces of at most so many bytes, cut between characters; one piece of an empty text."""
    at = 0
    while at + most < len(text):
        end = at + most
        while end > at + 1 and text[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        yield text[at:end]
        at = end
    yield text[at:]


def counted(message: bytes) -> bytes:
    """Returns the message behind its length (RFC 6587, 3.4.1)."""
    return b"%d %b" % (len(message), message)


class _Sender(ABC):
    """Sends over a socket, which is opened when there is something to send."""

    def __init__(self, to: Address | str, node_id: str, host: str, most: int) -> None:
        """`to`: an address, or the path of a socket. `most`: bytes of a message."""
        self._to = to
        self._format = Format(node_id, host, most)
        self._socket: socket.socket | None = None

    def pack(self, entry: Entry) -> bytes:
        """Returns the messages behind their lengths."""
        return b"".join(counted(message) for message in self._format.messages(entry))

    async def take(self, lines: Sequence[Packed]) -> None:
        """Raises NotTaken. What was sent before over a connection that breaks is sent again over the next one."""
        try:
            await in_daemon_thread(lambda: self._send(lines), "output-shipping")
        except BaseException as error:
            self._shut()
            if isinstance(error, TimeoutError):
                raise NotTaken(f"{self._to} does not take it") from None
            if isinstance(error, OSError):
                raise NotTaken(f"{self._to}: {error.strerror or error}") from None
            raise

    @abstractmethod
    def _send(self, lines: Sequence[Packed]) -> None:
        """Returns when they are taken. Blocks. Raises OSError."""

    async def close(self) -> None:
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # a thread may be at it
            self._socket.close()
            self._socket = None


class Datagrams(_Sender):
    """Sends by UDP, or to a socket of this machine. That a receiver has them cannot be known: they were handed to the
    system."""

    def __init__(self, to: Address | str, node_id: str, host: str) -> None:
        super().__init__(to, node_id, host, STREAM_MAX if isinstance(to, str) else UDP_MAX)

    def _send(self, lines: Sequence[Packed]) -> None:
        if self._socket is None:
            self._socket = self._open()
        burst = 0
        for _, data in lines:
            for message in uncounted(data):
                self._socket.send(message)
                burst += len(message)
                if burst >= BURST:
                    burst = 0
                    time.sleep(BURST_S)

    def _open(self) -> socket.socket:
        if isinstance(self._to, str):
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            where: Any = self._to
        else:
            family, kind, proto, _, where = socket.getaddrinfo(*self._to, type=socket.SOCK_DGRAM)[0]
            made = socket.socket(family, kind, proto)
        try:
            made.settimeout(DATAGRAM_S)
            made.connect(where)
        except OSError:
            made.close()
            raise
        return made


def uncounted(data: bytes) -> Iterator[bytes]:
    """Yields the messages again that `counted` made one text of."""
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = space + 1 + int(data[at:space])
        yield data[space + 1 : end]
        at = end


class Stream(_Sender):
    """Sends by TCP, or TLS. A batch is taken when the other machine has acknowledged it."""

    def __init__(self, to: Address, node_id: str, host: str, trust: Trust | None) -> None:
        super().__init__(to, node_id, host, STREAM_MAX)
        self._address = to
        self._trust = trust

    def _send(self, lines: Sequence[Packed]) -> None:
        if self._socket is not None and is_over(self._socket):
            self._shut()
        sock = self._socket
        if sock is None:
            sock = self._socket = self._connected()
        sock.settimeout(TIMEOUT_S)
        sock.sendall(b"".join(line.data for line in lines))
        waits = 0
        while unacknowledged(sock):
            is_over(sock)  # after a reset nothing more is acknowledged
            if waits * ACKED_S >= TIMEOUT_S:
                raise TimeoutError
            waits += 1
            time.sleep(ACKED_S)
        is_over(sock)  # by a reset, the other side threw away what it had acknowledged

    def _connected(self) -> socket.socket:
        made = socket.create_connection(self._address, CONNECT_S)
        try:
            if self._trust is None:
                return made
            return self._trust.context().wrap_socket(made, server_hostname=self._address.host)
        except OSError:
            made.close()
            raise


def is_over(sock: socket.socket) -> bool:
    """Returns whether the other side has closed the connection in order. What it says is thrown away. Raises OSError:
    it has ended it otherwise, or does not stop talking."""
    sock.setblocking(False)
    said = 0
    try:
        while said <= SAID_MAX:
            size = len(sock.recv(4_096))
            if not size:
                error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:  # a reset that came behind the end: reading shows the end for ever
                    raise OSError(error, os.strerror(error))
                return True
            said += size
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    raise OSError("it sends data without an end, and a receiver of syslog sends none")


def unacknowledged(sock: socket.socket) -> int:
    """Returns how many bytes the other side has not acknowledged (SIOCOUTQ, tcp(7)). Raises OSError: it was closed
    here."""
    if sock.fileno() < 0:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    size: int = _INT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, _INT.pack(0)))[0]
    return size
