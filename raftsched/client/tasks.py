"""raftsched.handler and raftsched.job: functions that are given to the cluster, and what is then done with them.

    import raftsched

    @raftsched.handler("send-invoice")
    def send_invoice(number: int) -> None: ...

    @raftsched.job("nightly", cron="0 2 * * *", timezone="Europe/Madrid")
    def nightly_report(month: str = "last") -> None: ...

    send_invoice.enqueue(7, delay="10m", key="invoice-7")

Both leave the function as it is, and add methods to it (`Task`). Declaring a job makes none: `raftsched apply`, or a
node with `jobs`, does that (declared.py). Nothing is connected with before something is enqueued (enqueueing.py).

This imports next to nothing: the processes that run functions import it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from raftsched import handlers, names

if TYPE_CHECKING:
    from typing import Unpack

    from raftsched.client.enqueue_options import DeclaredFields, Options
    from raftsched.client.models import Created

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Task(Protocol[P, R_co]):
    """A function that is a handler. It is called as any other, and may be enqueued: as a job that is due once, for
    which a node is looked for that offers the handler. Each of these raises TypeError for arguments that the function
    does not take, and what `Client.jobs.create` raises."""

    __name__: str
    __qualname__: str
    __module__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the function, here and now."""

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Created: ...
    @overload
    def enqueue(self, *args: Any, **options: Unpack[Options]) -> Created: ...
    def enqueue(self, *args: Any, **options: Any) -> Created:
        """Returns when a majority has the job on disk. Arguments of the function, and beside them options by name:
        `delay` or `at` (else now), `key`, `client`, and the fields of a job. A name that is both is the function's:
        its option is said with `options`."""

    @overload
    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Created: ...
    @overload
    async def aenqueue(self, *args: Any, **options: Unpack[Options]) -> Created: ...
    async def aenqueue(self, *args: Any, **options: Any) -> Created:
        """The same for coroutines. `client` is then an AsyncClient, a node, or a Client."""

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Created:
        """The same without options: as soon as a node has room."""

    def options(self, **options: Unpack[Options]) -> Enqueue[P]:
        """Returns what enqueues with these options. Type checkers see all arguments there."""


class Enqueue(Generic[P]):
    """Enqueues a function with options that were said before."""

    def __init__(self, name: str, function: Callable[P, Any], options: Options) -> None:
        self._name, self._function, self._options = name, function, options

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Created:
        """Returns when a majority has the job on disk."""
        from raftsched.client.enqueueing import enqueue

        return enqueue(self._name, self._function, args, kwargs, self._options)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Created:
        """The same for coroutines."""
        from raftsched.client.enqueueing import aenqueue

        return await aenqueue(self._name, self._function, args, kwargs, self._options)


def handler(name: str, *, concurrency: int = 1) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Registers a function under a name, which jobs call it by, and gives it the methods of `Task`; else it stays as it
    is. `concurrency`: how many of its runs one process takes at a time, 1 to 250; more than one takes a coroutine
    function, and gives up what docs/processes.md lists. ValueError for a bad name, one that another function has, or a
    function that cannot be found by its module and name, or whose body a call would not run."""
    register = handlers.handler(name, concurrency=concurrency)

    def declare(function: Callable[P, R]) -> Task[P, R]:
        return _task(name, register(function))

    return declare


def job(name: str, **fields: Unpack[DeclaredFields]) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Declares a job that calls the function: as the handler that it is, else under the name of the job. A function may
    have several. `fields`: when (one of cron, every, at, rrule, after, manual, trigger, triggers), and what a job may
    say besides, such as timezone, params, queue, retry. ValueError for a bad name, and what is wrong at first sight;
    the cluster checks the rest."""
    if not names.JOB.allows(name):
        raise ValueError(f"job {name!r}: a name has {names.JOB.rule}, like {names.JOB.example}")
    from raftsched.client.declared import declaration

    declared = declaration(name, fields)

    def declare(function: Callable[P, R]) -> Task[P, R]:
        own = getattr(function, "handler_name", None)
        task = cast("Task[P, R]", function) if isinstance(own, str) else handler(name)(function)
        declared.calls(cast("Any", task))
        return task

    return declare


def _task(name: str, function: Callable[P, R]) -> Task[P, R]:
    """Returns the function with its methods. What takes no attributes, such as one in C, stays without them."""

    def enqueue(*args: Any, **options: Any) -> Created:
        from raftsched.client.arguments import split
        from raftsched.client.enqueueing import enqueue

        return enqueue(name, function, args, *split(function, options))

    async def aenqueue(*args: Any, **options: Any) -> Created:
        from raftsched.client.arguments import split
        from raftsched.client.enqueueing import aenqueue

        return await aenqueue(name, function, args, *split(function, options))

    def delay(*args: P.args, **kwargs: P.kwargs) -> Created:
        from raftsched.client.enqueueing import enqueue

        return enqueue(name, function, args, kwargs, {})

    def options(**options: Unpack[Options]) -> Enqueue[P]:
        from raftsched.client.arguments import check

        check(name, options)
        return Enqueue(name, function, options)

    try:
        task: Any = function
        task.handler_name = name
        task.enqueue, task.aenqueue, task.delay, task.options = enqueue, aenqueue, delay, options
    except AttributeError:
        pass
    return cast("Task[P, R]", function)
