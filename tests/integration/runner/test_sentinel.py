"""Of keeper, supervisor and sentinel any two may be killed or stopped in one moment: the third ends what ran."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.core.model import Outcome
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.errors import StartupError
from raftsched.worker.processes import runner as runner_module
from raftsched.worker.processes.wire import Exec, Python
from tests.integration.runner.bed import LONG_MS, SCATTERED, STAYS, Bed, death
from tests.support.patience import patient_ms, within


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def at_once(number: signal.Signals, *pids: int) -> None:
    """None of them sees the other's end: all are stopped before the first one gets the signal."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    if number is not signal.SIGSTOP:
        for pid in pids:
            os.kill(pid, number)


class Scene:
    """A run that does what it can to stay, and the three that are to end it."""

    def __init__(self, bed: Bed, pids: list[int]) -> None:
        assert bed.runner.pid is not None
        self.pids = pids
        self.supervisor = bed.runner.pid
        self.sentinel = parent(self.supervisor)
        self.keeper = next(above for pid in pids if parent(above := parent(pid)) == self.supervisor)
        assert parent(self.sentinel) == os.getpid()

    @classmethod
    async def of(cls, bed: Bed, python: bool = False) -> Scene:
        if python:
            bed.launch(Python("jobs:scatters", f'{{"fifo":"{bed.path / "pids"}"}}'.encode(), {}))
            return cls(bed, await bed.pids(3))
        bed.launch(bed.python_script(SCATTERED))
        return cls(bed, await bed.pids(4))


async def goes_on(bed: Bed, old: int) -> None:
    """The node starts another supervisor, and that one works."""
    await within(bed.runner.fence())
    bed.lease()
    assert bed.runner.pid != old
    assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("killed", ["keeper supervisor", "keeper sentinel", "supervisor sentinel", "sentinel"])
async def test_killed_in_one_moment(bed: Bed, killed: str, python: bool) -> None:
    died = asyncio.Event()
    bed.runner.on_died = died.set
    scene = await Scene.of(bed, python)
    at_once(signal.SIGKILL, *(getattr(scene, name) for name in killed.split()))
    await death(*scene.pids)
    await within(died.wait())
    await goes_on(bed, scene.supervisor)


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("stopped", ["keeper", "keeper supervisor", "supervisor sentinel", "keeper sentinel"])
async def test_stopped_in_one_moment_until_the_lease_is_over(
    bed: Bed, stopped: str, python: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await Scene.of(bed, python)
    at_once(signal.SIGSTOP, *(getattr(scene, name) for name in stopped.split()))
    bed.end_lease()
    await death(*scene.pids)
    if "sentinel" in stopped and "supervisor" not in stopped:
        assert (await bed.end(1)).outcome is Outcome.LOST
    elif "supervisor" not in stopped:
        await bed.lost(1)
    monkeypatch.setattr(runner_module, "STOP_PATIENCE_S", 0.1)


@pytest.mark.parametrize(
    ("others", "how"),
    [
        ("keeper supervisor", signal.SIGKILL),  # all that has the product's name: `pkill -9 -f raftsched`
        ("keeper supervisor", signal.SIGSTOP),
        ("keeper sentinel", signal.SIGKILL),
        ("supervisor sentinel", signal.SIGKILL),
        ("supervisor sentinel", signal.SIGSTOP),
    ],
)
async def test_together_with_the_node(tmp_path: Path, others: str, how: signal.Signals) -> None:
    bed = Bed(tmp_path)
    lease_ms = KILL_BEFORE_MS + patient_ms(500) if how is signal.SIGSTOP else LONG_MS
    argv = [sys.executable, "-m", "tests.integration.runner.node"]
    argv += [str(tmp_path), str(tmp_path / "pids"), str(lease_ms), bed.mark, "raftsched"]
    node = subprocess.Popen(argv, cwd=Path(__file__).parents[3])
    try:
        (supervisor,) = await bed.pids(1)
        pids = await bed.pids(4)
        keeper = next(above for pid in pids if parent(above := parent(pid)) == supervisor)
        sentinel = parent(supervisor)
        assert parent(sentinel) == node.pid
        guards = {"keeper": keeper, "supervisor": supervisor, "sentinel": sentinel}
        named = [name for name, pid in guards.items() if "raftsched" in command_line(pid)]
        assert named == ["keeper", "supervisor"]
        assert command_line(sentinel).rstrip() == f"job-sentinel of pid {node.pid}"
        if "supervisor" in others:
            at_once(how, node.pid, *(guards[name] for name in others.split()))
        else:  # it is to hear of all at one time, of the node first
            at_once(signal.SIGSTOP, node.pid, *guards.values())
            for pid in (node.pid, keeper, sentinel):
                os.kill(pid, how)
                await death(pid)
            os.kill(supervisor, signal.SIGCONT)
        await death(*pids)
    finally:
        node.kill()
        node.wait()
    async with bed:
        await death(supervisor, sentinel)
        assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED


async def test_a_stopped_sentinel_is_woken_up_by_who_needs_its_lock(bed: Bed) -> None:
    scene = await Scene.of(bed)
    at_once(signal.SIGSTOP, scene.sentinel)
    at_once(signal.SIGKILL, scene.keeper, scene.supervisor)
    await goes_on(bed, scene.supervisor)
    assert not [pid for pid in (*scene.pids, scene.sentinel) if os.path.exists(f"/proc/{pid}")]


async def test_a_supervisor_that_does_not_answer_a_fence_is_replaced(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await Scene.of(bed)
    monkeypatch.setattr(runner_module, "FENCE_PATIENCE_S", 0.1)
    os.kill(scene.supervisor, signal.SIGSTOP)
    await goes_on(bed, scene.supervisor)
    assert not [pid for pid in scene.pids if os.path.exists(f"/proc/{pid}")]


async def test_a_sentinel_outlives_what_is_sent_to_the_group_of_its_supervisor(bed: Bed) -> None:
    scene = await Scene.of(bed)
    assert os.getpgid(scene.keeper) == os.getpgid(scene.supervisor) != os.getpgid(scene.sentinel)
    os.killpg(os.getpgid(scene.supervisor), signal.SIGKILL)
    await death(*scene.pids)
    await goes_on(bed, scene.supervisor)


@pytest.mark.parametrize("fails", ["clear_live", "socketpair", "pipe", "Popen"])
async def test_a_start_that_failed_can_be_tried_again(bed: Bed, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.kill(bed.runner.pid or 0, signal.SIGKILL)
    died = asyncio.Event()
    bed.runner.on_died = died.set
    await within(died.wait())
    gc.collect()  # what other tests left is closed now
    before = set(os.listdir("/proc/self/fd"))
    where = {
        "clear_live": bed.output,
        "socketpair": runner_module.socket,
        "pipe": os,
        "Popen": runner_module.subprocess,
    }

    def broken(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(where[fails], fails, broken)
        with pytest.raises(StartupError, match="Too many open files"):
            await bed.runner.start()
    assert set(os.listdir("/proc/self/fd")) == before
    await within(bed.runner.start())
    bed.lease()
    assert (await bed.run(Exec(("/bin/true",), {}))).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("python", [False, True])
async def test_a_run_that_nothing_guards_any_more_is_ended_before_others_begin(
    bed: Bed, tmp_path: Path, python: bool
) -> None:
    """As after `kill -9 -1` in a job."""
    stays = Python("jobs:leaves", f'{{"fifo":"{tmp_path / "pids"}"}}'.encode(), {})
    bed.launch(stays if python else bed.python_script(STAYS))
    (pid,) = await bed.pids(1)
    assert bed.runner.pid is not None
    guards = [parent(bed.runner.pid), bed.runner.pid, keeper_of(pid, bed.runner.pid)]
    for guard in guards:
        os.kill(guard, signal.SIGSTOP)  # none sees what becomes of the others
    for guard in guards:
        os.kill(guard, signal.SIGKILL)
    await death(*guards)
    assert os.path.exists(f"/proc/{pid}"), "it is not guarded any more"
    await within(bed.runner.fence())
    await death(pid)
    assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED


def keeper_of(pid: int, supervisor: int) -> int:
    while parent(pid) != supervisor:
        pid = parent(pid)
    return pid


class Killed:
    """Ends the first `count` supervisors that `runner` starts, before they are ready."""

    def __init__(self, bed: Bed, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts = 0
        self._count = count
        self._spawn = bed.runner._spawn
        monkeypatch.setattr(bed.runner, "_spawn", self)

    def __call__(self, node_fd: int, life_fd: int, lock_fd: int) -> subprocess.Popen[bytes]:
        process = self._spawn(node_fd, life_fd, lock_fd)
        self.starts += 1
        if self.starts <= self._count:
            process.kill()
        return process


async def test_a_supervisor_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(tmp_path)
    killed = Killed(bed, runner_module.START_ATTEMPTS - 1, monkeypatch)
    async with bed:
        assert killed.starts == runner_module.START_ATTEMPTS
        end = await bed.run(Exec((sys.executable, "-S", "-c", "print('ran')"), {}))
        assert end.outcome is Outcome.SUCCEEDED


async def test_a_supervisor_that_always_ends_while_it_starts_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(tmp_path)
    killed = Killed(bed, runner_module.START_ATTEMPTS, monkeypatch)
    with pytest.raises(StartupError, match="ended while it started"):
        await within(bed.runner.start())
    assert killed.starts == runner_module.START_ATTEMPTS
    await within(bed.runner.stop())
    bed.output.close()
