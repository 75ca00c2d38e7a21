"""How each POST of the route table is sent: what has to be there, a body, and another body that is as good.

`PREPARED` has an entry for every POST that changes something; a new route without one fails
`tests/integration/api/http/test_idempotency.py`, which says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from raftsched.core.commands import Assign, Ended
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.raft import JoinRequest
from tests.support.local_api import Client

HOURLY = {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}, "overlap": "allow"}
MANUAL = {**HOURLY, "trigger": {"manual": True}}


class Post(NamedTuple):
    """`other`: (path, body) of another request of the same kind, which the key of the first does not cover."""

    path: str
    body: Any
    other: tuple[str, Any]


Prepare = Callable[[Client], Awaitable[Post]]


async def make(call: Client, job: dict[str, Any] = HOURLY, **fields: Any) -> str:
    status, made = await call("POST", "/v1/jobs", {**job, **fields})
    assert status == 201, made
    return str(made["id"])


async def waiting(call: Client) -> str:
    """An instance that nobody has taken yet."""
    _, made = await call("POST", f"/v1/jobs/{await make(call, MANUAL)}/run", {})
    return str(made["id"])


async def dead(call: Client) -> str:
    """An instance that failed for good."""
    made = await waiting(call)
    cluster = call.cluster
    session = cluster.sessions.get("n1") or cluster.open_session("n1", "127.0.0.1:1")
    key = parse_instance(made)
    assert key is not None
    token = getattr(cluster.apply(Assign(key, session))[0], "number", 0)
    cluster.apply(Ended(session, token, Outcome.FAILED, None, cluster.clock.wall, 1, "no disk"))
    return made


def of_job(action: str, body: Any = None, *, named: bool = False, **other: Any) -> Prepare:
    """`other`: the body of the other request; without one it is the same to another job."""

    async def prepare(call: Client) -> Post:
        await make(call, name="a")
        first = "/v1/namespaces/default/jobs/a" if named else f"/v1/jobs/{await make(call)}"
        path = f"{first}/{action}"
        return Post(path, body, (path, other) if other else (f"/v1/jobs/{await make(call)}/{action}", body))

    return prepare


async def backfilled(call: Client, path: str) -> Post:
    await make(call, name="a")
    call.cluster.clock.forward(5 * 3_600_000)
    first = "2030-01-01T00:00:00Z"
    return Post(path, {"from": first}, (path, {"from": first, "to": "2030-01-01T02:00:00Z"}))


async def backfill_by_id(call: Client) -> Post:
    return await backfilled(call, f"/v1/jobs/{await make(call)}/backfill")


async def backfill_by_name(call: Client) -> Post:
    return await backfilled(call, "/v1/namespaces/default/jobs/a/backfill")


async def create(call: Client) -> Post:
    return Post("/v1/jobs", HOURLY, ("/v1/jobs", MANUAL))


async def create_batch(call: Client) -> Post:
    return Post("/v1/jobs:batch", [HOURLY, MANUAL], ("/v1/jobs:batch", [HOURLY, HOURLY]))


async def act(call: Client) -> Post:
    call.cluster.carries_out = False  # its progress would show in the answer
    ids = [await make(call) for _ in range(3)]
    path = "/v1/jobs:actions"
    return Post(path, {"action": "run", "ids": ids}, (path, {"action": "run", "ids": ids[:2]}))


async def cancel(call: Client) -> Post:
    call.cluster.carries_out = False
    paths = []
    for _ in range(2):
        _, made = await call("POST", "/v1/jobs:actions", {"action": "pause", "ids": [await make(call)]})
        paths.append(f"/v1/operations/{made['id']}/cancel")
    return Post(paths[0], None, (paths[1], None))


async def kill(call: Client) -> Post:
    return Post(f"/v1/instances/{await waiting(call)}/kill", None, (f"/v1/instances/{await waiting(call)}/kill", None))


async def kill_workflow(call: Client) -> Post:
    one, other = await waiting(call), await waiting(call)
    return Post(f"/v1/workflows/{one}/kill", None, (f"/v1/workflows/{other}/kill", None))


async def kill_matching(call: Client) -> Post:
    for _ in range(3):
        await waiting(call)
    path, wanted = "/v1/instances:kill", {"namespace": "default"}
    return Post(path, {"filter": wanted}, (path, {"filter": {**wanted, "state": ["WAITING"]}}))


async def rerun(call: Client) -> Post:
    return Post(f"/v1/instances/{await dead(call)}/rerun", None, (f"/v1/instances/{await dead(call)}/rerun", None))


async def requeue(call: Client) -> Post:
    path, ids = "/v1/dead-letters/requeue", [await dead(call) for _ in range(3)]
    return Post(path, {"ids": ids}, (path, {"ids": ids[:1]}))


async def let_in(call: Client) -> Post:
    call.cluster.join_requests = [JoinRequest("n4", "127.0.0.1:9003", "127.0.0.1:7404", b"4" * 16, 100)]
    path = "/v1/cluster/members"
    return Post(path, {"id": "n4"}, (path, {"id": "n5"}))


async def transfer(call: Client) -> Post:
    return Post("/v1/cluster/leader", {"to": "n2"}, ("/v1/cluster/leader", {"to": "n3"}))


async def token(call: Client) -> Post:
    made = {"name": "ci", "role": "editor", "namespaces": ["billing"]}
    return Post("/v1/tokens", made, ("/v1/tokens", {**made, "name": "other"}))


async def webhook(call: Client) -> Post:
    made = {"name": "ops", "url": "http://h/"}
    return Post("/v1/webhooks", made, ("/v1/webhooks", {**made, "name": "other"}))


def of_webhook(action: str, body: Any) -> Prepare:
    async def prepare(call: Client) -> Post:
        for name in ("ops", "other"):
            assert (await call("POST", "/v1/webhooks", {"name": name, "url": "http://h/"}))[0] == 201
        return Post(f"/v1/webhooks/ops/{action}", body, (f"/v1/webhooks/other/{action}", body))

    return prepare


def plain(path: str, other: tuple[str, Any] | None = None) -> Prepare:
    async def prepare(call: Client) -> Post:
        return Post(path, None, other or (path, {"x": 1}))

    return prepare


_ID, _NAME = "/v1/jobs/{id}", "/v1/namespaces/{ns}/jobs/{name}"
RUN: dict[str, Any] = {"params": {"a": 2}}

PREPARED: dict[str, Prepare] = {
    "/v1/jobs": create,
    "/v1/jobs:batch": create_batch,
    "/v1/jobs:actions": act,
    **{f"{_ID}/{action}": of_job(action) for action in ("pause", "resume")},
    **{f"{_NAME}/{action}": of_job(action, named=True) for action in ("pause", "resume")},
    f"{_ID}/expire": of_job("expire", {}, kill=True),
    f"{_NAME}/expire": of_job("expire", {}, named=True, kill=True),
    f"{_ID}/run": of_job("run", {"params": {"a": 1}}, **RUN),
    f"{_NAME}/run": of_job("run", {"params": {"a": 1}}, named=True, **RUN),
    f"{_ID}/skip-next": of_job("skip-next", {}, at="2030-01-01T01:00:00Z"),
    f"{_NAME}/skip-next": of_job("skip-next", {}, named=True, at="2030-01-01T01:00:00Z"),
    f"{_ID}/backfill": backfill_by_id,
    f"{_NAME}/backfill": backfill_by_name,
    "/v1/operations/{id}/cancel": cancel,
    "/v1/instances:kill": kill_matching,
    "/v1/instances/{id}/kill": kill,
    "/v1/workflows/{id}/kill": kill_workflow,
    "/v1/instances/{id}/rerun": rerun,
    "/v1/dead-letters/requeue": requeue,
    "/v1/cluster/members": let_in,
    "/v1/cluster/leader": transfer,
    "/v1/tokens": token,
    "/v1/webhooks": webhook,
    "/v1/webhooks/{name}/test": of_webhook("test", {}),
    "/v1/webhooks/{name}/rotate": of_webhook("rotate", {"overlap": "1h"}),
    "/v1/secrets:reseal": plain("/v1/secrets:reseal"),
    "/v1/cluster/pause": plain("/v1/cluster/pause"),
    "/v1/cluster/resume": plain("/v1/cluster/resume"),
    "/v1/nodes/{id}/drain": plain("/v1/nodes/n2/drain", ("/v1/nodes/n3/drain", None)),
    "/v1/nodes/{id}/undrain": plain("/v1/nodes/n2/undrain", ("/v1/nodes/n3/undrain", None)),
}
