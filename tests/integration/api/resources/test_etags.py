"""ETag, If-Match and If-None-Match on queues, nodes and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.cluster_settings import Settings
from raftsched.core.commands import PutNodeRule, PutQueue, PutSettings
from tests.support.local_api import Client, LocalCluster, serving

QUEUE, NODE, SETTINGS = "/v1/queues/q", "/v1/nodes/n2", "/v1/cluster/settings"
EDITS: dict[str, tuple[Any, Any]] = {  # a change, and another one
    QUEUE: ({"max_running": 4}, {"paused": True}),
    NODE: ({"slots": 4}, {"drained": True}),
    SETTINGS: ({"catch_up_max": 5}, {"queues_max": 7}),
}


def run(directory: Path, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = LocalCluster(directory, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as call:
                await call("PUT", QUEUE, {"max_running": 3})
                await test(call)
        finally:
            cluster.close()

    asyncio.run(main())


def meanwhile(cluster: LocalCluster, path: str) -> None:
    """Somebody else changes it."""
    cluster.apply(
        {
            QUEUE: PutQueue("q", 9),
            NODE: PutNodeRule("n2", labels=(("a", "b"),)),
            SETTINGS: PutSettings(Settings(backfill_max=9)),
        }[path]
    )


async def tag(call: Client, path: str) -> str:
    status, _ = await call("GET", path)
    assert status == 200
    return str(call.headers["ETag"])


@pytest.mark.parametrize("path", EDITS)
def test_an_edit_holds_for_what_was_read_only(tmp_path: Path, path: str) -> None:
    async def test(call: Client) -> None:
        first, second = EDITS[path]
        before = await tag(call, path)
        status, _ = await call("PATCH", path, first, {"If-Match": before})
        assert status == 200
        after = call.headers["ETag"]
        assert before != after == await tag(call, path)
        shown = await call("GET", path)
        status, problem = await call("PATCH", path, second, {"If-Match": before})
        assert (status, problem["code"]) == (412, "stale-revision")
        assert f"at revision {after.strip(chr(34))} now" in problem["detail"]
        assert await call("GET", path) == shown
        assert (await call("PATCH", path, second, {"If-Match": "*"}))[0] == 200
        assert (await call("PATCH", path, first, {}))[0] == 200  # no change: the revision stays
        kept = call.headers["ETag"]
        assert (await call("PATCH", path, first, {"If-Match": kept}))[0] == 200
        assert call.headers["ETag"] == kept
        for bad in ("1", 'W/"1"', '"1", "2"', '"x"'):
            assert (await call("PATCH", path, first, {"If-Match": bad}))[0] == 400, bad

    run(tmp_path, test)


@pytest.mark.parametrize("path", EDITS)
def test_what_changes_on_the_way_is_not_overwritten(tmp_path: Path, path: str) -> None:
    async def test(call: Client) -> None:
        first, second = EDITS[path]
        before = await tag(call, path)
        call.cluster.before = lambda: meanwhile(call.cluster, path)
        status, problem = await call("PATCH", path, first, {"If-Match": before})
        assert (status, problem["code"]) == (412, "stale-revision")
        call.cluster.before = lambda: meanwhile(call.cluster, path)
        assert (await call("PATCH", path, second))[0] == 200  # without it, it is merged

    run(tmp_path, test)


def test_a_queue_is_put_and_deleted_as_it_was_read(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        first = await tag(call, QUEUE)
        status, queue = await call("PUT", QUEUE, {"max_running": 5}, {"If-Match": first})
        assert (status, f'"{queue["revision"]}"') == (200, call.headers["ETag"])
        for method, body in (("PUT", {"max_running": 6}), ("DELETE", None)):
            status, problem = await call(method, QUEUE, body, {"If-Match": first})
            assert (status, problem["code"]) == (412, "stale-revision"), method
        assert (await call("DELETE", QUEUE, None, {"If-Match": await tag(call, QUEUE)}))[0] == 204
        for given in (first, "*"):
            status, problem = await call("PUT", QUEUE, {"max_running": 6}, {"If-Match": given})
            assert (status, problem["code"]) == (412, "stale-revision"), given
            assert "has no limits" in problem["detail"]
            assert (await call("DELETE", QUEUE, None, {"If-Match": given}))[0] == 404
        status, queue = await call("PUT", QUEUE, {"max_running": 6}, {"If-None-Match": "*"})
        assert (status, call.headers["Location"]) == (201, QUEUE)
        assert call.headers["ETag"] != first  # a revision is never used again
        assert (await call("PUT", QUEUE, {}, {"If-Match": first}))[0] == 412

    run(tmp_path, test)


def test_draining_can_be_made_conditional(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        before = await tag(call, NODE)
        assert (await call("POST", f"{NODE}/drain", None, {"If-Match": before}))[0] == 200
        status, problem = await call("POST", f"{NODE}/undrain", None, {"If-Match": before})
        assert (status, problem["code"]) == (412, "stale-revision")
        assert (await call("POST", f"{NODE}/undrain", None, {"If-Match": await tag(call, NODE)}))[0] == 200
        assert await tag(call, NODE) == before  # nothing is said about it any more

    run(tmp_path, test)


@pytest.mark.parametrize("path", [SETTINGS, "/v1/jobs/{id}"])
def test_who_has_it_is_told_so(tmp_path: Path, path: str) -> None:
    """Where the tag stands for all of the answer, or, of a job, for its content."""

    async def test(call: Client) -> None:
        _, job = await call("POST", "/v1/jobs", {"trigger": {"manual": True}, "handler": {"exec": ["true"]}})
        there = path.replace("{id}", job["id"])
        held = await tag(call, there)
        for given in (held, f'"77", {held}', f"W/{held}", "*"):
            assert await call("GET", there, None, {"If-None-Match": given}) == (304, ""), given
            assert call.headers["ETag"] == held
            assert await call("HEAD", there, None, {"If-None-Match": given}) == (304, "")
        assert (await call("GET", there, None, {"If-None-Match": '"77"'}))[0] == 200

    run(tmp_path, test)
