"""Pause, resume, expire, run; instances, kill, rerun; their lists."""

from __future__ import annotations

from pathlib import Path

from raftsched.core.commands import Assign, Ended, Fire, Started
from raftsched.core.ids import parse_instance, parse_job
from raftsched.core.model import Outcome
from tests.support.clock import START_MS
from tests.support.local_api import Client, LocalCluster, run

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
EVERY = {**JOB, "trigger": {"every": "1m"}, "overlap": "allow"}


def fire(cluster: LocalCluster, job: dict[str, object]) -> None:
    """As the leader does when the job's one-shot or grid time comes."""
    number = parse_job(str(job["id"]))
    assert number is not None
    from raftsched.core.rows import decode_job
    from raftsched.core.tables import Table, u64

    with cluster.store.read() as view:
        row = decode_job(view.get(Table.JOBS, u64(number)) or b"")
    assert row.nominal_at_ms is not None
    cluster.clock.forward(max(0, row.nominal_at_ms - cluster.clock.wall))
    cluster.apply(Fire(number, row.revision, row.nominal_at_ms))


async def test_states_go_round_and_repeats_change_nothing(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "suspended": True})
    path = f"/v1/jobs/{job['id']}"
    assert (job["state"], job["next_fire_at"]) == ("NEW", None)
    for method, address, body in (("POST", f"{path}/pause", None), ("PUT", f"{path}/state", "SUSPENDED")):
        status, same = await call(method, address, body)
        assert (status, same["state"], same["revision"]) == (200, "NEW", 1)
    for action, state in (("resume", "SCHEDULED"), ("pause", "SUSPENDED"), ("pause", "SUSPENDED")):
        status, job = await call("POST", f"{path}/{action}")
        assert (status, job["state"]) == (200, state)
    assert await call("GET", f"{path}/state") == (200, {"state": "SUSPENDED"})
    assert (await call("PUT", f"{path}/state", {"state": "SCHEDULED"}))[1]["state"] == "SCHEDULED"
    assert (await call("PUT", f"{path}/state", "SUSPENDED"))[1]["state"] == "SUSPENDED"
    assert (await call("PUT", f"{path}/state", {"state": "RUNNING"}))[0] == 422
    assert (await call("PUT", f"{path}/state", {}))[0] == 422
    assert (await call("POST", f"{path}/pause", {"now": True}))[0] == 422
    assert (await call("POST", f"{path}/pause", headers={"If-Match": '"7"'}))[0] == 412
    assert (await call("DELETE", f"{path}/state"))[1]["state"] == "EXPIRED"
    for action in ("resume", "pause", "run"):
        status, problem = await call("POST", f"{path}/{action}")
        assert (status, problem["code"]) == (409, "illegal-transition"), action


async def test_run_now_makes_an_instance_and_a_repeated_key_the_same(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**EVERY, "trigger": {"manual": True}})
    path = f"/v1/jobs/{job['id']}"
    status, made = await call("POST", f"{path}/run", {"params": {"a": 1}, "priority": 9})
    assert status == 202
    assert call.headers["Location"] == f"/v1/instances/{made['id']}"
    status, row = await call("GET", f"/v1/instances/{made['id']}")
    assert (status, row["id"], row["job_id"]) == (200, made["id"], job["id"])
    assert (row["state"], row["manual"], row["params"], row["priority"]) == ("WAITING", True, {"a": 1}, 9)
    assert (row["node"], row["attempt"], row["attempts"], row["output"]) == (None, 0, [], None)
    keys = []
    for key in ("k1", "k1", "k2"):
        keys.append((await call("POST", f"{path}/run", {}, {"Idempotency-Key": key}))[1]["id"].split("-")[1])
    assert keys[0] == keys[1] != keys[2]
    for bad in ({"params": [1]}, {"priority": 10}, {"params": {"x": "y" * 33_000}}, {"colour": 1}):
        assert (await call("POST", f"{path}/run", bad))[0] == 422
    status, _ = await call("POST", f"/v1/instances/{made['id']}/rerun")
    assert status == 409
    status, row = await call("POST", f"/v1/instances/{made['id']}/kill")
    assert (status, row["state"]) == (202, "KILLED")
    assert (await call("POST", f"/v1/instances/{made['id']}/kill"))[0] == 409
    status, row = await call("POST", f"/v1/instances/{made['id']}/rerun")
    assert (status, row["state"]) == (202, "WAITING")


async def test_an_instance_shows_its_attempts(call: Client) -> None:
    cluster = call.cluster
    session = cluster.open_session("n1", "127.0.0.1:1")
    _, job = await call("POST", "/v1/jobs", {**JOB, "retry": {"delays": ["5s"]}})
    fire(cluster, job)
    _, page = await call("GET", f"/v1/jobs/{job['id']}/instances")
    (row,) = page["items"]
    key = parse_instance(row["id"])
    assert key is not None
    (answer,) = cluster.apply(Assign(key, session))
    token = getattr(answer, "number", None)
    assert token is not None
    now = cluster.clock.wall
    cluster.apply(Started(session, token, now + 5))
    _, row = await call("GET", f"/v1/instances/{row['id']}")
    assert (row["state"], row["node"], row["token"], row["attempt"]) == ("RUNNING", "n1", token, 1)
    assert row["started_at"] == "2030-01-01T00:30:00.005Z"
    _, shown = await call("GET", f"/v1/jobs/{job['id']}")
    assert (shown["last_start_at"], shown["last_executor"]) == (row["started_at"], "n1")
    _, page = await call("GET", "/v1/jobs")
    assert page["items"] == [shown]
    cluster.apply(Ended(session, token, Outcome.FAILED, now + 5, now + 9, 3, "boom", b'{"n":1}'))
    _, row = await call("GET", f"/v1/instances/{row['id']}")
    assert (row["state"], row["exit_code"], row["error"], row["result"]) == (
        "RETRYING",
        3,
        "boom",
        {"n": 1},
    )
    (attempt,) = row["attempts"]
    assert (attempt["outcome"], attempt["ended_at"]) == ("failed", "2030-01-01T00:30:00.009Z")
    _, shown = await call("GET", f"/v1/jobs/{job['id']}")
    assert (shown["last_instance"], shown["last_executor"]) == (row["id"], "n1")
    assert (shown["last_end_at"], shown["active"]) == ("2030-01-01T00:30:00.009Z", 1)


async def test_instances_are_listed_newest_first_each_once(call: Client) -> None:
    cluster = call.cluster
    _, job = await call("POST", "/v1/jobs", {**EVERY, "name": "tick"})
    _, other = await call("POST", "/v1/jobs", {**EVERY, "namespace": "b"})
    _, once = await call("POST", "/v1/jobs", {**JOB, "overlap": "allow"})
    for _ in range(7):
        fire(cluster, job)
        fire(cluster, other)
    cluster.clock.forward(1_000)
    manual = (await call("POST", f"/v1/jobs/{once['id']}/run"))[1]["id"]
    fire(cluster, once)

    async def walk(path: str) -> list[str]:
        found: list[str] = []
        while path:
            status, page = await call("GET", path)
            assert status == 200
            found += [item["id"] for item in page["items"]]
            link = call.headers.get("Link")
            path = link.partition(">")[0][1:] if link else ""
        return found

    times = [START_MS + m * 60_000 for m in range(7, 0, -1)]
    assert await walk(f"/v1/jobs/{job['id']}/instances?limit=3") == [f"{job['id']}@{t}" for t in times]
    assert await walk("/v1/instances?job=tick&namespace=default&limit=2") == [f"{job['id']}@{t}" for t in times]
    assert await walk("/v1/instances?namespace=b&limit=2") == [f"{other['id']}@{t}" for t in times]
    own = f"{once['id']}@{START_MS + 30 * 60_000}"
    for limit in (1, 2, 10):
        assert await walk(f"/v1/jobs/{once['id']}/instances?limit={limit}") == [own, manual]
    everything = await walk("/v1/instances?limit=4")
    assert len(everything) == len(set(everything)) == 16
    assert everything[0] == own
    assert await walk("/v1/instances?from=2030-01-01T00:06:00Z&to=2030-01-01T00:07:00Z") == sorted(
        [f"{job['id']}@{times[1]}", f"{other['id']}@{times[1]}"], reverse=True
    )
    assert await walk("/v1/instances?state=RUNNING,FAILED") == []
    assert len(await walk("/v1/instances?state=WAITING&limit=1000")) == 16
    assert await walk("/v1/instances?node=n1") == []
    _, page = await call("GET", f"/v1/jobs/{job['id']}/instances?limit=3")
    assert (await call("GET", f"/v1/jobs/{other['id']}/instances?cursor={page['next']}"))[0] == 400


async def test_a_page_ends_after_a_bounded_search_and_goes_on(call: Client) -> None:
    from raftsched.api.rows import SCAN_MAX

    count = SCAN_MAX + 10
    for start in range(0, count, 1000):
        some = [{**JOB, "queue": "q" if i == count - 1 else "default"} for i in range(start, min(start + 1000, count))]
        assert (await call("POST", "/v1/jobs:batch", some))[0] == 200
    _, page = await call("GET", "/v1/jobs?queue=q")
    assert page["items"] == []
    _, page = await call("GET", f"/v1/jobs?queue=q&cursor={page['next']}")
    assert [item["queue"] for item in page["items"]] == ["q"]
    assert page["next"] is None


def test_a_refused_run_names_the_one_that_is_active(tmp_path: Path) -> None:
    async def body(call: Client) -> None:
        for more in ({}, {"placement": {"shards": 3}}):
            _, job = await call("POST", "/v1/jobs", {**JOB, "trigger": {"manual": True}, "overlap": "forbid", **more})
            _, made = await call("POST", f"/v1/jobs/{job['id']}/run")
            status, refused = await call("POST", f"/v1/jobs/{job['id']}/run")
            assert (status, refused["code"]) == (409, "illegal-transition")
            assert refused["detail"].endswith(f"The newest that is active is {made['id']}.")
        _, job = await call("POST", "/v1/jobs", {**JOB, "overlap": "forbid"})
        fire(call.cluster, job)
        _, refused = await call("POST", f"/v1/jobs/{job['id']}/run")
        _, runs = await call("GET", f"/v1/instances?job={job['id']}")
        assert refused["detail"].endswith(f" is {runs['items'][0]['id']}.")

    run(tmp_path, body)
