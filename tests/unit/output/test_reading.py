"""Output a piece at a time is the output."""

from __future__ import annotations

import os
import random
from pathlib import Path

import msgspec
import pytest

from raftsched.errors import RaftschedError
from raftsched.output.format import spool
from raftsched.output.format.spool import STDERR, STDOUT, Capture
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.reading import text as reading

TOKEN = 7


def printed(rng: random.Random, size: int) -> list[tuple[int, bytes]]:
    """(stream, what) of a run, in the order in which it came."""
    parts: list[tuple[int, bytes]] = []
    while size > 0:
        length = min(size, rng.choice((1, 3, 200, 5_000, 65_536)))
        parts.append((rng.choice((STDOUT, STDERR)), rng.randbytes(length)))
        size -= length
    return parts


def read_all(text: reading.Text, limit: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    while piece := text.read(at, limit):
        assert len(piece) <= limit
        parts.append(piece)
        at += len(piece)
    return b"".join(parts)


def spooled_text(store: OutputStore, token: int, stream: str | None = None) -> bytes:
    """All of what a run has printed, read at once."""
    frames = (store.live_directory / spool.live_name(token)).read_bytes()
    return (
        spool.render(frames) if stream is None else spool.render(frames, {"stdout": STDOUT, "stderr": STDERR}[stream])
    )


@pytest.mark.parametrize("stream", [None, "stdout", "stderr"])
def test_the_pieces_are_the_whole(tmp_path: Path, stream: str | None) -> None:
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    rng = random.Random(seed)
    store = OutputStore(tmp_path, max_attempt_bytes=200_000)
    capture = Capture(str(store.live_directory), 200_000)
    for now, (number, data) in enumerate(printed(rng, 700_000)):
        capture.write(number, data, now)
        if rng.random() < 0.02:
            capture.flush(TOKEN)
            whole = spooled_text(store, TOKEN, stream)
            text = store.open_live(TOKEN, stream)
            assert text is not None
            assert read_all(text, 10_000) == whole
    _, spooled, truncated = capture.finish(TOKEN)
    whole = spooled_text(store, TOKEN, stream)
    (ref,) = store.append([Record(TOKEN, 1_000, spooled=spooled, truncated=truncated)])
    assert ref is not None
    for text in (store.open(ref, stream), store.open_live(TOKEN, stream)):
        assert text is not None
        assert text.size == len(whole)
        assert read_all(text, 10_000) == whole
        for _ in range(20):
            at, limit = rng.randrange(len(whole)), rng.randrange(100_000)
            assert text.read(at, limit) == whole[at : at + limit]
    store.close()


@pytest.mark.parametrize("stream", [None, "stdout", "stderr"])
def test_how_much_was_left_out_is_told_anew_with_each_look(tmp_path: Path, stream: str | None) -> None:
    store = OutputStore(tmp_path, max_attempt_bytes=100)
    capture = Capture(str(store.live_directory), 100)
    capture.write(STDOUT, b"a" * 50, 0)
    for size in (51, 8, 1, 900, 10_000):  # 1, 9, 10, 910 and 10,910 bytes are left out
        capture.write(STDERR, bytes(random.randrange(256) for _ in range(size)), 0)
        capture.flush(TOKEN)
        text = store.open_live(TOKEN, stream)
        assert text is not None
        whole = spooled_text(store, TOKEN, stream)
        assert (text.size, text.read(0)) == (len(whole), whole)
    capture.finish(TOKEN)
    store.close()


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_lines(tmp_path: Path, end: bytes) -> None:
    store = OutputStore(tmp_path, max_attempt_bytes=10_000_000)
    lines = [b"x" * (n * 37 % 5_000) for n in range(200)]
    whole = b"\n".join(lines) + end
    (ref,) = store.append([Record(TOKEN, 1_000, spool.pack(STDOUT, whole))])
    assert ref is not None
    text = store.open(ref)
    for count in (1, 2, 50, 199):
        assert whole[text.start_of(count) :] == b"\n".join(lines[-count:]) + end
    assert text.start_of(0) == len(whole)
    assert text.start_of(200) == text.start_of(1_000) == 0
    store.close()


def test_what_is_damaged_is_not_shown(tmp_path: Path) -> None:
    store = OutputStore(tmp_path)
    (ref,) = store.append([Record(TOKEN, 1_000, spool.pack(STDOUT, b"text"))])
    assert ref is not None
    assert store.open(ref).read(0) == b"text"
    for odd in (
        msgspec.structs.replace(ref, sha256=b"x" * 32),
        msgspec.structs.replace(ref, offset=ref.offset + 1),
        msgspec.structs.replace(ref, segment=ref.segment + 1),
        msgspec.structs.replace(ref, size=ref.size + 1),
    ):
        with pytest.raises(RaftschedError) as gone:
            store.open(odd)
        assert gone.value.code == "output-gone"
    store.close()


def test_many_readers_share_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they hold does not depend on how much there is, and what was printed is read once for all."""
    store = OutputStore(tmp_path, max_attempt_bytes=16 << 20)
    capture = Capture(str(store.live_directory), 16 << 20)
    for _ in range(64):
        capture.write(STDOUT, b"x" * 65_536, 0)
    capture.flush(TOKEN)
    read = 0
    pread = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        nonlocal read
        data = pread(fd, size, at)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    texts = [store.open_live(TOKEN) for _ in range(100)]
    first = texts[0]
    assert first is not None
    assert all(text is first for text in texts)
    assert read <= 20 << 20
    read = 0
    capture.write(STDOUT, b"more", 1)
    capture.flush(TOKEN)
    for _ in range(100):
        assert store.open_live(TOKEN) is first
    assert first.read(64 * 65_536) == b"more"
    assert read <= 1 << 20
    capture.finish(TOKEN)
    store.close()


def test_a_follower_sees_each_byte_at_its_place(tmp_path: Path) -> None:
    """However often it looks: what it gets is what was printed there, by that stream, and it misses only what was
    left out before it looked."""
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    rng = random.Random(seed)
    limit = rng.choice((3_000, 200_000, 1_000_000))
    store = OutputStore(tmp_path, max_attempt_bytes=limit)
    capture = Capture(str(store.live_directory), limit)
    everything, streams = bytearray(), bytearray()
    place = 0

    def look(text: reading.Text, at: int) -> int:
        while spans := text.spans(at):
            assert sum(len(span.data) for span in spans) <= reading.SPAN
            for printed, stream, data in spans:
                assert printed == at or at <= limit + len(everything) - len(data)
                assert data == everything[printed : printed + len(data)]
                assert streams[printed : printed + len(data)] == bytes([stream]) * len(data)
                assert printed >= at
                at = printed + len(data)
        return at

    for now, (number, raw) in enumerate(printed(rng, 600_000)):
        data = bytes(byte & 0x7F for byte in raw)
        capture.write(number, data, now)
        everything += data
        streams += bytes([number]) * len(data)
        if rng.random() < 0.1:
            capture.flush(TOKEN, now)
            text = store.open_live(TOKEN)
            assert text is not None
            place = look(text, place)
            assert place == len(everything)
            assert text.printed == len(everything)
    frames, spooled, truncated = capture.finish(TOKEN)
    (ref,) = store.append([Record(TOKEN, 1_000, frames, spooled=spooled, truncated=truncated)])
    assert ref is not None
    text = store.open(ref)
    assert text.printed == len(everything)
    for at in (0, limit // 2, place, rng.randrange(len(everything))):
        assert look(text, at) == len(everything)
    assert sum(len(span.data) for span in iter_spans(text)) == len(everything) - truncated
    store.close()


def iter_spans(text: reading.Text) -> list[reading.Span]:
    found: list[reading.Span] = []
    while spans := text.spans(found[-1].printed + len(found[-1].data) if found else 0):
        found += spans
    return found


def test_the_middle_of_each_run_is_left_out_where_its_own_bound_says(tmp_path: Path) -> None:
    store = OutputStore(tmp_path, max_attempt_bytes=1 << 20)
    for token, limit in ((TOKEN, 100), (TOKEN + 1, 10_000)):
        store.bound(token, limit)
        capture = Capture(str(store.live_directory), limit)
        for size in (60, 500, 5_000, 20_000):
            capture.write(STDOUT, bytes(random.randrange(256) for _ in range(size)), 0)
            capture.flush(token)
            text = store.open_live(token)
            assert text is not None
            assert text.read(0, text.size) == spooled_text(store, token)
        capture.finish(token)
    store.close()
