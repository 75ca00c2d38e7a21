"""From the replicated rows to something that runs: the task of an attempt and the environment it sees."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Attempt, Instance, Job
from raftsched.worker.runner import RunSpec
from raftsched.worker.wire import Exec, Http, Python, Task

TOKEN_HEADER = "Raftsched-Fencing-Token"


class BadJob(Exception):
    """Why this job cannot be run by this node, for the user."""


class _HttpBody(msgspec.Struct):
    url: str = ""
    method: str | None = None
    headers: dict[str, str] = {}
    body: str | None = None
    expected_status: tuple[int, ...] = ()


class _Handler(msgspec.Struct):
    exec: tuple[str, ...] | None = None
    shell: str | None = None
    python: str | None = None
    http: _HttpBody | None = None
    env: dict[str, str] = {}
    cwd: str | None = None


class _Body(msgspec.Struct):
    """The part of Job.body that matters here; the rest is passed over."""

    handler: _Handler
    params: msgspec.Raw = msgspec.Raw(b"{}")


_decode_body = msgspec.json.Decoder(_Body).decode


def spec_of(job: Job, instance: Instance, attempt: Attempt) -> RunSpec:
    """What the runner gets. Raises BadJob."""
    try:
        body = _decode_body(job.body)
    except msgspec.DecodeError as exc:
        raise BadJob(f"this node cannot read the job's handler: {exc}") from None
    params = instance.params if instance.params is not None else bytes(body.params)
    return RunSpec(
        token=attempt.token,
        session=attempt.session,
        task=_task(body.handler, params, _environment(job, instance, attempt)),
        timeout_ms=job.policy.timeout_ms,
    )


def _environment(job: Job, instance: Instance, attempt: Attempt) -> dict[str, str]:
    scheduled = datetime.fromtimestamp(instance.nominal_at_ms / 1000, UTC)
    return {
        "RAFTSCHED_JOB_ID": job_text(job.id),
        "RAFTSCHED_JOB_NAME": job.name or "",
        "RAFTSCHED_INSTANCE_ID": instance_text(instance.key),
        "RAFTSCHED_ATTEMPT": str(attempt.number),
        "RAFTSCHED_FENCING_TOKEN": str(attempt.token),
        "RAFTSCHED_SCHEDULED_AT": scheduled.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "RAFTSCHED_NODE_ID": attempt.node,
    }


def _task(handler: _Handler, params: bytes, env: dict[str, str]) -> Task:
    """What the cluster says about the run (`env`) wins over the job's own environment."""
    if handler.python is not None:
        return Python(handler.python, params, {**handler.env, **env}, handler.cwd)
    if handler.http is not None:
        return _http(handler.http, params, env)
    command = {**handler.env, **env, "RAFTSCHED_PARAMS": params.decode()}
    if handler.exec is not None:
        return Exec(handler.exec, command, handler.cwd)
    if handler.shell is not None:
        return Exec(("/bin/sh", "-c", handler.shell), command, handler.cwd)
    raise BadJob("the job's handler is none of exec, shell, python, http; this node may be older than the job")


def _http(given: _HttpBody, params: bytes, env: dict[str, str]) -> Http:
    """A request without a body of its own carries the params, when its method has a body and there are any."""
    body = given.body.encode() if given.body is not None else None
    method = (given.method or ("GET" if body is None else "POST")).upper()
    headers = {**given.headers, TOKEN_HEADER: env["RAFTSCHED_FENCING_TOKEN"]}
    headers["Raftsched-Instance-Id"] = env["RAFTSCHED_INSTANCE_ID"]
    headers["Raftsched-Attempt"] = env["RAFTSCHED_ATTEMPT"]
    if body is None and method in ("POST", "PUT", "PATCH") and _has_members(params):
        body = params
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
    return Http(method, given.url, headers, body or b"", given.expected_status)


def _has_members(params: bytes) -> bool:
    value: Any = msgspec.json.decode(params)
    return bool(value)
