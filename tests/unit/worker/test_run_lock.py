"""Who waits for what an earlier run left says whom for."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.worker.processes.run_lock import FIRST_WORD_S, RunLock, holders
from tests.support.clock import ManualClock


async def test_it_names_who_holds_it_until_it_is_free(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "supervisor.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(file.fileno(),))
    clock = ManualClock(boot=0)
    lock = RunLock(path, clock)
    with holder:
        taking = asyncio.create_task(lock.take())
        clock.forward(1000 * FIRST_WORD_S)
        while not lock.waits_for:
            await asyncio.sleep(0)
            clock.forward(1000 * FIRST_WORD_S)
        assert f"{holder.pid} (python" in lock.waits_for
        assert str(path) in caplog.text
        assert not taking.done()
        holder.communicate()
    os.close(await taking)
    assert lock.waits_for == ""


def test_nobody_has_it_open(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert holders(tmp_path / "lock") == []
