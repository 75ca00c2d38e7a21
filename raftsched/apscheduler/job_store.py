"""Lets a scheduler of APScheduler keep its jobs in a cluster, which runs them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from apscheduler.job import Job
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError, TransientJobError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.triggers.date import DateTrigger

from raftsched.apscheduler.describing import described_job
from raftsched.client.errors import ConflictError, NotFoundError
from raftsched.client.sync.client import Client
from raftsched.importers.apscheduler.job_states import job_of
from raftsched.importers.foreign import Notes, Unmapped, job_name
from raftsched.importers.how import How
from raftsched.importers.template import Template
from raftsched.system.clock import SystemClock

if TYPE_CHECKING:
    from raftsched.client.spec_generated import JobSpec

TEMPLATE = "python:{module}:{function}"


class JobStore(MemoryJobStore):  # type: ignore[misc]
    """Makes each job that is added a job of the cluster, and changes, pauses and deletes it there. The scheduler itself
    runs nothing: the nodes do, each due time at least once and never two at once, also when this program has ended.

        scheduler = BackgroundScheduler(jobstores={"default": JobStore("http://10.0.0.1:7401,http://10.0.0.2:7401")})

    A job's id is its name there. `get_jobs`, `pause_job`, `modify_job` and `reschedule_job` know the jobs that this
    program has added since it started; `remove_job` takes any. Listeners hear of no runs: the cluster's events do.
    Raised by add_job: ValueError for what cannot be said here, with the reason, and what raftsched.Client raises."""

    def __init__(
        self,
        servers: str | Client | None = None,
        *,
        namespace: str = "default",
        handler_template: str = TEMPLATE,
        main: str | None = None,
        timeout: str | None = None,
    ) -> None:
        """`servers`: addresses of the cluster, a client, or None for the cluster of the environment.
        `handler_template`: how a job calls its function, as that of `raftsched jobs import`. `main`: the module by
        which nodes import the main script. `timeout`: of each run, such as "2h"; None: as the namespace says. Raises
        ValueError."""
        super().__init__()
        self._own = not isinstance(servers, Client)
        self._client = servers if isinstance(servers, Client) else Client(servers)
        self._namespace, self._main, self._timeout = namespace, main, timeout
        self._template = Template.read(handler_template)
        self._paused: set[str] = set()  # by this program; what somebody else paused stays so

    def get_due_jobs(self, now: datetime) -> list[Job]:
        """Gives none: the cluster runs them."""
        return []

    def get_next_run_time(self) -> datetime | None:
        """Returns None, so that the scheduler waits for nothing."""
        return None

    def add_job(self, job: Job) -> None:
        """Makes the job in the cluster. Raises ConflictingIdError where it has one of this id that is not over."""
        body = self._body(job)
        spec = cast("JobSpec", {**body, "namespace": self._namespace, "name": self._name(job.id)})
        for again in (False, True):
            try:
                self._client.jobs.create(spec)
                break
            except ConflictError:
                if again or not self._remove_over(job.id):
                    raise ConflictingIdError(job.id) from None
        if _begins_now(job):
            self._client.jobs.run(self._ref(job.id))
        self._keep(job)

    def update_job(self, job: Job) -> None:
        """Makes the cluster's job the same as this one, which is made where it is not there."""
        body = cast("JobSpec", self._body(job))
        done = self._client.jobs.put(self._ref(job.id), body)
        if job.next_run_time is not None and done.state == "EXPIRED" and self._remove_over(job.id):
            done = self._client.jobs.put(
                self._ref(job.id), body
            )  # APScheduler would have forgotten the one that is over
        if job.next_run_time is not None and job.id in self._paused and done.state in ("NEW", "SUSPENDED"):
            self._client.jobs.resume(self._ref(job.id))
        self._keep(job)

    def remove_job(self, job_id: str) -> None:
        """Deletes the job, whoever made it. Raises JobLookupError where the cluster has none of this id."""
        try:
            self._client.jobs.delete(self._ref(job_id))
        except NotFoundError:
            raise JobLookupError(job_id) from None
        if self.lookup_job(job_id) is not None:
            super().remove_job(job_id)

    def remove_all_jobs(self) -> None:
        """Deletes the jobs that this program has added since it started, and no others."""
        for job in self.get_all_jobs():
            self.remove_job(job.id)

    def shutdown(self) -> None:
        """Closes the connections. The jobs stay in the cluster, and go on."""
        super().remove_all_jobs()  # MemoryJobStore.shutdown would ask this class to, which deletes them
        if self._own:
            self._client.close()

    def _remove_over(self, job_id: str) -> bool:
        """Deletes a job that had all of its runs, as APScheduler does at once. Returns False where it is not over."""
        try:
            found = self._client.jobs.get(self._ref(job_id))
            if found.state != "EXPIRED" or found.active:
                return False
            self._client.jobs.delete(found)
        except NotFoundError:
            pass
        return True

    def _keep(self, job: Job) -> None:
        if self.lookup_job(job.id) is not None:
            super().remove_job(job.id)
        super().add_job(job)
        (self._paused.discard if job.next_run_time is not None else self._paused.add)(job.id)

    def _ref(self, job_id: str) -> str:
        return f"{self._namespace}/{self._name(job_id)}"

    def _name(self, job_id: str) -> str:
        try:
            return job_name(job_id, "", Notes())
        except Unmapped as error:
            raise ValueError(f"job {job_id!r}: {error}") from None

    def _body(self, job: Job) -> dict[str, Any]:
        """The job as the cluster has it. What differs from APScheduler is logged."""
        if not job.func_ref:
            raise TransientJobError(job.id)
        name = self._name(job.id)
        for other in self.get_all_jobs():
            if other.id != job.id and self._name(other.id) == name:
                raise ValueError(f"job {job.id!r} would be called {name!r} there, as job {other.id!r} is; rename it")
        notes = Notes()
        state = {name: getattr(job, name) for name in job.__slots__ if name[0] != "_" and hasattr(job, name)}
        how = How("UTC", "", _as_of(job, SystemClock().wall_ms()), self._template, self._namespace)
        try:
            body = job_of(described_job({**state, "func": job.func_ref}, self._main, job.func), how, notes)
        except Unmapped as error:
            raise ValueError(f"job {job.id!r} cannot run in the cluster: {error}") from None
        if self._timeout is not None:
            body["timeout"] = self._timeout
        for note in notes.said:
            self._logger.info('Job "%s": %s', job.id, note)
        return body


def _begins_now(job: Job) -> bool:
    """Returns whether add_job was told a first run that its trigger does not say: next_run_time=datetime.now()."""
    if job.next_run_time is None or type(job.trigger) is DateTrigger:
        return False
    return bool(job.next_run_time.timestamp() * 1000 <= SystemClock().wall_ms())


def _as_of(job: Job, now_ms: int) -> int:
    """Returns the time for which its trigger is read: one due once that may still start is not past, such as the job of
    an add_job without trigger, which is due at once."""
    if type(job.trigger) is not DateTrigger:
        return now_ms
    due_ms = int(job.trigger.run_date.timestamp() * 1000)
    grace = job.misfire_grace_time
    late = due_ms <= now_ms and (grace is None or now_ms - due_ms <= grace * 1000)
    return due_ms - 1 if late else now_ms
