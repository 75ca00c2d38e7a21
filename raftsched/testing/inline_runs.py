"""Runs what a test enqueues in the test's own process, without a cluster."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from raftsched import handlers
from raftsched.client import program
from raftsched.client.encoding import encode
from raftsched.client.errors import ConflictError
from raftsched.client.models import Created
from raftsched.client.spec_generated import JobSpec
from raftsched.run import Cancel, Snooze
from raftsched.worker.executors.parameters import builder_of


class Enqueued:
    """A job that was enqueued, and what came of it. `result` and `error`: of its run; both None before it."""

    def __init__(self, job: dict[str, Any], created: Created) -> None:
        self.job = job  # as the cluster would get it
        self.created = created
        self.ran = False
        self.result: Any = None
        self.error: Exception | None = None

    @property
    def handler(self) -> str:
        """The name of the function that it calls."""
        return str(self.job["handler"]["call"])

    @property
    def params(self) -> dict[str, Any]:
        found: dict[str, Any] = self.job.get("params", {})
        return found

    def __repr__(self) -> str:
        return f"<Enqueued {self.handler} {self.params}>"


class InlineRuns(list[Enqueued]):
    """Lists what was enqueued, in this order."""

    def __init__(self, *, hold: bool, raises: bool) -> None:
        super().__init__()
        self._hold = hold
        self._raises = raises
        self._named: dict[tuple[str, str], Enqueued] = {}

    def run(self) -> None:
        """Runs what was enqueued and did not run yet, also what these runs enqueue. Raises what a function raises,
        unless it was said not to; Cancel and Snooze are ends as others."""
        while waiting := [one for one in self if not one.ran]:
            for one in waiting:
                self._one(one)

    # ------------------------------------------------------------ in place of the cluster

    def create(self, job: JobSpec) -> Created:
        made = self._noted(job)
        if made.created.created and not self._hold:
            self._one(made)
        return made.created

    async def acreate(self, job: JobSpec) -> Created:
        made = self._noted(job)
        if made.created.created and not self._hold:
            made.ran = True
            try:
                value = _called(made)
                made.result = await value if inspect.isawaitable(value) else value
            except Exception as error:
                self._failed(made, error)
        return made.created

    def _noted(self, job: JobSpec) -> Enqueued:
        """Notes a job as a cluster would: what JSON cannot hold is refused, and a name is there once."""
        spec: dict[str, Any] = json.loads(encode(job))
        name, namespace = spec.get("name"), spec.get("namespace", "default")
        before = self._named.get((namespace, name)) if name else None
        if before is not None:
            if before.job != spec:
                raise ConflictError("name-taken", f"{namespace}/{name} is there with another content", status=409)
            known = Created(id=before.created.id, state="SCHEDULED", revision=1, name=name, created=False)
            return Enqueued(spec, known)
        created = Created(id=f"inline-{len(self) + 1}", state="SCHEDULED", revision=1, name=name, namespace=namespace)
        made = Enqueued(spec, created)
        self.append(made)
        if name:
            self._named[namespace, name] = made
        return made

    def _one(self, one: Enqueued) -> None:
        one.ran = True
        try:
            value = _called(one)
            one.result = _awaited(value) if inspect.iscoroutine(value) else value
        except Exception as error:
            self._failed(one, error)

    def _failed(self, one: Enqueued, error: Exception) -> None:
        one.error = error
        if self._raises and not isinstance(error, (Cancel, Snooze)):
            raise error


def _called(one: Enqueued) -> Any:
    function = handlers.registered.get(one.handler)
    if function is None:
        raise LookupError(f"no function is registered as {one.handler!r} here; import its module")
    build = builder_of(function)
    return function(**(one.params if build is None else build(one.params)))


def _awaited(work: Coroutine[Any, Any, Any]) -> Any:
    """Returns the value of a coroutine. Where asgiref is loaded, as with Django, by its way: so the coroutine's ORM
    sees the transaction of the test."""
    sync: Any = sys.modules.get("asgiref.sync")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if sync is None:
            return asyncio.run(work)

        async def same() -> Any:
            return await work

        return sync.async_to_sync(same)()
    found: list[Any] = []
    raised: list[BaseException] = []

    def in_thread() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


@contextmanager
def inline(*, hold: bool = False, raises: bool = True) -> Iterator[InlineRuns]:
    """Gives the list of what is enqueued meanwhile without `client=`. It runs at once, here, whatever its `delay` says,
    or with `hold` when `run` is called. What a function raises is raised where it was enqueued; with `raises=False` it
    is kept as the error of its run alone."""
    before = program.stand_in
    program.stand_in = runs = InlineRuns(hold=hold, raises=raises)
    try:
        yield runs
    finally:
        program.stand_in = before
