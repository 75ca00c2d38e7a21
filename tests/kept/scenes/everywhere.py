"""Each operation of the description, asked in the ways that all have in common: by who has no token and by a viewer,
with what is not known, of what is not there, with bodies that are wrong, and by methods that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from raftsched.core.commands import Assign
from raftsched.core.ids import parse_instance
from tests.kept.asking import Asking
from tests.kept.scenes.jobs import MANUAL
from tests.support.tokens import ROLES, make

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
WRONG: list[Any] = [b"{", [], {"nope": 1}]
NEEDED = {"recent_get": "jobs={job}", "instances_search": "q=x"}  # parameters without which nothing is answered
LARGE = ("documents_openapi", "documents_page", "health_metrics", "snapshot_get")  # are kept elsewhere, or cannot be


async def jobs(ask: Asking) -> None:
    """The operations on jobs."""
    await _asked(ask, lambda path: path.startswith(("/v1/jobs", "/v1/namespaces/{ns}/jobs")))


async def others(ask: Asking) -> None:
    """All others."""
    await _asked(ask, lambda path: not path.startswith(("/v1/jobs", "/v1/namespaces/{ns}/jobs")))


async def _asked(ask: Asking, among: Callable[[str], bool]) -> None:
    parts = await _prepared(ask)
    described = await ask("GET", "/openapi.json", note=False)
    ask.secrets = {role: await make(ask.call, role, role) for role in ROLES}
    await ask("PUT", "/v1/cluster/access", {"required": True}, who="admin")
    for path, said in described["paths"].items():
        if not among(path):
            continue
        operations = {method.upper(): said[method] for method in said if method != "parameters"}
        shared = said.get("parameters", [])
        for method, operation in operations.items():
            await _operation(ask, method, path, operation, shared, parts)
        other = next((method for method in METHODS if method not in operations), "TRACE")
        await ask(other, _address(path, parts), who="admin")


async def _prepared(ask: Asking) -> dict[str, str]:
    """Returns what stands in addresses for what there is one of."""
    ask.cluster.open_session("n1", "127.0.0.1:1")
    job = await ask("POST", "/v1/jobs", {**MANUAL, "name": "there"}, note=False)
    run = await ask("POST", f"/v1/jobs/{job['id']}/run", {}, note=False)
    key = parse_instance(run["id"])
    assert key is not None
    ask.cluster.apply(Assign(key, ask.cluster.sessions["n1"]))
    done = await ask("POST", "/v1/jobs:actions", {"action": "resume", "ids": [job["id"]]}, note=False)
    token = await ask("POST", "/v1/tokens", {"name": "there", "role": "viewer"}, note=False)
    for kind in ("queues", "calendars"):
        await ask("PUT", f"/v1/{kind}/there", {}, note=False)
    await ask("PUT", "/v1/namespaces/default", {}, note=False)
    await ask("PUT", "/v1/namespaces/default/secrets/there", {"value": "x"}, note=False)
    await ask("POST", "/v1/webhooks", {"name": "there", "url": "http://127.0.0.1:1/"}, note=False)
    return {
        "job": job["id"],
        "/v1/jobs/": job["id"],
        "/v1/instances/": run["id"],
        "/v1/workflows/": run["id"],
        "/v1/operations/": done["id"],
        "/v1/nodes/": "n1",
        "/v1/cluster/members/": "n1",
        "/v1/tokens/": token["id"],
        "/v1/worker-sessions/": "1",
    }


def _address(path: str, parts: dict[str, str], *, there: bool = True) -> str:
    """`there`: of what there is; else of what there is not."""
    begin = path.partition("{")[0]
    known = {"{ns}": "default", "{name}": "there", "{token}": "1", "{id}": parts.get(begin, "")}
    known["{session}"] = parts["/v1/worker-sessions/"]
    gone = {"{ns}": "nowhere", "{name}": "nobody", "{token}": "99", "{id}": "0000000000000", "{session}": "99"}
    for name, value in (known if there else gone).items():
        path = path.replace(name, quote(value, safe="@"))
    return path


async def _operation(
    ask: Asking, method: str, path: str, operation: dict[str, Any], shared: list[Any], parts: dict[str, str]
) -> None:
    name = operation["operationId"]
    taken = {one["name"] for one in [*shared, *operation.get("parameters", ())] if one.get("in") == "query"}
    query = NEEDED.get(name, "").format(**parts) or ("follow=false" if "follow" in taken else "")
    here, gone = (_address(path, parts, there=there) + (f"?{query}" if query else "") for there in (True, False))
    mark = "&" if query else "?"
    content = operation.get("requestBody", {}).get("content", {})
    body = {} if "application/json" in content else None
    for who in ("nobody", "viewer"):
        await ask("HEAD" if name in LARGE else method, here, body, who=who)
    await ask(method, f"{here}{mark}nope=1", body, who="admin")
    if "{" in path:
        await ask(method, gone, body, who="admin")
    for parameter in sorted(taken):
        if parameter in ("limit", "cursor", "fields", "order", "from", "state"):
            await ask(method, f"{here}{mark}{parameter}=%00", body, who="admin")
    if content:
        for wrong in WRONG:
            await ask(
                method, here, wrong, {} if body is not None else {"Content-Type": next(iter(content))}, who="admin"
            )
        await ask(method, here, b"{}", {"Content-Type": "image/png"}, who="admin")
