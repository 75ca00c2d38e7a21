"""An application whose tasks are followed by runs."""

import os
import time
from pathlib import Path

from celery import Celery

app = Celery("followed", broker=os.environ["BROKER"], backend=os.environ["BROKER"])


@app.task(name="followed.fails_once")
def fails_once(place: str) -> str:
    if Path(place).exists():
        return "the second time"
    Path(place).touch()
    raise ValueError("the first time")


@app.task(name="followed.waits")
def waits(place: str) -> None:
    Path(place).with_suffix(".begun").touch()
    while not Path(place).with_suffix(".go").exists():
        time.sleep(0.02)
