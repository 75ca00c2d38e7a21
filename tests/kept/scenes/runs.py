"""Runs on a remote worker, from their start to their end, and all that shows them."""

from __future__ import annotations

from typing import Any

from raftsched.core.commands import Assign
from raftsched.core.ids import parse_instance
from tests.kept.asking import Asking
from tests.kept.scenes.jobs import MANUAL, TRUE
from tests.support.worker_sessions import sent

WORKER = {"name": "w1", "handlers": ["exec", "shell", "call:count"], "slots": 4, "labels": {"disk": "ssd"}}
RAW = {"Content-Type": "application/octet-stream"}


async def given(ask: Asking, session: str, path: str, **asked: Any) -> tuple[str, int]:
    """Returns a new run that the leader gave to the session, and its token."""
    ran = await ask("POST", f"{path}/run", asked)
    key = parse_instance(ran["id"])
    assert key is not None, ran
    (answer,) = ask.cluster.apply(Assign(key, int(session.partition("-")[0])))
    token: int = getattr(answer, "number")  # noqa: B009 of one kind of answer
    return ran["id"], token


async def poll(ask: Asking, session: str, **said: Any) -> Any:
    path, headers = sent(session, "/poll")
    return await ask("POST", path, said, headers)


async def finished(ask: Asking, session: str, path: str, *, note: bool = True, **report: Any) -> str:
    """Returns a run that ended as reported."""
    run, token = await given(ask, session, path)
    address, headers = sent(session, "/poll")
    ask.cluster.clock.forward(1_500)
    await ask("POST", address, {"wait_ms": 0}, headers, note=note)
    body = {"reports": [{"token": token, "outcome": "succeeded", "exit_code": 0, **report}]}
    await ask("POST", address, body, headers, note=note)
    return run


async def lived(ask: Asking) -> None:
    """A session, runs of each outcome, their output, and what is done to them."""
    ask.cluster.open_session("n1", "127.0.0.1:1")
    await ask("POST", "/v1/worker-sessions", {"name": "w1"})
    await ask("POST", "/v1/worker-sessions", {**WORKER, "slots": 0, "nope": 1})
    session = (await ask("POST", "/v1/worker-sessions", {**WORKER, "incarnation": "i", "opening": 1}))["session"]
    path = "/v1/namespaces/default/jobs/worked"
    job = {**MANUAL, "overlap": "allow", "retry": {"delays": ["5s"]}, "max_concurrency": 10}
    await ask("PUT", path, job)
    run, token = await given(ask, session, path, params={"n": 1})
    await ask("GET", f"/v1/instances/{run}")
    await ask("GET", f"/v1/instances/{run}/explain")
    await poll(ask, session, wait_ms=0)
    await poll(ask, session, wait_ms=-1)
    output = f"/v1/worker-sessions/{session.partition('-')[0]}/runs/{token}/output"
    secret = sent(session)[1]
    await ask("PUT", f"{output}?offset=0", b"one\ntwo\n", RAW | secret)
    await ask("PUT", f"{output}?offset=3", b"x", RAW | secret)
    await ask("PUT", f"{output}?offset=8", b"x", RAW)
    await ask("PUT", output, b"x", RAW | secret)
    await ask("PUT", f"{output}?offset=8&stream=stdin", b"x", RAW | secret)
    await ask("GET", f"/v1/instances/{run}/output")
    await poll(ask, session, reports=[{"token": token, "progress": {"percent": 50, "text": "half"}}])
    await ask("GET", "/v1/instances?state=RUNNING&fields=id,state,progress,worker")
    ended = await ask("PUT", f"{output}?offset=8&end=true", b"three\n", RAW | secret)
    report = {
        "token": token,
        "outcome": "succeeded",
        "exit_code": 0,
        "result": {"a": [1]},
        "output_at": ended.get("output"),
    }
    ask.cluster.clock.forward(2_000)
    await poll(ask, session, reports=[report])
    await poll(ask, session, reports=[{"token": token, "outcome": "succeeded"}, {"token": 999, "outcome": "failed"}])
    await poll(ask, session, reports=[{"token": token, "outcome": "melted"}])
    good = await finished(ask, session, path, output="one\ntwo\nthree\n", result={"n": 7})
    for query in (
        "",
        "?tail=1",
        "?offset=4",
        "?attempt=1&stream=stdout",
        "?attempt=7",
        "?tail=x",
        "?limit_bytes=3",
        "?follow=true",
    ):
        await ask("GET", f"/v1/instances/{good}/output{query}")
    await ask("GET", f"/v1/instances/{good}/output", None, {"Range": "bytes=4-6"})
    await ask("GET", f"/v1/instances/{good}/output", None, {"Range": "bytes=400-"})
    await ask("GET", f"/v1/instances/{good}/output", None, {"Accept": "text/event-stream"})
    await ask("HEAD", f"/v1/instances/{good}/output")
    await ask("GET", f"/v1/instances/{good}")
    await ask("GET", f"/v1/instances/{good}/explain")
    bad = await finished(ask, session, path, outcome="failed", exit_code=3, error="three", output="no\n")
    await ask("GET", f"/v1/instances/{bad}")
    await ask("GET", f"/v1/instances/{bad}/explain")
    await ask("DELETE", f"/v1/instances/{bad}")
    late, token = await given(ask, session, path)
    await poll(ask, session)
    await ask("POST", f"/v1/instances/{late}/kill", {})
    await ask("POST", f"/v1/instances/{late}/kill", {"nope": 1})
    await poll(ask, session, killing=[token])
    await poll(ask, session, reports=[{"token": token, "outcome": "killed"}])
    await ask("POST", f"/v1/instances/{late}/kill", {})
    await ask("POST", f"/v1/instances/{late}/rerun", {})
    await ask("POST", f"/v1/instances/{late}/rerun", {"downstream": True})
    await ask("POST", f"/v1/instances/{late}/rerun", {"downstream": "yes"})
    waits = await ask("POST", f"{path}/run", {})
    await ask("GET", f"/v1/instances/{waits['id']}")
    await ask("GET", f"/v1/instances/{waits['id']}/explain")
    await ask("DELETE", f"/v1/instances/{waits['id']}")
    await ask("POST", "/v1/instances:kill", {"filter": {"job": "default/worked"}, "dry_run": True})
    await ask("POST", "/v1/instances:kill", {"filter": {}})
    await ask("POST", "/v1/instances:kill", {"filter": {"job": "default/nobody"}})
    await ask("POST", "/v1/instances:kill", {"filter": {"namespace": "default"}})
    await ask("GET", "/v1/workers")
    await ask("GET", "/v1/workers?limit=1")
    await ask("GET", "/v1/workers/w1")
    await ask("GET", "/v1/workers/w2")
    address, headers = sent(session, "/close")
    await ask("POST", address, {"ran": ["x"]}, headers)
    await ask("POST", address, {"ran": []}, headers)
    await ask("POST", address, {"ran": []}, headers)
    await poll(ask, session)
    await ask("POST", "/v1/worker-sessions/999/poll", {})


async def bound(ask: Asking) -> None:
    """A worker that gets another token, and goes on with its session."""
    for name, role in (("admin", "admin"), ("first", "worker"), ("second", "worker"), ("viewer", "viewer")):
        made = await ask("POST", "/v1/tokens", {"name": name, "role": role})
        ask.secrets[name] = made["secret"]
    await ask("PUT", "/v1/cluster/access", {"required": True}, who="admin")
    opened = await ask("POST", "/v1/worker-sessions", {**WORKER, "incarnation": "i"}, who="first")
    address, headers = sent(opened["session"], "/token")
    body = {"secret": ask.secrets["first"], "incarnation": "i"}
    await ask("POST", address, {**body, "secret": "x"}, headers, who="second")
    await ask("POST", address, {"incarnation": "i"}, headers, who="second")
    await ask("POST", address, body, who="second")
    await ask("POST", address, body, headers, who="viewer")
    await ask("POST", address, body, headers, who="second")
    await ask("POST", sent(opened["session"], "/poll")[0], {"wait_ms": 0}, headers, who="first")
    await ask("POST", sent(opened["session"], "/poll")[0], {"wait_ms": 0}, headers, who="second")


async def shown(ask: Asking) -> None:
    """Lists, counts, searches, events and workflows of runs that ended."""
    ask.cluster.open_session("n1", "127.0.0.1:1")
    opened = await ask("POST", "/v1/worker-sessions", {**WORKER, "incarnation": "i", "opening": 1}, note=False)
    session = opened["session"]
    path = "/v1/namespaces/default/jobs"
    body = {**MANUAL, "overlap": "allow", "max_concurrency": 10, "owner": "ana"}
    first = await ask("PUT", f"{path}/first", body, note=False)
    await ask("PUT", f"{path}/second", {"trigger": {"after": {"job": "first"}}, "handler": TRUE}, note=False)
    last = ""
    for number in range(3):
        last = await finished(ask, session, f"{path}/first", note=False, output=f"run {number}\nerror {number}\n")
    dead = [await finished(ask, session, f"{path}/first", note=False, outcome="failed", exit_code=n) for n in (1, 2)]
    ask.cluster.clock.forward(60_000)
    for query in (
        "",
        "?limit=2",
        "?limit=x",
        "?job=default/first&limit=1",
        "?job=default/nobody",
        "?namespace=default&state=SUCCEEDED&fields=id,state,late_ms",
        "?state=FAILED&fields=id,exit_code,attempts",
        "?state=LOST",
        "?worker=w1&limit=1&fields=id,worker",
        "?node=n1&limit=1",
        "?from=2030-01-01T00:00:02Z&to=2030-01-01T00:00:05Z&fields=id,scheduled_at",
        "?dead_letter=true&fields=id,dead_letter",
        "?dead_letter=maybe",
        f"?parent={last}",
        "?fields=nope",
        "?cursor=nope",
    ):
        await ask("GET", f"/v1/instances{query}")
    page = await ask("GET", "/v1/instances?limit=3&fields=id")
    await ask("GET", f"/v1/instances?limit=3&fields=id&cursor={page['next']}")
    await ask("GET", f"{path}/first/instances?state=SUCCEEDED&limit=1")
    await ask("GET", f"/v1/jobs/{first['id']}/instances?fields=id,state")
    for query in (
        f"?jobs={first['id']}",
        f"?jobs={first['id']}&count=2",
        "",
        "?jobs=x",
        f"?jobs={first['id']}&count=0",
    ):
        await ask("GET", f"/v1/instances:recent{query}")
    for query in (
        "?q=error",
        "?q=ERROR%201&ignore_case=true&limit=1",
        "?q=zzz",
        "",
        "?q=run&job=default/first&stream=stderr",
        "?q=run&limit=0",
    ):
        await ask("GET", f"/v1/instances:search{query}")
    for query in (
        "",
        "?from=2030-01-01T00:00:00Z&to=2030-01-01T00:01:00Z",
        "?state=FAILED&owner=ana",
        "?namespace=x",
        "?to=x",
    ):
        await ask("GET", f"/v1/stats{query}")
    await ask("GET", f"/v1/jobs/{first['id']}/stats?state=SUCCEEDED")
    await ask("GET", f"{path}/first/stats")
    await ask("GET", "/v1/stats/now")
    await ask("GET", "/v1/stats/now?namespace=default")
    await ask("GET", "/v1/stats/now?namespace=x")
    for query in (
        "?step=1h",
        "?from=2030-01-01T00:00:00Z&to=2030-01-01T00:05:00Z&step=1m&namespace=default",
        "?step=2m",
    ):
        await ask("GET", f"/v1/stats/minutes{query}")
    for query in ("", "?limit=1", "?job=default/first&state=running", "?state=lost", "?namespace=x"):
        await ask("GET", f"/v1/workflows{query}")
    flow = (await ask("GET", "/v1/workflows?limit=1"))["items"][0]["id"]
    await ask("GET", f"/v1/workflows/{flow}")
    await ask("GET", f"/v1/workflows/{flow}?limit=1")
    await ask("GET", "/v1/workflows/nope")
    await ask("POST", f"/v1/workflows/{flow}/kill", {})
    await ask("POST", f"/v1/workflows/{flow}/kill", {"nope": 1})
    for query in (
        "",
        "?limit=1&fields=id,exit_code",
        "?job=default/first&order=desc&fields=id",
        "?name_prefix=s",
        "?order=up",
        "?from=x",
    ):
        await ask("GET", f"/v1/dead-letters{query}")
    await ask("POST", "/v1/dead-letters/requeue", {"ids": [dead[0]], "dry_run": True})
    await ask("POST", "/v1/dead-letters/requeue", {"ids": [dead[0]]})
    await ask("POST", "/v1/dead-letters/requeue", {"ids": [dead[0]]})
    await ask("POST", "/v1/dead-letters/requeue", {"filter": {"job": "default/second"}})
    await ask("POST", "/v1/dead-letters/requeue", {"all": False})
    await ask("POST", "/v1/dead-letters/requeue", {})
    await ask("DELETE", "/v1/dead-letters")
    await ask("DELETE", f"/v1/dead-letters?ids={dead[1]}&dry_run=true")
    await ask("DELETE", f"/v1/dead-letters?ids={dead[1]}")
    await ask("DELETE", "/v1/dead-letters?all=true")
    await ask("DELETE", "/v1/dead-letters?ids=nope")
    for query in (
        "after=oldest",
        "type=job&after=oldest",
        "state=FAILED&after=oldest",
        "job=default/first&after=oldest",
        "",
        "type=nope",
        "after=nope",
    ):
        await ask("GET", f"/v1/events?follow=false&{query}")
    for query in ("", "&after=1", "&after=nope"):
        await ask("GET", f"/v1/changes?follow=false{query}")
