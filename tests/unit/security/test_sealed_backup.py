"""Sealed backups: read by who they are for, as they were written, or not at all."""

from __future__ import annotations

import io
import random
import tracemalloc
from pathlib import Path

import pytest

from raftsched.errors import StartupError
from raftsched.security.sealed_backup import (
    CHUNK,
    MAGIC,
    NotOpened,
    Sealing,
    new_identity,
    opened,
    read_identity,
    recipient_of,
)

IDENTITY, TO = new_identity()
HEADER, WHOLE = len(MAGIC) + 32, CHUNK + 16


def sealed(content: bytes, piece: int = 10_000) -> bytes:
    out = io.BytesIO()
    sealing = Sealing(out, TO)
    for at in range(0, len(content), piece):
        sealing.write(content[at : at + piece])
    sealing.end()
    return out.getvalue()


def read(raw: bytes, identity: str = IDENTITY) -> bytes:
    return b"".join(opened(io.BytesIO(raw), identity))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7])
def test_what_was_sealed_is_read_by_who_it_is_for(size: int) -> None:
    content = random.Random(size).randbytes(size)
    raw = sealed(content)
    assert read(raw) == content
    if size >= 64:  # a byte alone is somewhere in every file
        assert content[:64] not in raw
    with pytest.raises(NotOpened, match="another recipient"):
        read(raw, new_identity()[0])


def test_each_file_has_a_key_of_its_own() -> None:
    assert sealed(b"x" * 1000)[HEADER:] != sealed(b"x" * 1000)[HEADER:]


def test_what_was_changed_cut_swapped_or_added_is_refused() -> None:
    content = bytes(range(256)) * (3 * CHUNK // 256) + b"end"
    raw = sealed(content)
    first, second, third, last = (raw[HEADER + i * WHOLE : HEADER + (i + 1) * WHOLE] for i in range(4))
    head = raw[:HEADER]
    other = sealed(content)
    wrong = {
        "cut in the header": raw[:20],
        "cut after the header": head,
        "cut in a chunk": raw[:-5],
        "cut between chunks": head + first + second + third,
        "cut to one chunk": head + first,
        "swapped": head + second + first + third + last,
        "left out": head + first + third + last,
        "twice": head + first + first + second + third + last,
        "last one first": head + last,
        "of another file": head + first + other[HEADER + WHOLE : HEADER + 2 * WHOLE] + third + last,
        "another header": other[:HEADER] + raw[HEADER:],
        "more behind it": raw + b"x",
        "more chunks": raw + first,
        "not sealed": content,
        "no key": MAGIC + bytes(32) + raw[HEADER:],
    }
    for broken in wrong.values():
        with pytest.raises(NotOpened):
            read(broken)
    rng = random.Random(3)
    for _ in range(200):
        at, bit = rng.randrange(len(MAGIC), len(raw)), 1 << rng.randrange(8)
        if at == HEADER - 1 and bit == 128:
            continue  # X25519 takes no notice of it (RFC 7748, section 5); the header is authenticated all the same
        with pytest.raises(NotOpened):
            read(raw[:at] + bytes((raw[at] ^ bit,)) + raw[at + 1 :])


def test_nothing_wrong_is_handed_out_before_it_is_noticed() -> None:
    raw = bytearray(sealed(b"a" * (2 * CHUNK)))
    raw[HEADER + WHOLE + 10] ^= 1
    pieces = []
    with pytest.raises(NotOpened, match="damaged"):
        pieces.extend(opened(io.BytesIO(bytes(raw)), IDENTITY))
    assert pieces == [b"a" * CHUNK]


def test_memory_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "sealed"
    with file.open("wb") as out:
        sealing = Sealing(out, TO)
        tracemalloc.start()
        for _ in range(64):
            sealing.write(bytes(1 << 18))
        sealing.end()
    with file.open("rb") as source:
        assert sum(len(piece) for piece in opened(source, IDENTITY)) == 64 << 18
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20


@pytest.mark.parametrize("text", ["", "rsr_", "rsr_AAAA", TO[:-1], TO + "A", IDENTITY, TO.replace("rsr_", "age1")])
def test_what_is_no_recipient(text: str) -> None:
    with pytest.raises(ValueError, match="rsr_"):
        Sealing(io.BytesIO(), text)


def test_an_identity_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "identity"
    file.write_text(f"# recipient {TO}\n{IDENTITY}\n")
    file.chmod(0o644)
    with pytest.raises(StartupError, match="chmod 600"):
        read_identity(file)
    file.chmod(0o600)
    assert recipient_of(read_identity(file)) == TO
    file.write_text(TO)
    with pytest.raises(StartupError, match="rsi_"):
        read_identity(file)
    with pytest.raises(StartupError, match="cannot be read"):
        read_identity(tmp_path / "missing")
