"""Enqueues functions: makes a job of a call, and finds the cluster that is meant.

The cluster is that of the client that was given, else of the node that runs in this program, else of the client that
the environment describes, as `raftsched.Client()` reads it, or where that says nothing the program (program.py): one is
kept for the whole program and closed at its end.
Where the node has stopped and the environment names no cluster none is meant: what answers at the usual address of this
machine may be another one.
In a run nothing is kept, for the next run in its process may be another job's, with other rights.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from raftsched import handlers, names
from raftsched.client import builders, program, running_nodes
from raftsched.client.aio import AsyncClient
from raftsched.client.arguments import bound, check
from raftsched.client.errors import ClientError
from raftsched.client.models import Created
from raftsched.client.spec_generated import JobSpec
from raftsched.client.sync.client import Client

INSTANCE = "RAFTSCHED_INSTANCE_ID"  # a variable of every run
# Variables that say which cluster is meant, and who asks -> the argument of a client.
_VARIABLES = {"RAFTSCHED_SERVER": "servers", **program.VARIABLES}
_NAMING = ("RAFTSCHED_SERVER", "RAFTSCHED_CONTEXT")  # that name a cluster
_CONTEXT, _INSECURE = "RAFTSCHED_CONTEXT", "RAFTSCHED_INSECURE"

_Key = tuple[object, ...]
_kept: dict[_Key, Client] = {}  # by what the environment and the program said
_lock = threading.Lock()


# ------------------------------------------------------------ the job


def job_of(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
) -> JobSpec:
    """Returns the job that calls a function once. Raises TypeError, ValueError."""
    check(name, options)
    fields = dict(options)
    if fields.get("namespace") is None and (namespace := program.namespace()) is not None:
        fields["namespace"] = namespace
    fields.pop("client", None)
    delay, time, key = fields.pop("delay", None), fields.pop("at", None), fields.pop("key", None)
    job: dict[str, Any] = {**fields, "handler": {"call": name}}
    if time is not None:
        job["trigger"] = builders.at(time)
    else:
        job["trigger"] = {"in": builders.duration("delay", "0s" if delay is None else delay)}
    params = bound(function, args, kwargs)
    if params:
        job["params"] = params
    if key is not None:
        job["name"] = job_name(name, key)
    return cast("JobSpec", job)


def job_name(handler: str, key: str) -> str:
    """Returns the name of the job that a handler is enqueued as under a key: handler.key, or where a name cannot be
    that a digest of the key."""
    if not isinstance(key, str) or not key:
        raise ValueError(f"{handler}: a key is a text, not {key!r}")
    plain = f"{handler}.{key}"
    return plain if names.JOB.allows(plain) else f"{handler[:60]}.{sha256(plain.encode()).hexdigest()[:40]}"


# ------------------------------------------------------------ where to


def enqueue(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
) -> Created:
    """Makes the job, and returns when a majority has it on disk."""
    return send(function.__name__, job_of(name, function, args, kwargs, options), options.get("client"))


def send(name: str, job: JobSpec, client: Any = None) -> Created:
    """Makes a job that `job_of` made of a call, and returns when a majority has it on disk. `name`: of what was called,
    in errors. Raises what `Client.jobs.create` raises."""
    try:
        return _enqueued(name, job, client)
    except ClientError as error:
        raise error.with_traceback(None) from None


def _enqueued(name: str, job: JobSpec, client: Any) -> Created:
    if client is None and program.stand_in is not None:
        return program.stand_in.create(job)
    running = None
    if client is None:
        running = running_nodes.newest()
    elif not isinstance(client, AsyncClient):
        running = running_nodes.of(client)
    if running is not None:
        if running.loop is _loop_here():
            raise RuntimeError(f"{name}: this would wait for itself; write: await {name}.aenqueue(...)")
        return cast("Created", asyncio.run_coroutine_threadsafe(running.node.jobs.create(job), running.loop).result())
    if isinstance(client, AsyncClient):
        raise TypeError(f"{name}: an AsyncClient is awaited; use aenqueue, or a Client")
    if client is None and (variables := _of_run()) is not None:
        with Client(**_arguments(variables)) as own:
            return own.jobs.create(job)
    return cast("Created", (client or default_client()).jobs.create(job))


async def aenqueue(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
) -> Created:
    """The same for coroutines."""
    job = job_of(name, function, args, kwargs, options)
    try:
        return await _aenqueued(job, options.get("client"))
    except ClientError as error:
        raise error.with_traceback(None) from None


async def _aenqueued(job: JobSpec, client: Any) -> Created:
    if client is None and program.stand_in is not None:
        return await program.stand_in.acreate(job)
    if isinstance(client, AsyncClient):
        return await client.jobs.create(job)
    running = running_nodes.newest() if client is None else running_nodes.of(client)
    if running is not None:
        if running.loop is _loop_here():
            return cast("Created", await running.node.jobs.create(job))
        made = asyncio.run_coroutine_threadsafe(running.node.jobs.create(job), running.loop)
        return cast("Created", await asyncio.wrap_future(made))
    if client is None and (variables := _of_run()) is not None:
        async with AsyncClient(**_arguments(variables)) as own:
            return await own.jobs.create(job)
    return await asyncio.to_thread((client or default_client()).jobs.create, job)


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def default_client() -> Client:
    """Returns the client that this process has for what its environment says: made when it is needed first, safe to use
    from any thread, and closed at the end of the program. Raises RuntimeError after a node of this program has stopped,
    where the environment names no cluster."""
    given = program.arguments(os.environ)
    if running_nodes.ran() and not any(map(os.environ.get, _NAMING)) and "servers" not in given:
        raise RuntimeError(
            "the node of this program has stopped; to enqueue elsewhere, say where: with client=, or RAFTSCHED_SERVER"
        )
    variables = (os.environ.get(name) for name in (*_VARIABLES, _CONTEXT, _INSECURE))
    key = (*variables, *sorted((name, str(value)) for name, value in given.items()))
    with _lock:
        found = _kept.get(key)
        if found is None:
            found = _kept[key] = Client(**given)
        return found


def _of_run() -> Mapping[str, str] | None:
    """Returns the variables of the run that calls this; None: this is no run."""
    variables = handlers.run_variables()
    return variables if INSTANCE in variables else None


def _arguments(variables: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of a client of a run. Of several runs in one process each has variables of its own."""
    found: dict[str, Any] = {argument: variables[name] for name, argument in _VARIABLES.items() if variables.get(name)}
    said = program.arguments(variables)
    return {"insecure": variables.get(_INSECURE) == "1", **said, **found}
