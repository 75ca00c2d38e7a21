"""raftsched.celery:DatabaseScheduler, which reads the tables of django-celery-beat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from celery.beat import ScheduleEntry
from celery.utils.log import get_logger
from django.db import DatabaseError, InterfaceError, close_old_connections
from django_celery_beat.models import PeriodicTask, PeriodicTasks
from django_celery_beat.schedulers import ModelEntry

from raftsched.bounds import DESCRIPTION_MAX
from raftsched.celery.beat import Scheduler
from raftsched.celery.entries import Jobs, Wanted
from raftsched.importers.celery.schedules import SOLAR

LOOK_S = 5.0  # between two looks whether rows were changed

log = get_logger("celery.beat.raftsched")


class DatabaseScheduler(Scheduler):
    """Puts the rows of django-celery-beat into the cluster as jobs, again whenever they change, and sends what is due.

    Changes go from the tables to the cluster, but for one: a row that is meant for one time (`one_off`) is disabled
    when its task was sent. `beat_schedule` is not read."""

    def setup_schedule(self) -> None:
        self._changed_at: datetime | None = None
        self._look_at = 0.0
        self._changed_at = PeriodicTasks.last_change()
        self._jobs = self._read()

    def entries(self) -> Iterable[Wanted]:
        rows = list(PeriodicTask.objects.select_related("interval", "crontab", "solar", "clocked"))
        found = [_wanted(row, self.app) for row in rows]
        self.schedule = {wanted.entry.name: wanted.entry for wanted in found}
        return found

    def take_refused(self, jobs: Jobs) -> None:
        """Tells of rows that cannot be jobs: somebody may write one at any time, and it does not stop the others."""
        jobs.skips = True
        for name, why in jobs.refused:
            log.error("the row %s is not sent: %s", name, why)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        wait = super().tick(*args, **kwargs)
        if self._worker is not None and self._clock.monotonic() >= self._look_at:
            self._look_at = self._clock.monotonic() + LOOK_S
            try:
                self._look()
            except (DatabaseError, InterfaceError) as error:
                log.error("the tables cannot be read; what they said before is in force: %s", error)
        return wait

    def send_due(self, params: Mapping[str, Any], run: Mapping[str, str]) -> dict[str, Any]:
        result = super().send_due(params, run)
        try:
            close_old_connections()
            if PeriodicTask.objects.filter(name=params["entry"], one_off=True, enabled=True).update(enabled=False):
                PeriodicTasks.update_changed()
        except (DatabaseError, InterfaceError) as error:
            log.error("the row %s stays enabled, though its one task was sent: %s", params["entry"], error)
        return result

    def _look(self) -> None:
        close_old_connections()
        changed_at = PeriodicTasks.last_change()
        if changed_at == self._changed_at or self._worker is None:
            return
        jobs = self._read()
        self._changed_at = changed_at
        self._worker.take(jobs)


def _wanted(row: Any, app: Any) -> Wanted:
    """Returns what a row asks for."""
    trigger: dict[str, Any] = {}
    if row.clocked is None:
        if row.start_time is not None:
            trigger["starts_at"] = row.start_time.isoformat()
        if row.one_off:
            trigger["max_runs"] = 1
    fields = {"description": row.description[:DESCRIPTION_MAX]} if row.description else {}
    problem = SOLAR if row.solar is not None else ""
    entry = ScheduleEntry(row.name, row.task, app=app)
    if not problem:
        try:
            entry = ModelEntry(row, app=app)
        except Exception as error:  # whatever the row has
            problem = f"it cannot be read: {error!r}"
    return Wanted(entry, trigger, fields, enabled=bool(row.enabled), problem=problem)
