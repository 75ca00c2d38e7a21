"""A mail server that keeps what it is sent, on a free port of loopback."""

from __future__ import annotations

import asyncio
import base64
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import cast


@dataclass
class MailServer:
    """`refuses`: recipients that it does not know; `answers`: other replies, by the first word of a command."""

    port: int = 0
    refuses: set[str] = field(default_factory=set)
    answers: dict[str, str] = field(default_factory=dict)
    extensions: tuple[str, ...] = ("AUTH PLAIN",)
    mails: list[tuple[str, list[str], EmailMessage]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._speak(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # it is over
        finally:
            writer.close()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(text: str) -> None:
            writer.write(f"{text}\r\n".encode())

        sender, to = "", list[str]()
        say(self.answers.get("", "220 mail.test"))
        while line := (await reader.readline()).decode().strip():
            word, _, rest = line.partition(" ")
            word = word.upper()
            if word in self.answers:
                say(self.answers[word])
            elif word == "EHLO":
                lines = ["mail.test", *self.extensions]
                for i, text in enumerate(lines):
                    say(f"250{' ' if i == len(lines) - 1 else '-'}{text}")
            elif word == "AUTH":
                _, user, password = base64.b64decode(rest.split()[-1]).decode().split("\0")
                self.logins.append((user, password))
                say("235 welcome")
            elif word == "MAIL":
                sender, to = rest.partition("<")[2].partition(">")[0], []
                say("250 ok")
            elif word == "RCPT":
                name = rest.partition("<")[2].partition(">")[0]
                if name in self.refuses:
                    say(f"550 no mailbox {name}")
                else:
                    to.append(name)
                    say("250 ok")
            elif word == "DATA":
                say("354 go on")
                raw = await reader.readuntil(b"\r\n.\r\n")
                text = raw[:-3].replace(b"\r\n..", b"\r\n.")
                self.mails.append((sender, to, cast(EmailMessage, message_from_bytes(text, policy=SMTP))))
                self.came.set()
                say("250 queued as 1")
            else:
                say("221 bye" if word == "QUIT" else "250 ok")
            await writer.drain()
            if word == "QUIT":
                return


@asynccontextmanager
async def mail_server(**fields: object) -> AsyncIterator[MailServer]:
    server = MailServer(**fields)  # type: ignore[arg-type]
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


@contextmanager
def mail_server_in_thread() -> Iterator[MailServer]:
    """For tests that are no coroutines."""
    started: queue.Queue[tuple[MailServer, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        over = asyncio.Event()
        async with mail_server() as server:
            started.put((server, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    server, loop, over = started.get()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
