"""Ports that tests are given: any program can listen there."""

from __future__ import annotations

import socket

import pytest

from tests.support import ports


def used_lately() -> int:
    """Returns a port at which a server has just ended a connection: the kernel keeps it for a minute (TIME_WAIT)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    return port


def test_one_that_was_used_lately_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    port, free = used_lately(), ports.free_ports(1)[0]
    ports.give_back([free])
    drawn = iter([port, free])
    monkeypatch.setattr("random.SystemRandom.randrange", lambda *_: next(drawn))
    assert ports.free_ports(1) == [free]
    with socket.socket() as plain:  # without SO_REUSEADDR
        plain.bind(("127.0.0.1", free))
    ports.give_back([free])
