"""The replicated settings, and pausing the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.context import meta
from raftsched.cluster_settings import SETTINGS, Settings
from raftsched.core.commands import PutSettings
from raftsched.errors import NoLeader
from tests.support.local_api import Client

PATH = "/v1/cluster/settings"
JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


def stored(call: Client) -> Settings:
    with call.cluster.store.read() as view:
        return meta(view).settings


def test_every_setting_has_bounds_and_a_default_within_them() -> None:
    assert set(SETTINGS) == set(Settings.__struct_fields__)
    for field, row in SETTINGS.items():
        assert row.least <= getattr(Settings(), field) <= row.most, field


async def test_they_are_shown_in_the_words_of_the_api_and_can_be_put_back(call: Client) -> None:
    status, shown = await call("GET", PATH)
    assert status == 200
    assert len(shown) == len(SETTINGS)
    assert (shown["session_ttl"], shown["timeout_ceiling"], shown["clock_limit"]) == ("5s", "1d", "500ms")
    assert (shown["body_max_bytes"], shown["queues_max"]) == (65_536, 1_000)
    assert await call("PATCH", PATH, shown) == (200, shown)
    assert stored(call) == Settings()


async def test_a_patch_changes_what_it_names_and_null_is_the_default(call: Client) -> None:
    status, shown = await call("PATCH", PATH, {"timeout_ceiling": "2h", "backfill_max": 50})
    assert (status, shown["timeout_ceiling"], shown["backfill_max"]) == (200, "2h", 50)
    assert stored(call) == Settings(timeout_ceiling_ms=7_200_000, backfill_max=50)
    status, problem = await call("POST", "/v1/jobs", {**JOB, "timeout": "3h"})  # it holds here at once
    assert (status, problem["errors"][0]["pointer"]) == (422, "/timeout")
    assert "2h" in problem["detail"]
    status, shown = await call("PATCH", PATH, {"timeout_ceiling": None})
    assert (status, shown["timeout_ceiling"]) == (200, "1d")
    assert stored(call) == Settings(backfill_max=50)
    assert (await call("POST", "/v1/jobs", {**JOB, "timeout": "3h"}))[0] == 201


async def test_a_patch_keeps_what_was_changed_meanwhile(call: Client) -> None:
    call.cluster.before = lambda: call.cluster.apply(PutSettings(Settings(catch_up_max=7))) and None
    status, shown = await call("PATCH", PATH, {"ageing": "30s"})
    assert (status, shown["catch_up_max"], shown["ageing"]) == (200, 7, "30s")


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"session_ttl": "1999ms"}, "/session_ttl", "from 2s to 10m"),
        ({"session_ttl": 5}, "/session_ttl", "a duration"),
        ({"session_ttl": "soon"}, "/session_ttl", "is not a duration"),
        ({"catch_up_max": 0}, "/catch_up_max", "from 1 to 10,000"),
        ({"catch_up_max": "5"}, "/catch_up_max", "from 1 to 10,000"),
        ({"output_max_bytes": 4095}, "/output_max_bytes", "from 4,096 to 268,435,456"),
        ({"output_max_bytes": "8MiB"}, "/output_max_bytes", "from 4,096 to 268,435,456"),
        ({"output_keep": "59m"}, "/output_keep", "from 1h to 3650d"),
        ({"catchup_max": 5}, "/catchup_max", 'did you mean "catch_up_max"'),
        ({"session_ttl_ms": None}, "/session_ttl_ms", 'did you mean "session_ttl"'),
        ([], "", "an object"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_changed(call: Client, body: Any, pointer: str, says: str) -> None:
    if isinstance(body, dict):
        body["ageing"] = "1h"
    status, problem = await call("PATCH", PATH, body)
    assert (status, problem["code"]) == (422, "invalid-body")
    assert [e for e in problem["errors"] if e["pointer"] == pointer and says in e["detail"]], problem
    assert stored(call) == Settings()
    assert call.cluster.proposals == 0


async def test_paused_until_it_is_resumed(call: Client) -> None:
    assert (await call("GET", "/v1/cluster"))[1]["paused"] is False
    for action, paused in (("pause", True), ("pause", True), ("resume", False), ("resume", False)):
        assert await call("POST", f"/v1/cluster/{action}") == (200, {"paused": paused})
        assert (await call("GET", "/v1/cluster"))[1]["paused"] is paused
        assert f"raftsched_cluster_paused {float(paused)}" in (await call("GET", "/metrics"))[1]
    assert (await call("POST", "/v1/cluster/pause", {"for": "5m"}))[0] == 422
    assert (await call("POST", "/v1/cluster/pause?for=5m"))[0] == 400
    assert (await call("GET", "/v1/cluster/pause"))[0] == 405
    assert (await call("PUT", PATH, {}))[0] == 405
    call.cluster.failure = NoLeader()
    assert (await call("POST", "/v1/cluster/pause"))[0] == 503
    assert (await call("PATCH", PATH, {"ageing": "1h"}))[0] == 503
    assert (await call("GET", "/v1/cluster"))[1]["paused"] is False
