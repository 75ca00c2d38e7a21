"""Messages between node and supervisor."""

from __future__ import annotations

import random
import socket

from raftsched.core.model import Outcome
from raftsched.worker import wire


def test_outcomes_are_those_of_the_core() -> None:
    """The rest apply makes of these."""
    assert [o.value for o in Outcome if o not in (Outcome.SNOOZED, Outcome.CANCELLED)] == [
        wire.SUCCEEDED,
        wire.FAILED,
        wire.TIMED_OUT,
        wire.KILLED,
        wire.LOST,
    ]


def test_a_done_is_told_from_a_began_by_its_second_byte() -> None:
    done = wire.encode(wire.Finished(2**60, 1, None, 2))
    began = wire.encode(wire.Started(2**60, 1))
    assert done[1] == wire.DONE_TAG
    assert began[1] != wire.DONE_TAG
    assert wire.decode_up(done) == wire.Finished(2**60, 1, None, 2)


def test_messages_come_out_whatever_the_pieces() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    messages = [rng.randbytes(rng.randrange(200)) for _ in range(100)]
    stream = b"".join(wire.frame(m) for m in messages)
    splitter = wire.Splitter()
    got: list[bytes] = []
    while stream:
        size = rng.randrange(1, 300)
        got += splitter.feed(stream[:size])
        stream = stream[size:]
    assert got == messages


def test_errors_keep_their_end() -> None:
    assert wire.shorten("short") == "short"
    long = "é" * 2000 + "end"
    short = wire.shorten(long)
    assert len(short.encode()) <= wire.ERROR_MAX
    assert short.endswith("éend")


def test_last_words_are_heard_of_one_who_did_not_listen() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    assert wire.receive(ours) is None
    ours.send(b"never read")
    theirs.send(b"last words")
    theirs.close()
    assert wire.receive(ours) == b"last words"
    assert wire.receive(ours) == b""
    ours.close()
