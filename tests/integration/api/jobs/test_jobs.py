"""Creating, reading, changing and deleting jobs over HTTP."""

from __future__ import annotations

from tests.support.clock import START_MS
from tests.support.local_api import Client

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


async def test_create_answers_after_commit_with_all_of_the_job(call: Client) -> None:
    given = {**JOB, "name": "report", "namespace": "billing", "owner": "ana", "labels": {"team": "fin"}}
    status, job = await call("POST", "/v1/jobs", given)
    assert status == 201
    assert call.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert call.headers["ETag"] == f'"{job["id"]}.1"'
    assert call.headers["Raftsched-Leader"] == "n1"
    assert call.headers["Raftsched-Term"] == "1"
    assert int(call.headers["Raftsched-Index"]) == call.cluster.store.applied_index
    assert job["state"] == "SCHEDULED"
    assert job["revision"] == 1
    assert job["next_fire_at"] == "2030-01-01T00:30:00.000Z"
    assert job["created_at"] == "2030-01-01T00:00:00.000Z"
    assert job["last_instance"] is None
    assert {k: job[k] for k in given} == given
    assert job["timeout"] == "5m"
    assert job["overlap"] == "forbid"
    assert job["retry"] == {
        "delays": [],
        "exponential": None,
        "jitter_percent": 0,
        "on": ["failed", "timed_out"],
    }
    assert await call("GET", f"/v1/jobs/{job['id']}") == (200, job)
    assert await call("GET", "/v1/namespaces/billing/jobs/report") == (200, job)


async def test_the_same_name_again_is_the_same_job_or_a_conflict(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "a"})
    status, again = await call("POST", "/v1/jobs", {**JOB, "name": "a", "priority": 5, "queue": "default"})
    assert (status, again["id"]) == (200, job["id"])
    status, problem = await call("POST", "/v1/jobs", {**JOB, "name": "a", "priority": 6})
    assert (status, problem["code"]) == (409, "name-taken")
    status, problem = await call("POST", "/v1/jobs", {**JOB, "name": "a"}, {"If-None-Match": "*"})
    assert status == 412
    status, other = await call("POST", "/v1/jobs", {**JOB, "name": "a", "namespace": "b"})
    assert (status, other["id"] == job["id"]) == (201, False)


async def test_what_was_answered_can_be_edited_and_put_back(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "a", "retry": {"delays": ["5s"]}})
    path = f"/v1/jobs/{job['id']}"
    status, edited = await call("PUT", path, {**job, "priority": 9}, {"If-Match": '"1"'})
    assert (status, edited["priority"], edited["revision"], edited["name"]) == (200, 9, 2, "a")
    assert edited["next_fire_at"] == job["next_fire_at"]
    status, problem = await call("PUT", path, job, {"If-Match": '"1"'})
    assert (status, problem["code"]) == (412, "stale-revision")
    status, _ = await call("PUT", path, {**job, "namespace": "elsewhere"})
    assert status == 422
    status, problem = await call("PUT", path, {**JOB, "suspended": True})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/suspended")


async def test_patch_merges_but_replaces_trigger_and_handler_whole(call: Client) -> None:
    given = {**JOB, "name": "a", "labels": {"x": "1", "y": "2"}, "params": {"deep": {"a": 1, "b": 2}}}
    _, job = await call("POST", "/v1/jobs", given)
    path = f"/v1/jobs/{job['id']}"
    change = {
        "labels": {"x": None, "z": "3"},
        "params": {"deep": {"b": None}},
        "trigger": {"every": "10s"},
    }
    merge = {"Content-Type": "application/merge-patch+json"}
    status, edited = await call("PATCH", path, change, merge)
    assert status == 200
    assert edited["labels"] == {"y": "2", "z": "3"}
    assert edited["params"] == {"deep": {"a": 1}}
    assert edited["trigger"] == {"every": "10s"}
    assert edited["name"] == "a"
    status, edited = await call("PATCH", path, {"name": None})
    assert (status, edited["name"]) == (200, None)
    assert (await call("GET", "/v1/namespaces/default/jobs/a"))[0] == 404
    status, problem = await call("PATCH", path, {"trigger": None})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/trigger")
    status, problem = await call("PATCH", path, {"revision": 7})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/revision")
    assert (await call("PATCH", path, [1]))[0] == 422
    assert (await call("PATCH", path, {"priority": 1}, {"If-Match": '"1"'}))[0] == 412


async def test_patch_merges_again_when_the_job_changed_in_between(call: Client) -> None:
    from raftsched.core.commands import EditJob
    from raftsched.core.ids import parse_job
    from raftsched.core.rows import decode_job
    from raftsched.core.tables import Table, u64

    _, job = await call("POST", "/v1/jobs", JOB)
    number = parse_job(job["id"])
    assert number is not None

    def meddle() -> None:
        with call.cluster.store.read() as view:
            row = decode_job(view.get(Table.JOBS, u64(number)) or b"")
        call.cluster.apply(EditJob(number, row.policy, row.body[:-1] + b',"owner":"bob"}', None, None))

    call.cluster.before = meddle
    status, edited = await call("PATCH", f"/v1/jobs/{job['id']}", {"priority": 1})
    assert (status, edited["priority"], edited["owner"], edited["revision"]) == (200, 1, "bob", 3)


async def test_put_by_name_creates_or_replaces(call: Client) -> None:
    path = "/v1/namespaces/ops/jobs/nightly"
    status, _ = await call("PUT", path, JOB, {"If-Match": '"0d3k5xw2a9f5m.1"'})
    assert status == 412
    status, job = await call("PUT", path, JOB)
    assert (status, job["name"], job["namespace"]) == (201, "nightly", "ops")
    status, again = await call("PUT", path, {**JOB, "priority": 1})
    assert (status, again["id"], again["revision"]) == (200, job["id"], 2)
    assert (await call("PUT", path, JOB, {"If-None-Match": "*"}))[0] == 412
    assert (await call("PUT", path, JOB, {"If-Match": f'"{job["id"]}.1"'}))[0] == 412
    assert (await call("PUT", path, JOB, {"If-Match": f'"{job["id"]}.2"'}))[0] == 200
    status, problem = await call("PUT", path, {**JOB, "name": "other"})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/name")
    status, problem = await call("PUT", "/v1/namespaces/ops/jobs/UPPER", JOB)
    assert (status, problem["errors"][0]["pointer"]) == (422, "/name")


async def test_a_trigger_that_ran_out_does_not_stop_other_edits(call: Client) -> None:
    trigger = {"cron": "0 * * * *", "ends_at": "2030-01-01T02:30:00Z"}
    _, job = await call("POST", "/v1/jobs", {**JOB, "trigger": trigger})
    call.cluster.clock.wall = START_MS + 10 * 3_600_000
    status, edited = await call("PATCH", f"/v1/jobs/{job['id']}", {"owner": "ana"})
    assert (status, edited["owner"]) == (200, "ana")
    status, _ = await call("POST", "/v1/jobs", {**JOB, "trigger": trigger})
    assert status == 422


async def test_delete_frees_the_name(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "a"})
    path = f"/v1/jobs/{job['id']}"
    assert (await call("DELETE", path, headers={"If-Match": '"9"'}))[0] == 412
    assert (await call("DELETE", path))[0] == 200
    assert (await call("DELETE", path))[0] == 404
    assert (await call("GET", path))[0] == 404
    status, other = await call("POST", "/v1/jobs", {**JOB, "name": "a"})
    assert (status, other["id"] == job["id"]) == (201, False)


async def test_conditional_reads(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", JOB)
    path = f"/v1/jobs/{job['id']}"
    assert (await call("GET", path, headers={"If-None-Match": f'"{job["id"]}.1"'}))[0] == 304
    assert (await call("GET", path, headers={"If-None-Match": f'"{job["id"]}.2"'}))[0] == 200
    index = call.cluster.store.applied_index
    assert (await call("GET", f"{path}?min_index={index}"))[0] == 200
    status, problem = await call("GET", f"{path}?min_index={index + 1}")
    assert (status, problem["code"]) == (503, "behind")
    before = call.cluster.proposals
    assert (await call("GET", f"{path}?consistency=leader"))[0] == 200
    assert call.cluster.proposals == before + 1


async def test_a_calendar_job_shows_its_next_time_before_the_leader_has_said_it(call: Client) -> None:
    status, job = await call("POST", "/v1/jobs", {**JOB, "trigger": {"cron": "0 2 * * *"}})
    assert (status, job["next_fire_at"]) == (201, "2030-01-01T02:00:00.000Z")
    status, shown = await call("GET", f"/v1/jobs/{job['id']}/next?count=2")
    assert [n["at"] for n in shown["next"]] == ["2030-01-01T02:00:00.000Z", "2030-01-02T02:00:00.000Z"]
    assert shown["description"]


async def test_lists_go_page_by_page_through_every_job_once(call: Client) -> None:
    made = []
    for i in range(25):
        given = {
            **JOB,
            "name": f"job-{i:02}",
            "namespace": "a" if i % 2 else "b",
            "labels": {"n": str(i % 3)},
        }
        made.append((await call("POST", "/v1/jobs", given))[1]["id"])

    async def walk(query: str) -> list[str]:
        names, path = [], f"/v1/jobs?limit=4&{query}"
        while path:
            status, body = await call("GET", path)
            assert status == 200
            names += [item["name"] for item in body["items"]]
            link = call.headers.get("Link")
            assert (link is None) == (body["next"] is None)
            path = link.partition(">")[0][1:] if link else ""
        return names

    every = [f"job-{i:02}" for i in range(25)]
    assert await walk("") == every
    assert await walk("order=desc") == every[::-1]
    assert await walk("namespace=a") == every[1::2]
    assert await walk("label=n%3D2") == every[2::3]
    assert await walk("namespace=b&name_prefix=job-1") == [
        "job-10",
        "job-12",
        "job-14",
        "job-16",
        "job-18",
    ]
    assert await walk("namespace=b&name=job-10") == ["job-10"]
    assert await walk("namespace=b&name=job-11") == []
    assert await walk("state=SUSPENDED,NEW") == []
    _, body = await call("GET", "/v1/jobs?limit=2")
    status, problem = await call("GET", f"/v1/jobs?namespace=a&cursor={body['next']}")
    assert (status, problem["code"]) == (400, "invalid-parameter")
