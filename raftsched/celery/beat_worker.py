"""Works for a beat in a thread: makes the jobs of its entries, and takes their runs as a remote worker does."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from celery.utils.log import get_logger

from raftsched.celery.entries import LABEL, OFF, Application, Jobs
from raftsched.client.contexts import usual
from raftsched.client.errors import ConflictError, InvalidError, NotFoundError, UnavailableError, UnknownOutcomeError
from raftsched.client.sync.loop import LoopThread
from raftsched.client.token_file import TokenFile, of_environment
from raftsched.client.trust import Trust, from_environment
from raftsched.config.worker import default_data, default_name
from raftsched.errors import StartupError
from raftsched.handlers import run_variables

if TYPE_CHECKING:
    from raftsched.client.aio import AsyncClient
    from raftsched.client.models import Created
    from raftsched.client.models_generated import Job
    from raftsched.client.spec_generated import JobSpec

AGAIN_S = (1.0, 30.0)  # between two tries to reach the cluster: first, most
AT_ONCE = 8  # jobs that are sent at one time
BEATS_MAX = 64  # of one application on one machine

Send = Callable[[Mapping[str, Any], Mapping[str, str]], dict[str, Any]]

log = get_logger("celery.beat.raftsched")


class Connection(NamedTuple):
    """Says how the cluster is reached. `worker`: the token with which runs are taken, `token` that with which jobs are
    made."""

    servers: str
    token: str | TokenFile | None
    worker: str | TokenFile | None
    trust: Trust

    @staticmethod
    def of(environ: Mapping[str, str]) -> Connection:
        """Returns what the environment says, as for the command line. Raises ClientError, LookupError, ValueError."""
        context = usual()
        token = of_environment(environ) or context.token
        own = {
            "RAFTSCHED_TOKEN": environ.get("RAFTSCHED_WORKER_TOKEN", ""),
            "RAFTSCHED_TOKEN_FILE": environ.get("RAFTSCHED_WORKER_TOKEN_FILE", ""),
        }
        trust = from_environment(environ).over(context.trust)
        return Connection(context.server, token, of_environment(own) or token, trust)


class BeatWorker:
    """`start` returns at once; `failed` has the error that ended it, if one did."""

    def __init__(
        self, application: Application, connection: Connection, send: Send, *, slots: int, data: str | None
    ) -> None:
        self.failed: BaseException | None = None
        self._application, self._connection, self._send = application, connection, send
        self._slots = slots
        self._base = None if data is None else Path(data)
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="send")
        self._thread = LoopThread()
        self._stop = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._newest: Jobs | None = None
        self._changed = asyncio.Event()

    def start(self, jobs: Jobs) -> None:
        """Begins with these jobs."""
        self.take(jobs)
        self._thread.run(self._begin())

    def take(self, jobs: Jobs) -> None:
        """Makes these the jobs of the application, as soon as the cluster can be reached."""
        self._newest = jobs
        self._thread.run(self._told(self._changed))

    def stop(self, *, wait: bool = True) -> None:
        """Takes no more runs. With `wait` what is being sent is reported first."""
        if wait:
            self._thread.run(self._end())
        self._thread.stop()
        self._threads.shutdown(wait=wait, cancel_futures=True)

    # ------------------------------------------------------------ in its thread

    async def _told(self, event: asyncio.Event) -> None:
        event.set()

    async def _begin(self) -> None:
        self._work = asyncio.create_task(self._serve(), name="beat")

    async def _end(self) -> None:
        self._stop.set()
        if self._work is not None:
            await asyncio.wait([self._work])

    async def _serve(self) -> None:
        try:
            async with AsyncExitStack() as parts:
                name, data = self._place(parts)
                worker = self._worker(name, data)
                async with worker, asyncio.TaskGroup() as tasks:
                    jobs = tasks.create_task(self._keep_jobs(), name="jobs")
                    await asyncio.wait(
                        [jobs, stopped := tasks.create_task(self._stop.wait())], return_when=asyncio.FIRST_COMPLETED
                    )
                    jobs.cancel()
                    stopped.cancel()
        except BaseExceptionGroup as group:
            self.failed = group.exceptions[0]
        except BaseException as error:
            self.failed = error

    def _worker(self, name: str, data: Path) -> Any:
        from raftsched.embedded.worker import Worker

        connection = self._connection
        token = connection.worker
        found = Worker(
            servers=connection.servers,
            name=name,
            data=str(data),
            slots=self._slots,
            namespaces=[self._application.namespace],
            executors=["call"],
            token=token if isinstance(token, str) else None,
            token_file=str(token.path) if isinstance(token, TokenFile) else None,
            **connection.trust._asdict(),
        )

        async def due(**params: Any) -> dict[str, Any]:
            run = dict(run_variables())
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._send, params, run)

        found.handler(self._application.handler, in_process=True)(due)
        return found

    def _place(self, parts: AsyncExitStack) -> tuple[str, Path]:
        """Returns a name and a directory that no other beat of this machine has, and keeps them. Raises StartupError:
        a directory cannot be made."""
        for number in range(1, BEATS_MAX + 1):
            name = f"{self._application.name[:40]}.beat-{default_name()[:60]}" + (f".{number}" if number > 1 else "")
            data = default_data(name, os.environ) if self._base is None else self._base / name
            try:
                data.mkdir(parents=True, exist_ok=True, mode=0o700)
                lock = os.open(data / "beat.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StartupError(
                    f"The directory {data} cannot be used: {error.strerror}; say another with raftsched_data."
                ) from None
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                continue
            parts.callback(os.close, lock)
            return name, data
        raise StartupError(f"{BEATS_MAX} beats of {self._application.name} run on this machine already.")

    # ------------------------------------------------------------ jobs

    async def _keep_jobs(self) -> None:
        """Makes the newest jobs, each time that there are other ones. Raises ClientError: the cluster refuses them."""
        from raftsched.client.aio import AsyncClient

        connection = self._connection
        token = connection.token
        client = AsyncClient(
            connection.servers,
            token=token if isinstance(token, str) else None,
            token_file=str(token.path) if isinstance(token, TokenFile) else None,
            **connection.trust._asdict(),
        )
        async with client:
            while True:
                await self._changed.wait()
                self._changed.clear()
                jobs, pause = self._newest, AGAIN_S[0]
                while jobs is not None:
                    try:
                        await self._make(client, jobs)
                        break
                    except (UnavailableError, UnknownOutcomeError) as error:
                        log.warning(
                            "the schedule is not in the cluster yet (%s); tries again in %d s", error.detail, pause
                        )
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, AGAIN_S[1])

    async def _make(self, client: AsyncClient, jobs: Jobs) -> None:
        namespace, slots = self._application.namespace, asyncio.Semaphore(AT_ONCE)
        before = {
            job.name: job
            async for job in client.jobs.list(namespace=namespace, label=f"{LABEL}={self._application.name}")
        }

        async def put(name: str) -> None:
            async with slots:
                try:
                    there = before.get(name)
                    if there is not None and name in jobs.resumed and _is_for_another_time(there, jobs.specs[name]):
                        await _unless_gone(client.jobs.delete(there))
                        there = None
                    made = await self._put(client, there, jobs.specs[name])
                except (InvalidError, ConflictError) as error:
                    log.error("the cluster refuses the job %s: %s", name, error.detail)
                    if jobs.skips:
                        return
                    raise
                if name in jobs.resumed and made.state in ("NEW", "SUSPENDED"):
                    await client.jobs.resume(made)

        await asyncio.gather(*map(put, jobs.specs))
        gone = [job for name, job in before.items() if name not in jobs.specs and name not in jobs.kept]
        if gone and not jobs.specs:
            log.warning("the schedule is empty, and its %d jobs stay: delete them, if that is meant", len(gone))
            gone = []
        # Its last time was moved into the past: the job has other times yet.
        gone += [job for name, job in before.items() if name in jobs.over and _is_due_later(job, jobs.at_ms)]
        for job in gone:
            await _unless_gone(client.jobs.delete(job))
        for name in jobs.kept - jobs.over:
            if name in before and before[name].state == "SCHEDULED":
                await _unless_gone(client.jobs.pause(before[name]))
        log.info("%d entries are jobs of the cluster, %d jobs without an entry are deleted", len(jobs.specs), len(gone))

    async def _put(self, client: AsyncClient, before: Job | None, spec: JobSpec) -> Job | Created:
        """Makes a job as its entry says. Raises ConflictError: it is there, and no beat of this application made it."""
        application, ref = self._application, f"{self._application.namespace}/{spec['name']}"
        if before is None:
            try:
                return await client.jobs.create(spec)
            except ConflictError as error:
                if error.code != "name-taken":
                    raise
            there = await client.jobs.get(ref)
            if application.name != (there.labels or {}).get(LABEL) and there.handler != {"call": application.handler}:
                raise ConflictError(
                    "name-taken",
                    f"it is there already, and no beat of {application.name} made it; rename the entry, or delete the"
                    " job if nobody needs it",
                    status=409,
                )
        return await client.jobs.put(ref, spec)


def _is_due_later(job: Job, now_ms: int) -> bool:
    return job.state == "SCHEDULED" and job.next_fire_at is not None and job.next_fire_at.timestamp() * 1000 > now_ms


def _is_for_another_time(job: Job, spec: JobSpec) -> bool:
    """Returns whether a job whose one time is over was since given another one: a row that was enabled again, or whose
    clock was set."""
    if job.state != "EXPIRED" or job.active:
        return False
    asked, had = spec.get("trigger", {}).get("at"), (job.trigger or {}).get("at")
    if asked and had:
        return datetime.fromisoformat(str(asked)) != datetime.fromisoformat(str(had))
    return OFF in (job.labels or {})


async def _unless_gone(change: Awaitable[Any]) -> None:
    """Does it to a job that another beat may have deleted meanwhile."""
    try:
        await change
    except NotFoundError:
        return
