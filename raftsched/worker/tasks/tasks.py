"""Makes of the replicated rows something that runs: the task of an attempt and the environment that it sees.

First what holds wherever it runs (`resolved`: handler and params with values in place of templates and of references
to secrets, what the run is told of itself), then what the runner of this machine gets (`task_of`). A node does both.
For a remote worker a node does the first, and the worker the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

import msgspec
from msgspec.structs import replace

from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Attempt, Instance, Job
from raftsched.core.rules.executors import node_name, worker_name
from raftsched.core.rules.references import SECRET, may_refer, target
from raftsched.core.subjects.secret import Secret
from raftsched.quantities import parse_duration, parse_size
from raftsched.run import REPORT_FILE, STATE
from raftsched.security.sealing import Sealer, Unsealable, open_value
from raftsched.templates import TEMPLATE, Facts, filled, utc_text
from raftsched.worker.processes.report_lines import FD
from raftsched.worker.processes.run_as import RunAs, UnknownUser
from raftsched.worker.processes.wire import Exec, Http, Limits, Python, Task

NODES_OWN = RunAs()  # all as the node's own user
TRACEPARENT, TRACESTATE = "TRACEPARENT", "TRACESTATE"  # variables with the context of a trace (W3C Trace Context)
VALUES_MAX = 32 * 1024  # bytes of secrets that are put into one run: it travels in one packet


class BadJob(Exception):
    """This job cannot be run by this node; the text says why, for the user."""


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
    fresh: bool = False


class _Body(msgspec.Struct):
    """The part of Job.body that matters here; the rest is passed over."""

    handler: msgspec.Raw
    user: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


_NONE: Mapping[str, str] = MappingProxyType({})
_NONE_AT_A_TIME: Mapping[str, int] = MappingProxyType({})


class _Wanted(msgspec.Struct):
    """The part of it that says as whom it runs."""

    user: str | None = None


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_handler = msgspec.json.Decoder(_Handler).decode
_decode_wanted = msgspec.json.Decoder(_Wanted).decode


class Values:
    """The values of the secrets that one run refers to; `hidden`: those that were asked for."""

    def __init__(self, namespace: str, find: Callable[[str, str], Secret | None], sealer: Sealer | None) -> None:
        self._namespace = namespace
        self._find = find
        self._sealer = sealer
        self._room = VALUES_MAX
        self._known: dict[tuple[str, str], str] = {}

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._known.values())))

    def of(self, name: str) -> str:
        """Returns the value of the secret that this text means. Raises BadJob."""
        place = target(self._namespace, name)
        if place not in self._known:
            self._known[place] = self._read(*place)
        value = self._known[place]
        self._room -= len(value.encode())
        if self._room < 0:
            raise BadJob(f"the secrets that this run refers to take more than {VALUES_MAX:,} bytes together")
        return value

    def _read(self, namespace: str, name: str) -> str:
        secret = self._find(namespace, name)
        what = f"the secret {namespace}/{name}"
        if namespace != self._namespace and (secret is None or not secret.shared):
            raise BadJob(f"{what} does not exist, or is not shared with other namespaces")
        if secret is None:
            raise BadJob(f"{what} does not exist any more")
        try:
            return open_value(self._sealer, namespace, name, secret.nonce, secret.value).decode()
        except Unsealable as why:
            raise BadJob(f"{what} cannot be read by this node: {why}") from None
        except UnicodeDecodeError:
            raise BadJob(f"{what} is not text") from None

    def in_params(self, params: bytes) -> bytes:
        """Params with values in place of references, at any depth. Raises BadJob."""
        if not may_refer(params):
            return params
        return msgspec.json.encode(self._filled(msgspec.json.decode(params)))

    def in_handler(self, handler: bytes) -> bytes:
        """Returns a handler with values in place of references, which its env, headers and body may hold. Raises
        BadJob."""
        if not may_refer(handler):
            return handler
        value = msgspec.json.decode(handler)
        if isinstance(value, dict):
            self._fill(value, "env")
            http = value.get("http")
            if isinstance(http, dict):
                self._fill(http, "headers")
                http["body"] = self._here(http.get("body"))
        return msgspec.json.encode(value)

    def _fill(self, holder: dict[str, Any], name: str) -> None:
        values = holder.get(name)
        if isinstance(values, dict):
            holder[name] = {key: self._here(value) for key, value in values.items()}

    def _here(self, value: Any) -> Any:
        refers = isinstance(value, dict) and isinstance(value.get(SECRET), str)
        return self.of(value[SECRET]) if refers else value

    def _filled(self, value: Any) -> Any:
        value = self._here(value)
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return value


def _nothing(namespace: str, name: str) -> None:
    return None


class Resolved(msgspec.Struct, frozen=True):
    """Holds what an attempt runs, wherever that is."""

    handler: bytes  # JSON, with the values of secrets,
    params: bytes  # as these
    env: dict[str, str]  # what the run is told of itself
    hidden: tuple[str, ...]  # values that must not be shown
    user: str  # as whom the job asks to run; "": it does not


def resolved(
    job: Job,
    instance: Instance,
    attempt: Attempt,
    secrets: Callable[[str, str], Secret | None] = _nothing,
    sealer: Sealer | None = None,
) -> Resolved:
    """Returns what the attempt runs. `secrets`: what the tables hold of one, by namespace and name. Raises BadJob."""
    try:
        body = _decode_body(job.body)
    except msgspec.DecodeError as exc:
        raise BadJob(f"this node cannot read the job's handler: {exc}") from None
    hidden: tuple[str, ...] = ()
    handler, params = bytes(body.handler), instance.params if instance.params is not None else bytes(body.params)
    if TEMPLATE in handler:  # before secrets are put in: they are not read as templates, nor inserted by them
        handler = _filled(handler, params, job, instance, attempt)
    if may_refer(params) or may_refer(handler):
        values = Values(job.namespace, secrets, sealer)
        params, handler = values.in_params(params), values.in_handler(handler)
        hidden = values.hidden
    if instance.passed is not None:  # as it is: what a run printed names no secrets
        params = _with_results(params, instance.passed)
    return Resolved(handler, params, env_of(job, instance, attempt), hidden, body.user or "")


def _filled(handler: bytes, params: bytes, job: Job, instance: Instance, attempt: Attempt) -> bytes:
    """Returns the handler with values in place of its templates. Raises BadJob."""
    given = msgspec.json.decode(handler)
    if given.get("template") is not True:
        return handler
    facts = Facts(
        instance.nominal_at_ms,
        job.policy.trigger_of(instance).timezone,
        attempt.number,
        attempt.token,
        job.name or job_text(job.id),
        job.namespace,
        instance_text(instance.key),
    )
    try:
        found, wrong = filled(given, msgspec.json.decode(params), facts)
    except ZoneInfoNotFoundError:
        raise BadJob(f"this node has no time zone {facts.timezone}, in which the handler writes its time") from None
    if wrong:
        raise BadJob(f"the job's handler cannot be filled in: {wrong[0].pointer} {wrong[0].detail}")
    return msgspec.json.encode(found)


def _with_results(params: bytes, passed: bytes) -> bytes:
    """Adds the results of the runs that this one follows to its params. Raises BadJob."""
    try:
        return msgspec.json.encode({**msgspec.json.decode(params), "upstream": msgspec.json.decode(passed)})
    except (TypeError, ValueError, RecursionError):
        raise BadJob("this node cannot read the results of the runs that this one follows") from None


def user_of(job: Job, run_as: Callable[[str, str], str]) -> str:
    """Returns the user as which a job's runs are; see RunAs.of. Raises BadJob."""
    try:
        return run_as(job.namespace, _decode_wanted(job.body).user or "")
    except msgspec.DecodeError as exc:
        raise BadJob(f"this node cannot read the job's user: {exc}") from None
    except UnknownUser as exc:
        raise BadJob(str(exc)) from None


def env_of(job: Job, instance: Instance, attempt: Attempt) -> dict[str, str]:
    """Returns what a run is told of itself, as variables."""
    part = {}
    if instance.cause is not None:
        part["RAFTSCHED_CAUSE_INSTANCE_ID"] = instance_text(instance.cause)
    if instance.root is not None:
        part["RAFTSCHED_ROOT_INSTANCE_ID"] = instance_text(instance.root)
    if instance.parent is not None:
        part["RAFTSCHED_PARENT_INSTANCE_ID"] = instance_text(instance.parent)
    if instance.shard_count:
        part["RAFTSCHED_SHARD_INDEX"] = str(instance.shard_index)
        part["RAFTSCHED_SHARD_COUNT"] = str(instance.shard_count)
    if instance.trigger:
        part["RAFTSCHED_TRIGGER_ID"] = instance.trigger
    if instance.kept is not None:
        part[STATE] = instance.kept.decode()
    if instance.snoozes:
        part["RAFTSCHED_SNOOZES"] = str(instance.snoozes)
    return {
        **part,
        "RAFTSCHED_JOB_ID": job_text(job.id),
        "RAFTSCHED_JOB_NAME": job.name or "",
        "RAFTSCHED_INSTANCE_ID": instance_text(instance.key),
        "RAFTSCHED_ATTEMPT": str(attempt.number),
        "RAFTSCHED_FENCING_TOKEN": str(attempt.token),
        "RAFTSCHED_SCHEDULED_AT": utc_text(instance.nominal_at_ms),
        "RAFTSCHED_NODE_ID": node_name(attempt.node) or "",
        "RAFTSCHED_WORKER": worker_name(attempt.node) or attempt.node,
    }


def task_of(found: Resolved, calls: Mapping[str, str], concurrent: Mapping[str, int] = _NONE_AT_A_TIME) -> Task:
    """Makes the task of a run. What the cluster says about it (`env`) wins over the job's own environment. `calls`: the
    handlers of this machine by name, as "package.module:function"; `concurrent`: how many runs of one a process takes.
    Raises BadJob."""
    try:
        handler = _decode_handler(found.handler)
    except msgspec.DecodeError as exc:
        raise BadJob(f"this node cannot read the job's handler: {exc}") from None
    params, env, hidden = found.params, found.env, found.hidden
    limits = _limits(handler.limits) if handler.limits is not None else None
    function, at_a_time = handler.python, 1
    if handler.call is not None:
        function = calls.get(handler.call)
        if function is None:
            raise BadJob(f'this node has no handler "{handler.call}" any more; start it with the module that has it')
        at_a_time = concurrent.get(function, 1)
    if function is not None:
        task = Python(function, params, {**handler.env, **env}, handler.cwd, limits, hidden, handler.fresh)
        return task if at_a_time == 1 else replace(task, concurrency=at_a_time)
    if handler.http is not None:
        return _http(handler.http, params, env, hidden)
    command = {**handler.env, **env, "RAFTSCHED_PARAMS": params.decode(), REPORT_FILE: f"/dev/fd/{FD}"}
    if handler.exec is not None:
        return Exec(handler.exec, command, handler.cwd, limits, hidden)
    if handler.shell is not None:
        return Exec(("/bin/sh", "-c", handler.shell), command, handler.cwd, limits, hidden)
    raise BadJob("the job's handler is none of exec, shell, python, http, call; this node may be older than the job")


def names_trace(handler: bytes) -> bool:
    """Returns whether a handler says itself of which trace its run is, by a variable or a header. Raises BadJob."""
    try:
        read = _decode_handler(handler)
    except msgspec.DecodeError as exc:
        raise BadJob(f"this node cannot read the job's handler: {exc}") from None
    if read.http is not None:
        return any(name.lower() == "traceparent" for name in read.http.headers)
    return TRACEPARENT in read.env


def _limits(limits: _Limits) -> Limits:
    try:
        return Limits(
            None if limits.memory is None else parse_size(limits.memory),
            None if limits.cpu is None else parse_duration(limits.cpu) // 1_000,
            limits.open_files,
        )
    except ValueError as exc:
        raise BadJob(f"this node cannot read the handler's limits: {exc}") from None


def _http(request: _HttpBody, params: bytes, env: dict[str, str], hidden: tuple[str, ...]) -> Http:
    """A request without a body of its own carries the params, when its method has a body and there are any. What other
    handlers see in RAFTSCHED_ variables, it has in headers: RAFTSCHED_JOB_ID is Raftsched-Job-Id."""
    body = request.body.encode() if request.body is not None else None
    method = (request.method or ("GET" if body is None else "POST")).upper()
    about = {name.title().replace("_", "-"): value for name, value in env.items() if value and name != STATE}
    headers = {**request.headers, **about}
    if body is None and method in ("POST", "PUT", "PATCH") and msgspec.json.decode(params):
        body = params
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
    return Http(method, request.url, headers, body or b"", request.expected_status, hidden=hidden)
