"""Runs with a memory limit in control groups: what is written where, on directories that only look like cgroupfs, and
what the kernel does with it, where this process may make groups."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.core.model import Outcome
from raftsched.worker.processes import cgroup
from raftsched.worker.processes.wire import Exec, Limits, Python
from tests.integration.runner.bed import AS_IT_IS, STAYS, Bed, death

MIB = 2**20


def system(path: Path, *, place: str = "/unit", controllers: str = "cpu memory pids", procs: str = "") -> str:
    """A /proc/self and a cgroup2 mount as they look to this process; `procs`: others in its group."""
    mount = path / "mount"
    own = mount / place.removeprefix("/outer").lstrip("/")
    own.mkdir(parents=True, exist_ok=True)
    (own / "cgroup.controllers").write_text(f"{controllers}\n")
    (own / "cgroup.procs").write_text(f"{os.getpid()}\n{procs}")
    proc = path / "proc"
    proc.mkdir(exist_ok=True)
    (proc / "cgroup").write_text(f"4:memory:/old\n0::{place}\n")
    root = "/outer" if place.startswith("/outer") else "/"
    (proc / "mountinfo").write_text(
        f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 22 0:26 {root} {mount} rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    )
    return str(proc)


@pytest.mark.parametrize("place", ["/unit", "/a/b.slice/c.service", "/outer/unit", "/"])
def test_a_subtree_is_taken(tmp_path: Path, place: str) -> None:
    runs = Path(cgroup.take(system(tmp_path, place=place)))
    own = tmp_path / "mount" / place.removeprefix("/outer").lstrip("/")
    assert runs == own / "runs"
    assert (own / "node" / "cgroup.procs").read_text() == str(os.getpid())
    for directory in (own, runs):
        assert (directory / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (runs / "cpu.weight").read_text() == "50", "below the node itself"
    assert cgroup.take(system(tmp_path, place=place)) == str(runs), "a restart finds it there"


def test_no_subtree_and_why(tmp_path: Path) -> None:
    cases = {
        "others": (system(tmp_path / "others", procs="1\n77\n"), "shared with 2 other processes"),
        "pids": (system(tmp_path / "pids", controllers="cpu memory"), "no controller for pids"),
        "old": (system(tmp_path / "old"), "no cgroup version 2"),
        "away": (system(tmp_path / "away"), "no cgroup version 2 is mounted"),
        "gone": (str(tmp_path / "gone"), "cannot be read: No such file"),
    }
    (tmp_path / "old" / "proc" / "cgroup").write_text("4:memory:/old\n")
    (tmp_path / "away" / "proc" / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    for proc, why in cases.values():
        with pytest.raises(cgroup.Unavailable, match=why):
            cgroup.take(proc)


def test_a_group_that_was_not_delegated(tmp_path: Path) -> None:
    proc = system(tmp_path)
    (tmp_path / "mount" / "unit" / "node").write_text("in the way")
    with pytest.raises(cgroup.Unavailable, match="was not delegated to this node: File exists"):
        cgroup.take(proc)


def group(runs: Path, token: int) -> Path:
    return runs / f"{token:020d}"


async def test_a_run_with_a_memory_limit_gets_a_group(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    limits = Limits(memory=256 * MIB)
    async with Bed(tmp_path, python_processes=1, cgroups=str(runs)) as bed:
        first = bed.launch(Exec(("true",), {}, None, limits))
        assert (await bed.end(first)).outcome is Outcome.SUCCEEDED
        second = bed.launch(Python("jobs:echo", b"{}", {}, None, limits))
        assert (await bed.end(second)).outcome is Outcome.SUCCEEDED
        (warm,) = runs.glob("python-*")
        for directory in (group(runs, first), warm):
            found = {file.name: file.read_text() for file in directory.iterdir()}
            assert found == {
                "memory.max": str(256 * MIB),
                "memory.oom.group": "1",
                "memory.swap.max": "0",
                "pids.max": str(AS_IT_IS.pids_max),
                "cgroup.procs": "0",  # whoever writes it
                "cgroup.kill": "1",  # at the end
            }
        other = bed.launch(Exec(("true",), {}))
        await bed.end(other)
        found = {file.name for file in group(runs, other).iterdir()}
        assert found == {"pids.max", "cgroup.procs", "cgroup.kill"}, "each run has one"


@pytest.mark.parametrize("python", [False, True])
async def test_the_kernels_word_about_memory_is_passed_on(tmp_path: Path, python: bool) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    events = group(runs, 1) / "memory.events"
    script = f"printf 'low 0\\noom 1\\noom_kill 3\\n' > {events}; kill -9 $$"
    limits = Limits(memory=256 * MIB)
    async with Bed(tmp_path, cgroups=str(runs)) as bed:
        if python:  # its group has the name of its keeper
            end = await bed.run(Python("jobs:is_killed", f'{{"runs":"{runs}"}}'.encode(), {}, None, limits))
            before = "the process ended before the function returned: "
        else:
            end = await bed.run(Exec(("/bin/sh", "-c", script), {}, None, limits))
            before = ""
        assert end.outcome is Outcome.FAILED
        assert end.error == f"{before}killed by SIGKILL: it used more memory than limits.memory, 256 MiB"


async def test_a_run_has_no_more_than_the_node_gives(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    most_of_all = {"pids_max": 33, "memory_max": 64 * MIB}
    async with Bed(tmp_path, cgroups=str(runs), **most_of_all) as bed:
        for limits, most in ((None, 64), (Limits(memory=32 * MIB), 32), (Limits(memory=256 * MIB), 64)):
            token = bed.launch(Exec(("/bin/sh", "-c", "ulimit -d"), {}, None, limits))
            assert bed.text(await bed.end(token)) == f"{most * 1024}\n"
            assert (group(runs, token) / "memory.max").read_text() == str(most * MIB)
            assert (group(runs, token) / "pids.max").read_text() == "33"
        end = await bed.run(Python("jobs:echo", b"{}", {}))
        assert end.outcome is Outcome.SUCCEEDED
        (warm,) = runs.glob("python-*")
        assert (warm / "memory.max").read_text() == str(64 * MIB)
        script = f"echo oom_kill 1 > {group(runs, 5)}/memory.events; kill -9 $$"
        end = await bed.run(Exec(("/bin/sh", "-c", script), {}))
        assert end.error == "killed by SIGKILL: it used more memory than this node gives a run, 64 MiB"


async def test_without_a_group_the_other_limits_hold_and_the_run_is_told(tmp_path: Path) -> None:
    async with Bed(tmp_path, cgroups=str(tmp_path / "gone")) as bed:
        end = await bed.run(Exec(("/bin/sh", "-c", "ulimit -d"), {}, None, Limits(memory=64 * MIB)))
        assert bed.text(end, "stdout") == f"{64 * 1024}\n"
        assert "limits.memory holds for each process only" in bed.text(end, "stderr")


def test_what_a_killed_supervisor_left_is_swept(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    group(runs, 7).mkdir(parents=True)
    (group(runs, 8)).mkdir()
    cgroup.sweep(str(runs))
    # A directory of cgroupfs goes with its files; these have become one each.
    assert [(p.name, p.read_text()) for p in sorted(runs.rglob("cgroup.kill"))] == [("cgroup.kill", "1")] * 2
    cgroup.sweep(str(tmp_path / "gone"))


# ---------------------------------------------------------------- the kernel


@pytest.fixture
def real() -> Iterator[Path]:
    """A cgroup v2 directory of our own, with whatever controllers there are."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    mount = next((line.split()[4] for line in mounts if " - cgroup2 " in line), None)
    if mount is None:
        pytest.skip("no cgroup version 2 is mounted")
    made = Path(mount) / f"test-{uuid.uuid4().hex}"
    try:
        made.mkdir()
    except OSError as exc:
        pytest.skip(f"no group can be made in {mount}: {exc.strerror}")
    yield made
    for directory in sorted(made.rglob("*"), reverse=True):
        if directory.is_dir():
            directory.rmdir()
    made.rmdir()


async def test_a_group_is_ended_whole_and_removed(bed: Bed, real: Path) -> None:
    """As a keeper does it, for processes that no /proc walk would find in time."""
    inner = real / "run"
    inner.mkdir()
    token = bed.launch(bed.python_script(f"open('{inner}/cgroup.procs', 'w').write('0')\n{STAYS}"))
    pids = await bed.pids(1)
    assert (inner / "cgroup.procs").read_text().split() == [str(pid) for pid in pids]
    cgroup.kill(str(inner))
    await death(*pids)
    await bed.end(token)
    cgroup.leave(str(inner))
    assert not inner.exists()


def test_a_whole_run_is_killed_for_its_memory(real: Path) -> None:
    """The node's way from the start: alone in a delegated group."""
    if not {"memory", "pids"} <= set((real / "cgroup.controllers").read_text().split()):
        pytest.skip("the memory controller is not in version 2 here")
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.runner.confined", str(real)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "killed by SIGKILL: it used more memory than limits.memory, 64 MiB\n", done.stderr
