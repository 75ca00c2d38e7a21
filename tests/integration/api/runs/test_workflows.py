"""Jobs that follow others: as they are written, what a run of theirs shows, and workflows as one thing."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import raftsched
from raftsched.core.commands import Assign, Ended
from raftsched.core.ids import parse_instance, parse_job
from raftsched.core.model import After, AfterOn, Job, Outcome
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, u64
from tests.support.local_api import Client

HANDLER = {"exec": ["true"]}


async def create(call: Client, name: str, after: Any = None, namespace: str = "default", **fields: Any) -> Any:
    trigger = {"manual": True} if after is None else {"after": after}
    body = {"name": name, "namespace": namespace, "trigger": trigger, "handler": HANDLER, **fields}
    status, job = await call("POST", "/v1/jobs", body)
    assert status == 201, job
    return job


async def start(call: Client, name: str = "a") -> str:
    _, made = await call("POST", f"/v1/namespaces/default/jobs/{name}/run", {})
    return str(made["id"])


async def the_run(call: Client, name: str) -> Any:
    _, found = await call("GET", f"/v1/namespaces/default/jobs/{name}/instances")
    (one,) = found["items"]
    return one


async def end(call: Client, name: str, outcome: Outcome = Outcome.SUCCEEDED, result: bytes | None = None) -> str:
    row = await the_run(call, name)
    key, session = parse_instance(row["id"]), call.cluster.sessions.get("n1") or call.cluster.open_session("n1", "")
    assert key is not None
    (answer,) = call.cluster.apply(Assign(key, session))
    now = call.cluster.clock.wall
    call.cluster.apply(Ended(session, getattr(answer, "number", 0), outcome, now, now, result=result))
    return str(row["id"])


def after_of(call: Client, job: Any) -> After | None:
    number = parse_job(job["id"])
    assert number is not None
    with call.cluster.store.read() as view:
        return decode_job(view.get(Table.JOBS, u64(number)) or b"").policy.trigger.after


async def test_what_a_job_follows_goes_in_and_comes_out(call: Client) -> None:
    one = await create(call, "b", {"job": "a"})
    assert one["trigger"] == {"after": {"job": "a"}}
    assert after_of(call, one) == After(("default/a",), AfterOn.SUCCEEDED)
    given = {"all_of": ["a", "billing/x"], "on": "ended", "pass": "result"}
    several = await create(call, "c", given, namespace="other")
    assert several["trigger"]["after"] == given
    assert after_of(call, several) == After(("other/a", "billing/x"), AfterOn.ENDED, False, True)
    first = await create(call, "d", {"any_of": ["a", "b"], "on": "failed"})
    assert after_of(call, first) == After(("default/a", "default/b"), AfterOn.FAILED, True)
    assert await call("PUT", f"/v1/jobs/{first['id']}", first) == (200, first)
    status, shown = await call("POST", "/v1/schedules/preview", {"trigger": {"after": {"any_of": ["a", "b"]}}})
    words = "when the first run of default/a and default/b has succeeded"
    assert (status, shown["description"], shown["next"]) == (200, words, [])


@pytest.mark.parametrize(
    ("trigger", "pointer", "detail"),
    [
        ({"after": {}}, "/trigger/after", "names no job"),
        ({"after": {"job": "a", "any_of": ["b"]}}, "/trigger/after", "has job and any_of"),
        ({"after": {"job": "A b"}}, "/trigger/after/job", "is no job"),
        ({"after": {"all_of": ["a", "default/a"]}}, "/trigger/after/all_of/1", "names the same job"),
        ({"after": {"all_of": []}}, "/trigger/after/all_of", "has 0 jobs"),
        ({"after": {"any_of": [f"j{i}" for i in range(101)]}}, "/trigger/after/any_of", "has 101 jobs"),
        ({"after": {"job": "a", "on": "killed"}}, "/trigger/after/on", "must be"),
        ({"after": {"job": "a", "pass": "all"}}, "/trigger/after/pass", "must be"),
        ({"after": {"job": "a"}, "jitter": "1s"}, "/trigger/jitter", "has no meaning"),
        ({"after": {"job": "a"}, "every": "1h"}, "/trigger", "has every and after"),
        ({"after": {"job": "b"}}, "/trigger/after", "waits for"),
    ],
)
async def test_what_is_wrong_is_said_where_it_is(call: Client, trigger: Any, pointer: str, detail: str) -> None:
    body = {"name": "b", "trigger": trigger, "handler": HANDLER}
    for path in ("/v1/jobs", "/v1/jobs:check"):
        status, problem = await call("POST", path, body)
        assert (status, problem["errors"][0]["pointer"]) == (422, pointer)
        assert detail in problem["errors"][0]["detail"]


async def test_a_run_says_what_started_it(call: Client) -> None:
    await create(call, "a")
    await create(call, "b", {"job": "a", "pass": "result"})
    await create(call, "c", {"all_of": ["a", "b"]})
    root = await start(call)
    await end(call, "a", result=b'{"rows":3}')
    row = await the_run(call, "b")
    assert (row["cause"], row["root"], row["joined"], row["manual"]) == (root, root, None, False)
    assert row["passed"] == {"default/a": {"rows": 3}}
    _, why = await call("GET", f"/v1/instances/{row['id']}/explain")
    assert why["why_then"]["made_by"] == "after"
    assert f"by the end of run {root} of job default/a. Its scheduled time" in why["text"]
    last = await end(call, "b")
    row = await the_run(call, "c")
    assert (row["cause"], row["root"], row["joined"]) == (last, root, [root, last])
    _, why = await call("GET", f"/v1/instances/{row['id']}/explain")
    assert f"by the ends of 2 runs, the last of which was {last} of job default/b." in why["text"]
    _, part = await call("GET", "/v1/instances?fields=id,cause,root,joined,passed")
    assert {one["root"] for one in part["items"]} == {root}


async def test_one_that_could_not_be_started_says_why(call: Client) -> None:
    await create(call, "a")
    await create(call, "b", {"job": "a"}, suspended=True)
    await start(call)
    await end(call, "a")
    row = await the_run(call, "b")
    assert (row["state"], row["reason"]) == ("SKIPPED", "suspended")
    _, why = await call("GET", f"/v1/instances/{row['id']}/explain")
    assert "of job default/a" in why["text"]
    assert why["text"].endswith("was skipped: its job was suspended before it could be fired.")


async def test_a_workflow_is_read_in_pages_and_by_any_of_its_runs(call: Client) -> None:
    await create(call, "a")
    for name in "bcd":
        await create(call, name, {"job": "a"})
    root = await start(call)
    _, alone = await call("GET", f"/v1/workflows/{root}")
    assert (alone["state"], alone["counts"]["active"], len(alone["items"])) == ("running", 1, 1)
    await end(call, "a")
    await end(call, "b", Outcome.FAILED)
    _, shown = await call("GET", f"/v1/workflows/{root}?limit=3")
    assert (shown["id"], shown["job"], shown["state"]) == (root, "default/a", "running")
    active = {"active": 2, "succeeded": 1, "failed": 1, "timed_out": 0, "killed": 0, "skipped": 0}
    assert (shown["counts"], shown["exact"]) == (active, True)
    assert [one["job"] for one in shown["items"]] == ["default/a", "default/b", "default/c"]
    assert [one["cause"] for one in shown["items"]] == [None, root, root]
    _, more = await call("GET", f"/v1/workflows/{root}?limit=3&cursor={shown['next']}")
    assert ([one["job"] for one in more["items"]], more["next"]) == (["default/d"], None)
    await end(call, "c")
    last = await end(call, "d")
    _, whole = await call("GET", f"/v1/workflows/{last}")
    assert (whole["id"], whole["state"]) == (root, "failed")
    assert (await call("GET", f"/v1/workflows/{root[:-1]}"))[0] == 404


async def test_workflows_are_listed_the_newest_first(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(query: str = "") -> list[Any]:
        status, page = await call("GET", f"/v1/workflows?{query}")
        assert status == 200, page
        return [one["id"] for one in page["items"]]

    status, refused = await call("GET", "/v1/workflows?limit=1001")  # also while there is nothing to list
    assert (status, refused["errors"][0]["parameter"]) == (400, "limit")
    for name in "axyz":
        await create(call, name)
        await create(call, f"behind-{name}", {"job": name})
    assert await listed() == []
    roots = {}
    for name in "axy":
        call.cluster.clock.wall += 1_000
        roots[name] = await start(call, name)
        await end(call, name, Outcome.FAILED if name == "y" else Outcome.SUCCEEDED)
    await end(call, "behind-a")
    assert await listed() == [roots["x"], roots["a"]]  # the failure of y started nothing
    assert await listed("state=running") == [roots["x"]]
    assert await listed("job=default/a&state=succeeded") == [roots["a"]]
    assert await listed("namespace=other") == []
    (x,) = (await call("GET", "/v1/workflows?job=default/x"))[1]["items"]
    assert await listed(f"to={x['scheduled_at']}") == [roots["a"]]
    assert await listed(f"from={x['scheduled_at']}") == [roots["x"]]
    _, whole = await call("GET", f"/v1/workflows/{roots['x']}")
    assert whole | x == whole
    for most, number in (("COUNT_MAX", 1), ("COUNT_MAX", 3), ("SCAN_MAX", 1)):  # to read a run costs more than counting
        with monkeypatch.context() as limits:
            limits.setattr(f"raftsched.api.runs.workflows.{most}", number)
            _, page = await call("GET", "/v1/workflows")
            assert [one["id"] for one in page["items"]] == [roots["x"]]
            _, rest = await call("GET", f"/v1/workflows?cursor={page['next']}")
            assert ([one["id"] for one in rest["items"]], rest["next"]) == ([roots["a"]], None)
    assert (await call("GET", "/v1/workflows?job=default/nobody"))[0] == 404
    assert (await call("GET", "/v1/workflows?state=SUCCEEDED"))[0] == 400


async def test_a_list_says_when_workflows_started_and_ended(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(call, "a")
    await create(call, "b", {"job": "a"})
    root = await start(call)

    async def shown() -> tuple[Any, Any]:
        _, found = await call("GET", "/v1/workflows")
        (one,) = [row for row in found["items"] if row["id"] == root]
        _, read = await call("GET", f"/v1/workflows/{root}")
        assert (read["started_at"], read["ended_at"]) == (one["started_at"], one["ended_at"])
        return one["started_at"], one["ended_at"]

    await end(call, "a")
    first = await the_run(call, "a")
    assert await shown() == (first["attempts"][0]["started_at"], None)
    call.cluster.clock.wall += 3_000
    await end(call, "b")
    second = await the_run(call, "b")
    assert second["ended_at"] > first["ended_at"]
    assert await shown() == (first["attempts"][0]["started_at"], second["ended_at"])
    monkeypatch.setattr("raftsched.api.runs.workflows._DATED_MAX", 1)
    assert await shown() == (first["attempts"][0]["started_at"], None)


async def test_a_workflow_is_killed_as_one(call: Client) -> None:
    await create(call, "a")
    await create(call, "b", {"job": "a"})
    await create(call, "c", {"job": "b", "on": "ended"})
    root = await start(call)
    await end(call, "a")
    b = (await the_run(call, "b"))["id"]
    status, problem = await call("POST", f"/v1/workflows/{b}/kill")
    assert (status, problem["code"]) == (409, "illegal-transition")
    for _ in range(2):
        answer = await call("POST", f"/v1/workflows/{root}/kill", headers={"Idempotency-Key": "k"})
        assert answer == (202, {"id": root, "killed": 1})
    _, shown = await call("GET", f"/v1/workflows/{root}")
    assert (shown["state"], shown["killed_at"] is None, len(shown["items"])) == ("killed", False, 2)
    assert (await call("POST", "/v1/workflows/0000000000000@1/kill"))[0] == 404


async def test_rerun_from_here_on(call: Client) -> None:
    await create(call, "a")
    await create(call, "b", {"job": "a"})
    root = await start(call)
    await end(call, "a")
    await end(call, "b")
    assert (await call("POST", f"/v1/instances/{root}/rerun"))[0] == 202
    await end(call, "a")
    assert (await the_run(call, "b"))["state"] == "SUCCEEDED"
    assert (await call("POST", f"/v1/instances/{root}/rerun", {"downstream": True}))[0] == 202
    await end(call, "a")
    assert (await the_run(call, "b"))["state"] == "WAITING"
    _, shown = await call("GET", f"/v1/workflows/{root}")
    assert (shown["state"], shown["reruns"]) == ("running", 1)
    status, problem = await call("POST", f"/v1/instances/{root}/rerun", {"downstream": True})
    assert (status, "which follows it, is WAITING" in problem["detail"]) == (409, True)
    assert (await call("POST", f"/v1/instances/{root}/rerun", {"downstream": 1}))[0] in (400, 422)


async def test_the_graph_of_a_namespace_and_around_a_job(call: Client) -> None:
    await create(call, "a")
    await create(call, "b", {"all_of": ["a", "gone"]})
    await create(call, "c", {"any_of": ["b", "x"], "on": "ended"})
    await create(call, "d", conditions=[{"job_succeeded": "default/c", "within": "1h"}])
    await create(call, "alone")
    await create(call, "e", {"job": "default/a"}, namespace="other")
    _, graph = await call("GET", "/v1/jobs:graph?namespace=default")
    assert [(one["name"], one["state"]) for one in graph["jobs"]] == [
        ("default/b", "SCHEDULED"),
        ("default/a", "SCHEDULED"),
        ("default/gone", None),
        ("default/c", "SCHEDULED"),
        ("default/x", None),
        ("default/d", "SCHEDULED"),
    ]
    edge = {"from": "default/a", "to": "default/b", "kind": "after", "on": "succeeded", "mode": "all"}
    assert edge in graph["edges"]
    assert graph["edges"][-1]["kind"] == "condition"
    assert graph["complete"]
    _, around = await call("GET", "/v1/jobs:graph?job=default/a")
    assert {one["name"] for one in around["jobs"]} == {f"default/{n}" for n in ("a", "b", "gone", "c", "x")} | {
        "other/e"
    }
    _, everything = await call("GET", "/v1/jobs:graph")
    assert len(everything["edges"]) == 6
    assert (await call("GET", "/v1/jobs:graph?job=default/nobody"))[0] == 404


async def test_a_graph_of_more_than_one_answer_holds(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.api.jobs.graph.JOBS_MAX", 3)
    await create(call, "a")
    for name in "bcd":
        await create(call, name, {"job": "a"})
    for query in ("", "?job=default/a"):
        _, graph = await call("GET", f"/v1/jobs:graph{query}")
        assert (len(graph["jobs"]), graph["complete"]) == (3, False)


async def test_a_graph_looks_at_each_job_once_and_lets_others_have_their_turn(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []  # the turn of each
    turn = 0

    def counted(raw: bytes) -> Job:
        decoded.append(turn)
        return decode_job(raw)

    async def tick() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    layers, wide = 4, 8
    for layer in range(layers):
        before = [f"l{layer - 1}-{at}" for at in range(wide)]
        for at in range(wide):
            await create(call, f"l{layer}-{at}", {"any_of": before} if layer else None)
    ticking = asyncio.create_task(tick())
    monkeypatch.setattr("raftsched.api.jobs.graph.decode_job", counted)
    monkeypatch.setattr("raftsched.api.http.slices.SLICE_S", 0.0)
    jobs, edges = layers * wide, (layers - 1) * wide * wide
    for query, shown, drawn in (
        ("?namespace=default", jobs, edges),
        ("?job=default/l0-0", jobs, edges),
        (f"?job=default/l{layers - 1}-0", jobs - wide + 1, edges - wide * (wide - 1)),
    ):
        decoded.clear()
        _, graph = await call("GET", f"/v1/jobs:graph{query}")
        assert (len(graph["jobs"]), len(graph["edges"]), graph["complete"]) == (shown, drawn, True)
        assert len(decoded) <= 2 * jobs
        assert max(Counter(decoded).values()) <= 5
    ticking.cancel()


@pytest.mark.parametrize("query", ["", "?namespace=default", "?job=default/a", "?job=default/b0"])
@pytest.mark.parametrize(("limit", "value"), [("EDGES_MAX", 6), ("LOOK_MAX", 0)])
async def test_a_graph_is_bounded(
    call: Client, monkeypatch: pytest.MonkeyPatch, query: str, limit: str, value: int
) -> None:
    await create(call, "a")
    for at in range(4):
        await create(call, f"b{at}", {"any_of": ["a", "x", "y"]})
    assert (await call("GET", "/v1/jobs:graph?job=default/a"))[1]["complete"]
    monkeypatch.setattr(f"raftsched.api.jobs.graph.{limit}", value)
    _, graph = await call("GET", f"/v1/jobs:graph{query}")
    small = value == 6 and query.endswith("b0")  # three edges
    assert (len(graph["edges"]) <= value, graph["complete"]) == (True, small)


async def test_the_client_waits_for_a_workflow_and_kills_it(call: Client) -> None:
    async with raftsched.AsyncClient(call.url) as client:
        trigger: raftsched.JobSpec = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}
        await client.jobs.create(trigger, name="a")
        made = await client.jobs.create(trigger, name="b", trigger={"after": {"job": "a"}})
        graph = await client.jobs.graph(job=made)
        assert [(edge.from_, edge.to) for edge in graph.edges] == [("default/a", "default/b")]
        run_of_a = await client.jobs.run("default/a")
        await end(call, "a")
        assert [one.state async for one in client.workflows.runs(run_of_a)] == ["SUCCEEDED", "WAITING"]
        with pytest.raises(TimeoutError):
            await client.workflows.wait(run_of_a, timeout=0.01)
        assert await client.workflows.kill(run_of_a) == 1
        whole = await client.workflows.wait(run_of_a)
        assert (whole.id, whole.state, whole.counts.killed) == (run_of_a.id, "killed", 1)
        assert [one async for one in client.workflows.list(job="default/a", state="killed")] == [whole]
        again = await client.instances.rerun(run_of_a, downstream=True)
        assert (again.state, again.root) == ("WAITING", run_of_a.id)
