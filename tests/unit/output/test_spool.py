"""Gathering output: first and last half are kept, order and streams stay, memory and disk say the same."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from raftsched.output.format.spool import INLINE_MAX, STDERR, STDOUT, Capture, live_name, pack, render, unpack


def stored(directory: Path, capture: Capture, token: int = 1) -> tuple[bytes, int]:
    frames, spooled, left_out = capture.finish(token)
    return ((directory / live_name(token)).read_bytes() if spooled else frames), left_out


def test_short_output_stays_in_memory(tmp_path: Path) -> None:
    capture = Capture(str(tmp_path), 1000)
    capture.write(STDOUT, b"a", 0)
    capture.write(STDERR, b"b", 0)
    capture.write(STDOUT, b"c", 0)
    frames, spooled, left_out = capture.finish(1)
    assert (list(unpack(frames)), spooled, left_out) == (
        [(STDOUT, b"a"), (STDERR, b"b"), (STDOUT, b"c")],
        False,
        0,
    )
    assert capture.finish(2) == (b"", False, 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 100, 3 * INLINE_MAX])
def test_any_mix_of_writes_and_flushes(tmp_path: Path, limit: int) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    capture = Capture(str(tmp_path), limit)
    for token in range(1, 30):
        everything = b""
        largest = rng.choice((1, 10, limit, 3 * limit))
        for _ in range(rng.randrange(1, 40)):
            data = bytes(rng.randrange(97, 123) for _ in range(min(rng.randrange(1, largest + 1), 200_000)))
            capture.write(rng.choice((STDOUT, STDERR)), data, 0)
            everything += data
            if rng.random() < 0.1:
                capture.flush(token)
        body, left_out = stored(tmp_path, capture, token)
        text = render(body)
        if len(everything) <= limit:
            assert (text, left_out) == (everything, 0)
        else:
            assert left_out == len(everything) - limit
            head, tail = limit // 2, limit - limit // 2
            note = b"\n[... %d bytes of output left out ...]\n" % left_out
            assert text == everything[:head] + note + everything[len(everything) - tail :]


def test_the_file_can_be_read_at_any_time(tmp_path: Path) -> None:
    capture = Capture(str(tmp_path), 100)
    capture.write(STDOUT, b"begin ", 0)
    capture.flush(5)
    assert render((tmp_path / live_name(5)).read_bytes()) == b"begin "
    capture.write(STDOUT, b"x" * 500, 0)
    capture.flush(5)
    first = render((tmp_path / live_name(5)).read_bytes())
    assert re.search(rb"\[\.\.\. 406 bytes of output left out \.\.\.\]", first)
    capture.write(STDOUT, b"end", 0)
    capture.flush(5)
    assert render((tmp_path / live_name(5)).read_bytes()).endswith(b"xend")
    capture.finish(5)


def test_a_cut_frame_is_left_out() -> None:
    whole = pack(STDOUT, b"one") + pack(STDOUT, b"two")
    for size in range(len(whole)):
        assert b"onetwo".startswith(render(whole[:size]))


def test_tail_prefers_stderr() -> None:
    capture = Capture("/nonexistent", 100)
    capture.write(STDOUT, b"said", 0)
    assert capture.tail() == "said"
    capture.write(STDERR, b"why\n", 0)
    assert capture.tail() == "why"


def test_no_directory_is_told_in_the_output() -> None:
    capture = Capture("/nonexistent/at/all", 10 * INLINE_MAX)
    capture.write(STDOUT, b"x" * 3 * INLINE_MAX, 0)
    assert capture.urgent
    capture.flush(1)
    frames, spooled, _ = capture.finish(1)
    assert not spooled
    assert b"the output could not be kept: No such file or directory" in render(frames)


def test_what_was_left_out_elsewhere_is_one_gap_with_what_is_left_out_here(tmp_path: Path) -> None:
    capture = Capture(str(tmp_path), 100)
    capture.write(STDOUT, b"head", 0)
    capture.leave_out(1_000, 0)
    capture.write(STDOUT, b"between", 0)
    capture.flush(1)
    assert render((tmp_path / live_name(1)).read_bytes()) == b"head\n[... 1000 bytes of output left out ...]\nbetween"
    capture.leave_out(20, 0)
    capture.write(STDERR, b"tail", 0)
    text, left_out = stored(tmp_path, capture)
    assert left_out == 1_027
    assert render(text) == b"head\n[... 1027 bytes of output left out ...]\ntail"


def test_what_is_printed_before_and_after_its_file_is_removed(tmp_path: Path) -> None:
    live = tmp_path / "output" / "live"
    live.mkdir(parents=True)
    capture = Capture(str(live), 4 * INLINE_MAX)
    capture.write(STDOUT, b"before ", 0)
    capture.flush(1)
    shutil.rmtree(live.parent)
    capture.write(STDERR, b"after", 0)
    frames, spooled, left_out = capture.finish(1)
    assert (render(frames), spooled, left_out) == (b"before after", False, 0)
    capture.write(STDOUT, b"x" * 2 * INLINE_MAX, 0)
    capture.flush(2)
    assert render((live / live_name(2)).read_bytes()) == b"x" * 2 * INLINE_MAX, "the directory is made again"
    shutil.rmtree(live)
    frames, spooled, _ = capture.finish(2)
    assert not spooled
    assert b"could not be kept: its file was removed from the node's disk" in render(frames)
    capture.write(STDOUT, b"next", 0)
    assert render(stored(live, capture, 3)[0]) == b"next"
