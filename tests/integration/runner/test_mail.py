"""Mails, sent to a real server in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftsched.core.model import Outcome
from raftsched.core.rules.allowed import Allowed
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.processes.wire import TLS_LATER, TLS_NONE, Mail
from tests.integration.runner.bed import Bed
from tests.support.mail_server import MailServer, mail_server
from tests.support.patience import patient_ms, within

MESSAGE = b"From: r@a.test\r\nTo: a@b.test\r\nSubject: hello\r\n\r\nfirst\r\n.\r\n.hidden dot\r\n"
TO = ("a@b.test", "c@b.test")


def to(server: MailServer, **fields: object) -> Mail:
    usual = {"host": "127.0.0.1", "port": server.port, "tls": TLS_NONE, "sender": "r@a.test", "to": TO}
    return Mail(**{**usual, "message": MESSAGE, **fields})  # type: ignore[arg-type]


async def test_a_mail_is_handed_over_as_it_is(bed: Bed) -> None:
    async with mail_server() as server:
        end = await bed.run(to(server, user="me", password="s3cret", hidden=("s3cret",)))
        assert (end.outcome, end.error) == (Outcome.SUCCEEDED, None)
        ((sender, recipients, mail),) = server.mails
        assert (sender, recipients, mail["Subject"]) == ("r@a.test", list(TO), "hello")
        assert mail.get_payload() == "first\r\n.\r\n.hidden dot\r\n"
        assert server.logins == [("me", "s3cret")]
        assert "taken for 2 of 2 recipients: 250 queued" in bed.text(end)


async def test_recipients_that_are_refused_are_named(bed: Bed) -> None:
    async with mail_server(refuses={"c@b.test"}) as server:
        end = await bed.run(to(server))
        assert (end.outcome, server.mails[0][1]) == (Outcome.SUCCEEDED, ["a@b.test"])
        assert "the recipient c@b.test is refused: 550 no mailbox" in bed.text(end)
        server.refuses |= set(TO)
        end = await bed.run(to(server))
        assert (end.outcome, len(server.mails)) == (Outcome.FAILED, 1)
        assert "a@b.test is refused: 550" in str(end.error)


@pytest.mark.parametrize(
    "answers, fields, words",
    [
        ({"": "554 not you"}, {}, "554 not you"),
        ({"MAIL": "550 no such sender"}, {}, "the sender r@a.test is refused: 550"),
        ({"DATA": "452 no room"}, {}, "452 no room"),
        ({"AUTH": "535 bad"}, {"user": "me", "password": "s3cret"}, "refuses user and password: 535 bad"),
        ({}, {"tls": TLS_LATER, "user": "me", "password": "s3cret"}, "STARTTLS"),
    ],
)
def test_what_the_server_refuses_is_said(
    tmp_path: Path, answers: dict[str, str], fields: dict[str, object], words: str
) -> None:
    async def body() -> tuple[RunEnd, MailServer]:
        async with Bed(tmp_path) as bed, mail_server(answers=answers) as server:
            return await bed.run(to(server, **fields)), server

    end, server = asyncio.run(body())
    assert end.outcome == Outcome.FAILED
    assert words in str(end.error)
    assert server.mails == []
    if fields.get("tls") == TLS_LATER:
        assert server.logins == []  # nothing is said in the clear


async def test_a_server_that_says_nothing_is_left(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    server = MailServer(listening.sockets[0].getsockname()[1])
    async with Bed(tmp_path) as bed:
        end = await bed.run(to(server), timeout_ms=patient_ms(300))
        assert end.outcome == Outcome.TIMED_OUT
        await within(gone.wait())
    listening.close()


@pytest.mark.parametrize("greets", [False, True], ids=["greeting", "EHLO"])
async def test_a_server_that_answers_for_ever_is_left(tmp_path: Path, greets: bool) -> None:
    gone = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if greets:
                writer.write(b"220 at your service\r\n")
                await reader.readline()
            while True:
                writer.write(b"250-and\r\n" * 1_000)
                await writer.drain()
        except ConnectionError:
            gone.set()
        writer.close()

    listening = await asyncio.start_server(endless, "127.0.0.1", 0)
    server = MailServer(listening.sockets[0].getsockname()[1])
    async with Bed(tmp_path) as bed:
        end = await bed.run(to(server))
        assert end.outcome == Outcome.FAILED
        assert "the server answers more than 262144 bytes" in str(end.error)
        await within(gone.wait())
    listening.close()


async def test_a_node_asks_only_where_it_may(tmp_path: Path) -> None:
    async with Bed(tmp_path, http_allow=Allowed().http) as bed, mail_server() as server:
        end = await bed.run(to(server))
        assert end.outcome == Outcome.FAILED
        assert "it is a loopback address, and http_allow names" in str(end.error)
        assert server.mails == []
