"""A Hypothesis state machine of the API: any call in any order, through any node, against the model of `api_model`."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.api_model import (
    AFTER,
    DEFAULTS,
    Caller,
    ModelJob,
    Reply,
    address,
    in_order,
    in_query,
    matches,
)
from tests.support.cluster import Cluster, NodeProcess

NAMES = ["a", "ab", "abc", "b", "report-daily", "report-weekly", "x.y_z"]
NAMESPACES = ["default", "billing", "ops"]
OWNERS = ["ana", "bo"]
LABELS = [{"team": "fin"}, {"team": "ops"}, {"team": "fin", "tier": "1"}]
ACTIONS = ["pause", "resume", "expire", "run", "delete"]
JOBS_MAX = 40
PAGES_MAX = 1_000

triggers = st.sampled_from(
    [{"manual": True}, {"every": "12h"}, {"every": "1d"}, {"at": "2091-01-01T00:00:00Z"}, {"cron": "0 0 1 1 *"}]
)
contents = st.fixed_dictionaries(
    {"trigger": triggers, "handler": st.sampled_from([{"shell": "true"}, {"exec": ["echo", "a"]}])},
    optional={
        "owner": st.sampled_from(OWNERS),
        "priority": st.sampled_from([0, 1, 9]),
        "labels": st.sampled_from(LABELS),
        "queue": st.sampled_from(["slow", "fast"]),
        "overlap": st.just("allow"),
    },
)
names = st.none() | st.sampled_from(NAMES)
namespaces = st.sampled_from(NAMESPACES)
numbers = st.integers(0, 10_000)
tags = st.sampled_from(["none", "any", "right", "stale"])
states = st.lists(st.sampled_from(["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]), min_size=1, max_size=3, unique=True)
plain_filters = st.fixed_dictionaries(
    {},
    optional={
        "namespace": namespaces,
        "state": states,
        "owner": st.sampled_from([*OWNERS, "nobody"]),
        "labels": st.sampled_from([{"team": "fin"}, {"team": "ops"}, {"tier": "1"}]),
        "queue": st.sampled_from(["slow", "fast", "default"]),
        "name_contains": st.sampled_from(["a", "report", "-w", "zz"]),
    },
)
named_filters = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"name": st.sampled_from(NAMES)}),
    st.fixed_dictionaries({"name_prefix": st.sampled_from(["a", "ab", "rep", "q"])}),
)
changes = st.dictionaries(
    st.sampled_from(["owner", "priority", "labels", "queue", "overlap", "trigger"]), st.booleans(), min_size=1
)


class ApiMachine(RuleBasedStateMachine):
    """Its cluster is set by a subclass, and shared by all runs: each begins with no jobs. The cluster is paused, so
    that what is run stays where it is."""

    cluster: Cluster
    caller: Caller
    kills = False

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, ModelJob] = {}
        self.keys: dict[str, tuple[dict[str, Any], str]] = {}  # Idempotency-Key -> body, id of the job

    # ------------------------------------------------------------ ways to ask

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
        assert reply.headers["etag"] == f'"{job.revision}"'

    def tag(self, job: ModelJob, kind: str) -> dict[str, str]:
        said = {"none": None, "any": "*", "right": f'"{job.revision}"', "stale": f'"{job.revision + 1}"'}[kind]
        return {} if said is None else {"If-Match": said}

    def add(self, reply: Reply, namespace: str, name: str | None, content: dict[str, Any], suspended: bool) -> None:
        said = reply.json
        state = "NEW" if suspended else "SCHEDULED"
        job = ModelJob(said["id"], namespace, name, state, content, said["created_at"], None)
        assert job.id not in self.jobs
        assert all(job.id > other for other in self.jobs), "ids ascend"
        self.jobs[job.id] = job
        self.learn(job, reply)

    # ------------------------------------------------------------ create

    @precondition(lambda self: len(self.jobs) < JOBS_MAX)
    @rule(n=numbers, content=contents, namespace=namespaces, name=names, suspended=st.booleans(), only=st.booleans())
    def create(
        self, n: int, content: dict[str, Any], namespace: str, name: str | None, suspended: bool, only: bool
    ) -> None:
        body = {**content, "namespace": namespace, "suspended": suspended, "name": name}
        reply = self.caller(self.node(n), "POST", "/v1/jobs", body, {"If-None-Match": "*"} if only else {})
        there = self.named(namespace, name)
        if there is None:
            assert reply.status == 201, reply.json
            assert reply.headers["location"] == f"/v1/jobs/{reply.json['id']}"
            self.add(reply, namespace, name, content, suspended)
        elif only:
            assert (reply.status, reply.code) == (412, "exists"), reply.json
        elif content != there.content or (suspended and there.state == "SCHEDULED"):
            assert (reply.status, reply.code) == (409, "name-taken"), reply.json
        else:
            assert reply.status == 200, reply.json
            self.check(there, reply)

    @precondition(lambda self: len(self.jobs) < JOBS_MAX)
    @rule(n=numbers, content=contents, key=st.integers(0, 4))
    def create_with_key(self, n: int, content: dict[str, Any], key: int) -> None:
        """A key that is new, one that came with this, one that came with something else."""
        name = f"{id(self)}-{key}"
        reply = self.caller(self.node(n), "POST", "/v1/jobs", content, {"Idempotency-Key": name})
        self.answered_under(name, content, reply)

    @precondition(lambda self: self.keys)
    @rule(n=numbers, which=numbers)
    def create_again(self, n: int, which: int) -> None:
        name = sorted(self.keys)[which % len(self.keys)]
        body = self.keys[name][0]
        reply = self.caller(self.node(n), "POST", "/v1/jobs", body, {"Idempotency-Key": name})
        self.answered_under(name, body, reply)

    def answered_under(self, name: str, body: dict[str, Any], reply: Reply) -> None:
        before = self.keys.get(name)
        if before is None:
            assert reply.status == 201, reply.json
            self.keys[name] = (body, reply.json["id"])
            self.add(reply, "default", None, body, False)
        elif before[0] != body:
            assert (reply.status, reply.code) == (422, "idempotency-mismatch"), reply.json
        elif before[1] in self.jobs:
            assert reply.status == 201, reply.json
            self.check(self.jobs[before[1]], reply)
        else:
            assert reply.status == 404, reply.json

    @precondition(lambda self: len(self.jobs) < JOBS_MAX)
    @rule(n=numbers, jobs=st.lists(st.tuples(contents, namespaces, names), min_size=1, max_size=6))
    def batch(self, n: int, jobs: list[tuple[dict[str, Any], str, str | None]]) -> None:
        bodies = [{**content, "namespace": namespace, "name": name} for content, namespace, name in jobs]
        reply = self.caller(self.node(n), "POST", "/v1/jobs:batch", bodies)
        assert reply.status == 200, reply.json
        assert len(reply.json["items"]) == len(jobs)
        for item, (content, namespace, name) in zip(reply.json["items"], jobs, strict=True):
            there = self.named(namespace, name)
            if there is None:
                assert item["status"] == 201, item
                made = self.read(n, f"/v1/jobs/{item['id']}")
                assert made.status == 200, made.json
                self.add(made, namespace, name, content, False)
            elif content != there.content:
                assert item["status"] == 409, item
            else:
                assert (item["status"], item["id"]) == (200, there.id), item

    # ------------------------------------------------------------ edit

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, which=numbers, content=contents, name=names, tag=tags)
    def put(self, n: int, which: int, content: dict[str, Any], name: str | None, tag: str) -> None:
        job = self.job(which)
        body = {**content, **({} if name is None else {"name": name})}
        reply = self.caller(self.node(n), "PUT", address(job, False), body, self.tag(job, tag))
        self.edited(job, content, job.name if name is None else name, tag, reply)

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, which=numbers, change=changes, content=contents, tag=tags, by_name=st.booleans())
    def patch(
        self, n: int, which: int, change: dict[str, bool], content: dict[str, Any], tag: str, by_name: bool
    ) -> None:
        """Of `content` what `change` names; null where that says so."""
        job = self.job(which)
        said: dict[str, Any] = {}
        merged = dict(job.content)
        for field, takes_out in change.items():
            if takes_out and field != "trigger":
                said[field] = None
                merged.pop(field, None)
            elif field == "labels" and field in content:
                said[field] = content[field]
                merged[field] = {**job.content.get("labels", {}), **content[field]}
            elif field in content:
                said[field] = merged[field] = content[field]
        reply = self.caller(self.node(n), "PATCH", address(job, by_name), said, self.tag(job, tag))
        self.edited(job, merged, job.name, tag, reply)

    def edited(self, job: ModelJob, content: dict[str, Any], name: str | None, tag: str, reply: Reply) -> None:
        if tag == "stale":
            assert (reply.status, reply.code) == (412, "stale-revision"), reply.json
            return
        taken = self.named(job.namespace, name)
        if name != job.name and taken is not None:
            assert (reply.status, reply.code) == (409, "name-taken"), reply.json
            return
        assert reply.status == 200, reply.json
        job.edit(content, name)
        self.learn(job, reply)

    @precondition(lambda self: len(self.jobs) < JOBS_MAX)
    @rule(
        n=numbers,
        namespace=namespaces,
        name=st.sampled_from(NAMES),
        content=contents,
        suspended=st.booleans(),
        tag=st.sampled_from(["none", "right", "stale", "only"]),
    )
    def put_named(self, n: int, namespace: str, name: str, content: dict[str, Any], suspended: bool, tag: str) -> None:
        job = self.named(namespace, name)
        headers = {"If-None-Match": "*"} if tag == "only" else {}
        if tag in ("right", "stale"):
            suspended = False  # with If-Match it is an edit, which does not say that
            headers = {"If-Match": '"1"'} if job is None else self.tag(job, tag)
        body = {**content, "suspended": suspended}
        reply = self.caller(self.node(n), "PUT", f"/v1/namespaces/{namespace}/jobs/{name}", body, headers)
        if job is None and tag in ("right", "stale"):
            assert (reply.status, reply.code) == (412, "stale-revision"), reply.json
        elif job is None:
            assert reply.status == 201, reply.json
            self.add(reply, namespace, name, content, suspended)
        elif tag == "only":
            assert (reply.status, reply.code) == (412, "exists"), reply.json
        elif tag == "stale":
            assert (reply.status, reply.code) == (412, "stale-revision"), reply.json
        else:
            assert reply.status == 200, reply.json
            job.edit(content, job.name)
            if suspended and job.state == "SCHEDULED":
                job.state = "SUSPENDED"
            self.learn(job, reply)

    # ------------------------------------------------------------ states

    @precondition(lambda self: self.jobs)
    @rule(
        n=numbers,
        which=numbers,
        action=st.sampled_from(["pause", "resume", "expire"]),
        tag=tags,
        as_state=st.booleans(),
        by_name=st.booleans(),
        kill=st.booleans(),
    )
    def set_state(self, n: int, which: int, action: str, tag: str, as_state: bool, by_name: bool, kill: bool) -> None:
        job = self.job(which)
        path, headers = address(job, by_name), self.tag(job, tag)
        kill = kill and action == "expire" and not as_state
        if not as_state:
            reply = self.caller(self.node(n), "POST", f"{path}/{action}", {"kill": True} if kill else {}, headers)
        elif action == "expire":
            reply = self.caller(self.node(n), "DELETE", f"{path}/state", None, headers)
        else:
            state = {"pause": "SUSPENDED", "resume": "SCHEDULED"}[action]
            reply = self.caller(self.node(n), "PUT", f"{path}/state", {"state": state}, headers)
        if tag == "stale":
            assert (reply.status, reply.code) == (412, "stale-revision"), reply.json
        elif not job.may(action):
            assert (reply.status, reply.code) == (409, "illegal-transition"), reply.json
        else:
            assert reply.status == 200, reply.json
            job.state = AFTER[job.state, action]
            if kill:
                job.killed += job.waiting
                job.waiting = []
            self.learn(job, reply)

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, which=numbers, tag=tags, by_name=st.booleans())
    def delete(self, n: int, which: int, tag: str, by_name: bool) -> None:
        job = self.job(which)
        path = address(job, by_name)
        reply = self.caller(self.node(n), "DELETE", path, None, self.tag(job, tag))
        if tag == "stale":
            assert (reply.status, reply.code) == (412, "stale-revision"), reply.json
            return
        assert reply.status == 204, reply.json
        del self.jobs[job.id]
        assert self.read(n, f"/v1/jobs/{job.id}").status == 404
        assert self.read(n + 1, path).status == 404

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, which=numbers, by_name=st.booleans())
    def run(self, n: int, which: int, by_name: bool) -> None:
        job = self.job(which)
        reply = self.caller(self.node(n), "POST", f"{address(job, by_name)}/run", {})
        if not job.may("run"):
            assert (reply.status, reply.code) == (409, "illegal-transition"), reply.json
            return
        assert reply.status == 202, reply.json
        assert reply.json["job_id"] == job.id
        assert reply.json["id"] not in job.waiting
        job.waiting.append(reply.json["id"])
        shown = self.read(n, f"/v1/instances/{reply.json['id']}")
        assert (shown.status, shown.json["state"], shown.json["job_id"]) == (200, "WAITING", job.id), shown.json

    @precondition(lambda self: any(job.waiting for job in self.jobs.values()))
    @rule(n=numbers, which=numbers)
    def kill_instance(self, n: int, which: int) -> None:
        instances = [(key, job) for job in self.jobs.values() for key in job.waiting]
        key, job = sorted(instances, key=lambda pair: pair[0])[which % len(instances)]
        reply = self.caller(self.node(n), "POST", f"/v1/instances/{key}/kill", {})
        assert (reply.status, reply.json["state"]) == (202, "KILLED"), reply.json
        job.waiting.remove(key)
        job.killed.append(key)

    # ------------------------------------------------------------ read

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, which=numbers, by_name=st.booleans())
    def get(self, n: int, which: int, by_name: bool) -> None:
        job = self.job(which)
        path = address(job, by_name)
        reply = self.read(n, path)
        assert reply.status == 200, reply.json
        self.check(job, reply)
        again = self.caller(self.node(n // 2), "GET", path, None, {"If-None-Match": reply.headers["etag"]})
        assert again.status == 304
        assert self.read(n, f"{path}/state").json == {"state": job.state}

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, which=numbers)
    def revisions(self, n: int, which: int) -> None:
        job = self.job(which)
        items = self.read(n, f"/v1/jobs/{job.id}/revisions").json["items"]
        expected = {**job.past, job.revision: (job.name, job.content)}
        assert [item["revision"] for item in items] == sorted(expected, reverse=True)
        for item in items:
            name, content = expected[item["revision"]]
            given = {field: item["content"].get(field, DEFAULTS.get(field)) for field in (*content, *DEFAULTS)}
            assert (item["name"], given) == (name, {**DEFAULTS, **content}), item

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, which=numbers, limit=st.sampled_from([1, 2, 100]))
    def instances(self, n: int, which: int, limit: int) -> None:
        job = self.job(which)
        path = f"/v1/jobs/{job.id}/instances"
        assert sorted(self.pages(n, path, {"state": "WAITING"}, limit)) == sorted(job.waiting)
        assert sorted(self.pages(n, path, {}, limit)) == sorted(job.waiting + job.killed)
        counts = self.read(n, f"/v1/jobs/{job.id}/stats").json["instances"]
        assert (counts["WAITING"], counts["KILLED"]) == (len(job.waiting), len(job.killed))

    @rule(n=numbers, owner=st.none() | st.sampled_from(OWNERS), namespace=st.none() | namespaces)
    def stats(self, n: int, owner: str | None, namespace: str | None) -> None:
        wanted = {k: v for k, v in (("owner", owner), ("namespace", namespace)) if v is not None}
        counts = dict.fromkeys(("NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"), 0)
        for job in self.jobs.values():
            counts[job.state] += matches(job, wanted)
        assert self.read(n, "/v1/stats", wanted).json["jobs"] == counts

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

    @rule(
        n=numbers,
        wanted=plain_filters,
        by_name=named_filters,
        by_time=st.lists(
            st.tuples(st.sampled_from(["created_from", "created_to", "next_from", "next_to"]), numbers), max_size=2
        ),
        limit=st.sampled_from([1, 2, 3, 7, 1_000]),
        desc=st.booleans(),
    )
    def list_jobs(
        self,
        n: int,
        wanted: dict[str, Any],
        by_name: dict[str, str],
        by_time: list[tuple[str, int]],
        limit: int,
        desc: bool,
    ) -> None:
        wanted = {**wanted, **by_name, **(self.bounds(by_time) if self.jobs else {})}
        assume(len(wanted.get("labels", {})) < 2)
        expected = in_order((job for job in self.jobs.values() if matches(job, wanted)), wanted)
        query = in_query(wanted)
        if desc:
            expected.reverse()
            query["order"] = "desc"
        assert self.pages(n, "/v1/jobs", query, limit) == expected, wanted

    # ------------------------------------------------------------ many at once

    def wait_operation(self, node: NodeProcess, operation: str) -> dict[str, Any]:
        """Until it has ended."""
        deadline = time.monotonic() + 30
        while True:
            reply = self.caller(node, "GET", f"/v1/operations/{operation}", query={"consistency": "leader"})
            assert reply.status == 200, reply.json
            if reply.json["state"] != "RUNNING":
                assert reply.json["state"] == "DONE", reply.json
                row: dict[str, Any] = reply.json
                # it was the leader that wrote last, and what is read after this must have it
                self.caller.index = max(self.caller.index, int(reply.headers["raftsched-index"]))
                return row
            assert time.monotonic() < deadline, reply.json
            time.sleep(0.01)

    def done(self, action: str, chosen: list[ModelJob], row: dict[str, Any]) -> None:
        may = [job for job in chosen if job.may(action)]
        changed = [job for job in may if job.changes(action)]
        counts = (len(chosen), len(changed), len(may) - len(changed), len(chosen) - len(may))
        assert (row["matched"], row["changed"], row["unchanged"], row["refused"]) == counts, row
        assert {one["id"] for one in row["refusals"]} == {job.id for job in chosen if not job.may(action)}, row
        for job in changed:
            if action == "delete":
                del self.jobs[job.id]
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

    @precondition(lambda self: self.jobs)
    @rule(
        n=numbers,
        action=st.sampled_from(ACTIONS),
        wanted=plain_filters,
        by_name=named_filters,
        ids=st.none() | st.lists(numbers, min_size=1, max_size=4),
        dry=st.booleans(),
    )
    def act(
        self,
        n: int,
        action: str,
        wanted: dict[str, Any],
        by_name: dict[str, str],
        ids: list[int] | None,
        dry: bool,
    ) -> None:
        node = self.node(n)
        wanted = {**wanted, **by_name}
        if ids is not None:
            chosen = list({job.id: job for job in (self.job(i) for i in ids)}.values())
            body: dict[str, Any] = {"ids": [job.id for job in chosen]}
        else:
            chosen = [job for job in self.jobs.values() if matches(job, wanted)]
            body = {"filter": wanted} if wanted else {"all": True}
        if dry:
            # what is counted is what this node knows
            self.read(2 * n, "/v1/jobs", {"limit": 1})
            reply = self.caller(node, "POST", "/v1/jobs:actions", {"action": action, **body, "dry_run": True})
            assert (reply.status, reply.json["matched"]) == (200, len(chosen)), reply.json
        reply = self.caller(node, "POST", "/v1/jobs:actions", {"action": action, **body})
        assert reply.status == 202, reply.json
        assert reply.headers["location"] == f"/v1/operations/{reply.json['id']}"
        self.done(action, chosen, self.wait_operation(node, reply.json["id"]))

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, wanted=plain_filters, by_name=named_filters)
    def delete_matching(self, n: int, wanted: dict[str, Any], by_name: dict[str, str]) -> None:
        wanted = {**wanted, **by_name}
        assume(wanted)
        chosen = [job for job in self.jobs.values() if matches(job, wanted)]
        node = self.node(n)
        reply = self.caller(node, "DELETE", "/v1/jobs", query=in_query(wanted))
        assert reply.status in (200, 202), reply.json
        row = self.wait_operation(node, reply.json["operation"]["id"])
        if reply.status == 200:
            assert reply.json["deleted"] == len(chosen)
        self.done("delete", chosen, row)

    # ------------------------------------------------------------ another leader

    @precondition(lambda self: self.jobs)
    @rule(n=st.integers(0, 11), kill=st.booleans())
    def another_leader(self, n: int, kill: bool) -> None:
        """Now and then: by request, or because the one there was is gone without a word."""
        if n or not self.kills:
            return
        leader = self.cluster.leader()
        if not kill:
            assert leader.request("POST", "/v1/cluster/leader", {}).status == 200
            self.cluster.wait("another leader", lambda: self.cluster.leader() is not leader)
            return
        leader.kill()
        self.caller.kills += 1
        self.caller.forget(leader)
        leader.start()
        self.cluster.wait_ready()

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
