"""python runs in warm processes, through the real supervisor."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome, Verdict
from raftsched.worker.processes.environment import BASE_ENVIRONMENT
from raftsched.worker.processes.leftovers import VARIABLE
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.processes.wire import Python
from tests.integration.runner.bed import FUNCTIONS, MARK, NODES_OWN, Bed
from tests.support.patience import patient_ms


def call(name: str, env: dict[str, str] | None = None, cwd: str | None = None, **params: Any) -> Python:
    return Python(f"jobs:{name}", json.dumps(params).encode(), dict(env or {}), cwd)


def result(end: RunEnd) -> Any:
    assert end.outcome is Outcome.SUCCEEDED, end
    return json.loads(end.result) if end.result is not None else None


@pytest.fixture
def bed_options() -> dict[str, Any]:
    return {"python_processes": 1}


async def test_params_and_result(bed: Bed) -> None:
    assert result(await bed.run(call("echo", a=1, b=[None, "ä"]))) == {"a": 1, "b": [None, "ä"]}
    assert result(await bed.run(call("later", value=5))) == 5
    assert result(await bed.run(call("prints"))) is None


async def test_the_process_stays_and_output_goes_to_the_run_that_made_it(bed: Bed) -> None:
    first = result(await bed.run(call("pid")))
    tokens = []
    for i in range(30):
        tokens.append(bed.launch(call("prints", out=f"out {i}", err=f"err {i}", below=i % 7 == 0)))
        tokens.append(bed.launch(call("echo")))
    for i in range(30):
        end = await bed.end(tokens[2 * i])
        extra = "by descriptor\nby a child\n" if i % 7 == 0 else ""
        assert bed.text(end, "stdout") == f"out {i}\n{extra}"
        assert bed.text(end, "stderr") == f"err {i}\n"
        assert (await bed.end(tokens[2 * i + 1])).output is None
    assert result(await bed.run(call("pid"))) == first


async def test_each_run_of_a_process_has_a_bound_of_its_own(bed: Bed) -> None:
    for bound in (5_000, 30_000, 5_000):
        end = await bed.run(call("prints", out="x" * 50_000), output_max=bound)
        assert end.output is not None
        assert end.output.truncated == 50_002 - bound
        assert bed.text(end).count("x") == bound - 2


async def test_what_it_says_of_itself(bed: Bed) -> None:
    end = await bed.run(call("says", word="cancel"))
    assert (end.outcome, end.verdict, end.error) == (Outcome.FAILED, Verdict.CANCEL, "nothing to do")
    end = await bed.run(msgspec.structs.replace(call("says", word="fail", secret="hush"), hidden=("hush",)))
    assert (end.verdict, end.error) == (Verdict.FAIL, "no ***")
    end = await bed.run(call("says", word="10m"))
    assert (end.verdict, end.delay_ms, end.error, end.output) == (Verdict.SNOOZE, 600_000, None, None)
    end = await bed.run(call("says", word="soon"))
    assert (end.verdict, end.outcome) == (None, Outcome.FAILED)
    assert end.error is not None
    assert end.error.endswith("ValueError: the delay of a snooze is not a duration; " + end.error.rpartition("; ")[2])


async def test_how_far_it_is_and_what_it_keeps(bed: Bed) -> None:
    heard: list[tuple[int, SelfReport]] = []
    bed.runner.on_self_report = lambda token, said: heard.append((token, said))
    end = await bed.run(call("tells", {"RAFTSCHED_STATE": '{"row":2}'}, rows=4))
    assert result(end) == [{"row": 2}, {"row": 4}]
    assert end.said == SelfReport(75, "row 3", b'{"row":4}')
    assert heard[0] == (1, SelfReport(0, "row 0"))
    end = await bed.run(call("echo"))
    assert end.said is None
    end = await bed.run(call("tells", rows=0))
    assert (result(end), end.said) == ([None, {"row": 0}], SelfReport(kept=b'{"row":0}'))


async def test_failures(bed: Bed) -> None:
    end = await bed.run(call("fails"))
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.startswith("Traceback (most recent call last):\n")
    assert end.error.endswith("ValueError: the reason")
    assert "raftsched/worker" not in end.error
    assert bed.text(end, "stderr") == end.error + "\n"
    cases = {
        "jobs:nothing": "module 'jobs' has no 'nothing'",
        "jobs:number": "'jobs:number' is a int, not a function",
        "jobs": "'jobs' names no function; write \"package.module:function\"",
        "absent:f": "ModuleNotFoundError: No module named 'absent'",
        "broken:f": "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
        "jobs:pid": "TypeError: pid() got an unexpected keyword argument 'x'",
    }
    for name, reason in cases.items():
        end = await bed.run(Python(name, b'{"x":1}', {}))
        assert end.outcome is Outcome.FAILED
        assert end.error is not None
        assert reason in end.error
        assert reason in bed.text(end)
    end = await bed.run(Python("jobs:echo", b"[1]", {}))
    assert end.error is not None
    assert "JSON object" in end.error


async def test_a_long_failure_says_what_was_raised(bed: Bed) -> None:
    end = await bed.run(call("fails_at_length", size=5_000))
    assert end.error is not None
    assert end.error.startswith("RuntimeError: AAAAA")
    assert end.error.endswith('in fails_at_length\n    raise RuntimeError("A" * size)')
    assert bed.text(end, "stderr").endswith("A" * 5_000 + "\n")


async def test_a_function_whose_body_would_not_run(bed: Bed) -> None:
    cases = {
        "counts": "'jobs:counts' is a generator function: a call would not run its body",
        "counts_later": "'jobs:counts_later' is an async generator function: a call would not run its body",
        "returns_work": "the function returned a generator of which nothing was read",
        "forgets_to_wait": "the function returned a coroutine that was not awaited",
    }
    for name, reason in cases.items():
        end = await bed.run(call(name))
        assert (end.outcome, end.result) == (Outcome.FAILED, None)
        assert end.error is not None
        assert reason in end.error
        assert bed.text(end, "stderr") == f"raftsched: {end.error}\n"


async def test_a_module_that_ends_the_process(bed: Bed) -> None:
    what = "the module of the function ended the process when it was imported, and nothing was called"
    for _ in range(2):
        end = await bed.run(Python("exits_at_once:f", b"{}", {}))
        assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 0, f"{what}: exit code 0")
    end = await bed.run(Python("exits_with_words:f", b"{}", {}))
    assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 1, f"{what}: exit code 1\nno config")


async def test_a_process_with_other_builtins_goes_with_the_first_failure(bed: Bed) -> None:
    for what in ("len", "print"):
        first = result(await bed.run(call("patches", what=what)))
        assert (await bed.run(call("fails"))).outcome is Outcome.FAILED
        assert result(await bed.run(call("pid"))) != first
        assert (await bed.run(call("fails"))).error.endswith("ValueError: the reason")  # type: ignore[union-attr]


async def test_exits(bed: Bed) -> None:
    assert (await bed.run(call("exits", code=0))).outcome is Outcome.SUCCEEDED
    end = await bed.run(call("exits", code=3))
    assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 3, "exit code 3")
    end = await bed.run(call("exits", code="no luck"))
    assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 1, "exit code 1\nno luck")
    end = await bed.run(call("dies", code=0))
    assert end.outcome is Outcome.FAILED
    assert end.error == "the process ended before the function returned: exit code 0"
    end = await bed.run(call("crashes"))
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 139)
    assert end.error is not None
    assert end.error.startswith("the process ended before the function returned: killed by SIGSEGV")
    assert result(await bed.run(call("echo"))) == {}


async def test_results_that_cannot_be_kept_do_not_fail_the_run(bed: Bed) -> None:
    end = await bed.run(call("large", size=9_000))
    assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
    assert end.error == "the result was dropped: 9002 bytes of JSON, the limit is 8192"
    end = await bed.run(call("deep", levels=64))
    assert (end.error, end.result) == (None, b"[" * 64 + b"]" * 64)
    end = await bed.run(call("deep", levels=65))
    assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
    assert end.error == "the result was dropped: it nests deeper than 64 levels"
    end = await bed.run(call("not_a_number"))
    assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
    assert end.error is not None
    assert end.error.startswith("the result was dropped: it holds NaN or Infinity")
    end = await bed.run(call("not_json"))
    assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
    assert end.error is not None
    assert "cannot be written as JSON" in end.error


async def test_what_a_run_leaves_behind_dies_and_the_process_is_replaced(bed: Bed, tmp_path: Path) -> None:
    token = bed.launch(call("leaves_a_process", fifo=str(tmp_path / "pids")))
    end = await bed.end(token)
    first = result(end)
    assert not os.path.exists(f"/proc/{first}")
    second = result(await bed.run(call("leaves_a_thread")))
    assert second != first
    third = result(await bed.run(call("closes_its_output")))
    assert third != second
    end = await bed.run(call("prints", out="heard"))
    assert bed.text(end, "stdout") == "heard\n"
    assert result(await bed.run(call("forks_and_returns"))) == "parent"
    assert not [pid for pid in bed.marked() if "supervisor" not in _command(pid)]


async def test_timeout_and_kill_replace_the_process(bed: Bed, tmp_path: Path) -> None:
    before = result(await bed.run(call("pid")))
    timeout_ms = patient_ms(400)  # it has to get as far as to tell
    token = bed.launch(call("stubborn", fifo=str(tmp_path / "pids")), timeout_ms=timeout_ms, grace_ms=20)
    assert await bed.pids(1) == [before]
    end = await bed.end(token)
    assert (end.outcome, end.error) == (Outcome.TIMED_OUT, f"timed out after {timeout_ms / 1000:g} s")
    token = bed.launch(call("stubborn", fifo=str(tmp_path / "pids")), grace_ms=20)
    (pid,) = await bed.pids(1)
    assert pid != before
    waiting = bed.launch(call("echo"))
    bed.runner.kill(waiting, "killed on request")
    end = await bed.end(waiting)
    assert (end.outcome, end.started_at_ms, end.error) == (Outcome.KILLED, None, "killed on request")
    bed.runner.kill(token, "enough")
    end = await bed.end(token)
    assert (end.outcome, end.error) == (Outcome.KILLED, "enough")
    assert not os.path.exists(f"/proc/{pid}")
    assert result(await bed.run(call("echo"))) == {}


async def test_long_runs_do_not_hold_up_others(tmp_path: Path) -> None:
    async with Bed(tmp_path, python_processes=4) as bed:
        for _ in range(3):
            bed.launch(call("stay", fifo=str(tmp_path / "pids")))
        assert len(set(await bed.pids(3))) == 3
        assert result(await bed.run(call("echo", x=1))) == {"x": 1}


async def test_environment_and_cwd_of_one_run_do_not_reach_the_next(bed: Bed) -> None:
    names = ["A", "RAFTSCHED_ATTEMPT"]
    end = await bed.run(call("env", {"A": "1", "RAFTSCHED_ATTEMPT": "2"}, names=names))
    assert result(end) == {"A": "1", "RAFTSCHED_ATTEMPT": "2"}
    end = await bed.run(call("env", {"RAFTSCHED_ATTEMPT": "3"}, names=names))
    assert result(end) == {"A": None, "RAFTSCHED_ATTEMPT": "3"}
    assert result(await bed.run(call("where", cwd=str(FUNCTIONS)))) == str(FUNCTIONS)
    assert result(await bed.run(call("where"))) == os.getcwd()
    end = await bed.run(call("where", cwd="/no/such/place"))
    assert end.error == "cannot work in cwd '/no/such/place': No such file or directory"


async def test_what_a_function_does_to_its_environment_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run in the same process belongs to somebody else."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.delenv("HOME", raising=False)
    async with Bed(tmp_path, python_processes=1) as bed:
        before = result(await bed.run(call("whole_env")))
        assert before["TZ"] == "Asia/Tokyo"
        assert "HOME" not in before
        given = {"TZ": "UTC", "HOME": "/elsewhere"}
        await bed.run(call("changes_env", given, takes=["PATH", "TZ"], gives={"PASSWORD": "x", "HOME": "/y"}))
        assert result(await bed.run(call("whole_env"))) == before


@pytest.mark.parametrize("what", ["handler", "ignored", "alarm", "limit"])
async def test_a_function_that_changes_its_process_has_it_to_itself(bed: Bed, what: str) -> None:
    first = result(await bed.run(call("pid")))
    assert result(await bed.run(call("changes_process", what=what))) == first
    assert result(await bed.run(call("pid"))) != first


async def test_a_functions_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NODES_OWN.items():
        monkeypatch.setenv(name, value)
    async with Bed(tmp_path, python_processes=1) as bed:
        found = result(await bed.run(call("whole_env", {"A": "b"})))
        assert found.pop("A") == "b"
        assert not found.keys() & NODES_OWN.keys()
        assert found.keys() <= BASE_ENVIRONMENT | {k for k in found if k.startswith("LC_")} | {MARK, VARIABLE}


async def test_a_function_sees_the_variables_that_its_node_passes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in NODES_OWN.items():
        monkeypatch.setenv(name, value)
    async with Bed(tmp_path, python_processes=1, env_pass=("CLUSTER_SECRET", "NOT_SET")) as bed:
        found = result(await bed.run(call("whole_env", {"CLUSTER_SECRET": "of the job"})))
        assert found["CLUSTER_SECRET"] == "of the job"
        found = result(await bed.run(call("whole_env")))
        assert found["CLUSTER_SECRET"] == NODES_OWN["CLUSTER_SECRET"]
        assert "NOT_SET" not in found
        assert not found.keys() & (NODES_OWN.keys() - {"CLUSTER_SECRET"})


async def test_modules_that_come_first_are_imported_before_that_of_the_function(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "site_of_all.py").write_text("import builtins\nbuiltins.set_up_for_b = 'set up'\n")
    (code / "wants_it.py").write_text("FOUND = set_up_for_b\ndef f(): return FOUND\n")
    async with Bed(tmp_path, python_processes=1, pythonpath=[code], python_first=("site_of_all",)) as bed:
        assert result(await bed.run(Python("wants_it:f", b"{}", {}))) == "set up"
    async with Bed(tmp_path / "b", python_processes=1, pythonpath=[code], python_first=("not_there_b",)) as bed:
        end = await bed.run(Python("wants_it:f", b"{}", {}))
        assert "not_there_b" in (end.error or "")


async def test_changed_code_is_loaded_again(tmp_path: Path) -> None:
    module = tmp_path / "code" / "changing.py"
    module.parent.mkdir()
    module.write_text("def f(): return 1\n")
    async with Bed(tmp_path, python_processes=1, pythonpath=[module.parent]) as bed:
        assert result(await bed.run(Python("changing:f", b"{}", {}))) == 1
        module.write_text("def f(): return 22\n")
        assert result(await bed.run(Python("changing:f", b"{}", {}))) == 22


async def test_thousands_of_short_runs(tmp_path: Path) -> None:
    async with Bed(tmp_path, python_processes=2) as bed:
        tokens = [bed.launch(call("echo", i=i)) for i in range(2_000)]
        for i, token in enumerate(tokens):
            assert result(await bed.end(token)) == {"i": i}
        # Those that were under way when the machine stood still for a moment are reported as begun, too.
        assert len(bed.started) < 200, "short runs are reported once, as ended"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return "supervisor"
