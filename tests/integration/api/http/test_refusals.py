"""Bad input gets 4xx and a problem that names the field and says what would be right; never 5xx, nothing half-done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftsched.errors import NoLeader, Overloaded, RaftschedError, UnknownOutcome
from tests.support.local_api import Client
from tests.support.patience import within

HANDLER = {"exec": ["true"]}
JOB = {"trigger": {"in": "30m"}, "handler": HANDLER}


NAMED = {"webhook": "ops", "on": ["failed"]}


def job(**fields: Any) -> dict[str, Any]:
    return {**JOB, **fields}


def trigger(**fields: Any) -> dict[str, Any]:
    return job(trigger=fields)


REFUSED: list[tuple[Any, str, str]] = [  # body, pointer of an error, something that the message says
    ({}, "/trigger", "exactly one of"),
    ({}, "/handler", "exactly one of"),
    ([], "", "an object"),
    (job(colour="red"), "/colour", "known"),
    (job(timout="5m"), "/timout", '"timeout"'),
    (job(id="0d3kq4v5w6x7y"), "/id", "leave it out"),
    (trigger(), "/trigger", "exactly one of"),
    (trigger(manual=False), "/trigger", "exactly one of"),
    (trigger(every="5m", cron="* * * * *"), "/trigger", "every and cron"),
    (trigger(cron="61 * * * *"), "/trigger/cron", "61"),
    (trigger(cron="0 0 31 2 *"), "/trigger/cron", "never"),
    (trigger(cron="* " * 10_000), "/trigger/cron", "256"),
    (trigger(cron=""), "/trigger/cron", ""),
    (trigger(cron="0 2 * * *", timezone="Mars/Olympus"), "/trigger/timezone", "Mars/Olympus"),
    (trigger(cron="0 2 * * *", timezone=""), "/trigger/timezone", "IANA"),
    (trigger(every="5m", timezone="UTC"), "/trigger/timezone", "cron"),
    (
        trigger(every="5m", starts_at="2031-01-02T00:00:00Z", ends_at="2031-01-01T00:00:00Z"),
        "/trigger/ends_at",
        "before",
    ),
    (trigger(every="-5m"), "/trigger/every", "negative"),
    (trigger(every="10ms"), "/trigger/every", "1s"),
    (trigger(every=5), "/trigger/every", "duration"),
    (trigger(every="5 minutes"), "/trigger/every", "5m"),
    (trigger(every="P1M"), "/trigger/every", "month"),
    (trigger(**{"in": "-1s"}), "/trigger/in", "negative"),
    (trigger(**{"in": "1000000000w"}), "/trigger/in", "100 years"),
    (trigger(at="tomorrow"), "/trigger/at", "RFC 3339"),
    (trigger(at="2030-02-30T00:00:00Z"), "/trigger/at", "calendar"),
    (trigger(at="2030-01-01T00:00:00"), "/trigger/at", "offset"),
    (trigger(at="1969-12-31T23:59:59Z"), "/trigger/at", "1970"),
    (trigger(at="2031-01-01T00:00:00Z", max_runs=3), "/trigger/max_runs", "every"),
    (trigger(every="5m", max_runs=0), "/trigger/max_runs", "from 1"),
    (trigger(every="5m", mode="sometimes"), "/trigger/mode", "fixed_rate"),
    (trigger(manual=True, jitter="5s"), "/trigger/jitter", "manual"),
    (trigger(every="5m", calendar="Bank Holidays"), "/trigger/calendar", "a-z"),
    (trigger(every="5m", calendar="holidays", mode="fixed_delay"), "/trigger/calendar", "fixed_rate"),
    (trigger(at="2030-01-01T00:00:00Z", calendar="holidays"), "/trigger/calendar", "every, cron and rrule"),
    (trigger(rrule=""), "/trigger/rrule", "empty"),
    (trigger(rrule="FREQ=DALY"), "/trigger/rrule", "use one of YEARLY"),
    (trigger(rrule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "/trigger/rrule", "never fires"),
    (trigger(rrule="FREQ=DAILY", mode="fixed_delay"), "/trigger/mode", "every"),
    (trigger(rrule="FREQ=DAILY", timezone="Nowhere"), "/trigger/timezone", "no time zone"),
    (job(handler={}), "/handler", "exactly one of"),
    (job(handler={"exec": ["a"], "shell": "b"}), "/handler", "exec and shell"),
    (job(handler={"exec": []}), "/handler/exec", "program"),
    (job(handler={"exec": "true"}), "/handler/exec", "a list"),
    (job(handler={"exec": ["a", 5]}), "/handler/exec/1", "a string"),
    (job(handler={"exec": ["a\0b"]}), "/handler/exec/0", "NUL"),
    (job(handler={"shell": " "}), "/handler/shell", "empty"),
    (job(handler={"python": "os.system"}), "/handler/python", "package.module:function"),
    (job(handler={"http": {"url": "ftp://a/b"}}), "/handler/http/url", "http://"),
    (job(handler={"http": {"url": "http://a:99999999/"}}), "/handler/http/url", "http://"),
    (
        job(handler={"http": {"url": "http://a/", "headers": {"X-A": "1", "x-a": "2"}}}),
        "/handler/http/headers",
        "a header twice",
    ),
    (
        job(handler={"http": {"url": "http://a/", "headers": {"X": "a\r\nb"}}}),
        "/handler/http/headers/X",
        "one line",
    ),
    (job(handler={"call": "Send it"}), "/handler/call", "1 to 128 characters of a-z"),
    (job(handler={"call": "send", "shell": "true"}), "/handler", "has shell and call; give exactly one of"),
    (job(handler={"exec": ["a"], "env": {"A=B": "c"}}), "/handler/env/A=B", "variable"),
    (job(handler={"exec": ["a"], "env": {"A/B": 1}}), "/handler/env/A~1B", "a string"),
    (job(handler={"exec": ["a"], "cwd": "here"}), "/handler/cwd", "absolute"),
    (job(handler={"exec": ["a"], "fresh": True}), "/handler/fresh", "for python and call"),
    (job(handler={"http": {"url": "http://a/"}, "fresh": True}), "/handler/fresh", "for python and call"),
    (job(handler={"python": "a:b", "fresh": "yes"}), "/handler/fresh", "true or false"),
    (job(handler={"exec": ["a", "{x}"], "template": True}), "/handler/exec/1", "which is no template; there are due"),
    (job(handler={"exec": ["a", "{params.x}"], "template": True}), "/handler/exec/1", "which params do not have"),
    (job(handler={"exec": ["a", "{due:%Q}"], "template": True}), "/handler/exec/1", "codes of %Y"),
    (job(handler={"shell": "echo {due}", "template": True}), "/handler/shell", "put it into env"),
    (job(handler={"http": {"url": "http://{job}/"}, "template": True}), "/handler/http/url", "server"),
    (job(handler={"exec": ["a"], "template": "yes"}), "/handler/template", "true or false"),
    (job(handler={"exec": ["a"], "limits": {"memory": "much"}}), "/handler/limits/memory", "64MiB"),
    (job(handler={"exec": ["a"], "limits": {"memory": 5}}), "/handler/limits/memory", "512MiB"),
    (job(handler={"exec": ["a"], "limits": {"memory": "64"}}), "/handler/limits/memory", "between 4MiB"),
    (job(handler={"exec": ["a"], "limits": {"memory": "2000TiB"}}), "/handler/limits/memory", "1024TiB"),
    (job(handler={"exec": ["a"], "limits": {"cpu": "10ms"}}), "/handler/limits/cpu", "whole seconds"),
    (job(handler={"exec": ["a"], "limits": {"cpu": "1500ms"}}), "/handler/limits/cpu", "whole seconds"),
    (job(handler={"exec": ["a"], "limits": {"cpu": "soon"}}), "/handler/limits/cpu", "duration"),
    (job(handler={"exec": ["a"], "limits": {"open_files": 1}}), "/handler/limits/open_files", "from 16"),
    (job(handler={"exec": ["a"], "limits": {"disk": "1GiB"}}), "/handler/limits/disk", "known"),
    (job(handler={"http": {"url": "http://a/"}, "limits": {"cpu": "5s"}}), "/handler/limits", "no meaning with http"),
    (job(name="Has Spaces"), "/name", "a-z"),
    (job(name=""), "/name", "1 to 128"),
    (job(name="a" * 129), "/name", "128"),
    (job(name="a\n"), "/name", "a-z"),
    (job(name="ä"), "/name", "a-z"),
    (job(name=5), "/name", "a-z"),
    (job(namespace="a" * 65), "/namespace", "64"),
    (job(namespace="a\0b"), "/namespace", "64"),
    (job(owner=""), "/owner", "128"),
    (job(priority=10), "/priority", "from 0 to 9"),
    (job(priority=-1), "/priority", "from 0 to 9"),
    (job(priority="high"), "/priority", "from 0 to 9"),
    (job(priority=True), "/priority", "from 0 to 9"),
    (job(priority=2**70), "/priority", "from 0 to 9"),
    (job(queue="No"), "/queue", "a-z"),
    (job(timeout="25h"), "/timeout", "1d"),
    (job(timeout="0s"), "/timeout", "more than zero"),
    (job(grace="61m"), "/grace", "at most 1h"),
    (job(grace="soon"), "/grace", "duration"),
    (job(max_lost=-1), "/max_lost", "from 0"),
    (job(suspend_after=0), "/suspend_after", "from 1"),
    (job(retry={"delays": ["5s", "soon"]}), "/retry/delays/1", "duration"),
    (job(retry={"delays": ["1s"] * 101}), "/retry/delays", "100"),
    (job(retry={"on": ["killed"]}), "/retry/on/0", "timed_out"),
    (job(retry={"on": []}), "/retry/on", "failed"),
    (job(overlap="maybe"), "/overlap", "forbid"),
    (job(misfire={"policy": "never"}), "/misfire/policy", "skip"),
    (job(labels={str(i): "" for i in range(33)}), "/labels", "32"),
    (job(labels={"": "x"}), "/labels/", "1 to 128"),
    (job(labels={"a": None}), "/labels/a", "a string"),
    (job(conditions=[{}]), "/conditions/0", "says nothing to look at; give exactly one of path, http, job_succeeded"),
    (job(conditions=[{"path": "/a"}, {"path": "/a", "http": "http://h/"}]), "/conditions/1", "has path and http"),
    (job(conditions=[{"path": "in/*.csv"}]), "/conditions/0/path", "must be absolute"),
    (job(conditions=[{"path": "/in/**/*.csv"}]), "/conditions/0/path", '"**"'),
    (job(conditions=[{"path": "/" + "a" * 2048}]), "/conditions/0/path", "at most 2048"),
    (job(conditions=[{"path": "/a\0"}]), "/conditions/0/path", "NUL"),
    (job(conditions=[{"path": "/a", "within": "2h"}]), "/conditions/0/within", "goes with job_succeeded"),
    (job(conditions=[{"path": "/a", "status": 200}]), "/conditions/0/status", "goes with http"),
    (job(conditions=[{"http": "ftp://h/"}]), "/conditions/0/http", "http:// or https://"),
    (job(conditions=[{"http": "http://h/", "status": 99}]), "/conditions/0/status", "from 100 to 599"),
    (job(conditions=[{"job_succeeded": "import", "within": "2h"}]), "/conditions/0/job_succeeded", "namespace/name"),
    (job(conditions=[{"job_succeeded": "a/..", "within": "2h"}]), "/conditions/0/job_succeeded", "namespace/name"),
    (job(conditions=[{"job_succeeded": "a/b"}]), "/conditions/0/within", "is missing"),
    (job(conditions=[{"job_succeeded": "a/b", "within": "0s"}]), "/conditions/0/within", "more than zero"),
    (job(conditions=[{"job_succeeded": "a/b", "within": "soon"}]), "/conditions/0/within", "not a duration"),
    (job(conditions=[{"file": "/a"}]), "/conditions/0/file", "not a known field"),
    (job(conditions=[{"path": 7}]), "/conditions/0/path", "an absolute path"),
    (job(conditions=[{"path": "/a"}] * 9), "/conditions", "at most 8"),
    (job(conditions_timeout="0s"), "/conditions_timeout", "more than zero"),
    (job(conditions_timeout="5"), "/conditions_timeout", "not a duration"),
    (job(notify={}), "/notify/webhook", "is missing"),
    (job(notify={"webhook": "ops"}), "/notify/on", "is empty"),
    (job(notify={"webhook": "ops", "on": ["broken"]}), "/notify/on/0", "must be one of"),
    (job(notify={"webhook": "no such", "on": ["failed"]}), "/notify/webhook", "breaks the rule"),
    (job(notify={"webhook": "ops", "on": ["failed"], "url": "x"}), "/notify/url", "not a known field"),
    (job(notify=[{"webhook": "a", "on": ["failed"]}, {"webhook": "a", "on": []}]), "/notify/1/webhook", "named before"),
    (job(notify=[{"webhook": "a", "on": ["failed"]}, {}]), "/notify/1/webhook", "is missing"),
    (job(notify=[{"webhook": f"w{i}", "on": ["failed"]} for i in range(9)]), "/notify", "at most 8"),
    (job(notify="ops"), "/notify", "must be an object"),
    (job(notify={"webhook": "ops", "on": ["late"]}), "/notify/on", 'say "late_by", too'),
    (job(notify=[NAMED, {"webhook": "o", "on": ["running_long"]}]), "/notify/1/on", 'say "longer_than" or "p95_times"'),
    (job(notify={"webhook": "ops", "on": ["late"], "late_by": "0s"}), "/notify/late_by", "is 0"),
    (job(notify={"webhook": "ops", "on": ["late"], "late_by": "soon"}), "/notify/late_by", "not a duration"),
    (job(notify={**NAMED, "not_run_for": "25h"}), "/notify/not_run_for", 'the measure of "not_run_since"'),
    (job(notify={"webhook": "ops", "on": ["running_long"], "p95_times": 0.5}), "/notify/p95_times", "from 1 to 1000"),
    (job(queue="_webhooks.ops"), "/queue", "that of a webhook"),
    (job(namespace="_system"), "/namespace", "cluster's own"),
    (job(placement={"on": "each"}), "/placement/on", "must be"),
    (job(params=[1]), "/params", "an object"),
    (job(params={"x": "y" * 33_000}), "/params", "32,768"),
    (job(suspended="yes"), "/suspended", "true or false"),
]


async def test_a_bad_field_is_named_with_what_would_be_right(call: Client) -> None:
    before = call.cluster.store.applied_index
    for body, pointer, says in REFUSED:
        status, problem = await call("POST", "/v1/jobs", body)
        shown = str(body)[:200]
        assert status == 422, (shown, problem)
        assert call.headers["Content-Type"] == "application/problem+json"
        assert problem["status"] == 422
        assert problem["type"] == f"urn:raftsched:problem:{problem['code']}"
        assert problem["code"] in ("invalid-job", "invalid-trigger")
        assert not problem["detail"].endswith("?."), problem
        named = [e["detail"] for e in problem["errors"] if e["pointer"] == pointer]
        assert named, (shown, problem)
        assert any(says in detail for detail in named), (shown, problem)
    assert call.cluster.store.applied_index == before


async def test_all_errors_come_at_once(call: Client) -> None:
    body = {
        "trigger": {"every": "soon", "jitter": 5},
        "handler": {"exec": ["a", None]},
        "name": "No!",
        "priority": 11,
        "timeout": "2d",
        "colour": 1,
    }
    status, problem = await call("POST", "/v1/jobs", body)
    assert status == 422
    assert {e["pointer"] for e in problem["errors"]} == {
        "/trigger/every",
        "/trigger/jitter",
        "/handler/exec/1",
        "/name",
        "/priority",
        "/timeout",
        "/colour",
    }


BROKEN = [
    b"",
    b"  ",
    b"{",
    b'{"trigger": {"in": "5m"},}',
    b"nul",
    b'{"name": "\xff"}',
    b'{"name": "\\ud800"}',
    b'{"params": {"a": NaN}}',
    b'{"params": {"a": 1e999}}',
    b'{"params": ' + b'{"a":' * 3000 + b"1" + b"}" * 3001,
    b"[" * 3000 + b"]" * 3000,
    b'{"priority": ' + b"9" * 5000 + b"}",
    b"\xef\xbb\xbf{}",
]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_broken_json_is_400(call: Client, method: str) -> None:
    path = "/v1/jobs"
    if method != "POST":
        _, made = await call("POST", path, JOB)
        path += f"/{made['id']}"
    for raw in BROKEN:
        status, problem = await call(method, path, raw)
        assert status == 400, (raw[:40], problem)
        assert problem["code"] == "invalid-json"


async def test_deep_params_are_refused_and_what_is_allowed_can_be_read_again(call: Client) -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = {"a": value}
        return value

    status, made = await call("POST", "/v1/jobs", job(params=nested(64)))
    assert status == 201
    assert (await call("GET", f"/v1/jobs/{made['id']}"))[1]["params"] == nested(64)
    status, problem = await call("POST", "/v1/jobs", job(params=nested(65)))
    assert (status, problem["errors"][0]["pointer"]) == (422, "/params")


async def test_numbers_of_any_size_survive_in_params(call: Client) -> None:
    params = {"big": 10**40, "small": -(10**40), "half": 0.5, "u64": 2**64 - 1}
    status, made = await call("POST", "/v1/jobs", job(params=params))
    assert (status, made["params"]) == (201, params)


async def test_bodies_over_the_limit_are_413(call: Client) -> None:
    large = job(params={"x": "y" * 70_000})
    status, problem = await call("POST", "/v1/jobs", large)
    assert (status, problem["code"]) == (413, "too-large")
    assert "65,536" in problem["detail"]

    async def pieces() -> Any:
        for _ in range(100):
            yield b" " * 1024

    async with call.session.post(
        call.url + "/v1/jobs", data=pieces(), headers={"Content-Type": "application/json"}
    ) as answer:
        assert answer.status == 413


WRONG: list[tuple[str, str, dict[str, str], int, str]] = [  # method, path, headers, status, said
    ("GET", "/v1/jobs/0000000000000", {}, 404, "no job"),
    ("GET", "/v1/jobs/nope", {}, 404, "no job"),
    ("GET", "/v1/jobs/%00%ff", {}, 404, "no job"),
    ("DELETE", "/v1/jobs/0000000000000", {}, 404, "no job"),
    ("POST", "/v1/jobs/0000000000000/run", {}, 404, "no job"),
    ("POST", "/v1/jobs/0000000000000/pause", {}, 404, "no job"),
    ("GET", "/v1/jobs/0000000000000/next", {}, 404, "no job"),
    ("GET", "/v1/namespaces/x/jobs/y", {}, 404, "no job"),
    ("GET", f"/v1/namespaces/{'x' * 600}/jobs/y", {}, 404, "no job"),
    ("GET", "/v1/namespaces/%F0%9F%98%80/jobs/%ED%A0%80", {}, 404, "no job"),
    ("GET", "/v1/instances/nope", {}, 404, "no instance"),
    ("GET", "/v1/instances/0000000000000@5", {}, 404, "no instance"),
    ("GET", "/v1/instances/0000000000000@5/output", {}, 404, "no instance"),
    ("POST", "/v1/instances/0000000000000@5/kill", {}, 404, "no instance"),
    ("POST", "/v1/instances/0000000000000@5/rerun", {}, 404, "no instance"),
    ("GET", "/v1/instances?job=nope", {}, 404, "no job"),
    ("GET", "/elsewhere", {}, 404, "nothing"),
    ("PUT", "/v1/jobs", {}, 405, "GET, HEAD, POST"),
    ("GET", "/v1/jobs:batch", {}, 405, "POST"),
    ("OPTIONS", "/v1/jobs", {}, 405, "GET"),
    ("GET", "/v1/jobs?colour=red", {}, 400, "colour"),
    ("GET", "/v1/jobs?limit=5&limit=6", {}, 400, "more than once"),
    ("GET", "/v1/jobs?limit=0", {}, 400, "from 1 to 1000"),
    ("GET", "/v1/jobs?limit=1001", {}, 400, "from 1 to 1000"),
    ("GET", "/v1/jobs?limit=ten", {}, 400, "from 1 to 1000"),
    ("GET", "/v1/jobs?limit=%C2%B2", {}, 400, "from 1 to 1000"),
    ("GET", "/v1/jobs?cursor=x", {}, 400, "cursor"),
    ("GET", "/v1/jobs?cursor=%ED%A0%80", {}, 400, "cursor"),
    ("GET", "/v1/jobs?state=RUNNING", {}, 400, "SCHEDULED"),
    ("GET", "/v1/jobs?label=x", {}, 400, "key=value"),
    ("GET", "/v1/jobs?consistency=strong", {}, 400, "leader"),
    ("GET", "/v1/jobs?min_index=-1", {}, 400, "min_index"),
    ("GET", "/v1/instances?from=yesterday", {}, 400, "RFC 3339"),
    ("GET", "/v1/instances?state=SCHEDULED", {}, 400, "RUNNING"),
    ("GET", "/v1/jobs/0000000000000/next?count=1001", {}, 400, "1000"),
    ("POST", "/v1/jobs", {}, 415, "application/json"),
    ("POST", "/v1/jobs", {"Content-Type": "text/plain"}, 415, "text/plain"),
    ("POST", "/v1/jobs:batch", {"Content-Type": "text/plain"}, 415, "text/plain"),
    ("POST", "/v1/jobs?x=1", {"Content-Type": "application/json"}, 400, '"x"'),
    ("GET", "/v1/jobs", {"Host": "evil.example"}, 403, "Host"),
    ("GET", "/v1/jobs", {"Host": "evil.example:7401"}, 403, "Host"),
    ("GET", "/v1/jobs", {"Host": "127.0.0.1.evil.example"}, 403, "Host"),
    ("GET", "/v1/jobs", {"Host": "user@127.0.0.1"}, 403, "Host"),
    ("GET", "/livez", {"Host": ""}, 403, "Host"),
    ("POST", "/v1/jobs", {"Origin": "http://evil.example"}, 403, "origins"),
    ("POST", "/v1/jobs", {"Origin": "null"}, 403, "origins"),
]


async def test_wrong_requests_get_their_4xx(call: Client) -> None:
    for method, path, headers, expected, says in WRONG:
        status, problem = await call(method, path, headers=headers)
        assert status == expected, (method, path, headers, problem)
        assert problem["status"] == expected
        assert says in str(problem), (method, path, headers, problem)
        assert call.headers["Raftsched-Leader"] == "n1"


async def test_hosts_that_are_ours_are_served(call: Client) -> None:
    for host in ("localhost", "LOCALHOST:7401", "[::1]:7401", "10.1.2.3", "node.example:80", "::1"):
        status, _ = await call("GET", "/livez", headers={"Host": host})
        assert status == (403 if host == "::1" else 200), host
    origin = {"Host": "localhost:7401", "Origin": "http://localhost:7401"}
    assert (await call("GET", "/livez", headers=origin))[0] == 200
    assert (await call("GET", "/livez", headers={**origin, "Origin": "http://localhost:7402"}))[0] == 403


@pytest.mark.parametrize(
    ("failure", "status", "retry"),
    [(NoLeader(), 503, "1"), (Overloaded(), 503, "1"), (UnknownOutcome(), 504, None)],
)
async def test_what_the_cluster_cannot_do_now(
    call: Client, failure: RaftschedError, status: int, retry: str | None
) -> None:
    call.cluster.failure = failure
    call.cluster.leader = None
    answered, problem = await call("POST", "/v1/jobs", JOB)
    assert (answered, problem["code"], call.headers.get("Retry-After")) == (status, failure.code, retry)
    answered, problem = await call("POST", "/v1/jobs:batch", [JOB, JOB])
    if status == 504:
        assert (answered, [item["status"] for item in problem["items"]]) == (200, [504, 504])
    else:
        assert (answered, call.headers.get("Retry-After")) == (status, retry)
    answered, page = await call("GET", "/v1/jobs")
    assert (answered, page["items"], call.headers["Raftsched-Stale"]) == (200, [], "true")
    assert (await call("GET", "/v1/jobs?consistency=leader"))[0] == 503, "a read changes nothing: ask again"


async def test_garbage_on_the_wire_is_never_5xx(call: Client) -> None:
    requests = [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET /v1/jobs/\xff\xfe?x=\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v1/jobs HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: \xff\xfe\r\nContent-Length: 2\r\n\r\n{}",
        b"GET " + b"/a" * 9000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v1/jobs HTTP/1.0\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    ]
    port = int(call.url.rpartition(":")[2])
    for request in requests:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await within(reader.read(4096))
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1."), request[:80]
        assert answer.split(b" ", 2)[1].startswith(b"4"), (request[:80], answer[:200])
    assert (await call("GET", "/livez"))[0] == 200


async def test_a_flood_of_errors_is_cut_short(call: Client) -> None:
    for body in (
        {f"f{i}": i for i in range(4_000)},
        job(labels={f"{i:>0200}": "" for i in range(200)}),
        job(handler={"exec": ["a"], "env": {f"={i}": "" for i in range(4_000)}}),
        job(handler={"exec": [1] * 9_000}),
    ):
        status, problem = await call("POST", "/v1/jobs", body)
        assert status == 422
        assert 1 <= len(problem["errors"]) <= 100
