"""raftsched.Client: a cluster, for programs without an event loop. Every method is that of AsyncClient, and waits."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

from raftsched.client import instances as _instances
from raftsched.client import jobs as _jobs
from raftsched.client.aio import DEFAULT, AsyncClient
from raftsched.client.errors import ClientError
from raftsched.client.loop import LoopThread
from raftsched.client.models import (
    Backfilled,
    ClusterView,
    Created,
    DeadLetter,
    Event,
    Instance,
    Job,
    Preview,
    Run,
    Sweep,
)
from raftsched.client.spec import DeadFilter, EventFilter, InstanceFilter, JobFilter, JobSpec, Moment, Trigger
from raftsched.client.transport import TIMEOUT_S

_T = TypeVar("_T")


class Client:
    """Safe to use from any number of threads; creates of several threads travel together. A process that was forked off
    gets connections of its own.

    with Client("http://10.0.0.1:7401,http://10.0.0.2:7401") as client:
        job = client.jobs.create(trigger={"in": "5m"}, handler={"call": "send-invoice"}, params={"number": 7})
    """

    def __init__(
        self, servers: str | Iterable[str] = DEFAULT, *, timeout: float = TIMEOUT_S, discover: bool = True
    ) -> None:
        """As AsyncClient."""
        given = servers if isinstance(servers, str) else tuple(servers)
        self._make: Callable[[], AsyncClient] = lambda: AsyncClient(given, timeout=timeout, discover=discover)
        self._inner = self._make()  # says at once what is wrong with the addresses
        self._thread: LoopThread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.jobs = Jobs(self)
        self.instances = Instances(self)
        self.dead_letters = DeadLetters(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Creates that are under way are answered first."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and thread.alive:
            thread.run(self._inner.close())
            thread.stop()

    def cluster(self) -> ClusterView:
        return self._run(lambda c: c.cluster())

    def events(
        self, *, after: str | None = None, follow: bool = True, **filters: Unpack[EventFilter]
    ) -> Iterator[Event]:
        return self._each(lambda c: c.events(after=after, follow=follow, **filters))

    def preview(self, trigger: Trigger, *, start: Moment | None = None, count: int = 10) -> Preview:
        return self._run(lambda c: c.preview(trigger, start=start, count=count))

    def _run(self, work: Callable[[AsyncClient], Coroutine[Any, Any, _T]]) -> _T:
        thread = self._running()
        return thread.run(work(self._inner))

    def _each(self, work: Callable[[AsyncClient], AsyncIterator[_T]]) -> Iterator[_T]:
        thread = self._running()
        return thread.each(lambda: work(self._inner))

    def _running(self) -> LoopThread:
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if self._thread is None or not self._thread.alive:
                if self._thread is not None:  # in a process that was forked off: the connections are its parent's
                    self._inner = self._make()
                self._thread = LoopThread()
            return self._thread


class Jobs:
    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, job: JobSpec | None = None, /, **fields: Unpack[JobSpec]) -> Created:
        return self._client._run(lambda c: c.jobs.create(job, **fields))

    def create_many(self, jobs: Iterable[JobSpec]) -> list[Created | ClientError]:
        return self._client._run(lambda c: c.jobs.create_many(jobs))

    def put(self, ref: _jobs.Ref, job: JobSpec, *, if_match: int | None = None) -> Job:
        return self._client._run(lambda c: c.jobs.put(ref, job, if_match=if_match))

    def patch(self, ref: _jobs.Ref, changes: Mapping[str, Any], *, if_match: int | None = None) -> Job:
        return self._client._run(lambda c: c.jobs.patch(ref, changes, if_match=if_match))

    def delete(self, ref: _jobs.Ref, *, if_match: int | None = None) -> None:
        return self._client._run(lambda c: c.jobs.delete(ref, if_match=if_match))

    def get(self, ref: _jobs.Ref) -> Job:
        return self._client._run(lambda c: c.jobs.get(ref))

    def list(self, *, most: int | None = None, **filters: Unpack[JobFilter]) -> Iterator[Job]:
        return self._client._each(lambda c: c.jobs.list(most=most, **filters))

    def instances(
        self, ref: _jobs.Ref, *, most: int | None = None, **filters: Unpack[InstanceFilter]
    ) -> Iterator[Instance]:
        return self._client._each(lambda c: c.jobs.instances(ref, most=most, **filters))

    def next(self, ref: _jobs.Ref, count: int = 10) -> Preview:
        return self._client._run(lambda c: c.jobs.next(ref, count))

    def run(self, ref: _jobs.Ref, *, params: Mapping[str, Any] | None = None, priority: int | None = None) -> Run:
        return self._client._run(lambda c: c.jobs.run(ref, params=params, priority=priority))

    def pause(self, ref: _jobs.Ref) -> Job:
        return self._client._run(lambda c: c.jobs.pause(ref))

    def resume(self, ref: _jobs.Ref) -> Job:
        return self._client._run(lambda c: c.jobs.resume(ref))

    def expire(self, ref: _jobs.Ref, *, kill: bool = False) -> Job:
        return self._client._run(lambda c: c.jobs.expire(ref, kill=kill))

    def skip_next(self, ref: _jobs.Ref, at: Moment | None = None) -> Job:
        return self._client._run(lambda c: c.jobs.skip_next(ref, at))

    def backfill(
        self, ref: _jobs.Ref, start: Moment, end: Moment | None = None, *, dry_run: bool = False
    ) -> Backfilled:
        return self._client._run(lambda c: c.jobs.backfill(ref, start, end, dry_run=dry_run))


class Instances:
    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, ref: _instances.Ref) -> Instance:
        return self._client._run(lambda c: c.instances.get(ref))

    def list(self, *, most: int | None = None, **filters: Unpack[InstanceFilter]) -> Iterator[Instance]:
        return self._client._each(lambda c: c.instances.list(most=most, **filters))

    def explain(self, ref: _instances.Ref) -> dict[str, Any]:
        return self._client._run(lambda c: c.instances.explain(ref))

    def kill(self, ref: _instances.Ref) -> Instance:
        return self._client._run(lambda c: c.instances.kill(ref))

    def rerun(self, ref: _instances.Ref) -> Instance:
        return self._client._run(lambda c: c.instances.rerun(ref))

    def wait(self, ref: _instances.Ref, *, timeout: float | None = None) -> Instance:
        return self._client._run(lambda c: c.instances.wait(ref, timeout=timeout))

    def output(
        self, ref: _instances.Ref, *, attempt: int | None = None, stream: _instances.Stream | None = None
    ) -> bytes:
        return self._client._run(lambda c: c.instances.output(ref, attempt=attempt, stream=stream))

    def follow(
        self,
        ref: _instances.Ref,
        *,
        attempt: int | None = None,
        stream: _instances.Stream | None = None,
        offset: int = 0,
    ) -> Iterator[bytes]:
        return self._client._each(lambda c: c.instances.follow(ref, attempt=attempt, stream=stream, offset=offset))


class DeadLetters:
    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, *, most: int | None = None, **filters: Unpack[DeadFilter]) -> Iterator[DeadLetter]:
        return self._client._each(lambda c: c.dead_letters.list(most=most, **filters))

    def requeue(self, ids: Sequence[str] | None = None, /, **filters: Unpack[DeadFilter]) -> Sweep:
        return self._client._run(lambda c: c.dead_letters.requeue(ids, **filters))

    def discard(self, **filters: Unpack[DeadFilter]) -> Sweep:
        return self._client._run(lambda c: c.dead_letters.discard(**filters))
