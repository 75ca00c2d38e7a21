"""A cluster with something of everything to show: jobs of every kind and state, runs that ended, run, wait and failed
for good, queues that hold, calendars, namespaces, secrets, webhooks."""

from __future__ import annotations

import json
from typing import Any

from tests.support.api_nodes import AnyCluster

# Colours, a link that is none, and what a page must not take for HTML.
OUTPUT = (
    r"printf '\033[1mreport\033[0m of \033[32m42 invoices\033[0m\n\033[31merror:\033[0m <b>not bold</b> &amp; "
    r"<script>document.title = 1</script>\n\033]0;title\007\033[38;5;208mdone\033[0m\n'; echo to stderr >&2"
)
EVIL = "<script>document.title = 'run'</script><img src=x onerror=alert(1)>"
JOBS: dict[str, dict[str, Any]] = {
    "billing/nightly-report": {
        "trigger": {"cron": "30 2 * * 1-5", "timezone": "Europe/Madrid", "calendar": "holidays"},
        "handler": {"shell": OUTPUT},
        "description": "What was invoiced yesterday, for the accountants",
        "owner": "ana",
        "labels": {"team": "fin", "tier": "1"},
        "retry": {"delays": ["5s", "1m"]},
    },
    "billing/reminders": {
        "trigger": {"rrule": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "timezone": "America/New_York"},
        "handler": {"http": {"url": "http://127.0.0.1:9/remind", "method": "POST"}},
        "owner": "ana",
        "labels": {"team": "fin"},
    },
    "billing/import": {
        "trigger": {"manual": True},
        "handler": {"shell": "echo reading; echo 'no such file: /data/in.csv' >&2; exit 3"},
        "owner": "ben",
        "labels": {"team": "data"},
    },
    "data/poll": {
        "trigger": {"every": "3s"},
        "handler": {
            "shell": "s=$(date +%s); sleep 0.$((s % 9)); test $((s % 4)) -gt 0 || { echo nothing >&2; exit 1; }"
        },
        "owner": "ben",
        "labels": {"team": "data"},
    },
    "data/heartbeat": {"trigger": {"every": "2s"}, "handler": {"shell": "echo alive"}, "labels": {"team": "data"}},
    "data/train": {
        "trigger": {"manual": True},
        "handler": {"shell": "while :; do echo step; sleep 0.2; done"},
        "queue": "gpu",
        "overlap": "allow",
        "timeout": "1h",
        "description": EVIL,
        "owner": "chloé",
        "labels": {"team": "data", "note": "a<b"},
    },
    "data/rebuild": {"trigger": {"in": "5h"}, "handler": {"exec": ["make", "rebuild"]}, "params": {"full": True}},
    "data/paused": {"trigger": {"every": "1h"}, "handler": {"shell": "true"}, "suspended": True, "owner": "ben"},
    "default/hello": {"trigger": {"manual": True}, "handler": {"shell": "echo hello"}},
}
PUTS: dict[str, dict[str, Any]] = {
    "namespaces/billing": {"owner": "ana", "description": "Invoices and reminders", "limits": {"max_jobs": 500}},
    "namespaces/data": {"owner": "ben", "limits": {"max_running": 20}},
    "queues/gpu": {"max_running": 1},
    "queues/mail": {"max_running": 5},
    "calendars/holidays": {
        "timezone": "Europe/Madrid",
        "yearly": ["01-01", "12-25"],
        "weekdays": ["sat", "sun"],
        "ranges": [{"from": "2027-08-01", "to": "2027-08-31"}],
    },
    "webhooks/ops": {"url": "http://127.0.0.1:9/hook", "events": ["dead_letter"], "retry_delays": ["1h"]},
}


class World:
    """What was made, by name; and requests as whoever `secret` is of."""

    def __init__(self, cluster: AnyCluster, secret: str = "") -> None:
        self.cluster = cluster
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self.jobs: dict[str, str] = {}  # "namespace/name" -> id
        self.runs: dict[str, str] = {}  # as "train", "import": the first run of it

    def ask(self, method: str, path: str, body: Any = None, *, node: int = 0) -> Any:
        reply = self.cluster.alive()[node].request(method, path, body, dict(self.headers))
        assert reply.status < 300, (method, path, reply.status, reply.body)
        return json.loads(reply.body) if reply.body else None

    def put(self, job: str, body: dict[str, Any]) -> str:
        """The id of the job, which all nodes know when this returns."""
        namespace, _, name = job.partition("/")
        made = self.ask("PUT", f"/v1/namespaces/{namespace}/jobs/{name}", body)
        self.jobs[job] = made["id"]
        self.everywhere(f"/v1/jobs/{made['id']}")
        return str(made["id"])

    def run(self, job: str, **body: Any) -> str:
        """The id of a run, which all nodes know when this returns."""
        run: str = self.ask("POST", f"/v1/jobs/{self.jobs[job]}/run", body)["id"]
        self.everywhere(f"/v1/instances/{run}")
        return run

    def everywhere(self, path: str) -> None:
        def known() -> bool:
            return all(node.request("GET", path, None, self.headers).status == 200 for node in self.cluster.alive())

        self.cluster.wait(f"{path} at all nodes", known)

    def until(self, run: str, *states: str) -> None:
        def reached() -> bool:
            return self.ask("GET", f"/v1/instances/{run}")["state"] in states

        self.cluster.wait(f"{run} to be {' or '.join(states)}", reached)

    def end(self) -> None:
        """Kills what would run on."""
        for job in self.jobs.values():
            self.ask("POST", f"/v1/jobs/{job}/expire", {"kill": True})


def build(cluster: AnyCluster) -> World:
    world = World(cluster)
    for path, body in PUTS.items():
        world.ask("PUT", f"/v1/{path}", body)
    world.ask("PUT", "/v1/namespaces/default/secrets/api-key", {"value": "s3cret"})
    for job, body in JOBS.items():
        world.put(job, body)
    world.ask("PATCH", f"/v1/jobs/{world.jobs['billing/nightly-report']}", {"timeout": "10m"})
    for name, job in {
        "report": "billing/nightly-report",
        "import": "billing/import",
        "train": "data/train",
        "waiting": "data/train",
    }.items():
        world.runs[name] = world.run(job)
        world.until(world.runs[name], "WAITING" if name == "waiting" else "SUCCEEDED", "FAILED", "RUNNING")
    return world


def path_of(world: World, template: str) -> str:
    """The path with the ids of `{namespace/job}` and `<run>` put in."""
    for name, job in world.jobs.items():
        template = template.replace(f"{{{name}}}", job)
    for name, run in world.runs.items():
        template = template.replace(f"<{name}>", run)
    return template
