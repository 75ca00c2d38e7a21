"""The kinds of files that are imported, and by what each is recognised."""

from __future__ import annotations

import re
from pathlib import PurePath

KINDS = ("apscheduler", "celery", "crontab", "dkron", "kubernetes", "powerjob", "quartz", "systemd", "xxl-job")
LOOKED_AT = 256 * 1024  # bytes: the first of a file

# Marks of JSON, YAML and CSV alike: a name that stands as a key or as a column.
_KEY = r"""(?m)(?:^[ \t,{\[-]{0,80}|[,;\t{]\s{0,8})["'`]?(?:%s)["'`]?[ \t]{0,80}(?=[:,;\t\r\n]|$)"""
_UNIT = re.compile(r"^\[(?:Timer|Service)\]\s*$|^# /\S+\.(?:timer|service)(?:\.d/\S+\.conf)?$", re.MULTILINE)
_CRON_LINE = re.compile(
    r"(?:@(?:reboot|yearly|annually|monthly|weekly|daily|midnight|hourly|every\S*)\s+\S"
    r"|-?[0-9*H][0-9*/,H()-]*(?:\s+[0-9A-Za-z*/,?#()-]+){4}\s+\S)",
)
_BEAT = re.compile(r"beat_schedule|CELERY_?BEAT_SCHEDULE|\bcrontab\s*\(", re.IGNORECASE)
_MARKS = (
    ("apscheduler", re.compile(_KEY % r"apscheduler")),
    ("kubernetes", re.compile(r"""["']?kind["']?\s*:\s*["']?(?:CronJob|CronJobList|List|Job)\b""")),
    ("celery", re.compile(r"""["']?model["']?\s*:\s*["']?django_celery_beat\.""")),
    ("powerjob", re.compile(_KEY % r"timeExpressionType|time_expression_type")),
    ("xxl-job", re.compile(_KEY % r"scheduleConf|schedule_conf|executorHandler|executor_handler|jobCron|job_cron")),
    ("quartz", re.compile(_KEY % r"trigger_name|triggerName|TRIGGER_NAME|job_class_name|JOB_CLASS_NAME|jobClassName")),
    ("dkron", re.compile(_KEY % r"executor_config|executor")),
    ("celery", re.compile(_KEY % r"task")),
)


def recognised(name: str, data: bytes) -> str | None:
    """Returns the kind of a file, by its name where that says it, else by its content; None: it is none of them."""
    text = data[:LOOKED_AT].decode("utf-8", "replace").removeprefix("\ufeff")
    ending = PurePath(name).suffix.lower()
    if ending in (".timer", ".service") or _UNIT.search(text):
        return "systemd"
    if ending == ".py":
        return "celery"
    if name.startswith(("/etc/cron.d/", "/etc/crontab")) or ending == ".crontab":
        return "crontab"
    begin = text.lstrip()
    if begin.startswith("<"):
        return "quartz" if "job-scheduling-data" in text else None
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if any(_CRON_LINE.match(line) for line in lines) and not begin.startswith(("{", "[")):
        return "crontab"
    for kind, mark in _MARKS:
        if mark.search(text):
            return kind
    return "celery" if _BEAT.search(text) else None
