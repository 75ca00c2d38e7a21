"""A Hypothesis state machine of the API: any call in any order, through any node, against the model of `api_model`."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.support.api_choices import (
    ACTIONS,
    NAMES,
    OWNERS,
    bounds,
    changes,
    contents,
    named_filters,
    names,
    namespaces,
    numbers,
    plain_filters,
    tags,
)
from tests.support.api_model import AFTER, DEFAULTS, ModelJob, Reply, address, in_order, in_query, matches
from tests.support.api_steps import JOBS_MAX, NEVER, ApiSteps

REFUSED = ("stale", "past")  # tags that do not hold


class ApiMachine(ApiSteps):
    """All that can be asked about jobs, but what only time brings about."""

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
        self.create_under(n, f"{self.own}-{key}", content)

    @precondition(lambda self: self.keys)
    @rule(n=numbers, which=numbers)
    def create_again(self, n: int, which: int) -> None:
        name = sorted(self.keys)[which % len(self.keys)]
        self.create_under(n, name, self.keys[name][0])

    def create_under(self, n: int, name: str, body: dict[str, Any]) -> None:
        before = self.keys.get(name)
        if before is not None:
            self.catch_up(n)
        reply = self.caller(self.node(n), "POST", "/v1/jobs", body, {"Idempotency-Key": name})
        if before is None:
            assert reply.status == 201, reply.json
            self.keys[name] = (body, reply.json["id"])
            self.add(reply, "default", None, body, False)
        elif json.dumps(before[0]) != json.dumps(body):  # bytes are compared: the order of the fields counts
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
        if tag in REFUSED:
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
        tag=st.sampled_from(["none", "right", "only", *REFUSED]),
    )
    def put_named(self, n: int, namespace: str, name: str, content: dict[str, Any], suspended: bool, tag: str) -> None:
        job = self.named(namespace, name)
        headers = {"If-None-Match": "*"} if tag == "only" else {}
        if tag in ("right", *REFUSED):
            gone = {"If-Match": self.past.get((namespace, name), NEVER)}
            headers = gone if job is None else self.tag(job, tag)
        body = {**content, "suspended": suspended}
        reply = self.caller(self.node(n), "PUT", f"/v1/namespaces/{namespace}/jobs/{name}", body, headers)
        if job is None and tag in ("right", *REFUSED):
            assert (reply.status, reply.code) == (412, "stale-revision"), reply.json
        elif job is None:
            assert reply.status == 201, reply.json
            self.add(reply, namespace, name, content, suspended)
        elif tag == "only":
            assert (reply.status, reply.code) == (412, "exists"), reply.json
        elif tag in REFUSED:
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
        if tag in REFUSED:
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
        if tag in REFUSED:
            assert (reply.status, reply.code) == (412, "stale-revision"), reply.json
            return
        assert reply.status == 200, reply.json
        self.forget(job)
        assert self.read(n, f"/v1/jobs/{job.id}").status == 404
        assert self.read(n + 1, path).status == 404

    @precondition(lambda self: any(job.name is not None for job in self.jobs.values()))
    @rule(n=numbers, which=numbers, content=contents, method=st.sampled_from(["PATCH", "DELETE", "PUT"]))
    def make_anew(self, n: int, which: int, content: dict[str, Any], method: str) -> None:
        """Another job under the name: who knows the one before neither changes it nor takes it for that one."""
        named = [job for job in self.jobs.values() if job.name is not None]
        job = sorted(named, key=lambda job: job.id)[which % len(named)]
        path = address(job, True)
        assert self.caller(self.node(n), "DELETE", path).status == 200
        self.forget(job)
        reply = self.caller(self.node(n + 1), "PUT", path, content, {"If-None-Match": "*"})
        assert reply.status == 201, reply.json
        self.add(reply, job.namespace, job.name, content, False)
        known = {"If-None-Match": job.etag}
        seen = self.caller(self.node(n + 2), "GET", path, None, known, {"consistency": "leader"})
        assert seen.status == 200, "it is another job"
        body = {"PATCH": {"priority": 1}, "PUT": content}.get(method)
        refused = self.caller(self.node(n), method, path, body, {"If-Match": job.etag})
        assert (refused.status, refused.code) == (412, "stale-revision"), refused.json

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

    @rule(
        n=numbers,
        wanted=plain_filters,
        by_name=named_filters,
        by_time=bounds,
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

    @precondition(lambda self: self.jobs)
    @rule(
        n=numbers,
        action=st.sampled_from(ACTIONS),
        wanted=plain_filters,
        by_name=named_filters,
        by_time=bounds,
        ids=st.none() | st.lists(numbers, min_size=1, max_size=4),
        dry=st.booleans(),
    )
    def act(
        self,
        n: int,
        action: str,
        wanted: dict[str, Any],
        by_name: dict[str, str],
        by_time: list[tuple[str, int]],
        ids: list[int] | None,
        dry: bool,
    ) -> None:
        node = self.node(n)
        wanted = {**wanted, **by_name, **self.bounds(by_time)}
        if ids is not None:
            chosen = list({job.id: job for job in (self.job(i) for i in ids)}.values())
            body: dict[str, Any] = {"ids": [job.id for job in chosen]}
        else:
            chosen = [job for job in self.jobs.values() if matches(job, wanted)]
            if action in ("pause", "resume") and "state" not in wanted:
                chosen = [job for job in chosen if job.may(action)]
            body = {"filter": wanted} if wanted else {"all": True}
        if dry:
            self.catch_up(n)
            reply = self.caller(node, "POST", "/v1/jobs:actions", {"action": action, **body, "dry_run": True})
            assert (reply.status, reply.json["matched"]) == (200, len(chosen)), reply.json
        reply = self.caller(node, "POST", "/v1/jobs:actions", {"action": action, **body})
        assert reply.status == 202, reply.json
        assert reply.headers["location"] == f"/v1/operations/{reply.json['id']}"
        self.done(action, chosen, self.wait_operation(node, reply.json["id"]))

    @precondition(lambda self: self.jobs)
    @rule(n=numbers, wanted=plain_filters, by_name=named_filters, by_time=bounds)
    def delete_matching(
        self, n: int, wanted: dict[str, Any], by_name: dict[str, str], by_time: list[tuple[str, int]]
    ) -> None:
        wanted = {**wanted, **by_name, **self.bounds(by_time)}
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
