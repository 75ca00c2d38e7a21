"""What strangers bring about at the port: nothing, and few lines of the log."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from raftsched.raft import codec
from raftsched.raft.guards import ALL
from raftsched.raft.transport import Link, Transport
from tests.support.raft_replica import OPTIONS, ManualClock, hello


class Socket(asyncio.Transport):
    """One end of a connection that leads nowhere."""

    def __init__(self, port: int) -> None:
        super().__init__({"peername": ("192.0.2.7", port)})
        self.closed = False

    def write(self, data: Any) -> None:
        pass

    def abort(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


def transport(clock: ManualClock) -> Transport:
    return Transport(
        "b",
        "127.0.0.1:1",
        b"the cluster's key",
        clock,
        random.Random(),
        OPTIONS,
        ALL,
        hello=lambda: hello("b"),
        refusal=lambda theirs: None,
        on_connected=lambda theirs, number: None,
        on_disconnected=lambda peer, number: None,
        on_frame=lambda peer, number, frame: None,
    )


def says(number: int) -> list[bytes]:
    """Each time something else."""
    return [
        codec.encode(codec.Refused(f"for reason {number}")),
        number.to_bytes(8, "big") * 9,
        codec.encode(hello("a", to=f"node{number}", nonce=b"n" * 32)),
        codec.encode(codec.Proof(b"m")),
    ]


def test_they_write_no_line_of_the_log_each(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        owner = transport(clock)
        for minute in range(2):
            for number in range(50):
                for data in says(number):
                    link, socket = Link(owner, None), Socket(number)
                    link.connection_made(socket)
                    link.data_received(data)
                    assert socket.closed
                    link.connection_lost(None)
            assert owner.malformed == 50 * (minute + 1)
            clock.now += 61

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert len(caplog.records) == 2 * len(says(0))


def test_many_hosts_write_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    owner = transport(ManualClock())
    with caplog.at_level(logging.WARNING):
        for number in range(3_000):
            owner.log_once("a line", f"host {number}")
    assert len(caplog.records) == 1_000
