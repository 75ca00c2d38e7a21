"""Reads job stores of APScheduler, and changes nothing there."""

from __future__ import annotations

from copy import copy
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any
from urllib.parse import urlsplit

from apscheduler.job import Job
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.schedulers.base import BaseScheduler

from raftsched.apscheduler.describing import NOT_YET, described_job

_REDIS = ("redis", "rediss", "unix")


def export(
    source: BaseScheduler | BaseJobStore | str, *, main: str | None = None, table: str | None = None
) -> dict[str, Any]:
    """Returns the jobs of a scheduler, of a job store or of the store at a URL (as `open_store`) as values of JSON,
    which `raftsched jobs import` takes. `main`: the module by which functions of the main script can be imported.
    `table`: of a store at a URL, where its name is another one.

    Reads pickles where the store has some, which runs what they say: only for a store that you trust. A job that
    cannot be read is in it, with the reason. ValueError for a URL of no known kind."""
    if isinstance(source, BaseScheduler):
        found = [_of(job) for job in source.get_jobs()]
    elif isinstance(source, BaseJobStore):
        found = _read(source)
    else:
        store = open_store(source, table)
        try:
            found = _read(store)
        finally:
            store.shutdown()
    return {"apscheduler": version("apscheduler"), "jobs": [_described(one, main) for one in found]}


def open_store(url: str, table: str | None = None) -> BaseJobStore:
    """Returns the job store at a URL: redis://, rediss:// and unix:// for Redis, mongodb:// for MongoDB, any other for
    SQLAlchemy. `table`: the table, the collection or the key of the jobs, where it is not APScheduler's own. What the
    store needs has to be installed. Raises ValueError."""
    scheme = urlsplit(url).scheme
    if not scheme:
        raise ValueError(
            f"{url!r} is no URL of a job store; write sqlite:///jobs.sqlite, redis://host:6379/0 or mongodb://host"
        )
    if scheme in _REDIS:
        from apscheduler.jobstores.redis import RedisJobStore
        from redis import Redis

        made = RedisJobStore(**({"jobs_key": table} if table else {}))
        made.redis = Redis.from_url(url)
        return made
    if scheme.startswith("mongodb"):
        from apscheduler.jobstores.mongodb import MongoDBJobStore

        return MongoDBJobStore(host=url, **({"collection": table} if table else {}))
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from sqlalchemy import make_url

    file = make_url(url).database if scheme.startswith("sqlite") else None
    if file and not Path(file).exists():
        raise ValueError(f"there is no file {file}")

    return SQLAlchemyJobStore(url=url, **({"tablename": table} if table else {}))


class _Stored:
    """A job as it lies in a store, in the place of APScheduler's Job, which has to import what the job calls."""

    def __init__(self, why: str = "") -> None:
        self.why = why  # it cannot be read
        self.state: dict[str, Any] = {}
        self.next_run_time: datetime | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.why, self.state, self.next_run_time = "", state, state["next_run_time"]


def _read(store: BaseJobStore) -> list[_Stored]:
    """All jobs of a store. APScheduler deletes each job that it cannot restore, such as one whose function is not
    installed here. So a copy of the store reads with a Job that needs no function, and never fails: what ends the
    program, such as Ctrl-C, would delete a job, too, and is raised when all are read."""
    reading = copy(store)
    restore = getattr(type(store), "_reconstitute_job", None)
    if restore is None:  # it has the jobs themselves, in memory
        return [_of(job) for job in reading.get_all_jobs()]
    ended: list[KeyboardInterrupt] = []
    plain = FunctionType(restore.__code__, {**restore.__globals__, "Job": _Stored}, restore.__name__)

    def taken(state: Any) -> _Stored:
        if ended:
            return _Stored()
        try:
            found: _Stored = plain(reading, state)
            found.state["trigger"]  # each job has one
        except KeyboardInterrupt as error:
            ended.append(error)
            return _Stored()
        except BaseException as error:  # whatever a pickle raises, also SystemExit
            return _Stored(f"{type(error).__name__}: {error}")
        return found

    reading._reconstitute_job = taken
    found = list(reading.get_all_jobs())
    if ended:
        raise ended[0]
    return found


def _of(job: Job) -> _Stored:
    found = _Stored()
    found.__setstate__(_state(job))
    return found


def _state(job: Job) -> dict[str, Any]:
    """Returns what the store would keep of a job, also of one that no store but memory takes."""
    names = ("id", "trigger", "executor", "args", "kwargs", "name")
    state = {name: getattr(job, name) for name in names}
    defaults = job._scheduler._job_defaults if job._scheduler else {}
    for name, usual in (("misfire_grace_time", 1), ("coalesce", True), ("max_instances", 1)):
        state[name] = getattr(job, name, defaults.get(name, usual))
    state["func"] = job.func_ref or f"{getattr(job.func, '__module__', '')}:{getattr(job.func, '__qualname__', '')}"
    state["next_run_time"] = getattr(job, "next_run_time", NOT_YET)
    return state


def _described(stored: _Stored, main: str | None) -> dict[str, Any]:
    if stored.why:
        return {"problem": f"it cannot be read: {stored.why[:200]}"}
    try:
        return described_job(stored.state, main)
    except Exception as error:  # a state that is no job's: whatever a pickle has made
        return {"problem": f"it cannot be read: {f'{type(error).__name__}: {error}'[:200]}"}
