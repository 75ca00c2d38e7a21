"""The process that makes requests: a run that cannot be made, or cannot be ended, costs no other run anything."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from raftsched.output.format.spool import render
from raftsched.worker.executors import http, mail
from raftsched.worker.executors.http import HttpService
from raftsched.worker.executors.resolving import Resolver
from raftsched.worker.processes import wire
from raftsched.worker.processes.service import OP_KILL, OP_RUN, PACKET_HEAD
from tests.support.authority import ca_file, certificate, put
from tests.support.patience import within


class Asker:
    """The supervisor's side of the service."""

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours

    async def run(self, token: int, task: wire.Http | wire.Mail) -> None:
        await self._send(PACKET_HEAD.pack(token, OP_RUN) + wire.encode(task))

    async def kill(self, token: int) -> None:
        await self._send(PACKET_HEAD.pack(token, OP_KILL))

    async def _send(self, packet: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._ours, packet)

    async def end(self) -> wire.Finished:
        packet = await within(asyncio.get_running_loop().sock_recv(self._ours, wire.PACKET_MAX))
        done = wire.decode_up(packet[1:])
        assert isinstance(done, wire.Finished)
        return done


@asynccontextmanager
async def service(directory: Path) -> AsyncIterator[Asker]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        serving = asyncio.create_task(HttpService(str(directory), ("any",))._main(theirs))
        try:
            yield Asker(ours)
        finally:
            ours.close()
            await within(serving)


def get(port: int) -> wire.Http:
    return wire.Http("GET", f"http://localhost:{port}/", {}, b"", ())


async def test_a_request_that_gets_no_thread_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a fork bomb took all processes of the user: the run ends, and others go on."""

    async def refuse(resolver: Resolver, host: str) -> list[str]:
        raise RuntimeError("can't start new thread")

    async with service(tmp_path) as asker:
        with monkeypatch.context() as patched:
            patched.setattr(Resolver, "addresses", refuse)
            await asker.run(1, get(9))
            done = await asker.end()
            assert (done.token, done.outcome) == (1, wire.FAILED)
            assert "can't start new thread" in (done.error or "")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            await asker.run(2, get(silent.getsockname()[1]))
            await asker.kill(2)
            assert (await asker.end()).token == 2


@pytest.mark.parametrize("tls", [wire.TLS_AT_ONCE, wire.TLS_LATER])
async def test_a_mail_is_ended_where_its_server_is_silent_behind_tls(
    tmp_path: Path, tls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread ends with it: they are few, and for the mails of all webhooks."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*put(tmp_path, certificate()))
    trusting = ssl.create_default_context(cafile=str(ca_file()))
    monkeypatch.setattr(mail.ssl, "create_default_context", lambda: trusting)
    left = asyncio.Event()
    here = asyncio.Event()
    peers: list[asyncio.StreamWriter] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer)
        if tls == wire.TLS_LATER:
            writer.write(b"220 here\r\n")
            await reader.readline()
            writer.write(b"250-here\r\n250 STARTTLS\r\n")
            await reader.readline()
            writer.write(b"220 go on\r\n")
            await writer.drain()
            await writer.start_tls(serving)
            await reader.readline()  # EHLO
        here.set()
        while await reader.read(1024):
            pass
        left.set()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=serving if tls == wire.TLS_AT_ONCE else None)
    port = listening.sockets[0].getsockname()[1]
    async with listening, service(tmp_path) as asker:
        await asker.run(1, wire.Mail("127.0.0.1", port, tls, "r@a.test", ("a@b.test",), b"Subject: x\r\n\r\n"))
        await within(here.wait())
        await asker.kill(1)
        assert (await asker.end()).outcome == wire.KILLED
        try:
            await within(left.wait())
        finally:
            for peer in peers:
                peer.transport.abort()


@pytest.mark.parametrize("trusted", [True, False])
async def test_an_https_request_reaches_only_who_proves_to_be_it(
    tmp_path: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*put(tmp_path, certificate()))
    trusting = ssl.create_default_context(cafile=str(ca_file()) if trusted else None)
    monkeypatch.setattr(http.ssl, "create_default_context", lambda: trusting)
    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
    port = listening.sockets[0].getsockname()[1]
    async with listening, service(tmp_path) as asker:
        await asker.run(1, wire.Http("GET", f"https://127.0.0.1:{port}/", {}, b"", ()))
        done = await asker.end()
    if trusted:
        assert (done.outcome, done.result) == (wire.SUCCEEDED, b'{"status":200}')
        assert len(heads) == 1
    else:
        assert done.outcome == wire.FAILED
        assert "cannot connect" in (done.error or "")
        assert heads == []


async def test_an_answer_that_comes_in_parts_is_read_whole(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n")
        await writer.drain()
        writer.write(b"1\r\nk\r\n0\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening, service(tmp_path) as asker:
        await asker.run(1, get(listening.sockets[0].getsockname()[1]))
        done = await asker.end()
    assert done.outcome == wire.SUCCEEDED
    assert render(done.frames) == b"ok"
