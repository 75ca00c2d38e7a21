"""From the replicated rows to something that runs: the task of an attempt and the environment it sees."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec

from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Attempt, Instance, Job
from raftsched.quantities import parse_duration, parse_size
from raftsched.worker.runner import RunSpec
from raftsched.worker.wire import Exec, Http, Limits, Python, Task


class BadJob(Exception):
    """Why this job cannot be run by this node, for the user."""


class _HttpBody(msgspec.Struct):
    url: str = ""
    method: str | None = None
    headers: dict[str, str] = {}
    body: str | None = None
    expected_status: tuple[int, ...] = ()


class _Limits(msgspec.Struct):
    memory: str | None = None
    cpu: str | None = None
    open_files: int | None = None


class _Handler(msgspec.Struct):
    call: str | None = None
    exec: tuple[str, ...] | None = None
    shell: str | None = None
    python: str | None = None
    http: _HttpBody | None = None
    env: dict[str, str] = {}
    cwd: str | None = None
    limits: _Limits | None = None


class _Body(msgspec.Struct):
    """The part of Job.body that matters here; the rest is passed over."""

    handler: _Handler
    params: msgspec.Raw = msgspec.Raw(b"{}")


_NONE: Mapping[str, str] = MappingProxyType({})
_decode_body = msgspec.json.Decoder(_Body).decode


def spec_of(job: Job, instance: Instance, attempt: Attempt, calls: Mapping[str, str] = _NONE) -> RunSpec:
    """What the runner gets. `calls`: this node's handlers by name, as "package.module:function". Raises BadJob."""
    try:
        body = _decode_body(job.body)
    except msgspec.DecodeError as exc:
        raise BadJob(f"this node cannot read the job's handler: {exc}") from None
    params = instance.params if instance.params is not None else bytes(body.params)
    return RunSpec(
        token=attempt.token,
        session=attempt.session,
        task=_task(body.handler, params, _environment(job, instance, attempt), calls),
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


def _task(handler: _Handler, params: bytes, env: dict[str, str], calls: Mapping[str, str]) -> Task:
    """What the cluster says about the run (`env`) wins over the job's own environment."""
    limits = _limits(handler.limits) if handler.limits is not None else None
    function = handler.python
    if handler.call is not None:
        function = calls.get(handler.call)
        if function is None:
            raise BadJob(f'this node has no handler "{handler.call}" any more; start it with the module that has it')
    if function is not None:
        return Python(function, params, {**handler.env, **env}, handler.cwd, limits)
    if handler.http is not None:
        return _http(handler.http, params, env)
    command = {**handler.env, **env, "RAFTSCHED_PARAMS": params.decode()}
    if handler.exec is not None:
        return Exec(handler.exec, command, handler.cwd, limits)
    if handler.shell is not None:
        return Exec(("/bin/sh", "-c", handler.shell), command, handler.cwd, limits)
    raise BadJob("the job's handler is none of exec, shell, python, http, call; this node may be older than the job")


def _limits(given: _Limits) -> Limits:
    try:
        return Limits(
            None if given.memory is None else parse_size(given.memory),
            None if given.cpu is None else parse_duration(given.cpu) // 1_000,
            given.open_files,
        )
    except ValueError as exc:
        raise BadJob(f"this node cannot read the handler's limits: {exc}") from None


def _http(given: _HttpBody, params: bytes, env: dict[str, str]) -> Http:
    """A request without a body of its own carries the params, when its method has a body and there are any. What other
    handlers see in RAFTSCHED_ variables, it has in headers: RAFTSCHED_JOB_ID is Raftsched-Job-Id."""
    body = given.body.encode() if given.body is not None else None
    method = (given.method or ("GET" if body is None else "POST")).upper()
    about = {name.title().replace("_", "-"): value for name, value in env.items() if value}
    headers = {**given.headers, **about}
    if body is None and method in ("POST", "PUT", "PATCH") and _has_members(params):
        body = params
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
    return Http(method, given.url, headers, body or b"", given.expected_status)


def _has_members(params: bytes) -> bool:
    value: Any = msgspec.json.decode(params)
    return bool(value)
