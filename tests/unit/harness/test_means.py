"""What the harness hurts with: the relay, the undoing of writes, the choice of what is cut."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness import history
from harness.cluster import Node
from harness.history import History
from harness.machine import CLOCK, SHIM, look
from harness.nemesis import named
from harness.nemesis.network import halves, leader_alone, one_way, ring
from harness.nemesis.power import at_risk, lose, until_writing
from harness.network import Loopback

from tests.unit.harness.conftest import FOLDER

NODES = ["n1", "n2", "n3", "n4", "n5"]


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Loopback, Any]]:
    """A network of two nodes; both are this process, the second one answers what it is told."""
    network = await Loopback.create(["n1", "n2"])

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, *network.raft("n2"))
    try:
        await network.started("n1", os.getpid())
        yield network, await asyncio.open_connection(*network.dialled("n2"))
    finally:
        server.close()
        await network.close()


def test_bytes_pass_until_they_are_held_and_again_after_that() -> None:
    async def scene() -> None:
        async with linked() as (network, (reader, writer)):
            writer.write(b"one")
            assert await reader.readexactly(3) == b"one"
            await network.cut("n2", "n1")  # what is said arrives, the answer does not
            writer.write(b"two")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await reader.readexactly(3)
            await network.mend("n2", "n1")
            assert await reader.readexactly(3) == b"two"
            writer.close()

    asyncio.run(scene())


def test_a_reset_ends_the_connection() -> None:
    async def scene() -> None:
        async with linked() as (network, (reader, writer)):
            writer.write(b"one")
            assert await reader.readexactly(3) == b"one"
            await network.reset("n1", "n2")
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()

    asyncio.run(scene())


def test_a_caller_that_is_no_node_is_not_let_through() -> None:
    async def scene() -> None:
        network = await Loopback.create(["n1", "n2"])
        try:
            reader, writer = await asyncio.open_connection(*network.dialled("n2"))
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
        finally:
            await network.close()

    asyncio.run(scene())


def test_in_a_ring_each_sees_a_majority_and_no_two_the_same() -> None:
    cut = ring(None, NODES, None)  # type: ignore[arg-type]
    sees = {node: frozenset(other for other in NODES if (node, other) not in cut) for node in NODES}
    assert all(len(seen) >= 3 for seen in sees.values())
    assert len(set(sees.values())) == len(NODES)
    assert {(b, a) for a, b in cut} == set(cut)


def test_what_the_other_cuts_part() -> None:
    world: Any = SimpleNamespace(rng=random.Random())
    assert len(halves(world, NODES, None)) == 2 * 2 * 3
    assert leader_alone(world, NODES, None) == []
    assert {name for link in leader_alone(world, NODES, "n3") for name in link if name != "n3"} == set(NODES) - {"n3"}
    for _ in range(20):
        cut = one_way(world, NODES, None)
        assert len(cut) == 4
        assert not {(b, a) for a, b in cut} & set(cut)


WRITES = """
import os, sys, time
path = sys.argv[1]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"A" * 100, 0)
os.fsync(fd)
os.pwrite(fd, b"B" * 10, 20)
os.pwrite(fd, b"C" * 50, 90)
other = os.open(path + "-2", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(other, b"kept")
os.fdatasync(other)
os.write(other, b"gone")
synced = os.open(path + "-3", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
os.write(synced, b"kept by itself")
moved = os.open(path + "-4", os.O_WRONLY | os.O_CREAT)
os.write(moved, b"kept")
os.fsync(moved)
os.rename(path + "-4", path + "-5")
os.pwrite(moved, b"gone", 0)
print("done", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")
def test_what_was_not_synced_vanishes_and_nothing_else(tmp_path: Path) -> None:
    shim, data, undo = tmp_path / "unsynced.so", tmp_path / "data", tmp_path / "undo"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", shim, SHIM, "-ldl"], check=True)
    data.mkdir()
    undo.mkdir()
    env = {**os.environ, "LD_PRELOAD": str(shim), "UNSYNCED_DIR": str(data), "UNSYNCED_UNDO": str(undo)}
    command = [sys.executable, "-S", "-c", WRITES, str(data / "file")]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        process.kill()
    assert (data / "file").read_bytes()[20:30] == b"B" * 10
    node: Any = SimpleNamespace(undo=undo)
    assert lose(node, random.Random(), 1.0) == {"unsynced": 4, "lost": 4}
    assert (data / "file").read_bytes() == b"A" * 100
    assert (data / "file-2").read_bytes() == b"kept"
    assert (data / "file-3").read_bytes() == b"kept by itself"
    assert (data / "file-5").read_bytes() == b"kept", "under the name that it has now"


SYNCS = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(fd, b"A" * 100)
for _ in range(int(sys.argv[2])):
    os.fsync(fd)
print("written", flush=True)
os.fsync(fd)
print("synced", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")
@pytest.mark.parametrize("passing", [0, 2])
def test_a_sync_waits_so_that_there_is_something_to_lose(tmp_path: Path, passing: int) -> None:
    shim = tmp_path / "unsynced.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", shim, SHIM, "-ldl"], check=True)
    node: Any = SimpleNamespace(data=tmp_path / "data", undo=tmp_path / "undo", hold=tmp_path / "hold")
    node.waits = tmp_path / "hold.waits"
    (node.data / "store").mkdir(parents=True)
    node.undo.mkdir()
    node.hold.write_text(str(passing))
    named = {"UNSYNCED_DIR": node.data, "UNSYNCED_UNDO": node.undo, "UNSYNCED_HOLD": node.hold}
    env = {**os.environ, "LD_PRELOAD": str(shim), **{name: str(value) for name, value in named.items()}}
    command = [sys.executable, "-S", "-c", SYNCS, str(node.data / "store" / "file"), str(passing)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        asyncio.run(until_writing([node], passing))
        assert at_risk(node)
        node.hold.unlink()
        assert process.stdout.readline() == b"synced\n"
        assert not at_risk(node)
        process.stdin.close()


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = History(tmp_path / "history.jsonl")
    first = log.invoke("create", "a", job="x")
    second = log.invoke("read", "b", key=1)
    log.complete(second, "ok", value="v")
    log.note("fault", name="kill-leader")
    log.complete(first, "fail", status=503)
    log.invoke("read", "b", key=2)
    log.close()
    record = history.read(tmp_path / "history.jsonl")
    assert [(op.f, op.kind) for op in record.ops] == [("create", "fail"), ("read", "ok"), ("read", "unknown")]
    assert record.of("read")[0].answer == {"value": "v"}
    assert [note["name"] for note in record.noted("fault")] == ["kill-leader"]
    assert record.boot_of(record.wall_of(record.ops[0].began)) == pytest.approx(record.ops[0].began, abs=1e6)


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len(named()) >= 28
    assert all(name == fault.name for name, fault in named().items())


def test_the_command_says_what_is_wrong() -> None:
    run = [sys.executable, str(FOLDER / "run.py")]
    done = subprocess.run([*run, "--nemesis", "kill-cat"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no 'kill-cat'; there are kill-leader" in done.stderr
    assert subprocess.run([*run, "--help"], capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--time", "nan"], "--time must be above 0"),
        (["--time", "inf"], "--time must be above 0"),
        (["--report", "/nowhere/at/all.html"], "there is no directory /nowhere/at"),
        (["--json", "/nowhere/at/all.json"], "there is no directory /nowhere/at"),
        (["--dir", "/dev/null"], "/dev/null is no directory"),
    ],
)
def test_what_would_fail_in_the_end_is_said_at_once(flags: list[str], why: str) -> None:
    run = [sys.executable, str(FOLDER / "run.py"), "--list"]
    done = subprocess.run([*run, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_list_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "run.py"), "--list", "--network", "loopback"]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert "full-disk                     skipped: not run as root" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_cannot_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "cc").write_text("#!/bin/sh\nexit 1\n")
    (tools / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    seen = look(tmp_path)
    assert seen.shim is None
    assert "no C compiler" in (seen.lacks("shim") or "")
    assert "strace is not installed" in (seen.lacks("strace") or "")


CLOCKS = """
import sys, time
boot = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME)
clocks = (time.time_ns, lambda: time.clock_gettime_ns(time.CLOCK_REALTIME), boot)
print(*(int(f()) for f in clocks), flush=True)
sys.stdin.readline()
print(*(int(f()) for f in clocks), flush=True)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")
@pytest.mark.parametrize("seconds", [-0.6, 86_400.25, -86_400.0])
def test_a_wall_clock_is_set_wrong_and_no_other(tmp_path: Path, seconds: float) -> None:
    shim = tmp_path / "wallclock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", shim, CLOCK, "-ldl"], check=True)
    node: Any = SimpleNamespace(clock=tmp_path / "clock")
    node.clock.write_bytes(bytes(8))
    env = {**os.environ, "LD_PRELOAD": str(shim), "WALLCLOCK_OFFSET": str(node.clock)}
    command = [sys.executable, "-S", "-c", CLOCKS]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def off() -> list[float]:
            before = [time.time_ns(), time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)]
            assert process.stdout is not None
            return [(int(n) - b) / 1e9 for n, b in zip(process.stdout.readline().split(), before, strict=True)]

        assert off() == pytest.approx([0, 0, 0], abs=5)
        Node.shift_clock(node, seconds * 1000)
        process.stdin.write("\n")
        process.stdin.flush()
        assert off() == pytest.approx([seconds * 1000, seconds * 1000, 0], abs=5)
