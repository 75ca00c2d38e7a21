"""Limits hold in the whole tree of a run, its error names them, and nobody after it is bound by them."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pytest

from raftsched.core.model import Outcome
from raftsched.worker.processes.limits import OOM_SCORE, blamed
from raftsched.worker.processes.wire import ERROR_MAX, Exec, Limits, Python, failure
from tests.integration.runner.bed import STAYS, Bed
from tests.support.patience import until

MIB = 2**20


def script(text: str, limits: Limits | None, *args: str) -> Exec:
    return Exec((sys.executable, "-S", "-c", text, *args), {}, None, limits)


async def test_every_process_of_a_run_has_them_from_its_first_instruction(bed: Bed) -> None:
    show = "ulimit -d; ulimit -t; ulimit -n; ulimit -H -d; ulimit -H -t; ulimit -H -n"
    body_of_run = f"{show}; (setsid sh -c '{show}')"
    before = bed.text(await bed.run(Exec(("/bin/sh", "-c", show), {})))
    limits = Limits(64 * MIB, 7, 64)
    end = await bed.run(Exec(("/bin/sh", "-c", body_of_run), {}, None, limits))
    kib = 64 * 1024
    expected = [str(kib), "7", "64", str(kib), "12", "64"]
    assert bed.text(end).split() == expected * 2, end
    assert bed.text(await bed.run(Exec(("/bin/sh", "-c", show), {}))) == before


async def test_limits_change_nothing_else(bed: Bed, tmp_path: Path) -> None:
    """Another way to start a program: the same session, descriptors, signals, errors."""
    text = "import os, signal; print(sorted(os.listdir('/proc/self/fd'))[:-1], os.getsid(0) == os.getpid())"
    text += "; print([s.name for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN])"
    text += "; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), os.read(0, 1), os.environ['A'], os.getcwd())"
    argv = (sys.executable, "-I", "-S", "-c", text)
    seen = []
    for limits in (None, Limits(open_files=64)):
        end = await bed.run(Exec(argv, {"A": "b"}, str(tmp_path), limits))
        assert end.outcome is Outcome.SUCCEEDED, end
        seen.append(bed.text(end))
    assert seen[0] == seen[1]
    script_file = tmp_path / "lost"
    script_file.write_text("#!/no/such/interpreter\n")
    script_file.chmod(0o755)
    for name in ("no-such-command-at-all", str(script_file), str(tmp_path)):
        ends = [await bed.run(Exec((name,), {}, None, limits)) for limits in (None, Limits(open_files=64))]
        assert ends[0].outcome is ends[1].outcome is Outcome.FAILED
        assert ends[0].error == ends[1].error


async def test_memory(bed: Bed) -> None:
    text = "x = bytearray(int(__import__('sys').argv[1]) << 20)"
    assert (await bed.run(script(text, Limits(memory=256 * MIB), "16"))).outcome is Outcome.SUCCEEDED
    end = await bed.run(script(text, Limits(memory=256 * MIB), "512"))
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 1)
    assert end.error is not None
    assert end.error.startswith("exit code 1: probably for limits.memory, 256 MiB\nTraceback")
    end = await bed.run(Python("jobs:takes_memory", b'{"mib":512}', {}, None, Limits(memory=256 * MIB)))
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.endswith("MemoryError\nprobably for limits.memory, 256 MiB")


async def test_cpu_time(bed: Bed) -> None:
    limits = Limits(cpu_s=1)
    tokens = [
        bed.launch(script("while True: pass", limits)),
        bed.launch(Exec(("/bin/sh", "-c", "(while :; do :; done); exit $?"), {}, None, limits)),
        bed.launch(Python("jobs:spins", b"{}", {}, None, limits)),
    ]
    direct, below, python = [await bed.end(token) for token in tokens]
    assert [e.outcome for e in (direct, below, python)] == [Outcome.FAILED] * 3
    why = "killed by SIGXCPU: it used more CPU time than limits.cpu, 1 s"
    assert direct.error == why
    assert below.error is not None
    assert below.error.startswith(why)  # the shell says it, too
    assert python.error == f"the process ended before the function returned: {why}"


async def test_open_files(bed: Bed) -> None:
    limits = Limits(open_files=32)
    end = await bed.run(script("import os\nwhile True: os.dup(0)", limits))
    assert end.error is not None
    assert end.error.startswith("exit code 1: probably for limits.open_files, 32\n")
    end = await bed.run(Python("jobs:opens_files", b"{}", {}, None, limits))
    assert end.error is not None
    assert end.error.endswith("probably for limits.open_files, 32")


async def test_the_process_of_a_limited_function_serves_nobody_else(tmp_path: Path) -> None:
    async with Bed(tmp_path, python_processes=1) as bed:
        limits = Limits(512 * MIB, 1, 64)
        seen = []
        for given in (None, limits, limits, None, None):
            end = await bed.run(Python("jobs:limits", b"{}", {}, None, given))
            assert end.result is not None, end
            seen.append(json.loads(end.result))
        pids, cpu, files = zip(*seen, strict=True)
        assert pids[0] == pids[1]
        assert len({pids[1], pids[2], pids[3]}) == 3
        assert pids[3] == pids[4]
        assert [files[1], files[2]] == [[64, 64]] * 2
        assert files[0] == files[3] == files[4] != [64, 64]
        assert 1 <= cpu[1][0] <= 60, "what it used for others comes on top"
        assert cpu[3] == cpu[0]


async def test_without_memory_the_kernel_takes_the_run_and_not_its_keeper(bed: Bed) -> None:
    def score(pid: int | str) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    assert bed.runner.pid is not None
    own = score(bed.runner.pid)
    expected = max(own, OOM_SCORE)
    for limits in (None, Limits(open_files=64)):
        task = bed.python_script(STAYS)
        bed.launch(Exec(task.argv, task.env, None, limits))
        (pid,) = await bed.pids(1)
        assert score(pid) == expected
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        await until(lambda keeper=keeper: score(keeper) == own)  # type: ignore[misc]  (while the run starts)
    end = await bed.run(Python("jobs:oom_score", b"{}", {}))
    assert end.result == b"%d" % expected
    assert score(bed.runner.pid) == own


async def test_a_limit_above_the_nodes_own_is_the_nodes_own(bed: Bed) -> None:
    most = int(bed.text(await bed.run(Exec(("/bin/sh", "-c", "ulimit -H -n"), {}))))
    end = await bed.run(Exec(("/bin/sh", "-c", "ulimit -n"), {}, None, Limits(open_files=most + 1)))
    assert bed.text(end) == f"{most}\n"


@pytest.mark.parametrize(
    ("limits", "code", "said", "used", "found"),
    [
        (Limits(cpu_s=5), 137, "", 10.2, "CPU"),  # it caught SIGXCPU and went on
        (Limits(cpu_s=5), 137, "", 0.4, None),
        (Limits(cpu_s=5), 1, "", 10.2, None),
        (Limits(memory=MIB), 152, "", 0, None),
        (Limits(memory=MIB), 134, "terminate called after throwing an instance of 'std::bad_alloc'", 0, "memory"),
        (Limits(memory=MIB + 1), 2, "fork: Cannot allocate memory", 0, "1,048,577 bytes"),
        (Limits(memory=MIB), 1, "no such file", 0, None),
        (Limits(open_files=20), 1, "socket: Too many open files", 0, "open_files"),
        (Limits(open_files=20), 1, "Error: EMFILE: too many", 0, "open_files"),
        (None, 152, "MemoryError", 100, None),
    ],
)
def test_which_limit_is_blamed(limits: Limits | None, code: int, said: str, used: float, found: str | None) -> None:
    why = blamed(limits, code, said, used)
    assert (why is None) if found is None else (why is not None and found in why)


def test_what_happened_is_said_however_long_the_output_is() -> None:
    text = failure("exit code 1: probably for limits.memory, 256 MiB", "ä" * 2_000)
    assert text.startswith("exit code 1: probably for limits.memory, 256 MiB\n")
    assert text.endswith("ä")
    assert ERROR_MAX - 2 <= len(text.encode()) <= ERROR_MAX
    assert failure("exit code 1", "") == "exit code 1"


async def test_runs_have_the_open_files_that_the_node_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those that the node took for itself."""
    monkeypatch.setattr("raftsched.system.descriptors._GIVEN", 300)
    async with Bed(tmp_path) as bed:
        end = await bed.run(Exec(("/bin/sh", "-c", "ulimit -S -n; ulimit -H -n"), {}))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        assert bed.text(end).split() == ["300", "unlimited" if hard == resource.RLIM_INFINITY else str(hard)]
