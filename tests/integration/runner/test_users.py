"""Runs of other users than the node's: what they are, what they cannot reach, and that they end like any other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome
from raftsched.worker.processes.leftovers import VARIABLE, end_leftovers
from raftsched.worker.processes.run_as import look_up
from raftsched.worker.processes.wire import Exec, Limits, Python
from tests.integration.runner.bed import SCATTERED, STAYS, STUBBORN, Bed, death
from tests.support.patience import patient, within

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")

PYTHON = "/usr/bin/python3"  # the interpreter of the tests may lie where only root has a way to


PRIVATE = ("environ", "mem", "fd", "maps")


def script(bed: Bed, text: str) -> Exec:
    task = bed.python_script(text)
    return Exec((PYTHON, *task.argv[1:]), task.env)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that all users have a way into, with the node's own in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o711)
        yield Path(directory)


def bed_of(place: Path, *, allow_new_privileges: bool = False, **options: Any) -> Bed:
    data = place / "data"
    data.mkdir(mode=0o700)
    users = (look_up("nobody"), look_up("daemon"))
    return Bed(data, meeting=place, users=users, allow_new_privileges=allow_new_privileges, **options)


def shell(line: str) -> Exec:
    return Exec(("/bin/sh", "-c", line), {})


async def test_a_run_is_its_users_and_no_more(place: Path) -> None:
    async with bed_of(place) as bed:
        told = (
            "id -un; id -Gn; umask; echo $HOME $USER $LOGNAME $SHELL; ulimit -c;"
            " grep -E '^(CapEff|CapPrm|CapAmb|NoNewPrivs)' /proc/self/status; ls /proc/self/fd | wc -l; pwd;"
            " echo said > /dev/stdout; echo '{\"progress\": 5}' > /dev/fd/3"
        )
        end = await bed.run(shell(told), user="nobody")
        assert bed.text(end).split("\n") == [
            *("nobody", "nogroup", "0022", "/nonexistent nobody nobody /bin/sh", "0"),
            *("CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"),
            *("5", os.getcwd() if os.stat(os.getcwd()).st_mode & 1 else "/", "said", ""),
        ]
        assert end.said == SelfReport(5, "")
        end = await bed.run(shell("id -un"), user="daemon")
        assert bed.text(end) == "daemon\n"
        end = await bed.run(shell("id -un; grep NoNewPrivs /proc/self/status"))
        assert bed.text(end) == "root\nNoNewPrivs:\t1\n", "the node's own user gains nothing either"


async def test_programs_gain_privileges_only_where_that_is_said(place: Path) -> None:
    async with bed_of(place, allow_new_privileges=True) as bed:
        end = await bed.run(shell("grep NoNewPrivs /proc/self/status"), user="nobody")
        assert bed.text(end) == "NoNewPrivs:\t0\n"


async def test_the_node_is_out_of_reach(place: Path) -> None:
    async with bed_of(place) as bed:
        (bed.path / "local.token").write_text("secret")
        node, supervisor = os.getpid(), bed.runner.pid
        for target in (
            *(f"{bed.path}/local.token", f"{bed.path}/output", f"{bed.path}/supervisor.lock"),
            *(
                f"/proc/{pid}/{name}"
                for pid in (node, supervisor, "$PPID")
                for name in ("environ", "mem", "fd", "maps")
            ),
        ):
            end = await bed.run(shell(f"cat {target} || ls {target}/"), user="nobody")
            assert end.outcome is Outcome.FAILED, target
        end = await bed.run(shell(f"kill -9 {node} {supervisor} $PPID; echo $?"), user="nobody")
        assert "1" in bed.text(end).split(), "the keeper lives to tell"
        end = await bed.run(Python("plain:who", b"{}", {}), user="nobody")
        assert end.result == b"65534"
        end = await bed.run(shell(f"cd {bed.path}"), user="nobody")
        assert end.outcome is Outcome.FAILED
        end = await bed.run(Exec(("/bin/true",), {}, str(bed.path)), user="nobody")
        assert end.error == f"cannot work in cwd {str(bed.path)!r}: Permission denied"


async def test_trees_of_another_user_end_whole(place: Path) -> None:
    async with bed_of(place) as bed:
        for text, pids in ((STUBBORN, 1), (SCATTERED, 3)):
            token = bed.launch(script(bed, text), grace_ms=100, user="nobody")
            found = await bed.pids(pids)
            assert {os.stat(f"/proc/{pid}").st_uid for pid in found} == {65534}
            bed.runner.kill(token)
            assert (await bed.end(token)).outcome is Outcome.KILLED
            await death(*found)
        token = bed.launch(script(bed, STAYS), timeout_ms=300, user="nobody")
        assert (await bed.end(token)).outcome is Outcome.TIMED_OUT
        token = bed.launch(script(bed, SCATTERED), user="daemon")
        found = await bed.pids(3)
        await within(bed.runner.fence())
        await death(*found)


async def test_a_run_that_kills_all_it_may_ends_alone(place: Path) -> None:
    async with bed_of(place) as bed:
        other = bed.launch(script(bed, STAYS), user="nobody")
        (pid,) = await bed.pids(1)
        # All that its user has on this machine ends: so it is one that no other test's runs have.
        end = await bed.run(shell("trap '' TERM; kill -9 -1"), user="daemon")
        assert end.outcome is not Outcome.LOST
        assert bed.runner.alive
        os.kill(pid, 0)
        bed.runner.kill(other)
        await bed.end(other)


async def test_a_python_process_of_another_user_goes_with_its_keeper(place: Path) -> None:
    async with bed_of(place) as bed:
        stays = json.dumps({"fifo": str(place / "pids")}).encode()
        token = bed.launch(Python("plain:stay", stays, {}), user="nobody")
        (pid,) = await bed.pids(1)
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)
        assert (await bed.end(token)).outcome is Outcome.LOST
        await death(pid)


async def test_limits_hold_for_another_user(place: Path) -> None:
    async with bed_of(place) as bed:
        end = await bed.run(Exec(("/bin/sh", "-c", "ulimit -n"), {}, None, Limits(open_files=99)), user="nobody")
        assert bed.text(end) == "99\n"
        end = await bed.run(Exec(("no-such-program",), {}), user="nobody")
        assert (end.error or "").startswith("command not found: 'no-such-program'")


def test_what_nothing_guards_is_found_as_its_user() -> None:
    user = look_up("nobody")
    mark = f"test-{os.getpid()}"
    child = subprocess.Popen(
        [PYTHON, "-Sc", "import signal; print(flush=True); signal.pause()"],
        env={VARIABLE: mark}, user=user.uid, group=user.gid, extra_groups=[], stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.read(1)
        assert end_leftovers(mark, [user]) == [child.pid]
        assert child.wait(patient(30)) == -signal.SIGKILL
        assert os.open("/proc/self/environ", os.O_RDONLY) > 0, "this thread is itself again"
    finally:
        child.kill()
        child.communicate()
