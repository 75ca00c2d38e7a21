"""Syslog: messages as RFC 5424 has them, in frames and datagrams, to receivers that come and go."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.config.addresses import Address
from raftsched.output.following.calls import in_daemon_thread
from raftsched.output.following.follower import NotTaken
from raftsched.output.receivers import syslog
from raftsched.output.receivers.syslog import (
    STREAM_MAX,
    UDP_MAX,
    Datagrams,
    Format,
    Stream,
    counted,
    escaped,
    is_over,
    parts_of,
    unacknowledged,
    uncounted,
)
from raftsched.output.receivers.trust import Trust
from raftsched.output.receivers.unshipped import Packed
from tests.support import authority
from tests.support.patience import patient, within
from tests.unit.output.house import entry, packed, run

# RFC 5424, section 6: its ABNF
_NAME = r"[\x21\x23-\x3c\x3e-\x5c\x5e-\x7e]{1,32}"
_VALUE = r'(?:[^"\\\]]|\\["\\\]])*'
_ELEMENT = rf'\[{_NAME}(?: {_NAME}="{_VALUE}")*\]'
_MESSAGE = re.compile(
    r"<(?P<pri>0|[1-9][0-9]{0,2})>(?P<version>[1-9][0-9]{0,2})"
    r" (?P<time>-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d))"
    r" (?P<host>[\x21-\x7e]{1,255}) (?P<app>[\x21-\x7e]{1,48}) (?P<procid>[\x21-\x7e]{1,128})"
    rf" (?P<msgid>[\x21-\x7e]{{1,32}}) (?P<data>-|(?:{_ELEMENT})+)(?: (?P<msg>.*))?",
    re.DOTALL,
)
_PARAMETER = re.compile(rf'({_NAME})="({_VALUE})"')
# section 6.5
EXAMPLES = (
    "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed for lonvick on /dev/pts/8",
    "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
    '<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut="3" '
    'eventSource="Application" eventID="1011"] \ufeffAn application event log entry...',
    '<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut="3" '
    'eventSource="Application" eventID="1011"][examplePriority@32473 class="high"]',
)
NODE = Format("n1", "web-1", STREAM_MAX)


def read(message: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the fields of a message, and the parameters in it."""
    match = _MESSAGE.fullmatch(message.decode())
    assert match is not None, message
    values = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _PARAMETER.findall(match["data"])}
    return match.groupdict(), values


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_grammar_here_reads_the_examples_of_the_standard(example: str) -> None:
    assert _MESSAGE.fullmatch(example)


def test_a_message_has_every_field() -> None:
    (message,) = NODE.messages(entry("it works"))
    fields, values = read(message)
    assert message.decode() == (
        "<14>1 2030-01-01T00:00:00.000001Z web-1 raftsched 0d3k@1 stdout [raftsched@32473"
        ' namespace="billing" job="nightly" instance="0d3k@1" attempt="1" token="7" node="n1" stream="stdout"'
        ' line="1"] it works'
    )
    assert datetime.fromisoformat(fields["time"]).timestamp() == 1_893_456_000.000001
    assert values["namespace"] == "billing"
    (message,) = NODE.messages(entry("oh", "stderr", worker="gpu-1", goes_on=True))
    fields, values = read(message)
    assert (fields["pri"], fields["msgid"], values["stream"]) == ("13", "stderr", "stderr")
    assert (values["worker"], values["goes_on"]) == ("gpu-1", "true")


def test_an_empty_line_is_a_message_without_text() -> None:
    (message,) = NODE.messages(entry(""))
    assert read(message)[0]["msg"] is None


def test_control_characters_cannot_forge_a_message_and_text_is_utf_8() -> None:
    (message,) = NODE.messages(entry("a\nb\0c\x1b[1m\td\x7f é € \ud800"))
    assert read(message)[0]["msg"] == "a#012b#000c#033[1m\td#177 é € ?"


def test_values_are_escaped_as_the_standard_says() -> None:
    assert escaped('a"b\\c]d\n') == 'a\\"b\\\\c\\]d#012'
    (message,) = NODE.messages(entry("x", job='no"t]a\\name'))
    assert read(message)[1]["job"] == 'no"t]a\\name'


def test_a_host_without_a_usable_name() -> None:
    (message,) = Format("n1", "", STREAM_MAX).messages(entry())
    assert read(message)[0]["host"] == "-"
    (message,) = Format("n1", "my höst", STREAM_MAX).messages(entry())
    assert read(message)[0]["host"] == "my?h?st"


@pytest.mark.parametrize("most", [UDP_MAX, STREAM_MAX])
@given(text=st.text("a€\x1b😀", max_size=9_000))
def test_longer_lines_are_several_messages_none_of_which_is_too_long(most: int, text: str) -> None:
    messages = list(Format("n1", "web-1", most).messages(entry(text)))
    assert all(len(message) <= most for message in messages)
    found = [read(message) for message in messages]
    assert "".join(fields["msg"] or "" for fields, _ in found) == text.replace("\x1b", "#033")
    parts = [values.get("part") for _, values in found]
    assert parts == ([None] if len(found) == 1 else [str(n) for n in range(1, len(found) + 1)])


def test_the_longest_names_leave_room_for_text() -> None:
    one = entry("x" * 9_000, namespace="n" * 64, job="j" * 128, instance="i" * 60, worker="w" * 128)
    messages = list(Format("n" * 64, "h" * 64, UDP_MAX).messages(one))
    assert max(map(len, messages)) <= UDP_MAX
    assert len(messages) <= 9


def test_parts_and_counts() -> None:
    assert list(parts_of(b"", 4)) == [b""]
    assert list(parts_of("a€€".encode(), 4)) == ["a€".encode(), "€".encode()]
    assert counted(b"<14>1 - - - - - -") == b"17 <14>1 - - - - - -"
    assert list(uncounted(counted(b"one 1") + counted(b"") + counted(b"two"))) == [b"one 1", b"", b"two"]


# ---------------------------------------------------------------- datagrams


def datagrams(sock: socket.socket, count: int) -> list[str]:
    sock.settimeout(patient(10))
    return [sock.recv(65_536).decode() for _ in range(count)]


def test_datagrams_by_udp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "BURST", 100)
    monkeypatch.setattr(syslog, "BURST_S", 0.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        to = Datagrams(Address("127.0.0.1", receiver.getsockname()[1]), "n1", "web-1")

        async def through() -> None:
            lines = [packed(one, to.pack(one)) for one in (entry("one"), entry("two " * 600))]
            await to.take(lines)
            await to.close()

        run(through())
        got = [read(message.encode())[0]["msg"] for message in datagrams(receiver, 3)]
    assert got[0] == "one"
    assert "".join(got[1:]) == "two " * 600


def test_a_socket_of_this_machine_that_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "log"
    to = Datagrams(str(path), "n1", "web-1")
    lines = [packed(entry("one"), to.pack(entry("one")))]

    async def through() -> None:
        with pytest.raises(NotTaken, match="No such file"):
            await to.take(lines)
        for _ in range(2):  # and it may be started anew
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
                receiver.bind(str(path))
                await to.take(lines)
                assert [read(one.encode())[0]["msg"] for one in datagrams(receiver, 1)] == ["one"]
            with pytest.raises(NotTaken, match="refused"):
                await to.take(lines)
        await to.close()

    run(through())


# ---------------------------------------------------------------- TCP and TLS


class Server:
    """Reads messages in frames; it may stop reading, and hang up."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                size = await reader.readuntil(b" ")
                self.messages.put_nowait(await reader.readexactly(int(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def serving(port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", port, ssl=tls, reuse_address=True)
    made.port = listening.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listening.close()
        for writer in made.writers:
            writer.transport.abort()


async def _taken_until_it_is_not(to: Stream, lines: list[Packed]) -> None:
    """What the system took before it knew that nobody reads any more is not known to be lost."""
    while True:
        await to.take(lines)


def test_messages_by_tcp_over_a_server_that_starts_anew() -> None:
    async def through() -> None:
        async with serving() as first:
            to = Stream(Address("127.0.0.1", first.port), "n1", "web-1", None)
            lines = [packed(one, to.pack(one)) for one in (entry("one"), entry("two\n"))]
            await to.take(lines)
            got = [read(await first.messages.get())[0]["msg"] for _ in range(2)]
            assert got == ["one", "two#012"]
            await to.take(lines)
            assert len(first.writers) == 1, "by the same connection"
        with pytest.raises(NotTaken):
            await _taken_until_it_is_not(to, lines)
        async with serving(first.port) as second:
            await to.take(lines)
            assert read(await second.messages.get())[0]["msg"] == "one"
            await to.close()

    run(through())


def test_what_nobody_acknowledges_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def through() -> None:
        with socket.socket() as silent:  # it accepts nothing, and reads nothing
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            silent.bind(("127.0.0.1", 0))
            silent.listen(1)
            to = Stream(Address("127.0.0.1", silent.getsockname()[1]), "n1", "web-1", None)
            await to.take([packed(entry("x"), b"x")])  # its system acknowledges as much as it has room for
            assert to._socket is not None
            to._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
            monkeypatch.setattr(syslog, "TIMEOUT_S", 0.3)
            with pytest.raises(NotTaken, match="does not take it"):
                await to.take([packed(entry("x"), b"x" * 100_000)])  # all of it is in the system here, or nearly so

    run(through())


def _until_it_waits(sock: socket.socket) -> None:
    while not unacknowledged(sock):
        time.sleep(0.005)


@asynccontextmanager
async def sent_and_not_acknowledged() -> AsyncIterator[tuple[socket.socket, asyncio.Task[None]]]:
    """A receiver that reads nothing, and a batch that the system here has taken all of, and not that there."""
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        to = Stream(Address("127.0.0.1", silent.getsockname()[1]), "n1", "web-1", None)
        await to.take([packed(entry("x"), b"x")])
        sock = to._socket
        assert sock is not None
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
        taking = asyncio.create_task(to.take([packed(entry("x"), b"x" * 200_000)]))
        await asyncio.to_thread(_until_it_waits, sock)
        yield silent, taking
        await to.close()


def test_a_receiver_that_breaks_the_connection_off_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "TIMEOUT_S", patient(30))

    async def through() -> None:
        async with sent_and_not_acknowledged() as (silent, taking):
            silent.close()
            with pytest.raises(NotTaken, match="reset"):
                await taking

    run(through())


def test_nor_is_one_that_says_first_that_it_sends_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "TIMEOUT_S", patient(30))

    async def through() -> None:
        async with sent_and_not_acknowledged() as (silent, taking):
            accepted, _ = silent.accept()
            accepted.shutdown(socket.SHUT_WR)
            accepted.close()  # with what it has not read: the system resets the connection
            with pytest.raises(NotTaken, match="pipe"):
                await taking

    run(through())


def test_a_stop_while_nobody_acknowledges_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    async def through() -> None:
        async with sent_and_not_acknowledged() as (_, taking):
            taking.cancel()
            await asyncio.wait([taking])
        for thread in threading.enumerate():
            if thread.name == "output-shipping":
                await asyncio.to_thread(thread.join, patient(10))

    run(through())
    assert failures == []


def test_whatever_fails_in_a_thread_is_told_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def fails() -> None:
        raise ValueError("unexpected")

    async def through() -> None:
        await within(in_daemon_thread(fails, "output-shipping"))

    with pytest.raises(ValueError, match="unexpected"):
        run(through())


def test_a_receiver_that_talks_without_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "SAID_MAX", 10_000)

    class Talking:
        def setblocking(self, flag: bool) -> None: ...

        def recv(self, size: int) -> bytes:
            self.heard = getattr(self, "heard", 0) + size
            assert self.heard < 100_000, "it is heard for ever"
            return b"x" * size

    with pytest.raises(OSError, match="without an end"):
        is_over(cast(socket.socket, Talking()))


def test_messages_by_tls_to_a_server_that_an_authority_signed(tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.put(tmp_path, authority.certificate()))

    async def through() -> None:
        async with serving(tls=context) as server:
            trusting = Stream(Address("localhost", server.port), "n1", "web-1", Trust(authority.ca_file()))
            lines = [packed(entry("one"), trusting.pack(entry("one")))]
            await trusting.take(lines)
            assert read(await server.messages.get())[0]["msg"] == "one"
            await trusting.close()
            other = Stream(Address("localhost", server.port), "n1", "web-1", Trust(None))
            with pytest.raises(NotTaken, match="certificate verify failed"):
                await other.take(lines)
            assert server.messages.empty()

    run(through())


def test_another_authority_in_the_file_is_for_the_next_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.put(tmp_path, authority.certificate()))
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.ca_file("others").read_bytes())

    async def through() -> None:
        async with serving(tls=context) as server:
            to = Stream(Address("localhost", server.port), "n1", "web-1", Trust(ca))
            lines = [packed(entry("one"), to.pack(entry("one")))]
            with pytest.raises(NotTaken, match="certificate verify failed"):
                await to.take(lines)
            ca.write_bytes(authority.ca_file().read_bytes())
            await to.take(lines)
            await to.close()
            ca.write_text("-----BEGIN CERTIFICATE-----")  # half written
            for _ in range(2):
                await to.take(lines)
                await to.close()
            assert ["what was read before stays" in said for said in caplog.messages].count(True) == 1

    run(through())
