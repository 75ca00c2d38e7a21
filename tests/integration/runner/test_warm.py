"""A warm python process is to the next run what a new one would be."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.model import Outcome
from raftsched.worker.executors.remains import KEPT_MAX
from raftsched.worker.processes.wire import Python
from tests.integration.runner.bed import Bed
from tests.integration.runner.test_python import FUNCTIONS, result

PUT_BACK = [
    *("directory that is gone", "zone", "zone, taken back", "zone past the environment", "environ", "stdout", "stderr"),
    *(
        "stdout wrapped",
        "stdout other",
        "stdin",
        "path",
        "recursion",
        "digits",
        "timeout",
        "decimal",
        "locale",
        "garbage",
        "hooks",
    ),
    *("umask", "variable", "loop"),
]
ENDS_IT = [
    *("posix timer", "watchdog", "handler in C", "mask", "descriptor", "socket", "lock", "stdin", "no subreaper"),
    *("niceness", "processors", "thread", "memory"),
]


def call(name: str, env: dict[str, str] | None = None, fresh: bool = False, **params: Any) -> Python:
    return Python(f"leftovers:{name}", json.dumps(params).encode(), dict(env or {}), fresh=fresh)


@pytest.mark.parametrize("what", PUT_BACK)
async def test_it_is_put_back(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    async with Bed(tmp_path, python_processes=1) as bed:
        before = result(await bed.run(call("look")))
        pid = result(await bed.run(call("changes", what=what)))
        assert result(await bed.run(call("look"))) == before
        end = await bed.run(call("prints", text="heard"))
        assert bed.text(end) == "heard\n"
        assert result(await bed.run(call("changes", what="nothing"))) == pid


@pytest.mark.parametrize("what", ENDS_IT)
async def test_what_cannot_be_put_back_ends_the_process(tmp_path: Path, what: str) -> None:
    if what == "processors" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is only one")
    async with Bed(tmp_path, python_processes=1, python_memory_max=48 << 20) as bed:
        first = result(await bed.run(call("changes", what="nothing")))
        leaves = call("leaves", what=what, path=str(tmp_path / "lock"))
        assert result(await bed.run(leaves)) == first, "its own outcome is its own"
        assert not os.path.exists(f"/proc/{first}")
        again = result(await bed.run(leaves))
        assert again != first
        assert result(await bed.run(call("changes", what="nothing"))) != again


async def test_connections_and_files_that_a_function_keeps_stay(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with Bed(tmp_path, python_processes=1) as bed:
            first = result(await bed.run(call("changes", what="nothing")))
            for what in ("connection", "file"):
                keeps = call("keeps", what=what, path=str(tmp_path / "file"), port=server.getsockname()[1])
                assert result(await bed.run(keeps)) == first
                assert result(await bed.run(call("changes", what="nothing"))) == first


@pytest.mark.parametrize("what", ["then locks it", "then a lock in its place", "then fails", "file"])
async def test_what_is_kept_ends_with_the_process_where_others_may_wait_for_it(
    bed: Bed, tmp_path: Path, what: str
) -> None:
    """`file`: far too many of them."""
    path = str(tmp_path / "file")
    first = result(await bed.run(call("keeps", what="file", path=path)))
    assert result(await bed.run(call("changes", what="nothing"))) == first
    end = await bed.run(call("keeps", what=what, path=path, count=KEPT_MAX))
    assert (end.outcome is Outcome.FAILED) == (what == "then fails")
    assert result(await bed.run(call("changes", what="nothing"))) != first


async def test_what_goes_by_itself_does_not_end_the_process(bed: Bed) -> None:
    first = result(await bed.run(call("ties_a_knot")))
    for _ in range(5):
        assert result(await bed.run(call("ties_a_knot"))) == first
        assert result(await bed.run(call("waits_for_its_threads"))) == first


async def test_what_a_module_starts_while_it_is_imported_stays(bed: Bed) -> None:
    pid, digits, depth = result(await bed.run(Python("starting:pid", b"{}", {})))
    assert (digits, depth) == (5, 2_000)
    seen = result(await bed.run(call("look")))
    assert (seen["prec"], seen["recursion"]) == (28, 1_000), "but only for its own functions"
    assert result(await bed.run(Python("starting:spoils", b"{}", {}))) == pid
    assert result(await bed.run(Python("starting:pid", b"{}", {}))) == [pid, 5, 2_000]


async def test_output_of_c_libraries_belongs_to_the_run_that_made_it(bed: Bed) -> None:
    for text in ("one", "two\n"):
        assert bed.text(await bed.run(call("prints_in_c", text=text)), "stdout") == text


async def test_the_zone_of_a_job_is_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    async with Bed(tmp_path, python_processes=1) as bed:
        assert result(await bed.run(call("zone"))) == 0
        assert result(await bed.run(call("zone", {"TZ": "Asia/Tokyo"}))) == 9
        assert result(await bed.run(call("zone", {"TZ": "Etc/GMT-3"}))) == 3
        assert result(await bed.run(call("zone"))) == 0


async def test_random_numbers_are_not_those_of_the_run_before(bed: Bed) -> None:
    known = random.Random(1)
    assert result(await bed.run(call("seeds"))) == known.random()
    assert result(await bed.run(call("draws"))) != known.random()


def test_runs_go_on_where_the_node_was_started_in_a_directory_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> None:
        async with Bed(tmp_path, python_processes=1) as bed:
            assert result(await bed.run(Python("jobs:where", b"{}", {}))) == str(there)
            shutil.rmtree(there)
            assert result(await bed.run(Python("jobs:where", b"{}", {}))) == "/"
            await bed.run(call("leaves", what="descriptor"))
            assert result(await bed.run(Python("jobs:where", b"{}", {}))) == "/"

    there = tmp_path / "release-1"
    there.mkdir()
    monkeypatch.chdir(there)
    asyncio.run(body())


@pytest.mark.parametrize(
    ("what", "code", "error"),
    [
        ("object", 1, "exit code 1\n<Silent object, str() failed>"),
        ("surrogate", 1, "exit code 1\nbad \\udcff name"),
        ("long", 1, "exit code 1\n" + "x" * 1_012),
        ("huge", 255, "exit code 255"),
        (-1, 255, "exit code 255"),
        (True, 1, "exit code 1"),
    ],
)
async def test_exits_are_said_as_python_says_them(bed: Bed, what: Any, code: int, error: str) -> None:
    end = await bed.run(call("exits", what=what))
    assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, code, error)
    assert "raftsched" not in bed.text(end)
    assert bed.text(end, "stderr").strip() == ("x" * 100_000 if what == "long" else error.partition("\n")[2])
    assert (await bed.run(call("exits", what=256))).outcome is Outcome.SUCCEEDED


async def test_a_function_may_close_all_descriptors(bed: Bed) -> None:
    end = await bed.run(call("closes_descriptors"))
    assert result(end) == "done"
    assert bed.text(end) == "said before\n"
    assert result(await bed.run(call("changes", what="nothing")))


async def test_what_cannot_be_described_or_kept(bed: Bed) -> None:
    end = await bed.run(call("odd_number"))
    assert end.outcome is Outcome.SUCCEEDED
    assert end.error is not None
    assert end.error.startswith("the result was dropped")
    end = await bed.run(call("raises_what_cannot_be_shown"))
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.endswith("Hidden: <exception str() failed>")


async def test_a_changed_module_that_a_function_uses_is_loaded_again(tmp_path: Path) -> None:
    code = tmp_path / "code"
    shutil.copytree(FUNCTIONS, code)
    async with Bed(tmp_path, python_processes=1, pythonpath=[code]) as bed:
        value, pid = result(await bed.run(call("helped")))
        assert value == 0
        assert result(await bed.run(call("helped"))) == [0, pid]
        (code / "helping.py").write_text("VALUE = 'new'\n")
        value, after = result(await bed.run(call("helped")))
        assert (value, after != pid) == ("new", True)


async def test_a_fresh_run_has_a_process_of_its_own(bed: Bed) -> None:
    warm = result(await bed.run(call("changes", what="nothing")))
    seen = {warm}
    for _ in range(3):
        end = await bed.run(call("says_at_exit", fresh=True))
        assert bed.text(end) == "at exit\n"
        assert result(end) not in seen
        assert not os.path.exists(f"/proc/{result(end)}")
        seen.add(result(end))
    assert result(await bed.run(call("changes", what="nothing"))) == warm


async def test_a_process_ends_after_so_many_runs(tmp_path: Path) -> None:
    async with Bed(tmp_path, python_processes=1, python_runs_max=3) as bed:
        pids = [result(await bed.run(call("changes", what="nothing"))) for _ in range(7)]
        assert len(set(pids)) == 3
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
