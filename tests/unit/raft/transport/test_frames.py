"""Random and mutated frames, before and after the handshake; `scripts/fuzz-raft` says a million of them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from scripts.trials.frames import fuzz

FRAMES = 6_000


@pytest.mark.slow
def test_nothing_comes_of_wrong_frames(tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    found = asyncio.run(fuzz(tmp_path, random.Random(seed), FRAMES, 0.1))
    assert found.wrong == []
    assert found.figures["members"] >= FRAMES // 3
    assert found.figures["counts"]["malformed"] > 100
