"""Tasks that nobody waits for: what one raises is counted and told, and ends nothing else."""

from __future__ import annotations

import ast
import asyncio
import logging
from pathlib import Path

import pytest

from raftsched.system import background
from tests.support.modules import MODULES, each, name_of, nodes

# Who makes a task here waits for it, so that what it raises is met there.
WAITED_FOR = {
    "api/cluster/snapshot.py": "a download waits for its file",
    "api/context.py": "its callback answers the request with the error",
    "api/http/streams.py": "both are gathered by who waits for either",
    "api/runs/output_stream.py": "the reader's answer waits for it, and says meanwhile that it is there",
    "celery/beat_worker.py": "the end of the beat waits for them",
    "embedded/node.py": "start and stop wait for them",
    "embedded/process.py": "the process waits for them",
    "embedded/service.py": "the process waits for them",
    "embedded/worker.py": "stop waits for it",
    "node/node.py": "stop waits for both",
    "remote/outputs.py": "the request waits for its piece",
    "worker/executors/concurrent_python.py": "a run ends with what it raises",
    "worker/executors/http.py": "a run ends with what it raises",
    "worker/processes/interpreters.py": "the start of the node waits for them",
}
ELSEWHERE = ("client/", "cli/", "system/background.py")  # programs of their own; the room itself


def test_faults_are_counted_and_each_place_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no such row")

    async def main() -> None:
        for _ in range(3):
            background.guarded("workers", fail)()
        background.guarded("leader", fail)()

    asyncio.run(main())
    assert background.failures == {"workers": 3, "leader": 1}
    told = [record.getMessage().partition(" met")[0] for record in caplog.records]
    assert told == ["the task workers", "the task leader"]
    assert all(record.exc_info for record in caplog.records)
    background.forget()


def test_what_is_done_again_and_again_goes_on_after_a_fault() -> None:
    async def main() -> None:
        done: list[int] = []
        enough = asyncio.Event()

        async def do() -> None:
            done.append(1)
            if len(done) < 3:
                raise KeyError("gone")
            enough.set()

        task = background.repeat("bookkeeping", do, 0.0)
        await enough.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled(), "it would have gone on"

    asyncio.run(main())
    assert background.failures == {"bookkeeping": 2}
    background.forget()


def test_a_task_that_fails_is_noted_whether_or_not_somebody_waits(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        with pytest.raises(OSError, match="No space"):
            await background.start("output", fail())
        task = background.start("output", fail())
        await asyncio.wait([task])

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert background.failures == {"output": 2}
    assert "never retrieved" not in caplog.text
    background.forget()


def test_what_nobody_handles_is_counted_in_a_process_of_its_own() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(background.on_unhandled)
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert background.failures == {"other": 1}
    background.forget()


@each([path for path in MODULES if not name_of(path).startswith(ELSEWHERE)])
def test_tasks_are_owned(module: Path) -> None:
    calls = [
        f"line {node.lineno}: {node.func.attr}"
        for node in nodes(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("create_task", "ensure_future")
    ]
    if name_of(module) in WAITED_FOR:
        assert calls, "it is not on the list for nothing"
    else:
        assert not calls, f"{calls}: a task that nobody waits for is started by raftsched.system.background"
