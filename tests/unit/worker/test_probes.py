"""Asked by the leader a worker looks, in a few threads, and says what it found if that is news."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from raftsched.bounds import ERROR_MAX
from raftsched.core import commands as c
from raftsched.core.model import Condition, ConditionKind
from raftsched.core.subjects.checking import Check, decode, encode
from raftsched.core.tables import Table, u64
from raftsched.errors import NoLeader
from raftsched.worker.conditions import probe
from raftsched.worker.conditions import probes as module
from raftsched.worker.conditions.probes import THREADS, ConditionProbes
from raftsched.worker.ports import Applied
from raftsched.worker.processes.run_as import RunAs
from raftsched.worker.processes.users import User
from raftsched.worker.tasks.tasks import NODES_OWN
from tests.support.async_tests import entered
from tests.support.memory_view import MemoryView, World
from tests.support.patience import patient


class Behind:
    """The tables without some instances."""

    def __init__(self, view: MemoryView, later: set[bytes]) -> None:
        self._view = view
        self._later = later
        self.scan = view.scan

    def get(self, table: Table, key: bytes) -> bytes | None:
        return None if table is Table.INSTANCES and key in self._later else self._view.get(table, key)


class Bed:
    """A worker's ConditionProbes, with the tables of a small world and nobody to report to but the test."""

    def __init__(self, limit_ms: int = 60_000, run_as: RunAs = NODES_OWN) -> None:
        self.world = World()
        self.reports: asyncio.Queue[c.ReportConditions] = asyncio.Queue()
        self.fail: Exception | None = None
        self.applied_index = 0
        self.later: set[bytes] = set()  # instances that are not applied here yet
        self.checks = ConditionProbes(node_id="n2", raft=self, read=self.read, limit_ms=limit_ms, run_as=run_as)
        self.moved = asyncio.Event()  # a thread came back
        back = self.checks._back

        def on_back(*args: Any) -> None:
            back(*args)
            self.moved.set()

        self.checks._back = on_back  # type: ignore[assignment]

    async def __aenter__(self) -> Bed:
        self.checks.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.checks.stop()

    @contextmanager
    def read(self) -> Iterator[Behind]:
        yield Behind(self.world.view, self.later)

    def submit(self, commands: Sequence[bytes]) -> None:
        if self.fail is not None:
            raise self.fail
        (command,) = [c.decode(raw) for raw in commands]
        assert isinstance(command, c.ReportConditions)
        self.reports.put_nowait(command)

    def subscribe(self, on_applied: Callable[[Sequence[Applied]], None]) -> None:
        self.on_applied = on_applied

    def applies(self, index: int) -> None:
        """As far as this entry."""
        self.applied_index = index
        self.on_applied([])

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None:
        assert kind == "check"
        self.tell = handler

    def instance(self, *targets: object) -> bytes:
        conditions = tuple(Condition(ConditionKind.PATH, str(target)) for target in targets)
        return self.world.run_now(self.world.create(conditions=conditions))

    def ask(self, key: bytes, target: object, applied: int = 0) -> None:
        until = self.world.instance(key).checks_end_at_ms or 0
        self.tell("n1", encode(Check(key, until, (Condition(ConditionKind.PATH, str(target)),), applied)))

    def ask_early(self, target: object, applied: int) -> bytes:
        """The leader asks before the instance is there, which comes with that entry."""
        key = self.instance(target)
        self.later.add(key)
        self.ask(key, target, applied)
        return key

    async def report(self) -> c.ReportConditions:
        async with asyncio.timeout(patient(30)):
            return await self.reports.get()

    async def idle(self) -> None:
        async with asyncio.timeout(patient(30)):
            while self.checks._looking:
                self.moved.clear()
                await self.moved.wait()


@pytest.fixture
def bed(asyncio_runner: asyncio.Runner) -> Iterator[Bed]:
    with entered(asyncio_runner, Bed()) as bed:
        yield bed


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A file system that does not answer until the event is set."""
    answers = threading.Event()
    monkeypatch.setattr(probe.ConditionProbe, "_exists", lambda look, path: answers.wait())
    yield answers
    answers.set()


@pytest.fixture
def hang_there(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The same for paths that end in "hangs"."""
    answers = threading.Event()
    exists = probe.ConditionProbe._exists

    def hangs(look: probe.ConditionProbe, path: str) -> bool:
        return answers.wait() if path.endswith("hangs") else exists(look, path)

    monkeypatch.setattr(probe.ConditionProbe, "_exists", hangs)
    yield answers
    answers.set()


async def test_what_is_there_is_met(bed: Bed, tmp_path: Path) -> None:
    key = bed.instance(tmp_path)
    bed.ask(key, tmp_path)
    report = await bed.report()
    assert report == c.ReportConditions(key, bed.world.instance(key).checks_end_at_ms or 0, "n2", True)
    bed.world.session()
    bed.world.ok(report)
    assert not bed.world.instance(key).checking


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks as somebody else")
async def test_a_condition_sees_what_its_jobs_user_sees() -> None:
    run_as = RunAs({"default": "nobody"})
    run_as.look_up()
    with TemporaryDirectory(dir="/tmp") as made:  # that of pytest is not shown to other users
        shared = Path(made)
        (shared / "own").mkdir(0o700)
        (shared / "own" / "local.token").touch()
        (shared / "shown").touch()
        os.chmod(shared, 0o755)
        async with Bed(run_as=run_as) as bed:
            for target, met in (("shown", True), ("own", True), ("own/local.token", False), ("own/l*", False)):
                bed.ask(bed.instance(shared / target), shared / target)
                report = await bed.report()
                assert report.met is met, target
                await bed.idle()
            assert "cannot be read" in (report.detail or "")
            assert (os.geteuid(), os.getegid()) == (0, 0)
            assert (shared / "own" / "local.token").exists(), "other threads are who they were"


def as_itself() -> RunAs:
    """Jobs run as a user who has to be looked up, and is who the tests are."""
    run_as = RunAs({"default": "nobody"})
    run_as.users["nobody"] = User("nobody", os.geteuid(), os.getegid(), (), "/", "/bin/sh")
    return run_as


async def test_asked_before_the_instance_is_there_it_looks_when_it_comes(tmp_path: Path) -> None:
    async with Bed(run_as=as_itself()) as bed:
        key = bed.ask_early(tmp_path, applied=7)
        bed.applies(6)
        await bed.idle()
        assert bed.reports.empty()
        bed.later.clear()
        bed.applies(7)
        report = await bed.report()
        assert (report.instance, report.met) == (key, True)
        bed.applies(8)
        await bed.idle()
        assert bed.reports.empty()


@pytest.mark.parametrize("applied", [0, 7], ids=["an earlier version asks", "it was deleted meanwhile"])
async def test_an_instance_that_is_not_there_is_not_looked_for(tmp_path: Path, applied: int) -> None:
    async with Bed(run_as=as_itself()) as bed:
        bed.ask_early(tmp_path, applied)
        bed.applies(7)
        await bed.idle()
        other = bed.instance(tmp_path)
        bed.ask(other, tmp_path, applied=7)
        assert (await bed.report()).instance == other
        await bed.idle()
        assert bed.reports.empty(), "what is not there yet is not said to be gone"


def test_versions_understand_each_others_questions() -> None:
    class Earlier(msgspec.Struct, array_like=True, frozen=True):
        instance: bytes
        until_ms: int
        conditions: tuple[Condition, ...]

    condition = Condition(ConditionKind.PATH, "/data")
    now, earlier = Check(b"i", 5, (condition,), 7), Earlier(b"i", 5, (condition,))
    assert msgspec.msgpack.decode(encode(now), type=Earlier) == earlier
    assert decode(msgspec.msgpack.encode(earlier)) == Check(b"i", 5, (condition,), 0)


async def test_what_comes_early_waits_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bed(run_as=as_itself()) as bed:
        monkeypatch.setattr(module, "EARLY_S", -1.0)
        bed.ask_early(tmp_path, applied=7)
        bed.applies(6)
        monkeypatch.undo()
        monkeypatch.setattr(module, "EARLY_MAX", 2)
        keys = [bed.ask_early(tmp_path, applied=7) for _ in range(3)]
        bed.later.clear()
        bed.applies(7)
        assert {(await bed.report()).instance for _ in range(2)} == set(keys[:2])
        await bed.idle()
        assert bed.reports.empty()


async def test_a_job_that_asks_for_a_user_in_vain_is_not_looked_for(tmp_path: Path) -> None:
    async with Bed(run_as=as_itself()) as bed:
        key = bed.instance(tmp_path)
        bed.world.view.delete(Table.JOBS, u64(bed.world.instance(key).job_id))
        bed.ask(key, tmp_path)
        report = await bed.report()
        assert (report.met, report.detail) == (False, "n2 does not look: the job's definition is gone.")


async def test_what_is_no_news_is_not_reported(bed: Bed, tmp_path: Path) -> None:
    missing = tmp_path / "no"
    key = bed.instance(missing)
    bed.ask(key, missing)
    report = await bed.report()
    assert (report.met, report.detail) == (False, f"No file matches {missing}.")
    bed.world.ok(report)
    await bed.idle()
    bed.ask(key, missing)
    await bed.idle()
    assert bed.reports.empty()
    missing.touch()
    bed.ask(key, missing)
    assert (await bed.report()).met


async def test_asked_twice_it_looks_once(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    answers = threading.Event()

    def exists(look: probe.ConditionProbe, path: str) -> bool:
        looks.append(path)
        return answers.wait()

    monkeypatch.setattr(probe.ConditionProbe, "_exists", exists)
    key = bed.instance(tmp_path)
    bed.ask(key, tmp_path)
    bed.ask(key, tmp_path)
    answers.set()
    await bed.report()
    await bed.idle()
    assert bed.reports.empty()
    assert looks == [str(tmp_path)]


async def test_the_time_of_a_look_ends_with_it(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[asyncio.TimerHandle] = []
    loop = bed.checks._loop
    call_later = loop.call_later

    def limit(*args: Any) -> asyncio.TimerHandle:
        limits.append(call_later(*args))
        return limits[-1]

    monkeypatch.setattr(
        bed.checks, "_loop", SimpleNamespace(call_later=limit, call_soon_threadsafe=loop.call_soon_threadsafe)
    )
    bed.ask(bed.instance(tmp_path), tmp_path)
    assert (await bed.report()).met
    assert [handle.cancelled() for handle in limits] == [True]


async def test_what_hangs_is_given_up_and_its_thread_counts_as_taken(tmp_path: Path, hang: threading.Event) -> None:
    async with Bed(limit_ms=20) as bed:
        keys = [bed.instance(tmp_path) for _ in range(THREADS + 1)]
        for key in keys[:THREADS]:
            bed.ask(key, tmp_path)
        for _ in range(THREADS):
            report = await bed.report()
            assert not report.met
            assert report.detail == f"Looking for {tmp_path} on n2 took longer than 0.02s."
        bed.ask(keys[-1], tmp_path)
        assert "nothing more for the namespace default: all of its looks hang" in ((await bed.report()).detail or "")
        hang.set()
        await bed.idle()
        bed.checks._limit_s = 60
        bed.ask(keys[-1], tmp_path)
        assert (await bed.report()).met


@pytest.mark.parametrize("limit_ms", [20, 60_000], ids=["given up", "under way"])
async def test_what_hangs_in_one_namespace_holds_up_no_other(
    tmp_path: Path, hang_there: threading.Event, limit_ms: int
) -> None:
    async with Bed(limit_ms=limit_ms) as bed:
        for _ in range(3 * THREADS):
            bed.ask(bed.instance(tmp_path / "hangs"), tmp_path / "hangs")
        if limit_ms == 20:
            while bed.checks._namespaces["default"].hanging < THREADS:
                await bed.report()
        job = bed.world.create(namespace="another", conditions=(Condition(ConditionKind.PATH, str(tmp_path)),))
        key = bed.world.run_now(job)
        bed.ask(key, tmp_path)
        reports = [await bed.report()]
        while reports[-1].instance != key:
            reports.append(await bed.report())
        assert reports[-1].met
        assert len(bed.checks._looking) == THREADS
        hang_there.set()
        await bed.idle()


@pytest.mark.parametrize("spare", [module.HANGING_MAX, 0])
async def test_what_hangs_in_several_namespaces_takes_no_thread_from_the_others(
    tmp_path: Path, hang_there: threading.Event, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    monkeypatch.setattr(module, "HANGING_MAX", spare)

    def instance(bed: Bed, namespace: str, target: Path) -> bytes:
        conditions = (Condition(ConditionKind.PATH, str(target)),)
        return bed.world.run_now(bed.world.create(namespace=namespace, conditions=conditions))

    async with Bed(limit_ms=20) as bed:
        for n in range(module.THREADS_ALL):
            bed.ask(instance(bed, f"n{n // THREADS}", tmp_path / "hangs"), tmp_path / "hangs")
        for _ in range(module.THREADS_ALL):
            assert "took longer" in ((await bed.report()).detail or "")
        bed.checks._limit_s = 60
        bed.ask(instance(bed, "another", tmp_path), tmp_path)
        report = await bed.report()
        assert report.met is (spare > 0)
        if not spare:
            assert report.detail == (
                f"n2 can look at nothing more: all of its looks hang. Looking for {tmp_path}/hangs is one of them."
            )
        hang_there.set()
        await bed.idle()


async def test_a_look_that_waits_begins_when_others_are_given_up(
    tmp_path: Path, hang: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "THREADS_ALL", 1)
    async with Bed(limit_ms=20) as bed:
        for _ in range(2):
            bed.ask(bed.instance(tmp_path), tmp_path)
        assert len(bed.checks._looking) == 1
        for _ in range(2):
            assert "took longer" in ((await bed.report()).detail or "")
        hang.set()
        await bed.idle()


async def test_more_than_there_are_threads_wait_their_turn(bed: Bed, tmp_path: Path, hang: threading.Event) -> None:
    keys = [bed.instance(tmp_path) for _ in range(3 * THREADS)]
    for key in keys:
        bed.ask(key, tmp_path)
    assert len(bed.checks._looking) == THREADS
    hang.set()
    assert {(await bed.report()).instance for _ in keys} == set(keys)


async def test_they_do_not_pile_up(
    bed: Bed, tmp_path: Path, hang: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    for key in [bed.instance(tmp_path) for _ in range(THREADS + 5)]:
        bed.ask(key, tmp_path)
    hang.set()
    for _ in range(THREADS + 2):
        await bed.report()
    await bed.idle()
    assert bed.reports.empty()


async def test_a_bug_in_a_look_is_said_and_frees_its_thread(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(probe.ConditionProbe, "_exists", lambda look, path: 1 // 0)
    bed.ask(bed.instance(tmp_path), tmp_path)
    assert "failed on n2: integer division" in ((await bed.report()).detail or "")
    await bed.idle()
    assert "a look at conditions failed" in caplog.text


async def test_a_look_that_gets_no_thread_is_said_and_counts_as_none(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a fork bomb has all processes of the user: afterwards the namespace is looked after as before."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    keys = [bed.instance(tmp_path) for _ in range(THREADS)]
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for key in keys:
            bed.ask(key, tmp_path)
            assert (await bed.report()).detail == "n2 does not look: can't start new thread."
    for key in keys:
        bed.ask(key, tmp_path)
        assert (await bed.report()).met


async def test_malformed_checks_and_a_cluster_that_takes_nothing(
    bed: Bed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bed.tell("n1", b"\xc1")
    key = bed.instance(tmp_path)
    bed.fail = NoLeader()
    bed.ask(key, tmp_path)
    await bed.idle()
    bed.fail = None
    bed.ask(key, tmp_path)
    assert (await bed.report()).met
    assert "malformed check from n1" in caplog.text


async def test_a_stopped_node_says_nothing(bed: Bed, tmp_path: Path, hang: threading.Event) -> None:
    bed.ask(bed.instance(tmp_path), tmp_path)
    bed.checks.stop()
    hang.set()
    await bed.idle()
    bed.ask(bed.instance(tmp_path), tmp_path)
    await bed.idle()
    assert bed.reports.empty()


async def test_a_detail_has_bounds(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.ConditionProbe, "missing", lambda self: "x" * 2 * ERROR_MAX)
    bed.ask(bed.instance(tmp_path), tmp_path)
    assert len((await bed.report()).detail or "") == ERROR_MAX
