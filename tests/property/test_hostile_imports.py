"""Files of other schedulers that are broken at random: each job is taken or refused, and nothing else is raised."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.api.http.problems import Problem
from raftsched.importers.documents import read_documents
from raftsched.importers.foreign import Reading
from raftsched.importers.how import How
from raftsched.importers.kinds import recognised
from raftsched.importers.reading import read_source
from raftsched.importers.sources import Source
from raftsched.importers.template import DEFAULT
from tests.support.amounts import examples
from tests.unit.importers import test_apscheduler, test_celery, test_foreign, test_powerjob, test_quartz, test_xxl_job
from tests.unit.importers.house import NOW_MS, accepted

VALUES: list[Any] = [
    None, True, -1, 0, 1e308, 10**30, "", "x" * 300, [], {}, [[]], {"a": 1}, "0 0 * * ?", "\0", "é", "9" * 18,
    "١", [1, None], {"start": -5}, "2030-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00",
]  # fmt: skip
PIECES = ["-", "~", "/", "..", ":", "\\", '"', "'", "%", "$", "${", "{", "(", ")", "9" * 20, "*", ",", "\n", "\0", "é",
          "@", "[", "]", "=", "٣", "&", "<"]  # fmt: skip
UNITS = """# /etc/systemd/system/a@b.timer
[Timer]
OnCalendar=Mon..Fri *-*~07/1 02:30:00/5 Europe/Madrid
RandomizedDelaySec=5min 2s
# /etc/systemd/system/a@.service
[Service]
Type=oneshot
Environment="A=b c" D=%h
ExecStart=-/usr/bin/x "a b" ${A} $D $$ %I \\x41 ; /b
TimeoutSec=5min
Restart=on-failure
MemoryMax=5M
"""
BEAT = """E = timedelta(minutes=5)
beat_schedule = {'a': {'task': 'x.y', 'schedule': crontab(minute='*/5', day_of_week='mon-fri', day_of_month='1-7'),
                       'args': (1,), 'options': {'expires': 60, 'queue': 'q', 'priority': 3}},
                 'b': {'task': 'z', 'schedule': E * 2}, 'c': {'task': 'z', 'schedule': schedule(30.0, relative=True)}}
"""
XML = (
    f"{test_quartz.HEAD}<schedule>{test_quartz.JOB}"
    + test_quartz.trigger("cron", "<cron-expression>0 0/5 14 ? * 2-6</cron-expression><priority>5</priority>")
    + test_quartz.trigger("simple", "<repeat-count>5</repeat-count><repeat-interval>60000</repeat-interval>", "z")
    + "</schedule></job-scheduling-data>"
)
TEXTS = {"systemd": ("stdin", UNITS), "celery": ("b.py", BEAT), "quartz": ("q.xml", XML)}
TREES: dict[str, Any] = {
    "apscheduler": [test_apscheduler.EXPORT],
    "xxl-job": [test_xxl_job.BASE, {**test_xxl_job.BASE, "id": 8, "glueType": "GLUE_SHELL", "glueSource": "a"}],
    "powerjob": [test_powerjob.BASE, {**test_powerjob.BASE, **test_powerjob.daily(daysOfWeek=[1])}],
    "quartz": [test_quartz.ROW, {**test_quartz.ROW, "TRIGGER_TYPE": "SIMPLE", "REPEAT_COUNT": 3, "REPEAT_INTERVAL": 1}],
    "celery": [
        *test_celery.SCHEDULES,
        test_celery.row(
            "periodictask", 1, name="n", task="t", crontab=1, args="[]", kwargs="{}", start_time="2030-01-01"
        ),
        test_celery.row("periodictask", 2, name="m", task="t", interval=1, expires="2031-01-01T00:00:00"),
    ],
    "kubernetes": [document.value for document in read_documents(test_foreign.MANIFESTS.encode(), "f")],
    "dkron": [{"name": "a", "schedule": "@daily", **test_foreign.SHELL}],
}


def broken_tree(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        return {
            key: chance.choice(VALUES) if chance.random() < 0.12 else broken_tree(inner, chance)
            for key, inner in value.items()
        }
    return [broken_tree(item, chance) for item in value] if isinstance(value, list) else value


def broken_text(text: str, chance: random.Random) -> str:
    parts = list(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(parts) + 1)
        if chance.random() < 0.4:
            del parts[at : at + chance.randint(1, 6)]
        else:
            parts[at:at] = chance.choice(PIECES)
    return "".join(parts)


def read(kind: str, name: str, data: bytes) -> None:
    recognised(name, data)
    try:
        reading = read_source(Source(name, kind, [(name, data)]), How("Europe/Madrid", "", NOW_MS, DEFAULT, None))
    except click.UsageError:
        return
    for entry in reading.entries:
        try:
            accepted(Reading([entry]))
        except Problem:
            pass  # what a node refuses is told then


def check(kind: str, name: str, make: Callable[[random.Random], str]) -> None:
    @settings(max_examples=examples(40), deadline=None)
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        read(kind, name, make(random.Random(seed)).encode())

    run()


@pytest.mark.parametrize("kind", TEXTS)
def test_broken_texts(kind: str) -> None:
    name, text = TEXTS[kind]
    check(kind, name, lambda chance: broken_text(text, chance))


@pytest.mark.parametrize("kind", TREES)
def test_broken_objects(kind: str) -> None:
    check(kind, "x.json", lambda chance: json.dumps(broken_tree(TREES[kind], chance)))
