"""A trial whose disk is full ends without a verdict, and says why."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from harness import space
from harness.world import Helpless

ENOUGH = 1
NEVER = 1 << 62


def test_a_full_disk_is_noticed_before_and_meanwhile(tmp_path: Path) -> None:
    space.check(tmp_path, ENOUGH)
    with pytest.raises(OSError, match="MiB are free") as error:
        space.check(tmp_path, NEVER)
    said = space.why(error.value)
    assert said is not None
    assert said.startswith(f"{tmp_path}: No space left on device (")
    with pytest.raises(OSError, match="MiB are free"):
        asyncio.run(space.watch(tmp_path, NEVER))


def test_a_history_that_cannot_be_written() -> None:
    """Also when clients and conductor meet it at once, as they do."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space left") as error:
            os.write(full, b"{}")
    finally:
        os.close(full)
    group = BaseExceptionGroup("", [Helpless("x"), BaseExceptionGroup("", [asyncio.CancelledError(), error.value])])
    assert space.why(group) == "No space left on device"


@pytest.mark.parametrize(
    "error", [ValueError(errno.ENOSPC), ConnectionResetError(errno.ECONNRESET, "x"), ExceptionGroup("", [KeyError()])]
)
def test_other_errors_are_bugs_of_the_harness(error: Exception) -> None:
    assert space.why(error) is None
