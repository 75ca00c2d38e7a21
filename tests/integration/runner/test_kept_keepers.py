"""Keepers that have kept many runs before guard the next one as well as the first, and bring nothing over from one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.model import Outcome
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.worker.processes.keepers import KEEPER_KILLED
from raftsched.worker.processes.linux import descendants
from raftsched.worker.processes.run_as import look_up
from raftsched.worker.processes.wire import Exec, Limits
from tests.integration.runner.bed import LEAVES_BEHIND, SCATTERED, STAYS, Bed, children, death, state
from tests.support.patience import patient_ms, until, within

BEFORE = 20  # runs that a keeper has kept

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


async def warm(bed: Bed, **options: Any) -> int:
    """Returns the keeper that has kept BEFORE runs, of which some left something behind."""
    for i in range(BEFORE):
        script = "sleep 1000 & setsid sleep 1000 & exit 0" if i % 5 == 0 else "exit 0"
        assert (await bed.run(Exec(("/bin/sh", "-c", script), {}), **options)).outcome is Outcome.SUCCEEDED
    (keeper,) = children(bed.runner.pid)
    return keeper


@pytest.mark.parametrize(
    "way",
    ["asked", "keeper killed", "supervisor killed", "node gone", "keeper stopped", "supervisor stopped"],
)
async def test_nothing_of_its_run_is_left(tmp_path: Path, way: str) -> None:
    """Where somebody is stopped, it is the end of the lease that ends the run."""
    async with Bed(tmp_path) as bed:
        keeper = await warm(bed)
        supervisor = bed.runner.pid
        assert supervisor is not None
        token = bed.launch(bed.python_script(SCATTERED), grace_ms=50)
        pids = await bed.pids(4)
        assert children(supervisor) == [keeper]
        assert children(keeper)
        if way == "asked":
            bed.runner.kill(token)
            assert (await bed.end(token)).outcome is Outcome.KILLED
            assert not [pid for pid in pids if state(pid)]
            assert children(supervisor) == [keeper]
            assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED
        elif way == "keeper killed":
            os.kill(keeper, signal.SIGKILL)
            end = await bed.end(token)
            assert (end.outcome, end.alone, end.error) == (Outcome.LOST, True, KEEPER_KILLED)
            assert not [pid for pid in pids if state(pid)]
            assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED
        elif way == "supervisor killed":
            os.kill(supervisor, signal.SIGKILL)
            await death(*pids, keeper)
        elif way == "node gone":
            await within(bed.runner.stop())
            assert not [pid for pid in (*pids, keeper) if state(pid)]
        else:
            os.kill(keeper if way == "keeper stopped" else supervisor, signal.SIGSTOP)
            bed.end_lease()
            await death(*pids)
            for pid in (keeper, supervisor):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


async def test_one_keeper_keeps_run_after_run_and_gathers_nothing(bed: Bed) -> None:
    keeper = await warm(bed)

    def held() -> tuple[list[str], str]:
        fds = sorted(os.listdir(f"/proc/{keeper}/fd"), key=int)
        return [os.readlink(f"/proc/{keeper}/fd/{fd}").partition(":")[0] for fd in fds], os.readlink(
            f"/proc/{keeper}/cwd"
        )

    def resident_kb() -> int:
        return int(Path(f"/proc/{keeper}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    await until(lambda: state(keeper) == "S")  # it waits for the next run
    before, size = held(), 0
    signals = handled(keeper)
    for i in range(200):
        script = f"echo {'x' * 2_000}; exit $(({i} % 3))"
        token = bed.launch(Exec(("/bin/sh", "-c", script), {}, *(("/usr",) if i % 4 == 0 else ())))
        assert (await bed.end(token)).exit_code == i % 3
        size = size or (resident_kb() if i == 100 else 0)
    assert children(bed.runner.pid) == [keeper]
    await until(lambda: state(keeper) == "S")
    assert held() == before
    assert handled(keeper) == signals
    assert resident_kb() - size < 300


def handled(pid: int) -> list[str]:
    """Returns which signals it blocks, ignores and catches."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]


async def test_the_next_run_starts_when_nothing_of_the_last_is_left(bed: Bed, tmp_path: Path) -> None:
    """Each leaves two behind that ignore TERM, and tells their pids; the next one of the same keeper looks for them."""
    keeper = await warm(bed)
    go = tmp_path / "go"
    os.mkfifo(go)
    for _ in range(5):
        first = bed.launch(bed.python_script(LEAVES_BEHIND, str(go), "0"))
        left = await bed.pids(2)
        looks = "for pid; do [ -e /proc/$pid ] && exit 1; done; exit 0"
        await asyncio.to_thread(go.write_text, "")
        assert (await bed.end(first)).outcome is Outcome.SUCCEEDED
        assert not [pid for pid in left if state(pid)]
        second = await bed.run(Exec(("/bin/sh", "-c", looks, "sh", *map(str, left)), {}))
        assert second.outcome is Outcome.SUCCEEDED
        assert children(bed.runner.pid) == [keeper]


async def test_runs_at_a_time_have_a_keeper_each(bed: Bed) -> None:
    keeper = await warm(bed)
    tokens = [bed.launch(bed.python_script(STAYS)) for _ in range(4)]
    await bed.pids(4)
    keepers = children(bed.runner.pid)
    assert len(keepers) == 4
    assert keeper in keepers
    assert [len(children(one)) for one in keepers] == [1] * 4
    for token in tokens:
        bed.runner.kill(token)
        await bed.end(token)


async def test_a_namespace_has_keepers_of_its_own(bed: Bed) -> None:
    """What one knew of a run with secrets is not there when it keeps the run of another namespace."""
    secret = "s3cret-" * 5
    hides = Exec(("/bin/sh", "-c", "echo $WORD"), {"WORD": secret}, hidden=(secret,))
    assert secret not in bed.text(await bed.run(hides, namespace="one"))
    (one,) = children(bed.runner.pid)
    assert (await bed.run(Exec(("true",), {}), namespace="two")).outcome is Outcome.SUCCEEDED
    (two,) = set(children(bed.runner.pid)) - {one}
    assert (await bed.run(hides, namespace="one")).outcome is Outcome.SUCCEEDED
    assert set(children(bed.runner.pid)) == {one, two}
    assert secret.encode() not in memory(two)


def memory(pid: int) -> bytes:
    """Returns what is on its heap."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    start, end = next(line.split()[0] for line in maps.splitlines() if line.endswith("[heap]")).split("-")
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(int(start, 16))
        return file.read(int(end, 16) - int(start, 16))


class TestAKeeperWithoutARun:
    async def test_one_that_was_killed_is_replaced(self, bed: Bed) -> None:
        keeper = await warm(bed)
        os.kill(keeper, signal.SIGKILL)
        end = await bed.run(Exec(("true",), {}))
        # It may have been given the run before it was known to be gone: that one is handed back, not lost.
        assert end.outcome is Outcome.SUCCEEDED or not end.begun
        assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED

    async def test_what_is_given_to_one_that_is_stopped_is_handed_back(self, bed: Bed) -> None:
        keeper = await warm(bed)
        os.kill(keeper, signal.SIGSTOP)
        end = await bed.run(Exec(("true",), {}))
        assert (end.outcome, end.begun, end.started_at_ms) == (Outcome.KILLED, False, None)
        assert end.error == KEEPER_KILLED
        await death(keeper)
        assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED

    async def test_one_that_is_killed_before_it_takes_up_its_run_loses_nothing(self, bed: Bed) -> None:
        keeper = await warm(bed)
        os.kill(keeper, signal.SIGSTOP)
        token = bed.launch(Exec(("true",), {}))
        await bed.run(Exec(("true",), {}), namespace="other")  # what was sent before has been given out
        os.kill(keeper, signal.SIGKILL)
        end = await bed.end(token)
        assert (end.outcome, end.begun, end.error) == (Outcome.KILLED, False, KEEPER_KILLED)

    async def test_one_that_is_stopped_does_not_keep_a_kill_from_its_run(self, bed: Bed) -> None:
        keeper = await warm(bed)
        os.kill(keeper, signal.SIGSTOP)
        token = bed.launch(Exec(("true",), {}), grace_ms=0)
        bed.runner.kill(token, "killed on request")
        end = await bed.end(token)
        assert (end.outcome, end.error, end.started_at_ms) == (Outcome.KILLED, "killed on request", None)

    async def test_it_ends_with_the_lease_and_the_next_session_has_another(self, bed: Bed) -> None:
        keeper = await warm(bed)
        bed.lease(KILL_BEFORE_MS + patient_ms(1_000))
        # It waits for as long as the lease said when its last run ended; a run makes it look again.
        assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED
        await death(keeper)
        await bed.runner.fence()
        bed.lease(session=2)
        assert (await bed.run(Exec(("true",), {}), session=2)).outcome is Outcome.SUCCEEDED
        (other,) = children(bed.runner.pid)
        assert other != keeper

    async def test_a_run_of_a_session_that_is_over_is_not_started(self, bed: Bed) -> None:
        keeper = await warm(bed)
        bed.lease(session=2)
        end = await bed.run(Exec(("true",), {}), session=1)
        assert (end.outcome, end.started_at_ms) == (Outcome.LOST, None)
        await death(keeper)

    async def test_a_fence_ends_it(self, bed: Bed) -> None:
        keeper = await warm(bed)
        await within(bed.runner.fence())
        assert not state(keeper)
        assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED

    async def test_it_ends_with_the_node_and_with_the_supervisor(self, bed: Bed) -> None:
        keeper = await warm(bed)
        assert bed.runner.pid is not None
        os.kill(bed.runner.pid, signal.SIGSTOP)
        os.kill(bed.runner.pid, signal.SIGKILL)
        await death(keeper)


@only_root
@pytest.mark.parametrize("native", [True, False])
async def test_runs_of_users_one_after_the_other(tmp_path: Path, native: bool) -> None:
    """Nothing of one's rights, limits and places is the next one's."""
    without = {} if native else {"confine": None}
    async with Bed(tmp_path, users=(look_up("nobody"), look_up("daemon")), **without) as bed:
        shows = Exec(("/bin/sh", "-c", "id -un; pwd; ulimit -n; umask; ulimit -Hc; grep CapEff /proc/self/status"), {})
        own = bed.text(await bed.run(shows))
        (keeper,) = children(bed.runner.pid)
        confined = Exec(shows.argv, {}, "/usr", Limits(open_files=77))
        for user in ("nobody", "daemon", "nobody"):
            said = bed.text(await bed.run(confined, user=user)).split("\n")
            assert said[:3] == [user, "/usr", "77"]
            assert said[4] == "0"
            assert int(said[5].split()[1], 16) == 0
        assert bed.text(await bed.run(shows)) == own
        assert children(bed.runner.pid) == [keeper]


@only_root
async def test_a_fork_bomb_of_another_user_is_ended_and_its_keeper_goes_on(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    async with Bed(tmp_path, users=(look_up("nobody"),), pids_max=100) as bed:
        keeper = await warm(bed)
        token = bed.launch(Exec((bash, "-c", ":(){ :|:& }; :; sleep 1000"), {}), user="nobody", grace_ms=0)
        await until(lambda: len(descendants(keeper)) > 20)
        bed.runner.kill(token)
        assert (await bed.end(token)).outcome is Outcome.KILLED
        assert not children(keeper)
        assert (await bed.run(Exec(("true",), {}), user="nobody")).outcome is Outcome.SUCCEEDED
        assert children(bed.runner.pid) == [keeper]
