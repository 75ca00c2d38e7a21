"""How frames leave: together, and sealed together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from raftsched.raft import codec
from raftsched.raft.transport.link import Link
from raftsched.raft.transport.tls import KeyTls, Seal
from tests.support.clock import START_MS, ManualClock
from tests.unit.raft.transport.test_strangers import comes, transport

FRAMES = [codec.KeepAlive(), codec.AppendAnswer(1, 2, True, False), codec.TimeoutNow(1)]
APPLICATION_DATA = 23  # RFC 8446, 5.1


def records(sent: bytes) -> list[int]:
    """The types of the TLS records."""
    kinds, at = [], 0
    while at < len(sent):
        kinds.append(sent[at])
        at += 5 + int.from_bytes(sent[at + 3 : at + 5], "big")
    return kinds


class Ends:
    """Two ends of TLS. What the dialler writes is kept."""

    def __init__(self) -> None:
        contexts = KeyTls(START_MS).contexts()
        self.written: list[bytes] = []
        self._to_dialler: list[bytes] = []
        self.accepting = Seal(contexts, True, self._to_dialler.append)
        self.dialling = Seal(contexts, False, self.written.append)
        self.dialling.begin()
        while not (self.dialling.done and self.accepting.done):
            for data in self._taken(self.written):
                self.accepting.feed(data)
            for data in self._taken(self._to_dialler):
                self.dialling.feed(data)

    def _taken(self, parts: list[bytes]) -> list[bytes]:
        taken, parts[:] = list(parts), []
        return taken


async def test_frames_of_one_pass_are_one_write() -> None:
    owner = transport(ManualClock())
    link, socket = comes(owner)
    writes: list[bytes] = []
    socket.write = writes.append  # type: ignore[method-assign]
    encoded = [codec.encode(frame) for frame in FRAMES]
    for data in encoded:
        assert link.send(data)
    assert writes == []
    await asyncio.sleep(0)
    assert writes == [b"".join(encoded)]
    link.send(encoded[0])
    owner.flush()
    assert writes[1:] == [encoded[0]]
    await asyncio.sleep(0)
    assert len(writes) == 2


def test_what_is_sent_at_once_is_one_record_and_one_write() -> None:
    ends = Ends()
    data = b"".join(map(codec.encode, FRAMES))
    ends.dialling.send(data)
    assert [records(part) for part in ends.written] == [[APPLICATION_DATA]]
    assert ends.accepting.feed(ends.written[0]) == data


@pytest.mark.parametrize("cut", [1, 5, 100, 1 << 14, 1 << 20])
def test_records_are_read_however_they_are_cut(cut: int) -> None:
    ends = Ends()
    data = bytes(range(256)) * 300  # five records
    ends.dialling.send(data)
    sealed = b"".join(ends.written)
    assert len(records(sealed)) == 5
    got = [ends.accepting.feed(sealed[at : at + cut]) for at in range(0, len(sealed), cut)]
    assert b"".join(got) == data


async def test_one_connection_that_fails_does_not_hold_up_the_others(faults: Mapping[str, int]) -> None:
    owner = transport(ManualClock())
    (broken, its), (link, socket) = comes(owner, 1), comes(owner, 2)

    def write(data: Any) -> None:
        raise RuntimeError("the handle is closed")

    its.write = write  # type: ignore[method-assign]
    for each in (broken, link):
        each.send(b"data")
    owner.flush()
    assert its.closed
    assert socket.sent == b"data"
    assert faults["peers"] == 1


async def test_nothing_is_written_to_a_connection_that_closes() -> None:
    owner = transport(ManualClock())
    link, socket = comes(owner)
    link.send(b"data")
    socket.closed = True
    owner.flush()
    assert socket.sent == b""
    assert not Link(owner, None).send(b"data")
