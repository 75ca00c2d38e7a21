"""The application of the trial of beats: entries that are due each second, so many times each."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("trial", broker=os.environ.get("TRIAL_BROKER"))
app.conf.beat_schedule = {
    f"entry-{number}": {"task": "trial.task", "schedule": 1.0, "args": (number,)}
    for number in range(int(os.environ.get("TRIAL_ENTRIES", "1")))
}
app.conf.raftsched_jobs = {
    "*": {
        "trigger": {"max_runs": int(os.environ.get("TRIAL_TIMES", "1"))},
        "misfire": {"policy": "all", "grace": "1h"},  # no time is left out because a leader was gone
        "retention": {"succeeded": 10_000, "failed": 10_000},
    }
}
app.conf.raftsched_data = os.environ.get("TRIAL_DATA")
