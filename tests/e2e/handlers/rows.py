"""An application whose schedule is in the tables of django-celery-beat. As a program it makes rows, or changes them."""

import json
import os
import sys

import django
from celery import Celery
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django_celery_beat"],
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["ROWS"], "OPTIONS": {"timeout": 60}}
    },
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
    TIME_ZONE="UTC",
)
django.setup()

app = Celery("rows", broker=os.environ["BROKER"])
app.conf.beat_scheduler = "raftsched.celery:DatabaseScheduler"


def make() -> None:
    from django.core.management import call_command
    from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule

    call_command("migrate", verbosity=0)
    second = IntervalSchedule.objects.create(every=1, period="seconds")
    nightly = CrontabSchedule.objects.create(minute="30", hour="2", timezone="Europe/Madrid")
    dusk = SolarSchedule.objects.create(event="sunset", latitude=40, longitude=-3)
    kwargs = json.dumps({"day": "today"})
    PeriodicTask.objects.create(name="often", task="rows.often", interval=second, kwargs=kwargs, queue="often")
    PeriodicTask.objects.create(name="only once", task="rows.once", interval=second, one_off=True)
    PeriodicTask.objects.create(name="nightly", task="rows.nightly", crontab=nightly, enabled=False)
    PeriodicTask.objects.create(name="dusk", task="rows.dusk", solar=dusk)


def change() -> None:
    """Prints which rows were enabled; turns them round but for one."""
    from django_celery_beat.models import PeriodicTask

    print(json.dumps({row.name: row.enabled for row in PeriodicTask.objects.all()}))
    PeriodicTask.objects.get(name="dusk").delete()
    for name, enabled in (("often", False), ("nightly", True)):
        row = PeriodicTask.objects.get(name=name)
        row.enabled = enabled
        row.save()


if __name__ == "__main__":
    {"make": make, "change": change}[sys.argv[1]]()
