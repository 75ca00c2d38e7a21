"""raftsched.celery:Scheduler, a scheduler of Celery's beat whose schedule is jobs of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from celery.beat import ScheduleEntry
from celery.beat import Scheduler as CelerysScheduler
from celery.exceptions import ImproperlyConfigured
from celery.utils.log import get_logger

from raftsched.celery.beat_worker import BeatWorker, Connection
from raftsched.celery.entries import Application, Jobs, Wanted, jobs_of
from raftsched.celery.sending import headers_of, task_id_of
from raftsched.importers.foreign import Unmapped
from raftsched.system.clock import SystemClock

TICK_S = 1.0  # between two looks whether it is to go on
SLOTS = 16  # tasks that one beat sends at a time

log = get_logger("celery.beat.raftsched")


class Scheduler(CelerysScheduler):  # type: ignore[misc]
    """Puts the entries of `beat_schedule` into the cluster as jobs, and sends what is due there.

    Any number of beats of one application may run. The cluster gives each due time to one of them, and to another one
    when that dies. Changes go from the configuration to the cluster, at each start of a beat."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Raises ImproperlyConfigured: an entry cannot be a job, or a setting is wrong. Nothing was changed then."""
        self._clock = SystemClock()
        self._worker: BeatWorker | None = None
        self._closed = False
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        super().setup_schedule()
        self._jobs = self._read()

    def entries(self) -> Iterable[Wanted]:
        """Returns what is to be in the cluster."""
        return [Wanted(entry) for entry in self.schedule.values()]

    def take_refused(self, jobs: Jobs) -> None:
        """Handles entries that cannot be jobs: it is better not to start than not to send them."""
        if jobs.refused:
            told = "; ".join(f"{name}: {why}" for name, why in jobs.refused)
            raise ImproperlyConfigured(f"entries of the schedule that raftsched cannot run: {told}")

    # ------------------------------------------------------------ as Celery's Service has it

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Returns how long to wait before the next call, in seconds. Raises what ended the work in the cluster."""
        if self._worker is None and not self._closed:
            self._worker = self._started(self._jobs)
        if self._worker is not None and self._worker.failed is not None:
            raise self._worker.failed
        return float(min(self.max_interval, TICK_S))

    def close(self) -> None:
        """Ends the work in the cluster: what is being sent is sent and reported. A second call does not wait."""
        first, self._closed = not self._closed, True
        if self._worker is not None:
            self._worker.stop(wait=first)
        super().close()

    @property
    def info(self) -> str:
        return f"    . cluster -> {Connection.of(os.environ).servers}"

    # ------------------------------------------------------------ one due time

    def send_due(self, params: Mapping[str, Any], run: Mapping[str, str]) -> dict[str, Any]:
        """Sends the task of a run, and returns what is recorded of it: the id of the task, and `again` where an earlier
        attempt may have sent it. Called in threads. Raises LookupError, SchedulingError."""
        entry = self._entry(params)
        attempt = int(run.get("RAFTSCHED_ATTEMPT") or 1)
        task_id = task_id_of(run)
        headers = {"periodic_task_name": params["entry"], **headers_of(run, entry.options)}
        # One try: what comes of a second one would not be seen. The run is tried again.
        entry.options = {"retry": False, **entry.options, "task_id": task_id, "headers": headers}
        log.info("sends %s (%s), due at %s", params["entry"], entry.task, headers["raftsched_scheduled_at"])
        self.apply_async(entry, advance=False)
        return {"task_id": task_id} | ({"again": True} if attempt > 1 else {})

    def _entry(self, params: Mapping[str, Any]) -> ScheduleEntry:
        """Returns the entry to be sent, which is nobody else's."""
        name, task = params["entry"], params["task"]
        if not params.get("own"):
            given = {part: params.get(part) for part in ("args", "kwargs", "options")}
            return ScheduleEntry(name, task, app=self.app, **given)
        own = self.schedule.get(name)
        if own is None:
            raise LookupError(
                f"the arguments of {name} are in the configuration of beats, and this one has no such entry"
            )
        return ScheduleEntry(name, own.task, args=own.args, kwargs=own.kwargs, options=dict(own.options), app=self.app)

    # ------------------------------------------------------------ the cluster

    def _read(self) -> Jobs:
        jobs = jobs_of(self.entries(), self._application(), self._clock.wall_ms())
        for name, note in jobs.notes:
            log.warning("entry %s: %s", name, note)
        self.take_refused(jobs)
        names = {"*", *(str(name) for name in self.schedule)}
        for name in sorted({str(key) for key in self.app.conf.get("raftsched_jobs") or {}} - names):
            log.warning("raftsched_jobs names %s, and there is no such entry", name)
        return jobs

    def _application(self) -> Application:
        conf = self.app.conf
        name = conf.get("raftsched_app") or self.app.main
        if not name or name == "__main__":
            raise ImproperlyConfigured(
                "the application has no name, and others without one would take its jobs away: write Celery('shop'), or"
                " raftsched_app = 'shop'"
            )
        zone = getattr(self.app.timezone, "key", None)
        if zone is None:
            raise ImproperlyConfigured("the time zone has no name; write timezone = 'Europe/Madrid', or 'UTC'")
        found = Application(
            _plain(str(name)), conf.get("raftsched_namespace") or "default", zone, conf.get("raftsched_jobs") or {}
        )
        try:
            found.handler  # noqa: B018 - raises where the name cannot be one
        except Unmapped as error:
            raise ImproperlyConfigured(f"raftsched_app: {error}") from None
        return found

    def _started(self, jobs: Jobs) -> BeatWorker:
        conf = self.app.conf
        worker = BeatWorker(
            self._application(),
            Connection.of(os.environ),
            self.send_due,
            slots=int(conf.get("raftsched_slots") or SLOTS),
            data=conf.get("raftsched_data"),
        )
        worker.start(jobs)
        return worker


def _plain(name: str) -> str:
    """Returns the name as names of jobs have it."""
    return "".join(char if (char.isascii() and char.isalnum()) or char in "._-" else "-" for char in name.lower())[:64]
