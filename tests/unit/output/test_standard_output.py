"""Output on standard output: an object a line, and nobody waits for a reader that is slow."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys

import pytest

from raftsched.config.shipping import ShipConfig
from raftsched.errors import StartupError
from raftsched.output.following.follower import NotTaken
from raftsched.output.receivers.opening import receiver_of
from raftsched.output.receivers.standard_output import StandardOutput, time_text
from tests.unit.output.house import entry, packed, run


def test_a_line_is_an_object() -> None:
    out = StandardOutput("n1")
    assert json.loads(out.pack(entry("it \x1b works\n"))) == {
        "type": "output",
        "at": "2030-01-01T00:00:00.000001Z",
        "node": "n1",
        "namespace": "billing",
        "job": "nightly",
        "instance": "0d3k@1",
        "attempt": 1,
        "token": 7,
        "stream": "stdout",
        "line": 1,
        "text": "it \x1b works\n",
    }
    raw = out.pack(entry("a\nb", "stderr", worker="gpu-1", goes_on=True))
    assert raw.count(b"\n") == 1
    found = json.loads(raw)
    assert (found["worker"], found["goes_on"], found["stream"]) == ("gpu-1", True, "stderr")
    assert time_text(1_000_000_999) == "1970-01-01T00:00:01.000000Z"


def test_a_node_whose_standard_output_is_closed_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of it is that of a file of the node then."""
    config = ShipConfig(to="stdout", kind="stdout")
    receiver_of(config, "n1", "web-1", "raftsched/1")
    monkeypatch.setattr(sys, "__stdout__", None)  # as Python has it then
    with pytest.raises(StartupError) as refused:
        receiver_of(config, "n1", "web-1", "raftsched/1")
    assert "leave it open" in refused.value.detail


@pytest.mark.parametrize("blocking", [True, False])
def test_a_reader_that_is_slow_holds_up_nobody_else(blocking: bool) -> None:
    read, write = os.pipe()
    os.set_blocking(write, blocking)
    data = b"x" * 200_000
    pipe_holds = 70_000

    async def through() -> None:
        taking = asyncio.create_task(StandardOutput("n1", write).take([packed(entry(), data)]))
        got = b""
        while len(got) < len(data):
            assert not taking.done() or len(got) > len(data) - pipe_holds
            got += await asyncio.to_thread(os.read, read, 50_000)
        await taking
        assert got == data

    run(through())
    os.close(read)

    async def closed() -> None:
        with pytest.raises(NotTaken, match="Broken pipe"):
            await StandardOutput("n1", write).take([packed(entry(), b"x")])

    run(closed())
    os.close(write)


def test_what_follows_a_line_that_was_cut_off_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader went away in the middle of it, or the disk of its file was full."""
    got = b""
    room = [5, 0, 100, 100]

    def write(fd: int, data: bytes) -> int:
        nonlocal got
        size = min(room.pop(0), len(data))
        if not size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        got += bytes(data[:size])
        return size

    monkeypatch.setattr(os, "write", write)
    out = StandardOutput("n1")

    async def through() -> None:
        with pytest.raises(NotTaken):
            await out.take([packed(entry(), b"first\n")])
        for line in (b"first\n", b"second\n"):
            await out.take([packed(entry(), line)])

    run(through())
    assert got == b"first\nfirst\nsecond\n"
