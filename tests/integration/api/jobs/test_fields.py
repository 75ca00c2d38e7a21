"""?fields: the same values as without it, and nothing else is rendered or computed."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.jobs import partial
from raftsched.api.runs.instance_fields import INSTANCE
from raftsched.core.commands import Assign, Started
from raftsched.core.ids import parse_instance
from raftsched.surface.job_shapes import FIELDS as JOB_FIELDS
from tests.integration.api.runs.test_dead_letters import dead
from tests.support.local_api import Client

JOBS: list[dict[str, Any]] = [
    {"trigger": {"manual": True}, "handler": {"exec": ["true"]}},
    {
        "name": "full", "namespace": "billing", "trigger": {"cron": "0 2 * * *", "timezone": "Europe/Madrid"},
        "handler": {"shell": "echo"}, "params": {"a": 1}, "description": "d", "owner": "ana", "priority": 7,
        "queue": "slow", "timeout": "1m", "grace": "3s", "retry": {"delays": ["5s"]}, "overlap": "allow",
        "labels": {"team": "fin"}, "placement": {"labels": {"zone": "a"}}, "suspend_after": 3, "max_lost": 1,
        "conditions": [{"path": "/tmp/x"}],
    },
    {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}, "suspended": True},
    {"trigger": {"in": "5m"}, "handler": {"exec": ["true"]}, "delivery": "at_most_once", "name": "once"},
]  # fmt: skip


async def items(call: Client, path: str) -> list[Any]:
    status, page = await call("GET", path)
    assert status == 200, page
    found: list[Any] = page["items"]
    return found


async def starts(call: Client, job_id: str) -> None:
    """A run of it is under way."""
    cluster = call.cluster
    _, made = await call("POST", f"/v1/jobs/{job_id}/run")
    key = parse_instance(made["id"])
    assert key is not None
    session = cluster.sessions.get("n1") or cluster.open_session("n1", "h:1")
    token = getattr(cluster.apply(Assign(key, session))[0], "number", 0)
    cluster.apply(Started(session, token, cluster.clock.wall))


async def fill(call: Client) -> None:
    ids = []
    for job in JOBS:
        status, made = await call("POST", "/v1/jobs", job)
        assert status == 201, made
        ids.append(made["id"])
    await dead(call, ids[0], 2)
    await starts(call, ids[3])
    await call("POST", f"/v1/jobs/{ids[1]}/run", {"params": {"b": 2}})


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v1/jobs", JOB_FIELDS),
        ("/v1/instances", tuple(INSTANCE)),
        ("/v1/dead-letters", ("dead_since", *INSTANCE)),
    ],
)
async def test_each_field_is_what_it_is_in_the_whole(call: Client, path: str, known: tuple[str, ...]) -> None:
    await fill(call)
    whole = await items(call, path)
    assert len(whole) >= 2
    assert set(known) == set(whole[0])
    assert await items(call, f"{path}?fields={','.join(known)}") == whole
    for name in known:
        assert await items(call, f"{path}?fields={name}") == [{name: one[name]} for one in whole]
    two = f"{known[-1]},{known[0]},{known[0]}"
    assert await items(call, f"{path}?fields={two}") == [{k: o[k] for k in (known[-1], known[0])} for o in whole]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/instances", "/v1/dead-letters"])
async def test_an_unknown_field_is_refused_with_those_there_are(call: Client, path: str) -> None:
    for wrong in ("", "id,", "id,nmae", "ID"):
        status, problem = await call("GET", f"{path}?fields={wrong}")
        assert (status, problem["errors"][0]["parameter"]) == (400, "fields")
        assert "scheduled_at" in problem["detail"] or "next_fire_at" in problem["detail"]


async def test_a_cursor_goes_on_with_other_fields(call: Client) -> None:
    await fill(call)
    _, page = await call("GET", "/v1/jobs?limit=2&fields=id")
    _, rest = await call("GET", f"/v1/jobs?limit=2&fields=name&cursor={page['next']}")
    assert [one["name"] for one in rest["items"]] == [None, "once"]


async def test_what_is_not_wanted_is_not_computed(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("nobody asked for this")

    await fill(call)
    for name in ("_shown", "fill_in", "next_fire_at_ms"):
        monkeypatch.setattr(partial, name, never)
    monkeypatch.setattr(type(call.context), "live_attempt", never)
    await items(call, "/v1/jobs?fields=id,name,namespace,state,failures_in_a_row")
