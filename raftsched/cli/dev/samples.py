"""The sample jobs of `raftsched dev`, of every kind with a report that failed, and the lines that show them running."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from raftsched.cli.runs.why import error_line
from raftsched.client.errors import ClientError, NotFoundError
from raftsched.client.http import Client
from raftsched.surface.plain import job_actions, jobs, runs
from raftsched.system.clock import Clock

NAMESPACE = "samples"
REPORT_NAMESPACE, REPORT_NAME = "billing", "nightly-report"
REPORT = {
    "trigger": {"cron": "0 2 * * 1-5", "timezone": "Europe/Madrid"},
    "handler": {"python": "raftsched.samples:report"},
    "params": {"month": "2026-10"},
    "timeout": "5m",
    "retry": {"delays": ["1s"]},
    "owner": "ana",
    "labels": {"team": "fin"},
}
_LOOK_BACK_MS = 120_000
_FINAL = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"})


def rfc3339(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sample_jobs(now_ms: int, url: str) -> list[dict[str, Any]]:
    """`url` is a node's own address, asked by the http sample. One-shots get names of their own at each start."""
    start = now_ms // 1000
    return [
        {
            "name": f"once-at-{start}",
            "trigger": {"at": rfc3339(now_ms + 8_000)},
            "handler": {"shell": 'echo "once, at $RAFTSCHED_SCHEDULED_AT"'},
        },
        {
            "name": f"once-in-{start}",
            "trigger": {"in": "4s"},
            "handler": {"exec": ["uname", "-sr"]},
        },
        {
            "name": "every-shell",
            "trigger": {"every": "10s"},
            "handler": {"shell": 'echo "$(date) on $RAFTSCHED_NODE_ID"'},
        },
        {
            "name": "every-python",
            "trigger": {"every": "15s"},
            "handler": {"python": "raftsched.samples:greet"},
            "params": {"name": "raftsched"},
        },
        {
            "name": "every-http",
            "trigger": {"every": "20s"},
            "handler": {"http": {"method": "GET", "url": f"{url}/livez"}},
        },
        {
            "name": "cron-minute",
            "trigger": {"cron": "* * * * *"},
            "handler": {"exec": ["echo", "the minute is full"]},
        },
        {
            "name": "manual",
            "trigger": {"manual": True},
            "handler": {"shell": 'echo "somebody asked for this run"'},
        },
        {
            "name": f"flaky-{start}",
            "trigger": {"in": "2s"},
            "handler": {"shell": 'echo "attempt $RAFTSCHED_ATTEMPT"; test "$RAFTSCHED_ATTEMPT" -ge 3'},
            "retry": {"delays": ["2s", "3s"]},
        },
        {
            "name": f"hopeless-{start}",
            "trigger": {"in": "6s"},
            "handler": {"python": "raftsched.samples:fail"},
            "retry": {"delays": ["3s"]},
        },
        {
            "name": "suspended",
            "trigger": {"every": "1m"},
            "handler": {"shell": "echo never, until somebody resumes it"},
            "suspended": True,
        },
    ]


def broken_report() -> dict[str, Any]:
    """Returns the report as somebody wrote it first: the program that it names is not there."""
    return {**REPORT, "handler": {"exec": ["./report.sh", "2026-10"]}, "params": {}, "retry": {"delays": []}}


class Samples:
    """Creates the jobs, then tells about each run once it has ended."""

    def __init__(self, client: Client, clock: Clock, say: Callable[[str], None]) -> None:
        self._client = client
        self._clock = clock
        self._say = say
        self._names: dict[str, str] = {}
        self._told: dict[str, None] = {}  # instance ids, oldest first

    def create(self, url: str) -> None:
        """ClientError when the cluster refuses them."""
        for job in sample_jobs(self._clock.wall_ms(), url):
            path = jobs.GET_BY_NAME.format(ns=NAMESPACE, name=job["name"])
            found = self._client.request("PUT", path, body=job).json()
            self._names[found["id"]] = job["name"]
            if job["trigger"] == {"manual": True}:
                self._client.post(job_actions.RUN.format(id=found["id"]), {})
        self._create_report()

    def _create_report(self) -> None:
        """A job that was mended after a run of it had failed: there is a dead letter, and requeuing it succeeds. Where
        the job is there already it is left as it is."""
        path = jobs.GET_BY_NAME.format(ns=REPORT_NAMESPACE, name=REPORT_NAME)
        try:
            found = self._client.get(path)
        except NotFoundError:
            found = self._client.request("PUT", path, body=broken_report()).json()
            self._client.post(job_actions.RUN.format(id=found["id"]), {})  # keeps the content that it is made from
            self._client.request("PUT", path, body=REPORT)
        self._names[found["id"]] = f"{REPORT_NAMESPACE}/{REPORT_NAME}"

    def tell(self) -> None:
        """A line for each run that ended since the last call. Quiet while no node answers."""
        since = rfc3339(self._clock.wall_ms() - _LOOK_BACK_MS)
        found: list[dict[str, Any]] = []
        try:
            for namespace in (NAMESPACE, REPORT_NAMESPACE):
                found += self._client.items(runs.LIST, {"namespace": namespace, "from": since}, 200)
        except ClientError:
            return
        for instance in sorted(found, key=lambda i: str(i.get("ended_at") or "")):
            if instance["id"] in self._told or instance["state"] not in _FINAL:
                continue
            self._told[instance["id"]] = None
            if len(self._told) > 2000:
                del self._told[next(iter(self._told))]
            name = self._names.get(instance["job_id"])
            if name is not None:
                self._say(_line(name, instance))


def _line(name: str, instance: dict[str, Any]) -> str:
    when = str(instance.get("ended_at") or instance["scheduled_at"])[11:19]
    parts = [f"{when}  {name:<22} {instance['state']:<9}"]
    if instance.get("node"):
        parts.append(f"on {instance['node']}")
    if (instance.get("attempt") or 0) > 1:
        parts.append(f"attempt {instance['attempt']}")
    what = error_line(instance) or instance.get("reason")
    if instance["state"] != "SUCCEEDED" and what:
        parts.append(f"({what[:80]})")
    return " ".join(parts)
