"""Remote workers as the API shows them: in lists of their own, in instances, in explanations, in events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from raftsched.core import commands as c
from raftsched.core.ids import instance_key, parse_instance
from raftsched.core.model import Outcome
from raftsched.core.subjects.leasing import decode_beats
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.local_raft import LocalRaft
from tests.support.patience import until, within
from tests.support.tokens import guarded, limited

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}
NONCE = b"\xa5nonce of 16 byt"


def open_worker(cluster: LocalCluster, name: str, **more: Any) -> int:
    """Returns the number of a session of a remote worker."""
    said: dict[str, Any] = {"slots": 2, "handlers": ("exec",), "version": "9", "labels": (("gpu", "a100"),), **more}
    (answer,) = cluster.apply(c.OpenWorker(f"worker/{name}", 0, NONCE, incarnation="i", opening=1, **said))
    number: int | None = getattr(answer, "number", None)
    assert number is not None, answer
    return number


async def given_to(call: Client, session: int, namespace: str = "default", **more: Any) -> str:
    """Returns a run that was given to a session."""
    _, job = await call("POST", "/v1/jobs", {**JOB, "namespace": namespace, **more})
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    call.cluster.apply(c.Assign(key_of(made["id"]), session))
    name: str = made["id"]
    return name


def key_of(name: str) -> bytes:
    found = parse_instance(name)
    assert found is not None
    return found if isinstance(found, bytes) else instance_key(*found)


async def test_workers_are_listed_by_name_without_their_secret(call: Client) -> None:
    assert await call("GET", "/v1/workers") == (200, {"items": [], "next": None})
    first = open_worker(call.cluster, "w1", queues=("gpu",), namespaces=("media",), weight=3)
    open_worker(call.cluster, "w2")
    call.cluster.open_session("n1", "127.0.0.1:1")
    call.cluster.heartbeat_ages = {"worker/w1": 1_500, "n1": 100}
    call.cluster.troubles["worker/w2"] = "its disk is full"
    _, found = await call("GET", "/v1/workers")
    assert found["items"][0] == {
        "name": "w1", "session": first, "labels": {"gpu": "a100"}, "slots": 2, "weight": 3, "queues": ["gpu"],
        "namespaces": ["media"], "handlers": ["exec"], "running": 0, "version": "9",
        "last_heartbeat_at": "2029-12-31T23:59:58.500Z", "opened_at": "2030-01-01T00:00:00.000Z", "trouble": None,
        "quiet_since": None,
    }  # fmt: skip
    assert (found["items"][1]["name"], found["items"][1]["trouble"]) == ("w2", "its disk is full")
    assert found["items"][1]["queues"] is None
    call.cluster.quiet_workers = {"worker/w1": 4_000}
    _, found = await call("GET", "/v1/workers")
    since = [one["quiet_since"] for one in found["items"]]
    assert since == ["2029-12-31T23:59:56.000Z", None]
    _, page = await call("GET", "/v1/workers?limit=1")
    assert [one["name"] for one in page["items"]] == ["w1"]
    _, rest = await call("GET", f"/v1/workers?limit=1&cursor={page['next']}")
    assert [one["name"] for one in rest["items"]] == ["w2"]
    assert NONCE.hex() not in str(found)
    assert [one["id"] for one in (await call("GET", "/v1/nodes"))[1]["items"]] == ["n1"]
    assert [one["id"] for one in (await call("GET", "/v1/cluster"))[1]["nodes"]] == ["n1"]
    assert (await call("GET", "/v1/nodes/worker%2Fw1"))[0] == 404


async def test_one_worker_with_its_runs(call: Client) -> None:
    session = open_worker(call.cluster, "w1")
    instance = await given_to(call, session)
    _, found = await call("GET", "/v1/workers/w1")
    assert (found["running"], found["runs_left_out"]) == (1, False)
    (shown,) = found["runs"]
    assert (shown["id"], shown["started_at"]) == (instance, None)
    call.cluster.apply(c.Started(session, shown["token"], call.cluster.clock.wall))
    (shown,) = (await call("GET", "/v1/workers/w1"))[1]["runs"]
    assert shown["started_at"] == "2030-01-01T00:00:00.000Z"
    call.cluster.apply(c.CloseSession(session, ()))
    status, problem = await call("GET", "/v1/workers/w1")
    assert (status, problem["code"]) == (404, "not-found")
    assert (await call("GET", f"/v1/workers/{'w' * 600}"))[0] == 404


async def test_whoever_sees_some_namespaces_sees_their_runs_only(call: Client) -> None:
    people = await guarded(call)
    mine = await limited(people["admin"], "mine", "viewer", "mine")
    session = open_worker(call.cluster, "w1", namespaces=("mine", "theirs"))
    call.cluster.apply()
    for namespace in ("mine", "theirs"):
        _, job = await people["admin"]("POST", "/v1/jobs", {**JOB, "namespace": namespace})
        _, made = await people["admin"]("POST", f"/v1/jobs/{job['id']}/run", {})
        call.cluster.apply(c.Assign(key_of(made["id"]), session))
    _, found = await mine("GET", "/v1/workers/w1")
    assert (found["running"], len(found["runs"]), found["namespaces"]) == (2, 1, ["mine"])
    assert len((await people["viewer"]("GET", "/v1/workers/w1"))[1]["runs"]) == 2


async def test_runs_name_the_worker_in_place_of_a_node(call: Client) -> None:
    node = call.cluster.open_session("n1", "127.0.0.1:1")
    session = open_worker(call.cluster, "w1")
    instance = await given_to(call, session, name="j")
    other = await given_to(call, node)
    _, shown = await call("GET", f"/v1/instances/{instance}")
    assert (shown["node"], shown["worker"]) == (None, "w1")
    assert (shown["attempts"][0]["node"], shown["attempts"][0]["worker"]) == (None, "w1")
    _, shown = await call("GET", f"/v1/instances/{other}")
    assert (shown["node"], shown["worker"], shown["attempts"][0]["worker"]) == ("n1", None, None)

    async def ids(query: str) -> list[str]:
        status, found = await call("GET", f"/v1/instances?{query}")
        assert status == 200, found
        return [one["id"] for one in found["items"]]

    assert await ids("worker=w1") == [instance]
    assert await ids("node=n1") == [other]
    assert await ids("node=worker/w1") == await ids("worker=n1") == []
    status, both = await call("GET", "/v1/instances?worker=w1&node=n1")
    assert (status, both["items"]) == (200, [])
    _, part = await call("GET", "/v1/instances?worker=w1&fields=node,worker")
    assert part["items"] == [{"node": None, "worker": "w1"}]
    _, now = await call("GET", "/v1/stats/now")
    assert {(one["node"], one["worker"]) for one in now["runs"]} == {(None, "w1"), ("n1", None)}
    _, why = await call("GET", f"/v1/instances/{instance}/explain")
    assert "The worker w1 was given it" in why["waiting_for"]["text"]
    assert (why["why_there"][0]["node"], why["why_there"][0]["worker"]) == (None, "w1")
    assert "the worker w1" in why["steps"][-1]["text"]

    token = (await call("GET", f"/v1/instances/{instance}"))[1]["token"]
    call.cluster.apply(c.Ended(session, token, Outcome.SUCCEEDED, call.cluster.clock.wall, call.cluster.clock.wall))
    _, why = await call("GET", f"/v1/instances/{instance}/explain")
    assert "the last, on the worker w1 with token" in why["text"]
    _, job = await call("GET", "/v1/namespaces/default/jobs/j")
    assert job["last_executor"] == "worker/w1"


async def test_what_waits_says_what_workers_are_in_the_way(call: Client) -> None:
    session = open_worker(call.cluster, "w1", slots=1, queues=("gpu",))

    async def waits(**more: Any) -> dict[str, Any]:
        _, job = await call("POST", "/v1/jobs", {**JOB, **more})
        _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
        found: dict[str, Any] = (await call("GET", f"/v1/instances/{made['id']}/explain"))[1]["waiting_for"]
        return found

    assert (await waits(queue="gpu"))["reason"] == "turn"
    found = await waits()
    assert found["reason"] == "no_eligible_node"
    assert found["text"] == (
        'No node or worker with the handler "exec" takes runs of the queue default in the namespace default.'
    )
    await given_to(call, session, queue="gpu")
    found = await waits(queue="gpu")
    assert found["reason"] == "no_free_slot"
    assert found["text"] == "Every node or worker that can take it is busy: the worker w1 (1 of 1 slots)."
    call.cluster.troubles["worker/w1"] = "its disk is full"
    found = await waits(queue="gpu")
    assert found["text"].endswith("starts nothing at the moment: the worker w1 (its disk is full).")
    call.cluster.troubles.clear()
    call.cluster.quiet_workers = {"worker/w1": 4_400}
    found = await waits(queue="gpu")
    assert found["reason"] == "no_node_starts"
    assert found["text"].endswith("the worker w1 (it has had no poll open for 4s).")
    busy = open_worker(call.cluster, "w2", queues=("gpu",))
    for _ in range(2):
        await given_to(call, busy, queue="gpu")
    assert (await waits(queue="gpu"))["text"] == (
        "Every node or worker that can take it is busy: the worker w2 (2 of 2 slots); or starts nothing at the "
        "moment: the worker w1 (it has had no poll open for 4s)."
    )


async def test_a_poll_whose_caller_was_killed_is_known_to_be_read_by_nobody(call: Client) -> None:
    """The kernel says that nothing more comes, as for a caller that waits for the answer: which that one still gets."""
    opening = {"name": "w1", "handlers": ["exec"], "incarnation": "i", "opening": 1}
    status, session = await call("POST", "/v1/worker-sessions", opening)
    assert status == 201
    number, _, _ = session["session"].partition("-")
    body = b'{"wait_ms": 1000}'
    address = call.url.removeprefix("http://")
    head = (
        f"POST /v1/worker-sessions/{number}/poll HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
        f"Raftsched-Session-Secret: {session['session']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(head.encode() + body)
    gateway = call.context.workers
    assert isinstance(gateway._raft, LocalRaft)
    sent = gateway._raft.sent
    await until(lambda: any(kind == "worker_beats" for _, kind, _ in sent), "the poll")
    writer.write_eof()

    def told() -> list[int]:
        beats = [decode_beats(raw) for _, kind, raw in sent if kind == "worker_beats"]
        return [session for one in beats for session, _ in one.left]

    assert await until(told, "the node to say so") == [int(number)]
    assert (await within(reader.readline())).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_a_follower_asks_the_leader_when_it_heard_of_them(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, ("n1", "n2"))
    try:
        async with serving(cluster, "n1") as first, serving(cluster, "n2") as second:
            cluster.heartbeat_ages = {"worker/w1": 2_000}
            cluster.open_session("n1", first.url)
            session = open_worker(cluster, "w1")
            for path in ("/v1/workers", "/v1/workers?limit=1&consistency=leader"):
                for call in (first, second):
                    (found,) = (await call("GET", path))[1]["items"]
                    assert found["last_heartbeat_at"] == "2029-12-31T23:59:58.000Z", call.url
            cluster.quiet_workers = {"worker/w1": 1_500}
            cluster.troubles = {"n1": "no process"}
            _, job = await first("POST", "/v1/jobs", JOB)
            _, made = await first("POST", f"/v1/jobs/{job['id']}/run", {})
            for call in (first, second):
                (found,) = (await call("GET", "/v1/workers"))[1]["items"]
                assert found["quiet_since"] == "2029-12-31T23:59:58.500Z", call.url
                for path in (f"/v1/instances/{made['id']}/explain", f"/v1/jobs/{job['id']}/explain"):
                    _, why = await call("GET", path)
                    assert "the worker w1 (it has had no poll open for 1s)" in why["text"], (call.url, path)
            launched = await given_to(first, session)
            for call in (first, second):
                _, why = await call("GET", f"/v1/instances/{launched}/explain")
                assert why["waiting_for"]["text"] == (
                    "The worker w1 was given it, and has not said yet that it started; it has had no poll open for 1s."
                ), call.url
            cluster.quiet_workers, cluster.troubles = {}, {}
            cluster.heartbeat_ages = {"worker/w1": 7_000}
            instance = await given_to(first, session)
            _, run_of_it = (await second("GET", "/v1/workers/w1"))[1]["runs"]
            cluster.apply(c.Started(session, run_of_it["token"], cluster.clock.wall))
            _, why = await second("GET", f"/v1/instances/{instance}/explain")
            assert "The leader last heard of the worker w1 7s ago." in why["text"]
            assert "(worker_ttl and a quarter)" in why["text"]
    finally:
        cluster.close()
