"""Steps of the API's state machine: how the cluster is asked, and how what it answers is held against the model."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from hypothesis.stateful import RuleBasedStateMachine, initialize

from tests.support.api_model import AFTER, Caller, ModelJob, Reply
from tests.support.cluster import Cluster, NodeProcess
from tests.support.patience import wait_until

JOBS_MAX = 40
PAGES_MAX = 1_000
NEVER = '"0d3k5xw2a9f5m.1"'  # the ETag of no job


class ApiSteps(RuleBasedStateMachine):
    """Its cluster is set by a subclass, and shared by all runs: each begins with no jobs. The cluster is paused, so
    that what is run stays where it is."""

    cluster: Cluster
    caller: Caller
    kills = False

    def __init__(self) -> None:
        super().__init__()
        self.own = uuid4().hex  # in the names of keys: the address of an object comes again
        self.jobs: dict[str, ModelJob] = {}
        self.past: dict[tuple[str, str | None], str] = {}  # namespace, name -> the last ETag of a job that is deleted
        self.keys: dict[str, tuple[dict[str, Any], str]] = {}  # Idempotency-Key -> body, id of the job

    @initialize()
    def begin(self) -> None:
        node = self.node(0)
        reply = self.caller(node, "DELETE", "/v1/jobs", query={"all": "true"})
        assert reply.status in (200, 202), reply.json
        self.wait_operation(node, reply.json["operation"]["id"])

    def node(self, n: int) -> NodeProcess:
        return self.cluster.nodes[n % len(self.cluster.nodes)]

    def job(self, n: int) -> ModelJob:
        return self.jobs[sorted(self.jobs)[n % len(self.jobs)]]

    def named(self, namespace: str, name: str | None) -> ModelJob | None:
        if name is None:
            return None
        return next((j for j in self.jobs.values() if (j.namespace, j.name) == (namespace, name)), None)

    def read(self, n: int, path: str, query: dict[str, Any] | None = None) -> Reply:
        """From any node, as fresh as the newest write in one of two ways."""
        fresh = {"consistency": "leader"} if n % 2 else {"min_index": self.caller.index}
        return self.caller(self.node(n // 2), "GET", path, query={**(query or {}), **fresh})

    def catch_up(self, n: int) -> None:
        """Has a node apply the newest write, before it is asked what it answers by what it knows."""
        self.read(2 * n, "/v1/jobs", {"limit": 1})

    def learn(self, job: ModelJob, reply: Reply) -> None:
        """The time that only the cluster knows, and then all of the job is checked."""
        said = reply.json["next_fire_at"]
        assert job.state == "SCHEDULED" or said is None, reply.json
        assert "manual" not in job.content["trigger"] or said is None, reply.json
        assert said is not None or job.state != "SCHEDULED" or "manual" in job.content["trigger"], reply.json
        job.next_at = said
        self.check(job, reply)

    def check(self, job: ModelJob, reply: Reply) -> None:
        expected = job.shown()
        assert {name: reply.json[name] for name in expected} == expected
        assert reply.headers["etag"] == job.etag

    def tag(self, job: ModelJob, kind: str) -> dict[str, str]:
        """`kind`: "past": the ETag of a job that had the name before."""
        if kind == "past":
            return {"If-Match": self.past.get((job.namespace, job.name), NEVER)}
        said = {"none": None, "any": "*", "right": job.etag, "stale": f'"{job.id}.{job.revision + 1}"'}[kind]
        return {} if said is None else {"If-Match": said}

    def forget(self, job: ModelJob) -> None:
        """It was deleted."""
        del self.jobs[job.id]
        if job.name is not None:
            self.past[job.namespace, job.name] = job.etag

    def add(self, reply: Reply, namespace: str, name: str | None, content: dict[str, Any], suspended: bool) -> None:
        said = reply.json
        state = "NEW" if suspended else "SCHEDULED"
        job = ModelJob(said["id"], namespace, name, state, content, said["created_at"], None)
        assert job.id not in self.jobs
        assert all(job.id > other for other in self.jobs), "ids ascend"
        self.jobs[job.id] = job
        self.learn(job, reply)

    def pages(self, n: int, path: str, query: dict[str, Any], limit: int) -> list[str]:
        """The ids of all pages, each from another node."""
        found: list[str] = []
        page: dict[str, Any] = {"limit": limit}
        for turn in range(PAGES_MAX):
            reply = self.read(n + turn, path, {**query, **page})
            assert reply.status == 200, reply.json
            assert len(reply.json["items"]) <= limit
            found += [item["id"] for item in reply.json["items"]]
            if reply.json["next"] is None:
                return found
            assert f"cursor={reply.json['next']}" in reply.headers["link"]
            page["cursor"] = reply.json["next"]
        raise AssertionError("the pages never end")

    def bounds(self, which: list[tuple[str, int]]) -> dict[str, str]:
        """Times of jobs there are, as bounds of a filter."""
        found: dict[str, str] = {}
        for name, n in which:
            job = self.job(n)
            at = job.created_at if name.startswith("created") else job.next_at
            if at is not None:
                found[name] = at
        for low, high in (("created_from", "created_to"), ("next_from", "next_to")):
            if low in found and high in found and found[low] > found[high]:
                found[low], found[high] = found[high], found[low]
        return found

    def wait_operation(self, node: NodeProcess, operation: str) -> dict[str, Any]:
        """Until it has ended."""

        def ended() -> Reply | None:
            reply = self.caller(node, "GET", f"/v1/operations/{operation}", query={"consistency": "leader"})
            assert reply.status == 200, reply.json
            return reply if reply.json["state"] != "RUNNING" else None

        reply = wait_until(ended, "the operation to end")
        assert reply.json["state"] == "DONE", reply.json
        # it was the leader that wrote last, and what is read after this must have it
        self.caller.index = max(self.caller.index, int(reply.headers["raftsched-index"]))
        row: dict[str, Any] = reply.json
        return row

    def done(self, action: str, chosen: list[ModelJob], row: dict[str, Any]) -> None:
        may = [job for job in chosen if job.may(action)]
        changed = [job for job in may if job.changes(action)]
        counts = (len(chosen), len(changed), len(may) - len(changed), len(chosen) - len(may))
        assert (row["matched"], row["changed"], row["unchanged"], row["refused"]) == counts, row
        assert {one["id"] for one in row["refusals"]} == {job.id for job in chosen if not job.may(action)}, row
        for job in changed:
            if action == "delete":
                self.forget(job)
            elif action != "run":
                job.state = AFTER[job.state, action]
        for number, job in enumerate(chosen):
            reply = self.read(number, f"/v1/jobs/{job.id}")
            if action == "delete":
                assert reply.status == 404, reply.json
                continue
            if action == "run" and job in changed:
                job.waiting.append(reply.json["last_instance"])
            self.learn(job, reply)

    def teardown(self) -> None:
        """In the end every node has all of it."""
        for n in range(2 * len(self.cluster.nodes)):
            found: dict[str, Any] = {}
            cursor: dict[str, str] = {}
            while True:
                reply = self.read(n, "/v1/jobs", {"limit": 10, **cursor})
                found |= {item["id"]: item for item in reply.json["items"]}
                if reply.json["next"] is None:
                    break
                cursor = {"cursor": reply.json["next"]}
            assert sorted(found) == sorted(self.jobs)
            for job in self.jobs.values():
                expected = job.shown()
                assert {name: found[job.id][name] for name in expected} == expected
