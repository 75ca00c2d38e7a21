"""What strangers bring about at the port: nothing, few lines of the log, a bounded number of connections."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import replace
from typing import Any

import pytest

from raftsched.raft import codec
from raftsched.raft.guards import ALL
from raftsched.raft.transport.link import Link
from raftsched.raft.transport.pending import place
from raftsched.raft.transport.refusals import HOSTS_MAX, WHY, Refusals
from raftsched.raft.transport.tls import KeyTls, Plain, Wire
from raftsched.raft.transport.transport import Transport
from tests.support.clock import ManualClock
from tests.support.raft_replica import OPTIONS, hello

MANY = replace(OPTIONS, handshakes_per_s=1e9)


class Socket(asyncio.Transport):
    """One end of a connection that leads nowhere."""

    def __init__(self, port: int, host: str = "192.0.2.7") -> None:
        super().__init__({"peername": (host, port)})
        self.closed = False
        self.sent = b""

    def write(self, data: Any) -> None:
        self.sent += data

    def abort(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


def transport(clock: ManualClock, options: Any = MANY, wire: Wire | None = None) -> Transport:
    return Transport(
        "b",
        "127.0.0.1:1",
        [b"the cluster's key"],
        wire or Plain(),
        clock,
        random.Random(),
        options,
        ALL,
        hello=lambda: hello("b"),
        refusal=lambda theirs: None,
        on_connected=lambda theirs, number: None,
        on_disconnected=lambda peer, number: None,
        on_frame=lambda peer, number, frame: None,
    )


def comes(owner: Transport, port: int = 1, host: str = "192.0.2.7") -> tuple[Link, Socket]:
    link, socket = Link(owner, None), Socket(port, host)
    link.connection_made(socket)
    return link, socket


def says(number: int) -> dict[str, bytes]:
    """Each time something else; by what it is counted as."""
    return {
        "malformed": number.to_bytes(8, "big") * 9,
        "wrong-member": codec.encode(codec.Greeting(codec.PROTOCOL, "a", f"node{number}", b"n" * 32)),
        "handshake": codec.encode(codec.Proof(number.to_bytes(8, "big"))),
        "": codec.encode(codec.Refused(f"for reason {number}")),
    }


def test_they_write_no_line_of_the_log_each(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    owner = transport(clock)

    async def scenario() -> None:
        for minute in range(2):
            for number in range(50):
                for data in says(number).values():
                    link, socket = comes(owner, number)
                    link.data_received(data)
                    assert socket.closed
                    link.connection_lost(None)
            counted = {why: count for why, count in owner.refusals.counts.items() if count}
            assert counted == dict.fromkeys(["malformed", "wrong-member", "handshake"], 50 * (minute + 1))
            clock.forward(61_000)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
        owner.refusals.tick()
    lines = [record.getMessage() for record in caplog.records]
    more = [line for line in lines if "49 more within a minute" in line]
    assert len(more) == len(lines) / 2 == 2 * len(says(0))
    assert owner.refusals._logged == {}


def test_many_hosts_write_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    refusals = Refusals(clock.monotonic)
    with caplog.at_level(logging.WARNING):
        for number in range(3_000):
            refusals.refused("tls", f"host {number}", "a line" * 1_000)
        assert len(refusals._logged) <= HOSTS_MAX + len(WHY)
        clock.forward(61_000)
        refusals.tick()
    assert len(caplog.records) == HOSTS_MAX + 2
    assert all(len(record.getMessage()) < 1_000 for record in caplog.records)
    assert f"{3_000 - HOSTS_MAX - 1} more within a minute" in caplog.text
    assert refusals.counts["tls"] == 3_000
    assert refusals._logged == {}


def test_what_is_not_tls_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    owner = transport(ManualClock(), wire=KeyTls(1_700_000_000_000))

    async def scenario() -> None:
        for data in (b"GET / HTTP/1.1\r\n\r\n", codec.encode(codec.Greeting(2, "a", "b", b"n" * 32)), b"\xff" * 64):
            link, socket = comes(owner)
            link.data_received(data)
            assert socket.closed
            assert b"b" not in socket.sent, "an alert at most"

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert owner.refusals.counts["tls"] == 3
    assert "started alike" in caplog.text
    assert "or it is of a version before 0.1.0, which spoke no TLS" in caplog.text


def test_one_address_pushes_out_only_its_own() -> None:
    owner = transport(ManualClock(), replace(MANY, pending_per_address=4, pending_handshakes=8))

    async def scenario() -> None:
        others = [comes(owner, host=f"198.51.100.{n}")[1] for n in range(4)]
        flood = [comes(owner, port)[1] for port in range(50)]
        assert not any(socket.closed for socket in others)
        assert [socket.closed for socket in flood] == [True] * 46 + [False] * 4
        assert owner.refusals.counts["too-many"] == 46

    asyncio.run(scenario())


def test_all_strangers_together_leave_room_for_members() -> None:
    """Where members are known to be, nobody elsewhere pushes anybody out."""
    owner = transport(ManualClock(), replace(OPTIONS, pending_per_address=4, pending_handshakes=8))

    async def scenario() -> None:
        owner._known = frozenset({"10.0.0.1"})
        _, member = comes(owner, host="10.0.0.1")
        flood = [comes(owner, host=f"2001:db8:{n:x}::1") for n in range(1_000)]
        assert not member.closed
        assert sum(not socket.closed for _, socket in flood) == 8
        assert len(owner._pending) == 9
        assert not comes(owner, host="10.0.0.1")[1].closed, "handshakes of a second are counted apart as well"
        for link, _ in flood:
            link.connection_lost(None)
        assert len(owner._pending) == 2

    asyncio.run(scenario())


def test_who_was_dialled_by_a_name_has_room_of_its_own() -> None:
    """A node that starts within a flood has met nobody, and names are no addresses: it learns them where it dials."""
    owner = transport(ManualClock(), replace(OPTIONS, handshakes_per_s=10))

    async def scenario() -> None:
        owner.set_peers({"a": "n1.example:1"})
        flood = [comes(owner, host=f"198.51.100.{n}") for n in range(100)]
        assert sum(not socket.closed for _, socket in flood) == 10
        assert comes(owner, host="10.0.0.1")[1].closed
        dialled = Link(owner, "a")
        dialled.connection_made(Socket(1, "10.0.0.1"))
        dialled.connection_lost(None)  # it answered that it is the one to dial
        assert not comes(owner, host="10.0.0.1")[1].closed
        owner.set_peers({})
        assert comes(owner, host="10.0.0.1")[1].closed, "it is no peer any more"

    asyncio.run(scenario())


def test_who_goes_further_in_the_handshake_stays() -> None:
    owner = transport(ManualClock(), replace(MANY, pending_per_address=4))

    async def scenario() -> None:
        greeted, socket = comes(owner)
        greeted.data_received(codec.encode(codec.Greeting(codec.PROTOCOL, "a", "b", b"n" * 32)))
        for port in range(50):
            comes(owner, port)
        assert not socket.closed

    asyncio.run(scenario())


def test_handshakes_of_a_second_are_bounded() -> None:
    """Each costs a signature, whoever asks for it."""
    clock = ManualClock()
    owner = transport(clock, replace(OPTIONS, handshakes_per_s=10))

    async def scenario() -> None:
        for second in range(3):
            taken = 0
            for n in range(100):
                link, socket = comes(owner, host=f"198.51.100.{n}")
                taken += not socket.closed
                link.connection_lost(None)
            assert taken == 10, second
            clock.forward(1_000)

    asyncio.run(scenario())


def test_addresses_of_one_machine_are_one() -> None:
    assert place("2001:db8::1") == place("2001:db8::ffff:1") != place("2001:db8:0:1::1")
    assert place("::ffff:192.0.2.1") == place("192.0.2.1") == "192.0.2.1"
    assert place("fe80::1%eth0") == place("fe80::2%eth0")
    assert place("::1") == "::1"
    assert place("n1.example") == "n1.example"
