"""Messages between node and supervisor."""

from __future__ import annotations

import random
import socket

import pytest

from raftsched.core.model import Outcome
from raftsched.worker.processes import wire


def test_outcomes_are_those_of_the_core() -> None:
    """The rest apply makes of these."""
    assert [o.value for o in Outcome if o not in (Outcome.SNOOZED, Outcome.CANCELLED)] == [
        wire.SUCCEEDED,
        wire.FAILED,
        wire.TIMED_OUT,
        wire.KILLED,
        wire.LOST,
    ]


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


def test_a_short_error_stays_as_it_is() -> None:
    for text in ("short", "two\nlines", "é" * (wire.ERROR_MAX // 2), ""):
        assert wire.shorten(text) == text
    assert wire.shorten("half \ud83d of it") == "half ? of it"
    assert wire.failure("exit code 3", "") == "exit code 3"
    assert wire.failure("exit code 3", "no such file\n") == "exit code 3\nno such file"


@pytest.mark.parametrize(
    "text, begins, ends",
    [
        (
            "HTTP 500 Internal Server Error\n<html>" + "é" * 5_000 + "</html>",
            "HTTP 500 Internal Server Error\né",
            "é</html>",
        ),
        (
            "HTTP 302 Found; it leads to /" + "a" * 5_000 + "\n" + "b" * 5_000,
            "HTTP 302 Found; it leads to /aaa",
            "aaa ...\n" + "b" * 500,
        ),
        ("one line that begins " + "é" * 5_000 + " and ends", "one line that begins éé", "éé and ends"),
        ("one line that begins " + "é" * 5_000 + " and ends\n", "one line that begins éé", "éé and ends\n"),
        ("a" * 1_000 + "\n" + "b" * 300, "a" * 700, "a ...\n" + "b" * 300),
    ],
)
def test_a_long_error_keeps_what_happened_and_its_end(text: str, begins: str, ends: str) -> None:
    short = wire.shorten(text)
    assert short.startswith(begins)
    assert ends in short
    assert short.rstrip("\n").endswith(ends.rstrip("\n")[-10:])
    assert wire.ERROR_MAX - 8 < len(short.encode()) <= wire.ERROR_MAX


def test_last_words_are_heard_of_one_who_did_not_listen() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    assert wire.receive(ours) is None
    ours.send(b"never read")
    theirs.send(b"last words")
    theirs.close()
    assert wire.receive(ours) == b"last words"
    assert wire.receive(ours) == b""
    ours.close()
