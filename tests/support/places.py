"""Things in two namespaces, to be asked for by those who may see one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from raftsched.api.serving import Route
from tests.support.local_api import Client, run
from tests.support.tokens import As, guarded, limited

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}
BY_BODY = {  # checked by what they are sent: tried below, one by one
    ("POST", "/v1/jobs"), ("POST", "/v1/jobs:batch"), ("POST", "/v1/jobs:actions"), ("POST", "/v1/jobs:check"),
    ("POST", "/v1/schedules/crontab"), ("POST", "/v1/jobs:compare"),
    ("POST", "/v1/instances:kill"), ("POST", "/v1/dead-letters/requeue"),
    ("GET", "/v1/operations"), ("GET", "/v1/namespaces"), ("GET", "/v1/webhooks"), ("GET", "/v1/changes"),
    ("GET", "/v1/instances:recent"),
}  # fmt: skip


class Place:
    """A job with a run in "mine" and in "theirs", an operation on each, and who may see only the first."""

    def __init__(self, call: Client, people: dict[str, As], mine: As) -> None:
        self.call = call
        self.admin = people["admin"]
        self.mine = mine
        self.jobs: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.operations: dict[str, str] = {}

    async def fill(self) -> None:
        for namespace in ("mine", "theirs"):
            _, job = await self.admin("POST", "/v1/jobs", {**JOB, "name": "j", "namespace": namespace})
            _, made = await self.admin("POST", f"/v1/jobs/{job['id']}/run", {})
            wanted = {"action": "resume", "filter": {"namespace": namespace}}
            _, operation = await self.admin("POST", "/v1/jobs:actions", wanted)
            self.jobs[namespace], self.instances[namespace] = job["id"], made["id"]
            self.operations[namespace] = operation["id"]

    def address(self, route: Route, namespace: str) -> str:
        path = route.path.replace("/jobs/{id}", f"/jobs/{self.jobs[namespace]}").replace("{ns}", namespace)
        path = path.replace("/instances/{id}", f"/instances/{self.instances[namespace]}")
        path = path.replace("/workflows/{id}", f"/workflows/{self.instances[namespace]}")
        path = path.replace("/operations/{id}", f"/operations/{self.operations[namespace]}")
        path = path.replace("{name}", "j").replace("{id}", "none")
        return path.replace("{session}", f"1-{0:032}").replace("{token}", "1")


def placed(directory: Path, test: Callable[[Place], Awaitable[None]]) -> None:
    async def inside(call: Client) -> None:
        people = await guarded(call)
        mine = await limited(people["admin"], "mine", "editor", "mine", "also-mine")
        place = Place(call, people, mine)
        await place.fill()
        await test(place)

    run(directory, inside)


def body_of(route: Route) -> Any:
    if route.method not in ("POST", "PUT", "PATCH"):
        return None
    if route.method == "PUT" or route.path.endswith("/compare"):
        return {"state": "SUSPENDED"} if route.path.endswith("/state") else JOB
    return {"from": "2029-01-01T00:00:00Z"} if route.path.endswith("/backfill") else {}
