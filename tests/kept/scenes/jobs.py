"""Jobs: made, read, listed, changed, and done to many at once."""

from __future__ import annotations

from typing import Any

from tests.kept.asking import Asking

TRUE = {"exec": ["true"]}
MANUAL = {"trigger": {"manual": True}, "handler": TRUE}
NAMED = "/v1/namespaces/default/jobs"

# Each field of a job at least once.
BODIES: list[dict[str, Any]] = [
    MANUAL,
    {"name": "at", "trigger": {"at": "2030-01-02T03:04:05Z"}, "handler": {"shell": "date"}},
    {"name": "in", "trigger": {"in": "30m", "jitter": "1m"}, "handler": {"call": "send-invoice"}},
    {
        "name": "every",
        "trigger": {"every": "10s", "mode": "fixed_delay"},
        "handler": {"python": "raftsched.samples:noop"},
    },
    {
        "name": "cron",
        "namespace": "billing",
        "trigger": {"cron": "0 2 * * 1-5", "timezone": "Europe/Madrid", "starts_at": "2030-02-01T00:00:00Z"},
        "handler": {
            "exec": ["./report.sh", "{due:%Y-%m-%d}"],
            "cwd": "/srv",
            "env": {"A": "b", "TOKEN": {"$secret": "token"}},
            "limits": {"memory": "512MiB", "open_files": 1024},
            "template": True,
        },
        "params": {"tenant": "acme", "list": [1, 2.5, None, True, "ü"]},
        "description": "Reports of the night.",
        "owner": "ana",
        "priority": 7,
        "queue": "reports",
        "timeout": "1h",
        "grace": "20s",
        "labels": {"team": "billing", "tier": "1"},
    },
    {"name": "quartz", "trigger": {"cron": "0 0 12 ? * MON-FRI", "dialect": "quartz"}, "handler": TRUE},
    {"name": "rrule", "trigger": {"rrule": "FREQ=WEEKLY;BYDAY=MO", "ends_at": "2030-12-01T00:00:00Z"}, "handler": TRUE},
    {
        "name": "several",
        "triggers": [
            {"id": "week", "cron": "0 7 * * 1-5"},
            {"id": "end", "cron": "0 10 * * SAT,SUN", "timezone": "Europe/Madrid"},
        ],
        "max_runs": 10,
        "handler": TRUE,
    },
    {
        "name": "http",
        "trigger": {"every": "1h", "max_runs": 3},
        "handler": {
            "http": {
                "url": "https://example.com/hook",
                "method": "POST",
                "headers": {"X-A": "b"},
                "body": "{}",
                "expected_status": [200, 204],
            }
        },
        "retry": {"delays": ["5s", "1m"], "on": ["failed"]},
        "outcomes": {"status": {"429": "snooze 5m", "404": "cancel"}},
    },
    {
        "name": "retried",
        "trigger": {"manual": True},
        "handler": TRUE,
        "retry": {"exponential": {"first": "1s", "factor": 3, "max": "10m", "attempts": 8}, "jitter_percent": 20},
        "outcomes": {"exit": {"75": "retry", "3-9": "cancel"}},
        "overlap": "queue_one",
        "misfire": {"policy": "all"},
        "delivery": "at_most_once",
        "max_lost": 2,
        "suspend_after": 3,
    },
    {
        "name": "keyed",
        "trigger": {"manual": True},
        "handler": TRUE,
        "params": {"tenant": "acme"},
        "concurrency": {"key": "{params.tenant}", "max": 2},
        "expires": "1h",
        "retention": {"succeeded": 5, "failed": 10},
        "placement": {"labels": {"disk": "ssd"}},
    },
    {"name": "after", "trigger": {"after": {"all_of": ["at", "in"], "on": "succeeded"}}, "handler": TRUE},
    {
        "name": "careful",
        "trigger": {"every": "1h"},
        "handler": TRUE,
        "conditions": [{"path": "/data/in/*.csv"}, {"job_succeeded": "default/at", "within": "2h"}],
        "conditions_timeout": "10m",
        "suspended": True,
    },
    {"name": "broad", "trigger": {"manual": True}, "handler": TRUE, "placement": {"on": "all"}},
    {"name": "told", "trigger": {"every": "1d"}, "handler": TRUE, "notify": [{"webhook": "ops", "on": ["failed"]}]},
    {"name": "parallel", "trigger": {"every": "1h"}, "handler": TRUE, "overlap": "allow", "max_concurrency": 4},
]

# Each says what is wrong with one thing.
WRONG: list[Any] = [
    {},
    {"trigger": {"manual": True}},
    {"handler": TRUE},
    {"trigger": {}, "handler": TRUE},
    {"trigger": {"manual": True, "every": "1h"}, "handler": TRUE},
    {"trigger": {"manual": True}, "handler": {}},
    {"trigger": {"manual": True}, "handler": {"exec": ["true"], "shell": "true"}},
    {**MANUAL, "name": "a b"},
    {**MANUAL, "namespace": ".."},
    {**MANUAL, "priority": 1_000},
    {**MANUAL, "timeout": "1 fortnight"},
    {**MANUAL, "nope": 1},
    {**MANUAL, "labels": {"": "x"}},
    {**MANUAL, "overlap": "sometimes"},
    {**MANUAL, "retry": {"delays": ["5s"], "exponential": {}}},
    {**MANUAL, "queue": 7},
    {"trigger": {"cron": "61 * * * *"}, "handler": TRUE},
    {"trigger": {"cron": "0 0 31 2 *"}, "handler": TRUE},
    {"trigger": {"cron": "* * * * *", "timezone": "Mars/Base"}, "handler": TRUE},
    {"trigger": {"at": "2029-01-01T00:00:00Z"}, "handler": TRUE},
    {"trigger": {"at": "tomorrow"}, "handler": TRUE},
    {"trigger": {"after": {"job": "nobody"}}, "handler": TRUE},
    {"trigger": {"every": "1h", "calendar": "nowhere"}, "handler": TRUE},
    {"triggers": [], "handler": TRUE},
    {"trigger": {"manual": True}, "triggers": [{"id": "a", "every": "1h"}], "handler": TRUE},
    "job",
    [MANUAL],
    b"{",
    b'{"name": "a", "name": "b"}',
    b"\xff",
]

LISTS = (
    "",
    "?limit=2",
    "?limit=0",
    "?limit=1001",
    "?limit=x",
    "?cursor=nope",
    "?namespace=billing",
    "?namespace=nowhere",
    "?name=at",
    "?name_prefix=r",
    "?name_contains=er&limit=1",
    "?state=SUSPENDED",
    "?state=SCHEDULED,NEW&fields=name,state",
    "?state=GONE",
    "?owner=ana&fields=id,name,owner",
    "?label=team=billing&fields=name,labels",
    "?label=x",
    "?queue=reports&fields=name",
    "?calendar=holidays",
    "?created_from=2030-01-01T00:00:00Z&fields=name",
    "?created_to=2029-01-01T00:00:00Z",
    "?next_from=2030-01-01T00:00:00Z&next_to=2030-01-03T00:00:00Z&fields=name,next_fire_at",
    "?next_from=soon",
    "?order=desc&fields=name&limit=3",
    "?order=up",
    "?fields=",
    "?fields=nope",
    "?limit=1&limit=2",
    "?consistency=strong&limit=1&fields=name",
    "?consistency=weak",
    "?min_index=1&limit=1&fields=name",
    "?min_index=1000000",
    "?nope=1",
)


async def made(ask: Asking) -> None:
    """Jobs of all kinds, each read once."""
    ask.cluster.open_session("n1", "127.0.0.1:1")
    await ask("PUT", "/v1/namespaces/billing/secrets/token", {"value": "s"}, note=False)
    await ask("POST", "/v1/webhooks", {"name": "ops", "url": "http://127.0.0.1:1/"}, note=False)
    for body in BODIES:
        answer = await ask("POST", "/v1/jobs", body)
        if "id" in answer:
            await ask("GET", f"/v1/jobs/{answer['id']}")
    for body in WRONG:
        await ask("POST", "/v1/jobs", body)
    for body in (*BODIES[1:4], *WRONG[:4]):
        await ask("POST", "/v1/jobs:check", body)
    await ask.alone("POST", "/v1/jobs", {**MANUAL, "name": "alone"})
    await ask.alone("POST", "/v1/jobs", {**MANUAL, "name": "alone"})
    await ask.alone("POST", "/v1/jobs", {"trigger": {"every": "1h"}, "handler": TRUE, "name": "alone"})
    await ask.alone("POST", "/v1/jobs", {**MANUAL, "name": "a b", "priority": "high"})
    key = {"Idempotency-Key": "once"}
    for body in (MANUAL, MANUAL, {**MANUAL, "priority": 3}):
        await ask("POST", "/v1/jobs", body, key)
    await ask("POST", "/v1/jobs", MANUAL, {"Idempotency-Key": "x" * 300})
    await ask("POST", "/v1/jobs", {**MANUAL, "name": "at"}, {"If-None-Match": "*"})
    await ask("POST", "/v1/jobs", {**MANUAL, "name": "at"}, {"If-None-Match": '"1"'})
    await ask("POST", "/v1/jobs", b"name: x", {"Content-Type": "text/yaml"})
    await ask("POST", "/v1/jobs", MANUAL, {"Expect": "something"})


async def read(ask: Asking) -> None:
    """Lists by all that they are asked by, page by page, and single jobs."""
    for body in BODIES[1:12]:
        await ask("POST", "/v1/jobs", body, note=False)
    for query in LISTS:
        await ask("GET", f"/v1/jobs{query}")
    page = await ask("GET", "/v1/jobs?limit=5&fields=id,name")
    while page.get("next"):
        page = await ask("GET", f"/v1/jobs?limit=5&fields=id,name&cursor={page['next']}")
    one = (await ask("GET", f"{NAMED}/at"))["id"]
    tag = ask.call.headers["ETag"]
    for path in (f"/v1/jobs/{one}", f"{NAMED}/at"):
        await ask("HEAD", path)
        await ask("GET", path, None, {"If-None-Match": tag})
        await ask("GET", path, None, {"If-None-Match": "at"})
        await ask("GET", f"{path}/next?count=2")
        await ask("GET", f"{path}/explain")
        await ask("GET", f"{path}/instances")
        await ask("GET", f"{path}/revisions")
        await ask("GET", f"{path}/stats")
        await ask("GET", f"{path}/state")
    for query in (
        "count=3&by_day=UTC",
        "count=0",
        "from=2030-03-01T00:00:00Z&to=2030-03-02T00:00:00Z",
        "by_day=Nowhere",
    ):
        await ask("GET", f"{NAMED}/every/next?{query}")
    await ask("GET", "/v1/jobs:graph")
    await ask("GET", "/v1/jobs:graph?job=default/after")
    await ask("GET", "/v1/jobs:graph?job=default/nobody")
    await ask("GET", "/v1/jobs:graph?namespace=billing")
    for query in (
        "",
        "?for=2h&step=1h",
        "?from=2030-01-01T00:00:00Z&to=2030-01-01T00:10:00Z&step=5m",
        "?queue=reports",
    ):
        await ask("GET", f"/v1/forecast{query}")
    await ask("GET", "/v1/forecast?step=7m")
    await ask("GET", "/v1/forecast?for=1000d")
    for body in ([BODIES[1], {**BODIES[2], "priority": 9}, {**MANUAL, "name": "new"}], [], [{"name": "at"}], {}):
        await ask("POST", "/v1/jobs:compare", body)
    await ask("POST", f"{NAMED}/at/compare", BODIES[1])
    await ask("POST", f"{NAMED}/at/compare", MANUAL)
    await ask("POST", f"{NAMED}/nobody/compare", MANUAL)


async def changed(ask: Asking) -> None:
    """One job, changed in each way, by its id and by its name."""
    ask.cluster.open_session("n1", "127.0.0.1:1")
    for number, by_name in enumerate((False, True)):
        body = {"name": f"job-{number}", "trigger": {"every": "1h"}, "handler": TRUE, "overlap": "allow"}
        one = await ask("POST", "/v1/jobs", body)
        path = f"{NAMED}/job-{number}" if by_name else f"/v1/jobs/{one['id']}"
        await ask("GET", path)
        first = {"If-Match": ask.call.headers["ETag"]}
        await ask("PATCH", path, {"priority": 5, "labels": {"a": "b"}}, first)
        await ask("PATCH", path, {"priority": 6}, first)
        await ask("PATCH", path, {"priority": 6}, {"If-Match": '"1"'})
        await ask(
            "PATCH", path, {"labels": {"a": None}, "owner": "ana"}, {"Content-Type": "application/merge-patch+json"}
        )
        await ask("PATCH", path, {"priority": "high", "nope": 1})
        await ask("PATCH", path, {"trigger": None})
        await ask("PATCH", path, {})
        await ask("POST", f"{path}/check", {"priority": 9})
        await ask("POST", f"{path}/check", {"priority": 9_000})
        await ask("PUT", path, {**body, "description": "new"}, {"If-Match": "*"})
        await ask("PUT", path, {**body, "handler": {}})
        await ask("POST", f"{path}/pause", {})
        await ask("POST", f"{path}/pause", {"until": "2030-01-01T06:00:00Z"})
        await ask("POST", f"{path}/pause", {"for": "2h", "until": "2030-01-01T06:00:00Z"})
        await ask("POST", f"{path}/resume", {}, first)
        await ask("POST", f"{path}/resume")
        await ask("GET", f"{path}/state")
        await ask("PUT", f"{path}/state", {"state": "SUSPENDED"})
        await ask("PUT", f"{path}/state", "SCHEDULED")
        await ask("PUT", f"{path}/state", "GONE")
        await ask("POST", f"{path}/skip-next", {})
        await ask("POST", f"{path}/skip-next", {"at": "2030-01-01T00:30:00Z"})
        await ask("POST", f"{path}/run", {"params": {"n": 1}, "priority": 9})
        await ask("POST", f"{path}/run", {"priority": -1_000})
        await ask("POST", f"{path}/run", {}, {"Idempotency-Key": f"run-{number}"})
        await ask("POST", f"{path}/run", {}, {"Idempotency-Key": f"run-{number}"})
        await ask("POST", f"{path}/backfill", {"from": "2029-12-31T20:00:00Z", "dry_run": True})
        await ask("POST", f"{path}/backfill", {"from": "2029-12-31T20:00:00Z", "to": "2029-12-31T22:30:00Z"})
        await ask("POST", f"{path}/backfill", {"from": "2030-01-02T00:00:00Z"})
        await ask("POST", f"{path}/backfill", {})
        await ask("GET", f"{path}/instances?limit=2")
        await ask("GET", f"{path}/explain")
        await ask("GET", f"{path}/revisions")
        await ask("POST", f"{path}/expire", {"kill": True})
        await ask("POST", f"{path}/run", {})
        await ask("DELETE", path, None, first)
        await ask("DELETE", path)
        await ask("DELETE", path)
        again = await ask("POST", "/v1/jobs", {**MANUAL, "name": f"job-{number}"})
        path = f"{NAMED}/job-{number}" if by_name else f"/v1/jobs/{again['id']}"
        await ask("DELETE", f"{path}/state")
        await ask("DELETE", f"{path}/state")
    await ask("PUT", f"{NAMED}/put", MANUAL)
    await ask("PUT", f"{NAMED}/put", MANUAL)
    await ask("PUT", f"{NAMED}/put", MANUAL, {"If-None-Match": "*"})
    await ask("PUT", f"{NAMED}/put", {**MANUAL, "name": "other"})
    await ask("PUT", f"{NAMED}/put", {**MANUAL, "namespace": "other"})
    await ask("PUT", f"{NAMED}/nobody", MANUAL, {"If-Match": '"1"'})
    await ask("PUT", "/v1/jobs/0000000000000", MANUAL)


async def many(ask: Asking) -> None:
    """Batches, and actions on many jobs."""
    ask.cluster.open_session("n1", "127.0.0.1:1")
    some = [{**MANUAL, "name": f"job-{n}", "labels": {"kind": "odd" if n % 2 else "even"}} for n in range(6)]
    await ask("POST", "/v1/jobs:batch", [*some, {"name": "x"}, {**MANUAL, "name": "job-0"}])
    await ask("POST", "/v1/jobs:batch", [*some[:2], {**some[2], "priority": 3}])
    await ask("POST", "/v1/jobs:batch", [])
    await ask("POST", "/v1/jobs:batch", {})
    lines = b'{"trigger": {"manual": true}, "handler": {"shell": "a"}}\n{"trigger": 7}\nnot json\n'
    await ask("POST", "/v1/jobs:batch", lines, {"Content-Type": "application/x-ndjson"})
    for action in ("pause", "resume", "run", "expire", "delete"):
        for what in ({"all": True}, {"filter": {"labels": {"kind": "odd"}}}, {"ids": ["0000000000000"]}):
            await ask("POST", "/v1/jobs:actions", {"action": action, "dry_run": True, **what})
    done = await ask(
        "POST", "/v1/jobs:actions", {"action": "pause", "filter": {"labels": {"kind": "odd"}}, "for": "1h"}
    )
    await ask("GET", f"/v1/operations/{done['id']}")
    await ask("POST", f"/v1/operations/{done['id']}/cancel", {})
    await ask("POST", "/v1/jobs:actions", {"action": "pause"})
    await ask("POST", "/v1/jobs:actions", {"action": "melt", "all": True})
    await ask("POST", "/v1/jobs:actions", {"action": "run", "all": True, "for": "1h"})
    await ask("POST", "/v1/jobs:actions", {"action": "run", "filter": {"nope": 1}})
    key = {"Idempotency-Key": "once"}
    await ask("POST", "/v1/jobs:actions", {"action": "run", "all": True}, key)
    await ask("POST", "/v1/jobs:actions", {"action": "run", "all": True}, key)
    ask.cluster.carries_out = False  # so that it can be cancelled
    left = await ask("POST", "/v1/jobs:actions", {"action": "resume", "all": True})
    await ask("GET", "/v1/operations?state=RUNNING")
    await ask("POST", f"/v1/operations/{left['id']}/cancel", {})
    await ask("GET", f"/v1/operations/{left['id']}")
    ask.cluster.carries_out = True
    for query in ("", "?limit=1", "?state=DONE&limit=1", "?state=LOST"):
        await ask("GET", f"/v1/operations{query}")
    await ask("GET", "/v1/operations/0000000000000")
    await ask("DELETE", "/v1/jobs")
    await ask("DELETE", "/v1/jobs?label=kind=odd&dry_run=true")
    await ask("DELETE", "/v1/jobs?label=kind=odd")
    await ask("DELETE", "/v1/jobs?all=true")
    await ask("GET", "/v1/jobs")
