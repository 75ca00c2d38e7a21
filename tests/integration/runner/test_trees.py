"""Nothing outlives its attempt, its lease, its supervisor or its node, whatever it does to stay."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.core.model import Outcome
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.worker.processes.tree import BEGAN_AFTER_MS
from raftsched.worker.processes.wire import Exec, Python
from tests.integration.runner.bed import (
    AS_IT_IS,
    CLEANS_UP,
    COMET_C,
    LEAVES_BEHIND,
    LONG_MS,
    SCATTERED,
    STAYS,
    STUBBORN,
    Bed,
    death,
    readable,
)
from tests.support.patience import patient, patient_ms, until, within


@pytest.mark.parametrize("python", [False, True])
async def test_a_timeout_ends_the_whole_tree(bed: Bed, tmp_path: Path, python: bool) -> None:
    scatters = Python("jobs:scatters", f'{{"fifo":"{tmp_path / "pids"}"}}'.encode(), {})
    task = scatters if python else bed.python_script(SCATTERED)
    timeout_ms = patient_ms(500)  # it has to get as far as to scatter
    token = bed.launch(task, timeout_ms=timeout_ms, grace_ms=50)
    pids = await bed.pids(3 if python else 4)
    end = await bed.end(token)
    assert end.outcome is Outcome.TIMED_OUT
    assert end.error == f"timed out after {timeout_ms / 1000:g} s"
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")], "reported before all were dead"


async def test_what_forks_faster_than_it_can_be_listed_is_ended(bed: Bed, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([compiler, "-O1", "-xc", "-o", tmp_path / "comet", "-"], input=COMET_C.encode(), check=True)
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    token = bed.launch(Exec((str(tmp_path / "comet"), str(tmp_path / "held")), {}), grace_ms=0)
    await within(readable(held))
    assert os.read(held, 2) == b"*"
    bed.runner.kill(token)
    assert (await bed.end(token)).outcome is Outcome.KILLED
    assert os.read(held, 1) == b"", "reported while it was still on its way"
    os.close(held)


async def test_orphans_that_end_while_the_run_goes_on_are_not_kept(bed: Bed, tmp_path: Path) -> None:
    """Each would hold a process number until the run is over, and some runs take days."""
    script = "for i in 1 2 3 4 5 6 7 8 9; do (true & true); done; echo $$ > $1; exec sleep 1000"

    def zombies(keeper: int) -> list[str]:
        found = []
        for pid in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split():
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        return [state for state in found if state == "Z"]

    token = bed.launch(Exec(("/bin/sh", "-c", script, "sh", str(tmp_path / "pids")), {}), grace_ms=LONG_MS)
    (main,) = await bed.pids(1)
    await until(lambda: not zombies(_parent(main)))
    assert _alive(main)
    bed.runner.kill(token)
    assert (await bed.end(token)).exit_code == 128 + signal.SIGTERM


async def test_term_comes_before_kill(bed: Bed) -> None:
    token = bed.launch(bed.python_script(CLEANS_UP), grace_ms=LONG_MS)
    await bed.pids(1)
    bed.runner.kill(token, "killed on request")
    end = await bed.end(token)
    assert end.outcome is Outcome.KILLED
    assert end.error == "killed on request"
    assert bed.text(end) == "cleaned up\n"


async def test_kill_ends_what_ignores_term(bed: Bed) -> None:
    token = bed.launch(bed.python_script(STUBBORN), grace_ms=20)
    pids = await bed.pids(1)
    bed.runner.kill(token)
    end = await bed.end(token)
    assert (end.outcome, end.exit_code) == (Outcome.KILLED, 128 + signal.SIGKILL)
    await death(*pids)


@pytest.mark.parametrize("code", [0, 3])
async def test_children_left_behind_die_and_the_end_waits_for_them(bed: Bed, tmp_path: Path, code: int) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    token = bed.launch(bed.python_script(LEAVES_BEHIND, str(go), str(code)))
    pids = await bed.pids(2)
    assert token not in bed.ends
    await asyncio.to_thread(go.write_text, "")
    end = await bed.end(token)
    assert end.outcome is (Outcome.FAILED if code else Outcome.SUCCEEDED)
    assert end.exit_code == code
    assert bed.text(end) == "done\n"
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


async def test_the_lease_end_kills(bed: Bed) -> None:
    token = bed.launch(bed.python_script(SCATTERED))
    pids = await bed.pids(4)
    bed.end_lease()
    await bed.lost(token)
    await death(*pids)


async def test_a_renewal_keeps_a_run_alive_and_counts_for_its_session_only(bed: Bed) -> None:
    lease_ms = KILL_BEFORE_MS + patient_ms(500)
    bed.lease(lease_ms)
    kept = bed.launch(bed.python_script(STAYS))
    await bed.pids(1)
    bed.lease(LONG_MS)
    # The old deadline passes; a run that ends after it shows that the first one was not touched by it.
    waits = await bed.run(Exec(("sleep", str(lease_ms / 1000)), {}))
    assert waits.outcome is Outcome.SUCCEEDED
    assert kept not in bed.ends
    bed.lease(LONG_MS, session=2)
    refused = await bed.run(Exec(("true",), {}), session=1)
    assert refused.outcome is Outcome.LOST
    assert refused.started_at_ms is None
    await bed.runner.fence()
    assert bed.ends[kept].outcome is Outcome.LOST


@pytest.mark.parametrize("python", [False, True])
async def test_a_stopped_supervisor_does_not_keep_runs_alive(bed: Bed, tmp_path: Path, python: bool) -> None:
    if python:
        task = Python("jobs:stay", f'{{"fifo":"{tmp_path / "pids"}"}}'.encode(), {})
        bed.launch(task)
        pids = await bed.pids(1)
    else:
        bed.launch(bed.python_script(SCATTERED))
        pids = await bed.pids(4)
    supervisor = bed.runner.pid
    assert supervisor is not None
    os.kill(supervisor, signal.SIGSTOP)
    bed.end_lease()
    await death(*pids)
    with contextlib.suppress(ProcessLookupError):  # ended by the sentinel
        os.kill(supervisor, signal.SIGCONT)


@pytest.mark.parametrize("python", [False, True])
async def test_a_killed_supervisor_takes_all_with_it(bed: Bed, tmp_path: Path, python: bool) -> None:
    died = asyncio.Event()
    bed.runner.on_died = died.set
    if python:
        bed.launch(Python("jobs:stay", f'{{"fifo":"{tmp_path / "pids"}"}}'.encode(), {}))
        pids = await bed.pids(1)
    else:
        bed.launch(bed.python_script(SCATTERED))
        pids = await bed.pids(4)
    assert bed.runner.pid is not None
    os.kill(bed.runner.pid, signal.SIGKILL)
    await within(died.wait())
    assert not bed.runner.alive
    await within(bed.runner.fence())
    assert bed.runner.alive
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED


async def test_a_supervisor_killed_while_it_did_not_read(bed: Bed) -> None:
    """What the keeper had sent is lost with the supervisor; the keeper is not, and kills."""
    bed.launch(bed.python_script(SCATTERED))
    pids = await bed.pids(4)
    assert bed.runner.pid is not None
    os.kill(bed.runner.pid, signal.SIGSTOP)
    keeper = _parent(next(pid for pid in pids if _parent(_parent(pid)) == bed.runner.pid))
    await asyncio.sleep(patient(1.5 * BEGAN_AFTER_MS / 1000))  # the keeper has said that the run began
    os.kill(bed.runner.pid, signal.SIGKILL)
    await death(*pids, keeper)


async def test_a_keeper_killed_by_somebody_leaves_nothing(bed: Bed) -> None:
    token = bed.launch(bed.python_script(SCATTERED))
    pids = await bed.pids(4)
    main = next(pid for pid in pids if _parent(_parent(pid)) == bed.runner.pid)
    os.kill(_parent(main), signal.SIGKILL)
    end = await bed.end(token)
    assert (end.outcome, end.alone) == (Outcome.LOST, True)
    assert end.error == "its keeper process was killed"
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED


async def test_a_fence_ends_everything_launched_before_and_nothing_after(tmp_path: Path) -> None:
    async with Bed(tmp_path, python_processes=1) as bed:
        scattered = bed.launch(bed.python_script(SCATTERED))
        pids = await bed.pids(4)
        stays = bed.launch(Python("jobs:stay", f'{{"fifo":"{tmp_path / "pids"}"}}'.encode(), {}))
        pids += await bed.pids(1)
        queued = bed.launch(Python("jobs:echo", b"{}", {}))
        fence = asyncio.ensure_future(bed.runner.fence())
        await asyncio.sleep(0)  # the request is made
        after = bed.launch(bed.python_script(STAYS))
        await within(fence)
        assert [bed.ends[token].outcome for token in (scattered, stays, queued)] == [Outcome.LOST] * 3
        assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        await bed.pids(1)
        assert after not in bed.ends


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("supervisor_too", [False, True])
async def test_node_killed_or_stopped(tmp_path: Path, how: signal.Signals, supervisor_too: bool) -> None:
    """Killed: all die at once, also when the supervisor is stopped. Stopped: all die by the lease's end."""
    bed = Bed(tmp_path)
    lease_ms = KILL_BEFORE_MS + patient_ms(500) if how is signal.SIGSTOP else LONG_MS
    argv = [sys.executable, "-m", "tests.integration.runner.node"]
    argv += [str(tmp_path), str(tmp_path / "pids"), str(lease_ms), bed.mark]
    node = subprocess.Popen(argv, cwd=Path(__file__).parents[3])
    try:
        (supervisor,) = await bed.pids(1)
        pids = await bed.pids(4)
        if supervisor_too:
            os.kill(supervisor, signal.SIGSTOP)
        node.send_signal(how)
        await death(*pids)
    finally:
        node.kill()
        node.wait()
    async with bed:  # a successor ends the supervisor, stopped or not, and goes on
        await death(supervisor)
        assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED


async def test_a_successor_kills_the_supervisor_it_finds(bed: Bed, tmp_path: Path) -> None:
    bed.launch(bed.python_script(SCATTERED))
    pids = await bed.pids(4)
    old = bed.runner.pid
    assert old is not None
    os.kill(old, signal.SIGSTOP)
    other = type(bed.runner)(tmp_path, bed.output, bed.clock, options=AS_IT_IS)
    await within(other.start())
    assert not [pid for pid in (*pids, old) if _alive(pid)]
    await within(other.stop())


async def test_what_holds_the_lock_and_is_no_supervisor_is_waited_for(bed: Bed, tmp_path: Path) -> None:
    """It is not killed: its number is that of a supervisor which has ended."""
    await bed.runner.stop()
    with open(tmp_path / "supervisor.lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()} 1\n")
        lock.flush()
        other = type(bed.runner)(tmp_path, bed.output, bed.clock, options=AS_IT_IS)
        starting = asyncio.create_task(other.start())
        await until(lambda: other.waits_for)
        assert not starting.done()
    await within(starting)
    await within(other.stop())


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
