"""raftsched.Node in a program of its own: what it does, what it leaves alone, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

import raftsched
from raftsched.config.values import ConfigError
from raftsched.errors import StartupError
from raftsched.system import background
from raftsched.testing import cluster
from raftsched.worker.processes.runner import Runner
from tests.integration.embedded import chores
from tests.integration.embedded.house import belongings, children, open_files, sockets
from tests.support.patience import patient
from tests.support.ports import free_ports


def alone(directory: Path, **settings: object) -> raftsched.Node:
    http, raft = free_ports(2)
    settings.setdefault("grace", "1s")
    settings.setdefault("jobs_as_node", True)
    return raftsched.Node(
        id="n1", data=directory / "n1", http=f"127.0.0.1:{http}", raft=f"127.0.0.1:{raft}", slots=4, **settings
    )


def test_programs_are_not_started_as_the_programs_own_user_until_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        node = alone(tmp_path, jobs_as_node=False)
        node.handler("add")(chores.add)
        async with node:
            await node.ready()
            params = {"left": 1, "right": 2}
            job = await node.jobs.create(trigger={"manual": True}, handler={"call": "add"}, params=params)
            assert (await node.instances.wait(await node.jobs.run(job), timeout=patient(60))).state == "SUCCEEDED"
            assert (await node.client.nodes.get("n1")).handlers == ["http", "call:add"]
            job = await node.jobs.create(trigger={"manual": True}, handler={"shell": "cat cluster.key"})
            why = (await node.instances.explain(await node.jobs.run(job))).waiting_for
            assert why is not None
            assert 'No node has the handler "shell". Start a worker or a node' in why.text
            assert "until --run-as default=USER names another" in why.text
            assert "--jobs-as-node" not in why.text

    asyncio.run(main())
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line for line in said if "exec, shell, python are not offered: jobs would run as" in line], said


async def test_a_node_of_ones_own_makes_runs_and_tells_without_a_socket(tmp_path: Path) -> None:
    async with alone(tmp_path) as node:
        await node.ready()
        assert node.leader == "n1"
        job = await node.jobs.create(name="greet", trigger={"manual": True}, handler={"shell": "echo hello"})
        assert job.created
        assert job.name == "greet"
        run = await node.jobs.run(job)
        instance = await node.instances.wait(run, timeout=patient(60))
        assert instance.state == "SUCCEEDED"
        assert instance.node == "n1"
        assert await node.instances.output(run) == b"hello\n"
        with pytest.raises(raftsched.NotFoundError):
            await node.jobs.get("default/nobody")
        with pytest.raises(raftsched.InvalidError, match="trigger"):
            await node.jobs.create(trigger={"cron": "99 * * * *"}, handler={"shell": "true"})
        async with raftsched.AsyncClient(node.url) as outside:  # and it is a node like any other
            assert (await outside.jobs.get("default/greet")).id == job.id


async def test_what_a_node_does_by_itself_is_owned(tmp_path: Path) -> None:
    """All tasks that are there while it works: what one raises is counted and told, or somebody waits for it."""

    def strays() -> list[str]:
        room = str(Path(raftsched.__file__).parent)
        found = []
        for task in asyncio.all_tasks():
            doing = task.get_coro()
            code = getattr(doing, "cr_code", None)
            if code is not None and code.co_filename.startswith(room) and not background.is_owned(task):
                found.append(f"{task.get_name()}: {code.co_qualname}")
        return found

    store = tmp_path / "store"
    store.mkdir()
    async with alone(tmp_path, output_store=str(store), output_ship="stdout") as node:
        await node.ready()
        job = await node.jobs.create(trigger={"manual": True}, handler={"shell": "echo hello"})
        run = await node.jobs.run(job)
        await node.instances.wait(run, timeout=patient(60))
        owned = sum(background.is_owned(task) for task in asyncio.all_tasks())
        assert owned >= 8, "sweeps of connections, session, leader, store, pruner, shipping, bookkeeping, ..."
        assert strays() == []


async def test_the_nodes_own_client_opens_no_socket(tmp_path: Path) -> None:
    async with alone(tmp_path) as node:
        await node.ready()
        before = sockets()
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(node.jobs.create(trigger={"manual": True}, handler={"shell": "true"}))
                group.create_task(node.client.cluster.status())
            await asyncio.sleep(0)
            assert sockets() == before
        assert sockets() == before
        assert len([job async for job in node.jobs.list()]) == 50


async def test_what_was_made_is_there_when_the_node_is_started_again(tmp_path: Path) -> None:
    node = alone(tmp_path)
    for runs in range(3):
        async with node:
            await node.ready()
            assert len([job async for job in node.jobs.list()]) == runs
            await node.jobs.create(trigger={"manual": True}, handler={"shell": "true"})


async def test_a_start_again_gives_the_data_directory_to_who_has_it(tmp_path: Path) -> None:
    async with alone(tmp_path) as first:
        await first.ready()
        before = children()
        with pytest.raises(StartupError, match="in use"):
            await alone(tmp_path).start()
        assert children() == before
        await first.jobs.create(trigger={"manual": True}, handler={"shell": "true"})
        with pytest.raises(RuntimeError, match="started already"):
            await first.start()


async def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "n1").write_text("a file")
    with pytest.raises(StartupError, match="n1"):
        await alone(tmp_path).start()


def test_no_cluster_begins_where_a_restore_was_killed(tmp_path: Path) -> None:
    (tmp_path / "n1" / "restoring" / "store").mkdir(parents=True)

    async def main() -> None:
        with pytest.raises(StartupError, match="n1/restoring is what a restore left that was killed"):
            await alone(tmp_path).start()

    asyncio.run(main())
    assert [path.name for path in (tmp_path / "n1").iterdir()] == ["restoring"]


async def test_a_port_that_is_taken_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # no node: that opens and closes files as it likes
        http = f"127.0.0.1:{taken.getsockname()[1]}"
        before = children(), open_files(first=True)
        with pytest.raises(StartupError, match="the port is in use"):
            await raftsched.Node(id="n1", data=tmp_path, http=http).start()
        assert (children(), open_files()) == before


def test_the_program_keeps_all_that_is_its_own(tmp_path: Path) -> None:
    """Signals, logging, loop policy, control group, and whatever else a process has once."""

    async def main() -> None:
        before = belongings()
        async with alone(tmp_path) as node:
            await node.ready()
            job = await node.jobs.create(trigger={"manual": True}, handler={"python": "os:getpid"})
            instance = await node.instances.wait(await node.jobs.run(job), timeout=patient(60))
            assert instance.result != os.getpid()
            assert belongings() == before
        assert belongings() == before

    import raftsched.node  # noqa: F401  (what libraries do when they are imported is theirs)

    asyncio.run(main())


async def test_nothing_is_left_of_a_node_that_was_stopped(tmp_path: Path) -> None:
    """No process of the run that it was in the middle of, no thread, no task, no descriptor."""
    await asyncio.to_thread(int)  # the loop's own thread is there before and after
    node = alone(tmp_path)  # its ports are the test's
    before = children(), open_files(first=True), threading.active_count(), len(asyncio.all_tasks())
    async with node:
        await node.ready()
        script = "(setsid sh -c 'trap : TERM; while :; do sleep 1; done' &) ; echo here; sleep 1000"
        job = await node.jobs.create(trigger={"manual": True}, handler={"shell": script})
        async with aclosing(node.instances.follow(await node.jobs.run(job))) as printed:
            assert await anext(printed) == b"here\n"
        assert len(children()) > len(before[0]) + 3
    assert children() == before[0]
    assert len(asyncio.all_tasks()) == before[3]
    assert open_files() == before[1]
    names = sorted(t.name for t in threading.enumerate())
    assert not [name for name in names if "raft" in name or "output" in name], names


@pytest.mark.parametrize("turns", [0, 1, 5, 40, 200])
async def test_a_start_that_is_cancelled_leaves_nothing_and_can_be_repeated(tmp_path: Path, turns: int) -> None:
    node = alone(tmp_path)
    before = children()
    starting = asyncio.create_task(node.start())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled():  # it was there before it could be cancelled
        await node.stop()
    assert not node.running
    assert children() == before
    async with node:
        await node.ready()


@pytest.mark.parametrize("turns", [1, 5, 20])  # of the event loop: a start takes many more
async def test_a_stop_while_it_starts_ends_the_start(tmp_path: Path, turns: int) -> None:
    node = alone(tmp_path)
    starting = asyncio.create_task(node.start())
    for _ in range(turns):
        await asyncio.sleep(0)
    assert not starting.done()
    await node.stop()
    with pytest.raises(StartupError, match="stopped while it started"):
        await starting
    assert not node.running
    await node.stop()


async def test_a_stop_is_whole_also_when_it_is_cancelled(tmp_path: Path) -> None:
    before = children()
    node = alone(tmp_path)
    entered = asyncio.Event()

    async def body() -> None:
        async with node:
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await entered.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])
    assert task.cancelled()
    assert not node.running
    assert children() == before
    await node.stop()


def test_a_node_that_cannot_go_on_stops_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As with a disk that fails. What it ran has ended; the program goes on, and hears of it from whatever it asks."""

    async def main() -> None:
        before = children()
        node = alone(tmp_path)
        with pytest.raises(raftsched.NodeFailed, match="no such disk"):  # noqa: PT012  (leaving raises)
            async with node:
                await node.ready()
                jobs = node.jobs
                member = node._member
                assert member is not None
                member._fatal(OSError(5, "no such disk"))
                with pytest.raises(raftsched.NodeFailed, match="no such disk"):
                    await node.wait()
                assert children() == before
                with pytest.raises(raftsched.NodeFailed, match="no such disk"):
                    await node.jobs.get("default/x")
                with pytest.raises(RuntimeError, match="closed"):
                    await jobs.get("default/x")
        async with node:  # started anew it is safe
            await node.ready()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "no such disk" in caplog.text


async def test_a_node_whose_supervisor_is_killed_starts_another_one(tmp_path: Path) -> None:
    async with alone(tmp_path) as node:
        await node.ready()
        assert node._member is not None
        assert node._member._worker is not None
        runner = node._member._worker._runner
        assert isinstance(runner, Runner)
        pid = runner.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        job = await node.jobs.create(trigger={"manual": True}, handler={"shell": "true"})
        run = await node.jobs.run(job)
        assert (await node.instances.wait(run, timeout=patient(60))).state == "SUCCEEDED"


async def test_what_is_asked_of_a_node_that_does_not_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    node = alone(tmp_path)
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: node.jobs.get("default/x"),
        lambda: node.instances.get("x"),
        lambda: node.dead_letters.requeue(all=True),
        node.ready,
    ]
    for ask in asks:
        with pytest.raises(RuntimeError, match=r"n1 is not running; start it"):
            await ask()
    assert node.leader is None


def test_settings_are_those_of_the_command_and_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"slot is no setting; known are id, data"):
        raftsched.Node(id="n1", data=tmp_path, slot=3)
    with pytest.raises(ConfigError, match="id 'N 1' is not possible"):
        raftsched.Node(id="N 1", data=tmp_path)
    with pytest.raises(ConfigError, match="is not among"):
        raftsched.Node(id="n1", data=tmp_path, peers={"n2": "127.0.0.1:7502"})
    peers = {"n1": "127.0.0.1:7511", "n2": "127.0.0.1:7512"}
    assert raftsched.Node(id="n1", data=tmp_path, peers=peers, cluster_key_file="k")._config.raft.port == 7511
    text = ",".join(f"{node}={address}" for node, address in peers.items())
    assert raftsched.Node(id="n2", data=tmp_path, peers=text, insecure_raft=True)._config.raft.port == 7512
    assert not (tmp_path / "store").exists()


def test_a_relative_directory_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    node = raftsched.Node(id="n1", data="here")
    monkeypatch.chdir("/")
    assert node._config.data == tmp_path / "here"


async def test_ready_says_what_a_node_waits_for(tmp_path: Path) -> None:
    one, other = free_ports(2)
    peers = {"n1": f"127.0.0.1:{one}", "n2": f"127.0.0.1:{other}"}
    http = f"127.0.0.1:{free_ports(1)[0]}"
    async with raftsched.Node(id="n1", data=tmp_path, peers=peers, http=http, insecure_raft=True) as node:
        with pytest.raises(TimeoutError, match=r"node n1 is not ready after 0\.1 s: .*n2"):
            await node.ready(0.1)


def reads_after(reader: raftsched.Node, writer: raftsched.Node) -> None:
    """What the one's client wrote, the other's sees: each node applies in its own time."""
    reader.client.transport.index = writer.client.transport.index


async def test_three_nodes_in_one_program_go_on_when_one_is_stopped_and_take_it_back() -> None:
    before = children()
    async with cluster(3) as nodes:
        first = await nodes.leader()
        made = await first.jobs.create(name="kept", trigger={"manual": True}, handler={"shell": "true"})
        for other in nodes:
            reads_after(other, first)
        await first.stop()
        others = [node for node in nodes if node is not first]
        second = await nodes.leader()
        assert second in others
        assert (await others[0].jobs.get("default/kept")).id == made.id
        run = await others[1].jobs.run("default/kept")
        reads_after(others[0], others[1])
        assert (await others[0].instances.wait(run, timeout=patient(60))).state == "SUCCEEDED"
        await nodes.start(first)
        await nodes.ready()
        reads_after(first, others[0])
        assert (await first.instances.wait(run, timeout=patient(60))).state == "SUCCEEDED"
        assert nodes[first.id] is first
        assert len(nodes) == 3
    assert children() == before
