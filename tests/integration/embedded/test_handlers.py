"""Handlers given to an embedded node: where they run, and what cannot be one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.errors import StartupError
from raftsched.testing import cluster
from tests.integration.embedded import chores, meetings
from tests.integration.embedded.house import children
from tests.support.patience import patient

ROOT = Path(raftsched.__file__).parent.parent


async def call(node: raftsched.Node, name: str, **params: Any) -> raftsched.Instance:
    job = await node.jobs.create(trigger={"manual": True}, handler={"call": name}, params=params)
    return await node.instances.wait(await node.jobs.run(job), timeout=patient(60))


async def test_handlers_run_in_supervised_processes_beside_the_program(tmp_path: Path) -> None:
    nodes = cluster(1, directory=tmp_path)
    async with nodes:
        (node,) = nodes
        await node.stop()
        node.handler("add")(chores.add)
        node.handler("add-later")(chores.add_later)
        node.handler("shout")(chores.wrapped)
        node.handler("clear")(chores.Desk.clear)
        await nodes.start(node)
        await node.ready()
        added = await call(node, "add", left=2, right=3)
        assert added.state == "SUCCEEDED", added.error
        assert added.result["sum"] == 5
        assert added.result["pid"] != os.getpid()
        assert (await call(node, "add-later", left=2, right=4)).result == 6
        assert (await call(node, "shout", of="work")).result == {"counted": "WORK"}
        assert (await call(node, "clear", things=3)).result == -3
        failed = await call(node, "add", left=2)
        assert failed.state == "FAILED"
        assert "right" in (failed.error or "")


@pytest.mark.parametrize("where", ["node", "worker"])
async def test_a_process_takes_as_many_runs_as_the_handler_says(tmp_path: Path, where: str) -> None:
    nodes = cluster(1, directory=tmp_path)
    async with nodes, AsyncExitStack() as more:
        (node,) = nodes
        if where == "node":
            await node.stop()
            node.handler("meets")(meetings.meets)
            await nodes.start(node)
            await node.ready()
        else:
            data = str(tmp_path / "w1")
            worker = raftsched.Worker(servers=[node.url], name="w1", data=data, slots=3, queues=["default"])
            worker.handler("meets")(meetings.meets)
            await more.enter_async_context(worker)
        ends = await asyncio.gather(*(call(node, "meets", count=3) for _ in range(3)))
        assert {end.state for end in ends} == {"SUCCEEDED"}, ends
        assert len({end.result for end in ends}) == 1


async def test_a_call_waits_for_a_node_that_has_the_handler(tmp_path: Path) -> None:
    nodes = cluster(3, directory=tmp_path)
    async with nodes:
        leader = await nodes.leader()
        able = next(node for node in nodes if node is not leader)
        job = await leader.jobs.create(
            trigger={"manual": True}, handler={"call": "add"}, params={"left": 1, "right": 1}
        )
        run = await leader.jobs.run(job)
        await able.stop()
        able.handler("add")(chores.add)
        await nodes.start(able)
        instance = await leader.instances.wait(run, timeout=patient(60))
        assert (instance.state, instance.node) == ("SUCCEEDED", able.id)


def test_what_other_processes_cannot_find_is_refused_when_it_is_given() -> None:
    node = raftsched.Node(id="n1", data="n1")

    def inner() -> None: ...

    made: list[Callable[..., Any]] = [lambda: None, inner]
    for function in made:
        with pytest.raises(ValueError, match=r"handler 'x': .*define it at the top of a module"):
            node.handler("x")(function)
    with pytest.raises(ValueError, match="1 to 128 characters"):
        node.handler("Send Invoice")
    node.handler("x")(chores.add)
    node.handler("x")(chores.add)  # the same again, as when a module is loaded twice
    with pytest.raises(ValueError, match=r"'x' is tests\.integration\.embedded\.chores:add already"):
        node.handler("x")(chores.add_later)


async def test_what_would_be_something_else_there_is_refused_when_the_node_starts(tmp_path: Path) -> None:
    before = children()
    node = raftsched.Node(id="n1", data=tmp_path)
    with pytest.raises(ValueError, match=r"handler 'x': Desk\.tidy is a method of an object"):
        node.handler("x")(chores.Desk().tidy)
    node.handler("x")(chores.first_hidden)
    with pytest.raises(StartupError, match=r"handler 'x': .* is not the function that was given"):
        await node.start()
    assert not node.running
    assert children() == before


async def test_a_name_that_means_two_functions_keeps_the_node_from_starting(tmp_path: Path) -> None:
    (tmp_path / "embedded_rivals.py").write_text(
        "import raftsched\n\n@raftsched.handler('add')\ndef add(left, right): ...\n"
    )
    node = raftsched.Node(id="n1", data=tmp_path / "n1", handlers=["embedded_rivals"], pythonpath=[tmp_path])
    node.handler("add")(chores.add)
    with pytest.raises(StartupError, match=r"handler 'add': tests\.\S+:add has this name already"):
        await node.start()


async def test_a_handler_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    async with cluster(1, directory=tmp_path) as nodes:
        with pytest.raises(RuntimeError, match="runs already"):
            nodes[0].handler("add")


SCRIPT = """
import raftsched

node = raftsched.Node(id="n1", data="n1")
try:
    @node.handler("mine")
    def mine(): ...
except ValueError as error:
    print(error)
"""


def test_the_main_script_has_no_handlers(tmp_path: Path) -> None:
    """A process that imported it would start the program again."""
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=True).stdout
    assert "handler 'mine': __main__:mine is in the program's main script" in out
    assert "put the function into a module of its own" in out


OWN = """
import asyncio, pathlib, sys
import raftsched, raftsched.testing
import deeds

async def main():
    nodes = raftsched.testing.cluster(1)
    async with nodes:
        await nodes[0].stop()
        nodes[0].handler("deed")(deeds.deed)
        await nodes.start(nodes[0])
        await nodes[0].ready()
        job = await nodes[0].jobs.create(trigger={"manual": True}, handler={"call": "deed"})
        print((await nodes[0].instances.wait(await nodes[0].jobs.run(job), timeout=60)).result)

asyncio.run(main())
"""


def test_what_a_program_finds_beside_its_script_its_handlers_processes_find(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(OWN)
    (tmp_path / "deeds.py").write_text("def deed():\n    return 'done'\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, tmp_path / "program.py"]
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=patient(120))
    assert done.stdout == "done\n", done.stderr
