"""One process takes several runs of a coroutine function at a time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome, Verdict
from raftsched.worker.processes.pool import CUT_FOR
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.processes.service_ends import NOT_ALONE
from raftsched.worker.processes.wire import Limits, Python
from tests.integration.runner.bed import Bed, death
from tests.integration.runner.test_python import result
from tests.support.patience import until

MANY = 50


def call(function: str, concurrency: int = MANY, hidden: tuple[str, ...] = (), **params: Any) -> Python:
    env = {"NAME": str(params.get("name", ""))}
    return Python(f"together:{function}", json.dumps(params).encode(), env, hidden=hidden, concurrency=concurrency)


def either(bed: Bed, what: str, **params: Any) -> Python:
    return call("either", what=what, fifo=str(bed.path / "pids"), **params)


async def ends(bed: Bed, tokens: list[int]) -> list[RunEnd]:
    return await asyncio.gather(*map(bed.end, tokens))


async def test_fifty_runs_are_in_one_process_with_outputs_of_their_own(tmp_path: Path) -> None:
    said: dict[int, SelfReport] = {}
    async with Bed(tmp_path) as bed:
        bed.runner.on_self_report = said.__setitem__
        tokens = [bed.launch(call("meets", count=MANY, name=f"run {i}")) for i in range(MANY)]
        found = await ends(bed, tokens)
        assert {result(end)[0] for end in found} == {result(found[0])[0]}
        for i, end in enumerate(found):
            assert result(end)[1:] == [f"run {i}", f"run {i}"]
            assert bed.text(end, "stdout") == f"run {i} came\nrun {i} in a thread\n"
            assert bed.text(end, "stderr") == f"run {i} went\n"
            assert said[tokens[i]] == end.said == SelfReport(50, f"run {i}")


async def test_no_more_than_it_allows_are_in_a_process(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        fifo = str(tmp_path / "pids")
        tokens = [bed.launch(call("waits", 2, fifo=fifo)) for _ in range(3)]
        pids = await bed.pids(3)
        assert len(set(pids)) == 2
        for token in tokens:
            bed.runner.kill(token)
        assert {end.outcome for end in await ends(bed, tokens)} == {Outcome.KILLED}


async def test_namespaces_and_what_takes_a_process_for_itself_are_apart(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        there = either(bed, "prints")
        first = result(await bed.run(there))
        assert result(await bed.run(there)) == first
        assert result(await bed.run(there, namespace="other")) != first
        assert result(await bed.run(Python(**{**_fields(there), "cwd": str(tmp_path)}))) != first
        assert result(await bed.run(Python(**{**_fields(there), "limits": Limits(open_files=64)}))) != first
        assert result(await bed.run(Python(**{**_fields(there), "fresh": True}))) != first


def _fields(task: Python) -> dict[str, Any]:
    return {name: getattr(task, name) for name in Python.__struct_fields__}


async def test_what_is_asked_of_one_is_not_asked_of_the_others(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        killed, stays = (bed.launch(either(bed, "waits")) for _ in range(2))
        late = bed.launch(either(bed, "waits"), timeout_ms=300)
        pid, *_ = await bed.pids(3)
        bed.runner.kill(killed, "not wanted")
        end = await bed.end(killed)
        assert (end.outcome, end.error) == (Outcome.KILLED, "not wanted")
        end = await bed.end(late)
        assert (end.outcome, end.error) == (Outcome.TIMED_OUT, "timed out after 0.3 s")
        assert stays not in bed.ends
        assert result(await bed.run(either(bed, "prints"))) == pid
        bed.runner.kill(stays)
        await bed.end(stays)


async def test_one_that_is_killed_before_it_began_leaves_its_process_to_the_others(tmp_path: Path) -> None:
    """The run and the wish to end it travel together."""
    async with Bed(tmp_path) as bed:
        stays = bed.launch(either(bed, "waits"))
        (pid,) = await bed.pids(1)
        killed = bed.launch(either(bed, "prints"), grace_ms=200)
        bed.runner.kill(killed, "not wanted")
        end = await bed.end(killed)
        assert (end.outcome, end.error) == (Outcome.KILLED, "not wanted")
        assert result(await bed.run(either(bed, "prints"))) == pid
        assert stays not in bed.ends
        bed.runner.kill(stays)
        await bed.end(stays)


async def test_a_grace_of_nothing_leaves_time_to_be_cancelled(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        stays = bed.launch(either(bed, "waits"))
        killed = bed.launch(either(bed, "waits"), grace_ms=0)
        pid, _ = await bed.pids(2)
        bed.runner.kill(killed, "not wanted")
        end = await bed.end(killed)
        assert (end.outcome, end.error) == (Outcome.KILLED, "not wanted")
        assert result(await bed.run(either(bed, "prints"))) == pid
        assert stays not in bed.ends
        bed.runner.kill(stays)
        await bed.end(stays)


async def test_one_that_does_not_end_takes_its_process_with_it(tmp_path: Path) -> None:
    for what in ("holds on", "blocks"):
        (tmp_path / what).mkdir()
        async with Bed(tmp_path / what) as bed:
            other = bed.launch(either(bed, "waits"))
            await bed.pids(1)
            late = bed.launch(either(bed, what), timeout_ms=200, grace_ms=100)
            await bed.pids(1)
            end = await bed.end(late)
            assert (end.outcome, end.error) == (Outcome.TIMED_OUT, "timed out after 0.2 s")
            assert bed.text(end) == ("not me\n" if what == "holds on" else "")
            end = await bed.end(other)
            assert (end.outcome, end.alone, end.error) == (Outcome.LOST, True, f"{NOT_ALONE}: {CUT_FOR}")
            assert await bed.run(either(bed, "prints", text="again"))


async def test_a_crash_is_no_failure_of_those_that_were_in_there_together(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        waiting = [bed.launch(either(bed, "waits")) for _ in range(5)]
        await bed.pids(5)
        crashed = bed.launch(either(bed, "crashes"))
        for end in await ends(bed, [*waiting, crashed]):
            assert (end.outcome, end.alone, end.error) == (Outcome.LOST, True, f"{NOT_ALONE}: exit code 9")
        assert bed.text(bed.ends[crashed]) == "last words\n"
        alone = await bed.run(either(bed, "crashes"))
        assert alone.outcome is Outcome.FAILED
        assert alone.exit_code == 9
        assert alone.error == "the process ended before the function returned: exit code 9\nlast words"


async def test_a_killed_keeper_loses_all_of_its_runs(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        tokens = [bed.launch(either(bed, "waits")) for _ in range(5)]
        pid = (await bed.pids(5))[0]
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)
        assert {(end.outcome, end.alone) for end in await ends(bed, tokens)} == {(Outcome.LOST, True)}
        await death(pid)


async def test_the_end_of_the_lease_ends_all(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        tokens = [bed.launch(either(bed, what)) for what in ("waits", "holds on", "blocks")]
        pids = await bed.pids(3)
        bed.end_lease()
        await death(*pids)
        for token in tokens:
            await bed.lost(token)


async def test_a_node_that_stops_hands_them_back(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        tokens = [bed.launch(either(bed, "waits")) for _ in range(3)]
        await bed.pids(3)
        bed.runner.wind_down(100)
        for end in await ends(bed, tokens):
            assert (end.outcome, end.error) == (Outcome.KILLED, "Its node stopped.")


async def test_outcomes_are_each_runs_own(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        stays = bed.launch(either(bed, "waits"))
        await bed.pids(1)
        raised = await bed.run(either(bed, "raises", text="no such thing"))
        assert raised.outcome is Outcome.FAILED
        assert (raised.error or "").endswith("LookupError: no such thing")
        assert "LookupError: no such thing" in bed.text(raised, "stderr")
        exited = await bed.run(either(bed, "exits"))
        assert (exited.outcome, exited.exit_code) == (Outcome.FAILED, 3)
        exited = await bed.run(either(bed, "a task exits"))
        assert (exited.outcome, exited.exit_code) == (Outcome.FAILED, 4)
        failed = await bed.run(either(bed, "fails", text="never"))
        assert (failed.verdict, failed.error) == (Verdict.FAIL, "never")
        wrong = await bed.run(Python("together:either", b"[]", {}, concurrency=MANY))
        assert "keyword arguments" in (wrong.error or "")
        missing = await bed.run(call("not_there"))
        assert missing.error == "module 'together' has no 'not_there'"
        assert stays not in bed.ends
        bed.runner.kill(stays)
        await bed.end(stays)


async def test_a_task_that_a_run_left_ends_with_it(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        stays = bed.launch(either(bed, "waits"))
        await bed.pids(1)
        await bed.run(either(bed, "begins", path=str(tmp_path / "left")))
        assert (tmp_path / "left").read_text() == "ended"
        bed.runner.kill(stays)
        await bed.end(stays)


async def test_output_of_no_run_is_not_anothers(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        assert bed.text(await bed.run(either(bed, "prints", text="mine"))) == "mine\n"


async def test_a_flood_is_bounded_and_its_neighbours_go_on(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        stays = bed.launch(either(bed, "waits"))
        await bed.pids(1)
        flood = bed.launch(either(bed, "floods"), output_max=10_000)
        small = await bed.run(either(bed, "prints", text="small"))
        assert bed.text(small) == "small\n"
        text = bed.text(await bed.end(flood))
        assert "bytes of output left out" in text
        assert len(text) < 11_000
        bed.runner.kill(stays)
        await bed.end(stays)


async def test_values_of_one_run_are_hidden_in_its_output(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        secret, other = "s3cret-of-one", "s3cret-of-two"
        params = {"what": "prints", "text": f"{secret} {other}"}
        tasks = [call("either", hidden=(value,), **params) for value in (secret, other)]
        texts = [bed.text(end) for end in await ends(bed, [bed.launch(task) for task in tasks])]
        assert [secret in text for text in texts] == [False, True]
        assert [other in text for text in texts] == [True, False]


async def test_a_child_that_a_run_left_ends_the_process_once_it_is_idle(tmp_path: Path) -> None:
    async with Bed(tmp_path) as bed:
        first = result(await bed.run(either(bed, "forks")))
        await death(first)
        assert result(await bed.run(either(bed, "prints"))) != first


async def test_a_child_that_comes_back_from_its_run_goes_on_with_none_of_the_others(tmp_path: Path) -> None:
    written, over = tmp_path / "written", tmp_path / "over"
    async with Bed(tmp_path) as bed:
        writes = [bed.launch(either(bed, "writes", path=str(written), text=str(over))) for _ in range(5)]
        await until(written.exists)
        pids = {result(await bed.run(either(bed, "forks and comes back"))) for _ in range(3)}
        over.touch()
        assert {result(await bed.end(token)) for token in writes} == pids
        assert {int(line) for line in written.read_text().splitlines()} == pids
        assert len(pids) == 1


async def test_a_process_ends_after_so_many_runs(tmp_path: Path) -> None:
    async with Bed(tmp_path, python_runs_max=5) as bed:
        stays = bed.launch(either(bed, "waits"))
        (first,) = await bed.pids(1)
        found = [result(await bed.run(either(bed, "prints"))) for _ in range(7)]
        assert found[:5] == [first] * 5
        assert first not in found[5:]
        assert stays not in bed.ends
        bed.runner.kill(stays)
        await bed.end(stays)
        await death(first)


async def test_a_changed_module_is_loaded_anew_for_the_next_run(tmp_path: Path) -> None:
    text = (
        "import asyncio, os\nasync def waits(fifo):\n    fd = os.open(fifo, os.O_WRONLY)\n    os.write(fd, b'1\\n')\n"
    )
    text += "    await asyncio.Event().wait()\n"
    (tmp_path / "work").mkdir()
    module = tmp_path / "work" / "changing.py"
    module.write_text(text + "async def says(**_):\n    return 'old'\n")
    async with Bed(tmp_path, pythonpath=(tmp_path / "work",)) as bed:

        def says() -> Python:
            return Python("changing:says", b"{}", {}, concurrency=9)

        assert result(await bed.run(says())) == "old"
        module.write_text(text + "async def says(**_):\n    return 'new one'\n")
        assert result(await bed.run(says())) == "new one"


async def test_ends_are_told_once_however_the_process_dies(tmp_path: Path) -> None:
    """Bed says so when one is told twice."""
    async with Bed(tmp_path) as bed:
        for _ in range(3):
            tokens = [bed.launch(either(bed, "prints", text="out")) for _ in range(20)]
            tokens += [bed.launch(either(bed, "waits")) for _ in range(5)]
            pid = (await bed.pids(5))[0]
            os.kill(pid, signal.SIGKILL)
            await until(lambda given=tokens: all(token in bed.ends for token in given))
            assert {bed.ends[token].outcome for token in tokens[20:]} == {Outcome.LOST}
