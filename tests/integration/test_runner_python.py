"""python runs in warm processes, through the real supervisor."""

from __future__ import annotations

import asyncio
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
from tests.integration.runner_bed import MARK, NODES_OWN, Bed
from tests.support.patience import patient_ms

HERE = Path(__file__).parent / "runner_functions"


def call(name: str, env: dict[str, str] | None = None, cwd: str | None = None, **params: Any) -> Python:
    return Python(f"jobs:{name}", json.dumps(params).encode(), dict(env or {}), cwd)


def result(end: RunEnd) -> Any:
    assert end.outcome is Outcome.SUCCEEDED, end
    return json.loads(end.result) if end.result is not None else None


def bed(path: Path, processes: int = 1, **options: Any) -> Bed:
    return Bed(path, python_processes=processes, pythonpath=[HERE], **options)


def test_params_and_result(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            assert result(await b.run(call("echo", a=1, b=[None, "ä"]))) == {"a": 1, "b": [None, "ä"]}
            assert result(await b.run(call("later", value=5))) == 5
            assert result(await b.run(call("prints"))) is None

    asyncio.run(body())


def test_the_process_stays_and_output_goes_to_the_run_that_made_it(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            first = result(await b.run(call("pid")))
            tokens = []
            for i in range(30):
                tokens.append(b.launch(call("prints", out=f"out {i}", err=f"err {i}", below=i % 7 == 0)))
                tokens.append(b.launch(call("echo")))
            for i in range(30):
                end = await b.end(tokens[2 * i])
                extra = "by descriptor\nby a child\n" if i % 7 == 0 else ""
                assert b.text(end, "stdout") == f"out {i}\n{extra}"
                assert b.text(end, "stderr") == f"err {i}\n"
                assert (await b.end(tokens[2 * i + 1])).output is None
            assert result(await b.run(call("pid"))) == first

    asyncio.run(body())


def test_each_run_of_a_process_has_a_bound_of_its_own(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            for bound in (5_000, 30_000, 5_000):
                end = await b.run(call("prints", out="x" * 50_000), output_max=bound)
                assert end.output is not None
                assert end.output.truncated == 50_002 - bound
                assert b.text(end).count("x") == bound - 2

    asyncio.run(body())


def test_what_it_says_of_itself(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            end = await b.run(call("says", word="cancel"))
            assert (end.outcome, end.verdict, end.error) == (Outcome.FAILED, Verdict.CANCEL, "nothing to do")
            end = await b.run(msgspec.structs.replace(call("says", word="fail", secret="hush"), hidden=("hush",)))
            assert (end.verdict, end.error) == (Verdict.FAIL, "no ***")
            end = await b.run(call("says", word="10m"))
            assert (end.verdict, end.delay_ms, end.error, end.output) == (Verdict.SNOOZE, 600_000, None, None)
            end = await b.run(call("says", word="soon"))
            assert (end.verdict, end.outcome) == (None, Outcome.FAILED)
            assert end.error is not None
            assert end.error.endswith(
                "ValueError: the delay of a snooze is not a duration; " + end.error.rpartition("; ")[2]
            )

    asyncio.run(body())


def test_how_far_it_is_and_what_it_keeps(tmp_path: Path) -> None:
    heard: list[tuple[int, SelfReport]] = []

    async def body() -> None:
        async with bed(tmp_path) as b:
            b.runner.on_self_report = lambda token, said: heard.append((token, said))
            end = await b.run(call("tells", {"RAFTSCHED_STATE": '{"row":2}'}, rows=4))
            assert result(end) == [{"row": 2}, {"row": 4}]
            assert end.said == SelfReport(75, "row 3", b'{"row":4}')
            assert heard[0] == (1, SelfReport(0, "row 0"))
            end = await b.run(call("echo"))
            assert end.said is None
            end = await b.run(call("tells", rows=0))
            assert (result(end), end.said) == ([None, {"row": 0}], SelfReport(kept=b'{"row":0}'))

    asyncio.run(body())


def test_failures(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            end = await b.run(call("fails"))
            assert end.outcome is Outcome.FAILED
            assert end.error is not None
            assert end.error.startswith("Traceback (most recent call last):\n")
            assert end.error.endswith("ValueError: the reason")
            assert "raftsched/worker" not in end.error
            assert b.text(end, "stderr") == end.error + "\n"
            cases = {
                "jobs:nothing": "module 'jobs' has no 'nothing'",
                "jobs:number": "'jobs:number' is a int, not a function",
                "jobs": "'jobs' names no function; write \"package.module:function\"",
                "absent:f": "ModuleNotFoundError: No module named 'absent'",
                "broken:f": "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
                "jobs:pid": "TypeError: pid() got an unexpected keyword argument 'x'",
            }
            for name, reason in cases.items():
                end = await b.run(Python(name, b'{"x":1}', {}))
                assert end.outcome is Outcome.FAILED
                assert end.error is not None
                assert reason in end.error
                assert reason in b.text(end)
            end = await b.run(Python("jobs:echo", b"[1]", {}))
            assert end.error is not None
            assert "JSON object" in end.error

    asyncio.run(body())


def test_a_long_failure_says_what_was_raised(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            end = await b.run(call("fails_at_length", size=5_000))
            assert end.error is not None
            assert end.error.startswith("RuntimeError: AAAAA")
            assert end.error.endswith('in fails_at_length\n    raise RuntimeError("A" * size)')
            assert b.text(end, "stderr").endswith("A" * 5_000 + "\n")

    asyncio.run(body())


def test_a_function_whose_body_would_not_run(tmp_path: Path) -> None:
    cases = {
        "counts": "'jobs:counts' is a generator function: a call would not run its body",
        "counts_later": "'jobs:counts_later' is an async generator function: a call would not run its body",
        "returns_work": "the function returned a generator of which nothing was read",
        "forgets_to_wait": "the function returned a coroutine that was not awaited",
    }

    async def body() -> None:
        async with bed(tmp_path) as b:
            for name, reason in cases.items():
                end = await b.run(call(name))
                assert (end.outcome, end.result) == (Outcome.FAILED, None)
                assert end.error is not None
                assert reason in end.error
                assert b.text(end, "stderr") == f"raftsched: {end.error}\n"

    asyncio.run(body())


def test_a_module_that_ends_the_process(tmp_path: Path) -> None:
    what = "the module of the function ended the process when it was imported, and nothing was called"

    async def body() -> None:
        async with bed(tmp_path) as b:
            for _ in range(2):
                end = await b.run(Python("exits_at_once:f", b"{}", {}))
                assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 0, f"{what}: exit code 0")
            end = await b.run(Python("exits_with_words:f", b"{}", {}))
            assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 1, f"{what}: exit code 1\nno config")

    asyncio.run(body())


def test_a_process_with_other_builtins_goes_with_the_first_failure(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            for what in ("len", "print"):
                first = result(await b.run(call("patches", what=what)))
                assert (await b.run(call("fails"))).outcome is Outcome.FAILED
                assert result(await b.run(call("pid"))) != first
                assert (await b.run(call("fails"))).error.endswith("ValueError: the reason")  # type: ignore[union-attr]

    asyncio.run(body())


def test_exits(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            assert (await b.run(call("exits", code=0))).outcome is Outcome.SUCCEEDED
            end = await b.run(call("exits", code=3))
            assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 3, "exit code 3")
            end = await b.run(call("exits", code="no luck"))
            assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 1, "exit code 1\nno luck")
            end = await b.run(call("dies", code=0))
            assert end.outcome is Outcome.FAILED
            assert end.error == "the process ended before the function returned: exit code 0"
            end = await b.run(call("crashes"))
            assert (end.outcome, end.exit_code) == (Outcome.FAILED, 139)
            assert end.error is not None
            assert end.error.startswith("the process ended before the function returned: killed by SIGSEGV")
            assert result(await b.run(call("echo"))) == {}

    asyncio.run(body())


def test_results_that_cannot_be_kept_do_not_fail_the_run(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            end = await b.run(call("large", size=9_000))
            assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
            assert end.error == "the result was dropped: 9002 bytes of JSON, the limit is 8192"
            end = await b.run(call("deep", levels=64))
            assert (end.error, end.result) == (None, b"[" * 64 + b"]" * 64)
            end = await b.run(call("deep", levels=65))
            assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
            assert end.error == "the result was dropped: it nests deeper than 64 levels"
            end = await b.run(call("not_a_number"))
            assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
            assert end.error is not None
            assert end.error.startswith("the result was dropped: it holds NaN or Infinity")
            end = await b.run(call("not_json"))
            assert (end.outcome, end.result) == (Outcome.SUCCEEDED, None)
            assert end.error is not None
            assert "cannot be written as JSON" in end.error

    asyncio.run(body())


def test_what_a_run_leaves_behind_dies_and_the_process_is_replaced(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            token = b.launch(call("leaves_a_process", fifo=str(tmp_path / "pids")))
            end = await b.end(token)
            first = result(end)
            assert not os.path.exists(f"/proc/{first}")
            second = result(await b.run(call("leaves_a_thread")))
            assert second != first
            third = result(await b.run(call("closes_its_output")))
            assert third != second
            end = await b.run(call("prints", out="heard"))
            assert b.text(end, "stdout") == "heard\n"
            assert result(await b.run(call("forks_and_returns"))) == "parent"
            assert not [pid for pid in b.marked() if "supervisor" not in _command(pid)]

    asyncio.run(body())


def test_timeout_and_kill_replace_the_process(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            before = result(await b.run(call("pid")))
            timeout_ms = patient_ms(400)  # it has to get as far as to tell
            token = b.launch(call("stubborn", fifo=str(tmp_path / "pids")), timeout_ms=timeout_ms, grace_ms=20)
            assert await b.pids(1) == [before]
            end = await b.end(token)
            assert (end.outcome, end.error) == (Outcome.TIMED_OUT, f"timed out after {timeout_ms / 1000:g} s")
            token = b.launch(call("stubborn", fifo=str(tmp_path / "pids")), grace_ms=20)
            (pid,) = await b.pids(1)
            assert pid != before
            waiting = b.launch(call("echo"))
            b.runner.kill(waiting, "killed on request")
            end = await b.end(waiting)
            assert (end.outcome, end.started_at_ms, end.error) == (Outcome.KILLED, None, "killed on request")
            b.runner.kill(token, "enough")
            end = await b.end(token)
            assert (end.outcome, end.error) == (Outcome.KILLED, "enough")
            assert not os.path.exists(f"/proc/{pid}")
            assert result(await b.run(call("echo"))) == {}

    asyncio.run(body())


def test_long_runs_do_not_hold_up_others(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path, processes=4) as b:
            for _ in range(3):
                b.launch(call("stay", fifo=str(tmp_path / "pids")))
            assert len(set(await b.pids(3))) == 3
            assert result(await b.run(call("echo", x=1))) == {"x": 1}

    asyncio.run(body())


def test_environment_and_cwd_of_one_run_do_not_reach_the_next(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            names = ["A", "RAFTSCHED_ATTEMPT"]
            end = await b.run(call("env", {"A": "1", "RAFTSCHED_ATTEMPT": "2"}, names=names))
            assert result(end) == {"A": "1", "RAFTSCHED_ATTEMPT": "2"}
            end = await b.run(call("env", {"RAFTSCHED_ATTEMPT": "3"}, names=names))
            assert result(end) == {"A": None, "RAFTSCHED_ATTEMPT": "3"}
            assert result(await b.run(call("where", cwd=str(HERE)))) == str(HERE)
            assert result(await b.run(call("where"))) == os.getcwd()
            end = await b.run(call("where", cwd="/no/such/place"))
            assert end.error == "cannot work in cwd '/no/such/place': No such file or directory"

    asyncio.run(body())


def test_what_a_function_does_to_its_environment_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run in the same process belongs to somebody else."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.delenv("HOME", raising=False)

    async def body() -> None:
        async with bed(tmp_path) as b:
            before = result(await b.run(call("whole_env")))
            assert before["TZ"] == "Asia/Tokyo"
            assert "HOME" not in before
            given = {"TZ": "UTC", "HOME": "/elsewhere"}
            await b.run(call("changes_env", given, takes=["PATH", "TZ"], gives={"PASSWORD": "x", "HOME": "/y"}))
            assert result(await b.run(call("whole_env"))) == before

    asyncio.run(body())


@pytest.mark.parametrize("what", ["handler", "ignored", "alarm", "limit"])
def test_a_function_that_changes_its_process_has_it_to_itself(tmp_path: Path, what: str) -> None:
    async def body() -> None:
        async with bed(tmp_path) as b:
            first = result(await b.run(call("pid")))
            assert result(await b.run(call("changes_process", what=what))) == first
            assert result(await b.run(call("pid"))) != first

    asyncio.run(body())


def test_a_functions_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NODES_OWN.items():
        monkeypatch.setenv(name, value)

    async def body() -> None:
        async with bed(tmp_path) as b:
            found = result(await b.run(call("whole_env", {"A": "b"})))
            assert found.pop("A") == "b"
            assert not found.keys() & NODES_OWN.keys()
            assert found.keys() <= BASE_ENVIRONMENT | {k for k in found if k.startswith("LC_")} | {MARK, VARIABLE}

    asyncio.run(body())


def test_changed_code_is_loaded_again(tmp_path: Path) -> None:
    module = tmp_path / "code" / "changing.py"
    module.parent.mkdir()
    module.write_text("def f(): return 1\n")

    async def body() -> None:
        async with Bed(tmp_path, python_processes=1, pythonpath=[module.parent]) as b:
            assert result(await b.run(Python("changing:f", b"{}", {}))) == 1
            module.write_text("def f(): return 22\n")
            assert result(await b.run(Python("changing:f", b"{}", {}))) == 22

    asyncio.run(body())


def test_thousands_of_short_runs(tmp_path: Path) -> None:
    async def body() -> None:
        async with bed(tmp_path, processes=2) as b:
            tokens = [b.launch(call("echo", i=i)) for i in range(2_000)]
            for i, token in enumerate(tokens):
                assert result(await b.end(token)) == {"i": i}
            # Those that were under way when the machine stood still for a moment are reported as begun, too.
            assert len(b.started) < 200, "short runs are reported once, as ended"

    asyncio.run(body())


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return "supervisor"
