"""Sends one mail by SMTP: over a connection to an address that was checked, in a thread of its own.

smtplib speaks the protocol. A thread is ended by closing its connection.
"""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from raftsched.worker.processes import wire

ACCEPTED = (250, 251)  # of a recipient
SILENCE_MAX_S = 300.0  # RFC 5321, 4.5.3.2: nothing takes longer than this for an answer
ANSWERS_MAX = 256 * 1024  # bytes of all that a server answers: 500 lines of the longest that are allowed (RFC 5321)
_SHOWN = 500  # bytes of what a server says


class Refused(Exception):
    """The server's refusal, for the user."""


class _Answers:
    """Reads what the server says, line by line, and counts it: smtplib reads as many lines as come."""

    def __init__(self, stream: BinaryIO, spend: Callable[[int], None]) -> None:
        self._stream = stream
        self._spend = spend

    def readline(self, limit: int) -> bytes:
        line = self._stream.readline(limit)
        self._spend(len(line))
        return line

    def close(self) -> None:
        self._stream.close()


class _Client(smtplib.SMTP):
    """Speaks over a connection that is there already."""

    def __init__(self, connection: socket.socket, host: str) -> None:
        super().__init__(local_hostname=socket.gethostname() or "localhost", timeout=SILENCE_MAX_S)
        self._connection = connection
        self._room = ANSWERS_MAX  # bytes that it may still answer
        self._host = host  # as whom the server has to prove itself, should TLS begin later
        self.sock: socket.socket | None = connection

    def greeted(self) -> None:
        """Reads the server's greeting. Raises Refused, OSError."""
        code, said = self.getreply()
        if code != 220:
            raise Refused(_words("the server does not take mail", code, said))

    def getreply(self) -> tuple[int, bytes]:
        """Returns code and text of the next answer. Raises Refused when all of them are longer than ANSWERS_MAX."""
        if self.file is None and self.sock is not None:  # at the beginning, and when TLS has begun
            self.file = _Answers(self.sock.makefile("rb"), self._spend)
        return super().getreply()

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise Refused(f"the server answers more than {ANSWERS_MAX} bytes; those of a mail server are a few lines")

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._connection


def send(task: wire.Mail, connection: socket.socket) -> str:
    """Sends the mail, and returns what became of it, for people. Raises Refused, OSError (also of smtplib)."""
    connection.settimeout(SILENCE_MAX_S)
    context = None if task.tls == wire.TLS_NONE else ssl.create_default_context()
    host = task.host.strip("[]")
    if task.tls == wire.TLS_AT_ONCE and context is not None:
        connection = context.wrap_socket(connection, server_hostname=host)
    client = _Client(connection, host)
    try:
        client.greeted()
        if task.tls == wire.TLS_LATER and context is not None:
            client.starttls(context=context)  # raises where the server does not offer it: nothing goes in the clear
        client.ehlo_or_helo_if_needed()
        if task.user:
            client.login(task.user, task.password)
        said = _hand_over(client, task)
    finally:
        with suppress(OSError, Refused):
            client.quit()
        client.close()
    return said


def _hand_over(client: smtplib.SMTP, task: wire.Mail) -> str:
    code, said = client.mail(task.sender)
    if code != 250:
        raise Refused(_words(f"the sender {task.sender} is refused", code, said))
    refused = []
    for recipient in task.to:
        code, said = client.rcpt(recipient)
        if code not in ACCEPTED:
            refused.append(_words(f"the recipient {recipient} is refused", code, said))
    if len(refused) == len(task.to):
        raise Refused("\n".join(refused))
    code, said = client.data(task.message)
    if code != 250:
        raise Refused(_words("the mail is refused", code, said))
    taken = _words(f"taken for {len(task.to) - len(refused)} of {len(task.to)} recipients", code, said)
    return "\n".join([taken, *refused])


def _words(what: str, code: int, said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return f"{what}: {code} {' '.join(text.split())[:_SHOWN]}"


def error_words(error: OSError) -> str:
    """Returns the reason of an error of the connection or of smtplib, for the user."""
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return _words("the server refuses user and password", error.smtp_code, error.smtp_error)
    if isinstance(error, smtplib.SMTPResponseException):
        return _words("the server refuses", error.smtp_code, error.smtp_error)
    return error.strerror or str(error) or type(error).__name__
