"""Whatever is said about queues, nodes and settings: never 5xx, and what is accepted is what is read afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from raftsched.api.context import meta
from raftsched.cluster_settings import SETTINGS
from raftsched.surface.calendars import CalendarIn, RangeIn
from raftsched.surface.content import RateIn
from raftsched.surface.nodes import NodeIn
from raftsched.surface.queues import QueueIn
from raftsched.surface.settings import SettingsIn
from tests.integration.api.jobs.test_fuzz import durations, junk, loose, text
from tests.support.amounts import examples
from tests.support.local_api import LocalCluster, serving

numbers = st.sampled_from([0, 1, 5, 10_000, 10_001, 2**31, 2**63, 2**64, -1]) | st.integers()
rates = st.fixed_dictionaries({"count": numbers, "per": durations}) | loose(RateIn, count=numbers, per=durations)
limits = {"max_running": numbers | st.none(), "rate": rates | st.none(), "paused": st.booleans()}
labels = st.dictionaries(text, text | st.none(), max_size=3) | st.none() | junk
values = numbers | durations | st.none()
queues = loose(QueueIn, **limits)
nodes = loose(NodeIn, slots=numbers | st.none(), labels=labels, drained=st.booleans())
changes = loose(SettingsIn, **dict.fromkeys(SettingsIn.__struct_encode_fields__, values))
days = st.sampled_from(["2030-01-01", "2030-02-30", "2099-12-31", "2100-01-01", "01-01", "02-29", "02-30", ""]) | text
ranges = st.fixed_dictionaries({"from": days, "to": days}) | loose(RangeIn, **{"from": days, "to": days})
weekdays = st.sampled_from(["mon", "sun", "Sun", "sunday"])
zones = st.sampled_from(["UTC", "Europe/Madrid", "Mars/Olympus", ""])
listed = {"dates": days, "ranges": ranges, "yearly": days, "weekdays": weekdays}
calendars = loose(
    CalendarIn,
    description=text | st.none(),
    timezone=zones | st.none(),
    **{name: st.lists(one, max_size=3) | st.none() for name, one in listed.items()},
)
requests = st.one_of(
    st.tuples(st.sampled_from(["PUT", "PATCH"]), st.just("/v1/calendars/c"), calendars | junk),
    st.tuples(st.sampled_from(["PUT", "PATCH"]), st.sampled_from(["/v1/queues/q", "/v1/queues/r"]), queues | junk),
    st.tuples(st.just("PATCH"), st.just("/v1/nodes/n1"), nodes | junk),
    st.tuples(st.just("PATCH"), st.just("/v1/cluster/settings"), changes | junk),
)


def test_never_5xx(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    cluster = LocalCluster(tmp_path)
    accepted: set[str] = set()

    async def probe(call: Any, method: str, path: str, body: Any) -> None:
        status, answer = await call(method, path, msgspec.json.encode(body))
        assert status in (200, 201, 400, 404, 413, 422), (method, path, body, status, answer)
        if status >= 400:
            assert answer["detail"], body
            return
        accepted.add(path)
        assert await call("GET", path) == (200, answer), (method, path, body)
        status, again = await call(
            "PUT" if "queues" in path or "calendars" in path else "PATCH", path, _given(path, answer)
        )
        if "nodes" in path:  # what the node itself says is now said of it: that is a change
            again["revision"] = answer["revision"]
        assert (status, again) == (200, answer), (method, path, body)
        with cluster.store.read() as view:
            kept = meta(view).settings
        assert all(row.least <= getattr(kept, field) <= row.most for field, row in SETTINGS.items())

    try:
        cluster.open_session("n1", "127.0.0.1:1")
        manager = serving(cluster, "n1")
        call = loop.run_until_complete(manager.__aenter__())
        for name in ("q", "r"):  # before queues_max can be lowered
            assert loop.run_until_complete(call("PUT", f"/v1/queues/{name}", {}))[0] == 201
        try:

            @settings(deadline=None, max_examples=examples(300), suppress_health_check=list(HealthCheck))
            @given(requests)
            @example(("PUT", "/v1/calendars/c", {"dates": ["2030-01-01"]}))
            @example(("PUT", "/v1/queues/q", {"max_running": 1}))
            @example(("PATCH", "/v1/queues/r", {"paused": True}))
            @example(("PATCH", "/v1/nodes/n1", {"labels": {"a": "b"}}))
            @example(("PATCH", "/v1/cluster/settings", {"queues_max": 10}))
            def fuzz(request: tuple[str, str, Any]) -> None:
                loop.run_until_complete(probe(call, *request))

            fuzz()
        finally:
            loop.run_until_complete(manager.__aexit__(None, None, None))
    finally:
        cluster.close()
        loop.close()
    assert accepted == {"/v1/calendars/c", "/v1/queues/q", "/v1/queues/r", "/v1/nodes/n1", "/v1/cluster/settings"}


def _given(path: str, answer: dict[str, Any]) -> dict[str, Any]:
    """As it may be put back: of a node what can be said of it."""
    if "nodes" not in path:
        return answer
    return {"drained": answer["drained"], "slots": answer["slots"], "labels": answer["labels"]}
