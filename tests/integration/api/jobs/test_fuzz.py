"""Whatever is posted: never 5xx, and what is accepted can be read, put back and listed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from raftsched.surface.content import HandlerIn, TriggerIn
from raftsched.surface.jobs_generated import JobIn
from tests.support.amounts import examples
from tests.support.local_api import LocalCluster, serving

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
durations = st.sampled_from(["5s", "1h30m", "PT1H", "-1s", "99999999w", "0s", "1.0001s", ""]) | text
times = st.sampled_from(["2031-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2031-01-01"])
crons = st.sampled_from(["* * * * *", "61 * * * *", "0 0 31 2 *", "@daily", "@every 5s", "H H * * *", "L L L L L"])
near = {
    "at": times,
    "in": durations,
    "every": durations,
    "jitter": durations,
    "starts_at": times,
    "ends_at": times,
    "cron": crons | text,
    "timezone": st.sampled_from(["Europe/Madrid", "UTC", "", "../etc/passwd", "\0"]) | text,
    "manual": st.booleans(),
    "max_runs": st.integers(-1, 2**65),
    "exec": st.lists(text, max_size=3),
    "shell": text,
    "python": st.sampled_from(["a:b", "a.b:c", ":"]) | text,
    "http": st.fixed_dictionaries({"url": st.sampled_from(["http://a/", "http://[::1", "//", "http://a:b/"]) | text}),
    "env": st.dictionaries(text, text, max_size=2),
    "params": st.dictionaries(text, junk, max_size=3),
    "labels": st.dictionaries(text, text, max_size=3),
    "priority": st.integers(-2, 12),
    "timeout": durations,
    "name": st.sampled_from(["a", "b", "A", "", "a" * 129, "a\0b", "ä"]) | st.none(),
    "namespace": st.sampled_from(["a", "b", "", "a" * 65]) | st.none(),
}


def loose(model: type[msgspec.Struct], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with fields of the model, their values near to what is right or far from it."""
    known = {**near, **fixed}
    fields = {name: known.get(name, junk) for name in model.__struct_encode_fields__}
    return st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({n: fields[n] | st.just(None) if n in near else fields[n] for n in names})
    )


triggers = st.sampled_from([{"in": "5m"}, {"cron": "0 2 * * *"}, {"every": "5s"}]) | loose(TriggerIn)
handlers = st.sampled_from([{"exec": ["true"]}, {"shell": "true"}]) | loose(HandlerIn)
jobs = st.builds(
    lambda job, trigger, handler: {**job, "trigger": trigger, "handler": handler},
    loose(JobIn, trigger=triggers, handler=handlers),
    triggers,
    handlers,
)
bodies = (jobs | junk).map(msgspec.json.encode)
broken = st.tuples(bodies, st.integers(0, 400), st.binary(max_size=3)).map(
    lambda t: t[0][: t[1]] + t[2] + t[0][t[1] + 1 :]
)


def test_never_5xx(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    cluster = LocalCluster(tmp_path)
    accepted = 0

    async def probe(call: Any, raw: bytes) -> None:
        nonlocal accepted
        status, answer = await call("POST", "/v1/jobs", raw)
        assert status in (200, 201, 400, 409, 413, 422), (raw, status, answer)
        if status >= 400:
            assert answer["status"] == status
            assert answer["detail"]
            return
        accepted += 1
        path = f"/v1/jobs/{answer['id']}"
        assert await call("GET", path) == (200, answer)
        status, again = await call("PUT", path, answer)
        assert (status, again) == (200, answer), raw
        status, _ = await call("GET", f"{path}/next")
        assert status == 200
        status, _ = await call("POST", "/v1/jobs:batch", b"[" + raw + b"]")
        assert status == 200
        assert (await call("GET", "/v1/jobs?order=desc&limit=3"))[0] == 200
        assert (await call("DELETE", path))[0] == 200

    try:
        manager = serving(cluster, "n1")
        call = loop.run_until_complete(manager.__aenter__())
        try:

            @settings(deadline=None, max_examples=examples(300), suppress_health_check=list(HealthCheck))
            @given(bodies | broken)
            @example(b'{"trigger": {"in": "5m"}, "handler": {"shell": "true"}}')
            def fuzz(raw: bytes) -> None:
                loop.run_until_complete(probe(call, raw))

            fuzz()
        finally:
            loop.run_until_complete(manager.__aexit__(None, None, None))
    finally:
        cluster.close()
        loop.close()
    assert accepted, "not one body was accepted: the fuzz tests nothing"
