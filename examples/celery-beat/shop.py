"""A shop whose invoices are made by Celery: tasks, and when they are due."""

import os

from celery import Celery

app = Celery("shop", broker=os.environ.get("BROKER", "redis://127.0.0.1:6379/0"))
app.conf.beat_schedule = {
    "invoices": {"task": "shop.invoices", "schedule": 1.0, "kwargs": {"day": "today"}, "options": {"expires": 600}},
}
app.conf.beat_scheduler = "raftsched.celery:Scheduler"


@app.task(name="shop.invoices")
def invoices(day: str) -> str:
    return f"sent the invoices of {day}"
