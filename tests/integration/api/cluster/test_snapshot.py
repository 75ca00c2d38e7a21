"""GET /v1/cluster/snapshot: a whole backup, or nothing that looks like one."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import aiohttp
import pytest

from raftsched.api.cluster import snapshot
from raftsched.errors import NoLeader
from raftsched.store import SnapshotMeta
from raftsched.store.backup import TRAILER, verified_contents, verify
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.patience import patient

PATH = "/v1/cluster/snapshot"
JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


async def download(call: Client, path: Path, query: str = "") -> aiohttp.ClientResponse:
    async with call.session.get(f"{call.url}{PATH}{query}") as answer:
        assert answer.status == 200, await answer.text()
        path.write_bytes(await answer.read())
    return answer


async def test_a_download_is_a_whole_backup_and_nothing_stays_behind(call: Client, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert (await call("POST", "/v1/jobs", {**JOB, "name": name}))[0] == 201
    answer = await download(call, tmp_path / "saved")
    assert (await call("POST", "/v1/jobs", {**JOB, "name": "c"}))[0] == 201
    label = verify(tmp_path / "saved")
    assert answer.headers["Raftsched-Snapshot-Index"] == str(label.index)
    assert answer.headers["Content-Length"] == str(label.size + TRAILER)
    assert (label.node, label.at_ms) == ("n1", call.cluster.clock.wall)
    assert verified_contents(tmp_path / "saved").jobs == {"SCHEDULED": 2}
    await download(call, tmp_path / "saved", "?consistency=leader")
    assert verified_contents(tmp_path / "saved").jobs == {"SCHEDULED": 3}
    assert not list((tmp_path / "n1" / "snapshots").iterdir())
    assert (await call("HEAD", PATH))[0] == 200
    call.cluster.failure = NoLeader()
    assert (await call("GET", f"{PATH}?consistency=leader"))[0] == 503
    await download(call, tmp_path / "saved")  # what this node has can be had without a leader


async def test_one_at_a_time(call: Client, tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    copy = call.context.copies.copy

    def slow(target: Path) -> SnapshotMeta:
        begun.set()
        go_on.wait(patient(30))
        return copy(target)

    call.context.copies.copy = slow
    first = asyncio.create_task(download(call, tmp_path / "saved"))
    await asyncio.to_thread(begun.wait, 30)
    status, problem = await call("GET", PATH)
    assert (status, problem["code"], call.headers["Retry-After"]) == (503, "overloaded", "1")
    go_on.set()
    await first
    verify(tmp_path / "saved")
    await download(call, tmp_path / "saved")


async def test_what_cannot_be_copied_is_said_and_may_succeed_later(call: Client, tmp_path: Path) -> None:
    copy = call.context.copies.copy
    failures = [OSError("the store grows")] * 2

    def failing(target: Path) -> SnapshotMeta:
        if failures:
            raise failures.pop()
        return copy(target)

    call.context.copies.copy = failing
    await download(call, tmp_path / "saved")  # it is tried again
    verify(tmp_path / "saved")
    failures += [OSError("the store grows")] * 3
    status, problem = await call("GET", PATH)
    assert (status, problem["code"]) == (503, "overloaded")
    failures.append(OSError(errno.ENOSPC, "No space left on device"))
    status, problem = await call("GET", PATH)
    assert (status, problem["code"]) == (507, "disk-full")
    await download(call, tmp_path / "saved")


def test_a_node_that_stops_cuts_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PIECE", 1024)
    monkeypatch.setattr(snapshot, "BYTES_PER_S", 1024)  # the second piece would come after the clock's next second

    async def test() -> None:
        cluster = LocalCluster(tmp_path)
        try:
            async with aiohttp.ClientSession() as session:
                async with serving(cluster, "n1") as call:
                    answer = await session.get(call.url + PATH)
                    await answer.content.readany()
                with pytest.raises(aiohttp.ClientError):
                    await answer.content.read()
                answer.close()
        finally:
            cluster.close()

    asyncio.run(test())
