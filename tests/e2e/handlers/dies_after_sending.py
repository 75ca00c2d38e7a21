"""An application whose beat is killed once, right after it has sent a task."""

import os
import signal
from pathlib import Path

from celery import Celery
from celery.signals import after_task_publish

app = Celery("dying", broker=os.environ["BROKER"])
app.conf.beat_schedule = {"once": {"task": "dying.task", "schedule": 1.0}}
app.conf.raftsched_jobs = {"once": {"trigger": {"max_runs": 1}}}


@after_task_publish.connect
def die(**_: object) -> None:
    mark = Path(os.environ["DIES_ONCE"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
