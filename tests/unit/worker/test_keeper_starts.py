"""What a keeper says when nothing could be started: whose fault it is, and whether anything of the run was at work."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.clock import SystemClock
from raftsched.worker import wire
from raftsched.worker.keeper import KeeperContext, keep_attempt
from raftsched.worker.lease import LeaseSlot

LAUNCH = wire.Launch(7, 1, "exec", 60_000, 1_000, b"")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[KeeperContext]:
    slot, slot_fd = LeaseSlot.create()
    slot.store(1, SystemClock().boot_ms() + 60_000)
    life, life_end = os.pipe()
    yield KeeperContext(slot, life, life, str(tmp_path))
    for fd in (slot_fd, life, life_end):
        os.close(fd)
    slot.close()


def end_of(context: KeeperContext, number: int) -> wire.Finished:
    """What is told of an attempt whose spawn fails with this error."""

    def spawn(out: int, err: int, says: int) -> int:
        raise OSError(number, os.strerror(number))

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        keep_attempt(context, theirs, LAUNCH, spawn)
        packet = wire.receive(ours)
    assert packet
    done = wire.decode_up(packet)
    assert isinstance(done, wire.Finished)
    return done


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC])
def test_want_of_something_is_the_node_s(context: KeeperContext, number: int) -> None:
    end = end_of(context, number)
    assert (end.token, end.outcome, end.begun, end.started_at_ms) == (7, wire.KILLED, False, None)
    assert end.error == f"this node cannot start a process: {os.strerror(number)}"


def test_anything_else_is_the_run_s(context: KeeperContext) -> None:
    end = end_of(context, errno.EACCES)
    assert (end.outcome, end.begun) == (wire.FAILED, True)
