"""Limits of jobs may be set above what a run can be given: who asks for more is told at once, not by a failed run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftsched.cluster_settings import SETTINGS
from raftsched.core.limits import RUN_MAX
from tests.support.local_api import Client

MOST = {f"{name}_max_bytes": SETTINGS[f"{name}_max_bytes"].most for name in ("body", "params")}
MIB = 1 << 20
HANDLERS: list[dict[str, Any]] = [
    {"exec": ["true"]},
    {"shell": "true"},
    {"python": "jobs:echo"},
    {"http": {"url": "http://127.0.0.1:1/", "method": "POST"}},
]
handlers = pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: next(iter(handler)))


def params(size: int) -> dict[str, str]:
    """That take so many bytes."""
    return {"x": "x" * (size - 8)}


def job(handler: dict[str, Any], size: int) -> dict[str, Any]:
    return {"trigger": {"manual": True}, "handler": handler, "params": params(size)}


def room(handler: dict[str, Any]) -> int:
    return RUN_MAX - len(json.dumps(handler, separators=(",", ":")))


@handlers
async def test_jobs(call: Client, handler: dict[str, Any]) -> None:
    assert (await call("PATCH", "/v1/cluster/settings", MOST))[0] == 200
    for size in (MIB, room(handler) + 1):
        status, problem = await call("POST", "/v1/jobs", job(handler, size))
        assert (status, [e["pointer"] for e in problem["errors"]]) == (422, ["/params"])
        assert f"{RUN_MAX:,}" in problem["detail"]
    status, made = await call("POST", "/v1/jobs", job(handler, room(handler)))
    assert status == 201
    status, problem = await call("PATCH", f"/v1/jobs/{made['id']}", {"params": {"y": "y"}})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/params")
    status, answer = await call("POST", "/v1/jobs:batch", [job(handler, MIB), job(handler, 10)])
    assert (status, [item["status"] for item in answer["items"]]) == (200, [422, 201])


@handlers
async def test_params_of_one_run(call: Client, handler: dict[str, Any]) -> None:
    assert (await call("PATCH", "/v1/cluster/settings", MOST))[0] == 200
    _, made = await call("POST", "/v1/jobs", job(handler, 10))
    path = f"/v1/jobs/{made['id']}/run"
    for size in (MIB, room(handler) + 1):
        status, problem = await call("POST", path, {"params": params(size)})
        assert (status, [e["pointer"] for e in problem["errors"]]) == (422, ["/params"])
    assert (await call("POST", path, {"params": params(room(handler))}))[0] == 202
    nowhere = path.replace(made["id"], "0" * 13)
    assert (await call("POST", nowhere, {"params": params(room(handler))}))[0] == 404


async def test_a_handler_that_is_large(call: Client) -> None:
    assert (await call("PATCH", "/v1/cluster/settings", MOST))[0] == 200
    large = {"http": {"url": "http://127.0.0.1:1/", "method": "POST", "body": "x" * MIB}}
    status, problem = await call("POST", "/v1/jobs", {"trigger": {"manual": True}, "handler": large})
    assert (status, [e["pointer"] for e in problem["errors"]]) == (422, ["/handler"])
