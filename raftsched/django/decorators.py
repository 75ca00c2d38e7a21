"""@handler and @job for functions that use Django's ORM, and what is enqueued at the end of a transaction.

They are those of raftsched, and three things more: a run begins and ends without old connections to databases, as a
request does; `enqueue_on_commit`; and the namespace and the cluster of the settings.

The processes of runs import this: the client is imported when something is enqueued.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, transaction

from raftsched import handlers
from raftsched.client import tasks

if TYPE_CHECKING:
    from typing import Unpack

    from raftsched.client.enqueue_options import DeclaredFields
    from raftsched.client.sync.client import Client

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_INSTANCE = "RAFTSCHED_INSTANCE_ID"  # a variable of every run


class DjangoTask(tasks.Task[P, R_co], Protocol[P, R_co]):
    """A handler, as raftsched.Task, that may wait for a transaction."""

    def enqueue_on_commit(self, *args: Any, using: str | None = None, robust: bool = False, **options: Any) -> None:
        """Enqueues when the transaction of this thread is committed, and never where it, or the savepoint that this is
        in, is rolled back. Outside of a transaction: at once. `using`: the alias of the database whose transaction is
        meant. Arguments and options as `enqueue` has them; they are checked and kept as they are now, and `delay`
        counts from the commit. A job that the cluster does not take is an error of the commit, though the transaction
        stays committed; with `robust` it is logged, and what else waits for the commit is done."""


def handler(name: str, *, concurrency: int = 1) -> Callable[[Callable[P, R]], DjangoTask[P, R]]:
    """Registers a function under a name, which jobs call it by; see raftsched.handler."""
    register = tasks.handler(name, concurrency=concurrency)

    def declare(function: Callable[P, R]) -> DjangoTask[P, R]:
        return _task(name, register(_closing(function)))

    return declare


def job(name: str, **fields: Unpack[DeclaredFields]) -> Callable[[Callable[P, R]], DjangoTask[P, R]]:
    """Declares a job that calls the function; see raftsched.job. `manage.py raftsched apply` makes it."""
    declared = tasks.job(name, **fields)

    def declare(function: Callable[P, R]) -> DjangoTask[P, R]:
        own = getattr(function, "handler_name", None)
        return _task(own or name, declared(function if own else _closing(function)))

    return declare


def client() -> Client:
    """Returns the client of the cluster that the settings name, which this process keeps: for all that the SDK has."""
    from raftsched.client.enqueueing import default_client

    return default_client()


# ------------------------------------------------------------ connections


def _closing(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function with connections closed around its runs, and around no other call: in a test or a view they
    are the caller's."""
    if handlers.body_error(function) is not None:  # raftsched.handler says what is wrong with it
        return function
    if inspect.iscoroutinefunction(function):
        return cast("Callable[P, R]", _closing_coroutine(function))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _in_run():
            return function(*args, **kwargs)
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return call


def _closing_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a coroutine function. What it does with the ORM is done in a thread, which gets its own for each run
    and ends with it: one that stayed would cost the process (docs/processes.md)."""

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        if not _in_run():
            return await function(*args, **kwargs)
        async with ThreadSensitiveContext():
            try:
                return await function(*args, **kwargs)
            finally:
                await sync_to_async(connections.close_all)()

    return call


def _in_run() -> bool:
    return _INSTANCE in handlers.run_variables()


# ------------------------------------------------------------ at the end of a transaction


def _task(name: str, task: tasks.Task[P, R]) -> DjangoTask[P, R]:
    own = {"using", "robust"} & inspect.signature(task).parameters.keys()

    def enqueue_on_commit(*args: Any, using: str | None = None, robust: bool = False, **given: Any) -> None:
        from raftsched.client.arguments import split
        from raftsched.client.encoding import encode
        from raftsched.client.enqueueing import job_of, send

        arguments, options = split(task, given)
        # What is mutable may change until the commit, and what cannot be sent is an error of this line.
        job = json.loads(encode(job_of(name, task, args, arguments, options)))
        transaction.on_commit(lambda: send(name, job, options.get("client")), using=using, robust=robust)

    if own:
        raise ValueError(
            f"handler {name!r}: {task.__name__} has a parameter {min(own)}, which is an option of enqueue_on_commit;"
            " call the parameter something else"
        )
    found = cast("Any", task)
    found.enqueue_on_commit = enqueue_on_commit
    return cast("DjangoTask[P, R]", found)
