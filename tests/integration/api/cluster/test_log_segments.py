"""GET /v1/cluster/log: all entries behind an index, or a clear no."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from raftsched.api.cluster import log_segments
from raftsched.core.entry import time_of
from raftsched.core.levels import BACKUPS_ARE_NOTED
from raftsched.errors import NoLeader
from raftsched.security.keyring import Keyring
from raftsched.store import LogEntry, WriteBatch
from raftsched.store.backup import NotABackup
from raftsched.store.segment import SegmentLabel, decode
from raftsched.surface.cluster import SEGMENT
from tests.support.local_api import Client, one_node
from tests.support.patience import patient

PATH = "/v1/cluster/log"
JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


async def segment(call: Client, query: str) -> tuple[SegmentLabel, list[LogEntry]] | None:
    async with call.session.get(f"{call.url}{PATH}?{query}") as answer:
        if answer.status == 204:
            return None
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == SEGMENT
        return decode(await answer.read(), "it", call.cluster.keys)


async def test_segments_hold_all_entries_in_order_until_there_are_no_more(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_segments, "ENTRIES_BYTES", 600)  # three jobs or so
    for number in range(9):
        call.cluster.clock.wall += 1000
        assert (await call("POST", "/v1/jobs", {**JOB, "name": f"j{number}"}))[0] == 201
    store, at, found = call.cluster.store, 0, 0
    before: SegmentLabel | None = None
    while (one := await segment(call, f"after={at}")) is not None:
        label, entries = one
        assert entries == store.log_entries(at + 1, 1 << 30)[: len(entries)]
        assert (label.first, label.last, label.cluster_id) == (at + 1, at + len(entries), (b"\1" * 16).hex())
        assert label.before_term == (0 if before is None else before.term)
        assert label.from_ms <= label.to_ms <= call.cluster.clock.wall
        at, found, before = label.last, found + 1, label
    assert at == store.applied_index
    assert found > 2
    status, problem = await call("GET", f"{PATH}?after={at + 5}")
    assert (status, problem["code"]) == (503, "behind")


async def test_what_was_acknowledged_before_is_in_it_on_request(call: Client) -> None:
    at = call.cluster.store.applied_index
    assert await segment(call, f"after={at}") is None
    found = await segment(call, f"after={at}&consistency=leader")
    assert found is not None
    assert found[0].last > at, "the barrier, at the least"
    call.cluster.failure = NoLeader()
    assert (await call("GET", f"{PATH}?after={at}&consistency=leader"))[0] == 503
    assert await segment(call, f"after={at}") is not None, "what this node has can be had without a leader"


async def test_a_log_that_begins_later_is_said(call: Client) -> None:
    for _ in range(5):
        await call("POST", "/v1/jobs", JOB)
    store = call.cluster.store
    store.write(WriteBatch(drop_below=store.applied_index - 1))
    first = store.log_bounds()[0]
    assert first > 2
    for after in (0, first - 2):
        status, problem = await call("GET", f"{PATH}?after={after}")
        assert (status, problem["code"]) == (410, "log-gone"), after
    found = await segment(call, f"after={first - 1}")
    assert found is not None
    assert (found[0].first, found[0].before_term) == (first, 1)


async def test_a_node_makes_few_at_a_time(call: Client) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()
    entries = call.context.copies.entries

    def slow(first: int, size: int) -> Sequence[LogEntry]:
        begun.release()
        go_on.wait(patient(30))
        return entries(first, size)

    call.context.copies.entries = slow
    asked = [asyncio.create_task(segment(call, "after=0")) for _ in range(log_segments.AT_ONCE)]
    for _ in asked:
        await asyncio.to_thread(begun.acquire)
    status, problem = await call("GET", PATH)
    assert (status, problem["code"]) == (503, "overloaded")
    go_on.set()
    assert all(await asyncio.gather(*asked))
    assert await segment(call, "after=0") is not None


async def test_it_is_signed(call: Client) -> None:
    async with call.session.get(f"{call.url}{PATH}") as answer:
        raw = await answer.read()
    decode(raw, "it", call.cluster.keys)
    with pytest.raises(NotABackup, match="not among these"):
        decode(raw, "it", Keyring(b"another key of these tests"))


async def noted(call: Client) -> tuple[float, float]:
    """Returns the entry and the time of the newest backup by the metrics of a node that was just started."""
    registry = CollectorRegistry()
    registry.register(log_segments.Segments(call.context))
    names = ("raftsched_backup_log_index", "raftsched_backup_log_time_seconds")
    index, at_s = (registry.get_sample_value(name) for name in names)
    return index if index is not None else -1, at_s or 0


async def test_when_there_was_a_backup_outlives_the_nodes(call: Client) -> None:
    store, clock = call.cluster.store, call.cluster.clock
    began_s = clock.wall // 1000
    assert await noted(call) == (0, began_s), "there never was one, since the cluster was formed"
    clock.forward(3_600_000)
    await call("POST", "/v1/jobs", JOB)
    at = store.applied_index
    await segment(call, "after=0")
    assert await noted(call) == (0, began_s), "who begins with the log has nothing yet"
    await segment(call, f"after={at}")
    assert await noted(call) == (at, began_s + 3_600)
    for _ in range(3):
        await segment(call, f"after={store.applied_index}")
    assert store.applied_index == at + 1, "a note a minute"
    await segment(call, f"after={at - 1}")
    assert await noted(call) == (at, began_s + 3_600), "what is kept is kept"
    clock.forward(60_000)
    await call("POST", "/v1/jobs", JOB)
    await segment(call, f"after={at + 2}")
    assert await noted(call) == (at + 2, began_s + 3_660)


async def test_below_its_level_a_node_remembers_it_alone(tmp_path: Path) -> None:
    async with one_node(tmp_path, level=BACKUPS_ARE_NOTED - 1) as call:
        store = call.cluster.store
        at = store.applied_index
        await segment(call, f"after={at}")
        assert store.applied_index == at, "nothing is noted that not all members know"
        assert await noted(call) == (-1, 0)
        _, text = await call("GET", "/metrics")
        assert "raftsched_backup_log_time_seconds 1" in text
        assert "raftsched_backup_log_index" not in text


async def test_who_has_kept_the_log_and_until_when_is_in_the_metrics(call: Client) -> None:
    formed_s = call.cluster.clock.wall / 1000

    async def kept() -> float | None:
        _, text = await call("GET", "/metrics")
        found = re.search(r"^raftsched_backup_log_time_seconds (\S+)$", text, re.MULTILINE)
        return None if found is None else float(found[1])

    await call("POST", "/v1/jobs", JOB)
    await segment(call, "after=0")
    assert await kept() == formed_s
    at = call.cluster.store.applied_index
    began_ms = time_of(call.cluster.store.log_entries(at, 1)[0].data)
    assert began_ms is not None
    call.cluster.clock.forward(60_000)
    await call("POST", "/v1/jobs", JOB)
    await segment(call, f"after={at}")
    call.cluster.clock.boot += 5_000
    assert await kept() == began_ms / 1000
    await segment(call, f"after={at - 1}")
    call.cluster.clock.boot += 5_000
    assert await kept() == began_ms / 1000
    async with call.session.get(f"{call.url}/v1/cluster/snapshot") as answer:
        index = answer.headers["Raftsched-Snapshot-Index"]
        await answer.read()
    call.cluster.clock.boot += 5_000
    assert await kept() == began_ms / 1000, "it was sent, and may be lost on the way"
    await segment(call, f"after={index}")
    call.cluster.clock.boot += 5_000
    assert (await kept() or 0) >= (began_ms + 60_000) / 1000
