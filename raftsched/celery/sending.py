"""The handler celery.send: a run sends a task, and with `follow` is at its end when the task is.

A process of a node or worker calls it. The application is the one that `app` names ("shop.celery:app"), else one that
is made of CELERY_BROKER_URL and CELERY_RESULT_BACKEND in the job's own environment.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any

from raftsched.handlers import handler, run_variables
from raftsched.run import Fail, progress, save_state, state

MISSING = "celery is not installed here: pip install celery"
LOOK_S = 0.5  # between two looks at a task that is followed
_RUNS = uuid.UUID("0f4b3a62-5d0a-4f0e-9d6e-2f0c2c0f7c11")  # the namespace of task ids (RFC 9562, section 5.5)


class Revoked(BaseException):
    """The run was told to end."""


def task_id_of(run: Mapping[str, str], number: int = 0) -> str:
    """Returns the id under which a run sends its task: all its attempts the same one, so that a task which is sent
    twice is known by it. `number`: of a run that sends its task again on purpose, because it had failed."""
    told = [run.get(f"RAFTSCHED_{name}", "") for name in ("JOB_ID", "INSTANCE_ID", "SCHEDULED_AT")]
    return str(uuid.uuid5(_RUNS, "/".join((*told, str(number)))))


@handler("celery.send")
def send(
    task: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    app: str | None = None,
    options: Mapping[str, Any] | None = None,
    follow: bool = False,
) -> dict[str, Any]:
    """Sends a task. Returns its id; with `follow`, when the task has succeeded, also its result. A task that failed
    fails the run, and a retry of the run sends it again under another id. What ends the run revokes a followed task.
    """
    celery = _application(app)
    told = state() or {}
    number = int(told.get("number", 0))
    task_id = task_id_of(run_variables(), number)
    if follow and _no_results(celery):
        raise Fail("follow needs a result backend: set result_backend, or CELERY_RESULT_BACKEND in the job's env")
    given = {"retry": False, **(options or {}), "task_id": task_id, "headers": headers_of(run_variables(), options)}

    def sends() -> None:
        with celery.connection_for_write() as connection:
            celery.send_task(task, list(args), dict(kwargs or {}), connection=connection, **given)
        # It has looked at another one, of the pool, whose epoll would be left: the process could serve no other run.
        celery.pool.connection.close()

    if not follow:
        if told.get("sent") != task_id:
            sends()
        return {"task_id": task_id}
    result = celery.AsyncResult(task_id)
    try:
        with _told_to_end():  # from before it is sent: what may have been sent is revoked
            if told.get("sent") != task_id and not result.ready():
                sends()
            save_state({"number": number, "sent": task_id})
            progress(text=f"follows task {task_id}")
            value = result.get(interval=LOOK_S, propagate=False, disable_sync_subtasks=False)
    except Revoked:
        result.revoke(terminate=True)
        raise SystemExit(f"revoked task {task_id}") from None
    if result.state == "SUCCESS":
        return {"task_id": task_id, "result": value}
    save_state({"number": number + 1})
    raise RuntimeError(f"task {task_id} is {result.state}: {value}")


def headers_of(run: Mapping[str, str], options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the headers of a task: those that its sender asks for, and which run sends it."""
    found = {
        "raftsched_run": run.get("RAFTSCHED_INSTANCE_ID", ""),
        "raftsched_attempt": int(run.get("RAFTSCHED_ATTEMPT") or 1),
        "raftsched_scheduled_at": run.get("RAFTSCHED_SCHEDULED_AT", ""),
    }
    return {**((options or {}).get("headers") or {}), **found}


@contextmanager
def _told_to_end() -> Iterator[None]:
    """Makes an exception of SIGTERM, by which runs are told to end."""

    def told(number: int, frame: FrameType | None) -> None:
        raise Revoked

    before = signal.signal(signal.SIGTERM, told)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _application(place: str | None) -> Any:
    try:
        from celery.app.utils import find_app
    except ImportError:
        raise Fail(MISSING) from None
    if place is not None:
        return find_app(place)
    env = run_variables()
    if not env.get("CELERY_BROKER_URL"):
        raise Fail('say "app": "package.module:app" in params, or CELERY_BROKER_URL in the env of the handler')
    return _made(env["CELERY_BROKER_URL"], env.get("CELERY_RESULT_BACKEND"))


@lru_cache(maxsize=8)
def _made(broker: str, results: str | None) -> Any:
    """Returns an application without tasks, which the next runs of this process find with its connections."""
    import celery

    made = celery.Celery("raftsched", set_as_current=False)
    made.conf.update(broker_url=broker, result_backend=results)
    return made


def _no_results(celery: Any) -> bool:
    return type(celery.backend).__name__ == "DisabledBackend"
