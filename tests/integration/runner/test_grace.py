"""How runs are ended: who is sent SIGTERM, how long they have, and what ends them when their keeper does not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from raftsched.core.model import Outcome
from raftsched.worker.processes.wire import Exec, Python, Task
from tests.integration.runner.bed import LONG_MS, STAYS, Bed
from tests.support.patience import patient_ms, until

# Tells its pid, and cleans up when it is sent SIGTERM, which takes a moment.
CLEANS = """
import os, signal, sys, time
def on_term(number, frame):
    time.sleep(0.1)
    os.write(1, b"cleaned\\n")
    sys.exit(int(sys.argv[2]))
signal.signal(signal.SIGTERM, on_term)
fd = os.open(sys.argv[1], os.O_WRONLY)
os.write(fd, b"%d\\n" % os.getpid())
os.close(fd)
while True:
    signal.pause()
"""


def cleaner(bed: Bed, how: str, code: int = 0) -> Exec:
    """CLEANS behind a wrapper; `$0` and `$@` are its command."""
    task = bed.python_script(CLEANS, str(code))
    return task if not how else Exec(("/bin/sh", "-c", how, *task.argv), task.env)


WRAPPERS = ("", '"$0" "$@"', '"$0" "$@"; true', '"$0" "$@" | cat', 'setsid "$0" "$@"; true')


@pytest.mark.parametrize("timeout", [False, True])
async def test_the_grace_reaches_the_program_behind_a_wrapper(bed: Bed, timeout: bool) -> None:
    timeout_ms = patient_ms(800) if timeout else LONG_MS  # they have to get as far as to tell
    runs = {bed.launch(cleaner(bed, how), timeout_ms=timeout_ms, grace_ms=LONG_MS): how for how in WRAPPERS}
    await bed.pids(len(runs))
    for token, how in runs.items():
        if not timeout:
            bed.runner.kill(token, "killed on request")
        end = await bed.end(token)
        assert end.outcome is (Outcome.TIMED_OUT if timeout else Outcome.KILLED), how
        assert "|" in how or bed.text(end) == "cleaned\n", how


async def test_what_is_left_after_the_grace_is_killed(bed: Bed, tmp_path: Path) -> None:
    ignores = "trap '' TERM; echo $$ > $1; while :; do sleep 1000; done"
    argv = ("/bin/sh", "-c", 'trap "exit 0" TERM; sh -c "$0" sh "$@" & wait', ignores, str(tmp_path / "pids"))
    token = bed.launch(Exec(argv, {}), grace_ms=300)
    (pid,) = await bed.pids(1)
    bed.runner.kill(token)
    end = await bed.end(token)
    assert (end.outcome, end.exit_code) == (Outcome.KILLED, 0)
    assert not os.path.exists(f"/proc/{pid}")


class TestTheNodeStops:
    async def test_what_notices_is_told_and_what_would_only_die_goes_on(self, bed: Bed) -> None:
        told = bed.launch(cleaner(bed, ""))
        fails = bed.launch(cleaner(bed, "", 3))
        behind = bed.launch(cleaner(bed, '"$0" "$@"; true'))
        await bed.pids(3)
        naps = bed.launch(Python("jobs:naps", b'{"seconds":2}', {}))
        # its process is python by then, not what it was forked from
        await until(lambda: naps in bed.started)
        goes_on = bed.launch(Exec(("sleep", "1"), {}))
        breaks = bed.launch(Exec(("sh", "-c", "sleep 1; exit 3"), {}))
        bed.runner.wind_down(LONG_MS)
        ends = {token: await bed.end(token) for token in (told, fails, behind, goes_on, breaks, naps)}
        assert ends[told].outcome is Outcome.SUCCEEDED
        assert ends[fails].outcome is Outcome.KILLED, "it was told to end: that is no word on it"
        assert ends[behind].outcome is Outcome.KILLED
        assert ends[goes_on].outcome is Outcome.SUCCEEDED
        assert (ends[breaks].outcome, ends[breaks].exit_code) == (Outcome.FAILED, 3)
        assert [bed.text(ends[token]) for token in (told, fails, behind)] == ["cleaned\n"] * 3
        assert ends[naps].outcome is Outcome.SUCCEEDED

    async def test_what_is_left_after_the_grace_is_handed_back(self, bed: Bed, tmp_path: Path) -> None:
        params = f'{{"fifo":"{tmp_path / "pids"}"}}'.encode()
        tokens = [bed.launch(bed.python_script(STAYS)), bed.launch(Python("jobs:stay", params, {}))]
        await bed.pids(2)
        bed.runner.wind_down(200)
        for token in tokens:
            end = await bed.end(token)
            assert (end.outcome, end.error) == (Outcome.KILLED, "Its node stopped.")

    async def test_a_job_may_want_less(self, bed: Bed) -> None:
        token = bed.launch(bed.python_script(STAYS), stop_ms=50)
        await bed.pids(1)
        bed.runner.wind_down(LONG_MS)
        assert (await bed.end(token)).outcome is Outcome.KILLED

    @pytest.mark.parametrize("python", [False, True])
    async def test_what_dies_with_its_keepers_told_as_well_is_handed_back(
        self, bed: Bed, tmp_path: Path, python: bool
    ) -> None:
        """As when everything below the node is sent SIGTERM, and the node is late to know."""
        params = f'{{"fifo":"{tmp_path / "pids"}"}}'.encode()
        token = bed.launch(Python("jobs:stay", params, {}) if python else bed.python_script(STAYS))
        (pid,) = await bed.pids(1)
        keeper, supervisor = parent(pid), bed.runner.pid
        assert supervisor is not None
        os.kill(keeper, signal.SIGSTOP)  # however late it hears of it, it hears of both
        for one in (pid, keeper, supervisor):
            os.kill(one, signal.SIGTERM)
        os.kill(keeper, signal.SIGCONT)
        end = await bed.end(token)
        assert (end.outcome, end.error) == (Outcome.KILLED, "Its node stopped.")
        alone = bed.launch(bed.python_script(STAYS))
        (pid,) = await bed.pids(1)
        os.kill(pid, signal.SIGTERM)  # by somebody, and to nobody else
        assert (await bed.end(alone)).outcome is Outcome.FAILED


class TestAKeeperThatDoesNotMove:
    """Stopped by somebody, a job included: what it was to end is ended all the same."""

    @staticmethod
    def tasks(bed: Bed, python: bool) -> Task:
        if python:
            return Python("jobs:stay", f'{{"fifo":"{bed.path / "pids"}"}}'.encode(), {})
        return bed.python_script(STAYS)

    @pytest.mark.parametrize("python", [False, True])
    @pytest.mark.parametrize("how", ["timeout", "kill", "stop"])
    async def test_its_run_is_ended(self, bed: Bed, python: bool, how: str) -> None:
        task = self.tasks(bed, python)
        timeout_ms = patient_ms(500) if how == "timeout" else LONG_MS
        token = bed.launch(task, timeout_ms=timeout_ms, grace_ms=50)
        (pid,) = await bed.pids(1)
        os.kill(parent(pid), signal.SIGSTOP)
        if how == "kill":
            bed.runner.kill(token, "killed on request")
        elif how == "stop":
            bed.runner.wind_down(50)
        end = await bed.end(token)
        assert (end.outcome, end.error) == {
            "timeout": (Outcome.TIMED_OUT, f"timed out after {timeout_ms / 1000:g} s"),
            "kill": (Outcome.KILLED, "killed on request"),
            "stop": (Outcome.KILLED, "Its node stopped."),
        }[how]
        assert not os.path.exists(f"/proc/{pid}")
        assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED

    @pytest.mark.parametrize("python", [False, True])
    async def test_one_that_is_killed_loses_its_run_alone(self, bed: Bed, python: bool) -> None:
        token = bed.launch(self.tasks(bed, python))
        (pid,) = await bed.pids(1)
        other = bed.launch(bed.python_script(STAYS))
        await bed.pids(1)
        os.kill(parent(pid), signal.SIGKILL)
        end = await bed.end(token)
        assert (end.outcome, end.alone, end.error) == (Outcome.LOST, True, "its keeper process was killed")
        assert other not in bed.ends


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
