"""A full file of each kind that is imported, and how files of its format are changed at each of their levels."""

from __future__ import annotations

import ast
import copy
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.unit.importers import test_apscheduler, test_celery, test_powerjob, test_quartz, test_xxl_job

STRANGE = "strangeSetting"  # nobody knows it
Files = list[tuple[str, str]]
Change = Callable[[Any], Iterator[tuple[str, Any]]]  # yields (where, the changed content)


class Sample(NamedTuple):
    """`content`: as `write` makes files of it. `left_whole`: what is left out by its name with all that is in it.
    `silent`: what says nothing of a job, or what the report of its absence would be the same as."""

    kind: str
    content: Any
    write: Callable[[Any], Files]
    strange: Callable[[Any, Any], Iterator[tuple[str, Any]]]  # content, value -> with STRANGE at each level
    without: Change  # each setting taken out in turn
    values: tuple[Any, ...]
    left_whole: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()


def _nodes(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The objects of a tree, those within texts that are JSON among them (as "json" in their path)."""
    if isinstance(tree, dict):
        yield path, tree
        for key, value in tree.items():
            yield from _nodes(value, (*path, key))
    elif isinstance(tree, list):
        for place, value in enumerate(tree):
            yield from _nodes(value, (*path, place))
    elif isinstance(tree, str) and tree.startswith("{"):
        yield from _nodes(json.loads(tree), (*path, "json"))


def _at(tree: Any, path: tuple[Any, ...], change: Callable[[dict[str, Any]], None]) -> Any:
    """A copy in which the object at a path was changed."""
    if not path:
        found = copy.deepcopy(tree)
        change(found)
        return found
    if path[0] == "json":
        return json.dumps(_at(json.loads(tree), path[1:], change))
    found = copy.copy(tree)
    found[path[0]] = _at(tree[path[0]], path[1:], change)
    return found


def _where(path: tuple[Any, ...], *more: str) -> str:
    return ".".join(map(str, (*path, *more)))


def _strange_in_tree(tree: Any, value: Any) -> Iterator[tuple[str, Any]]:
    for path, _ in _nodes(tree):
        yield _where(path), _at(tree, path, lambda node: node.update({STRANGE: value}))


def _without_in_tree(tree: Any) -> Iterator[tuple[str, Any]]:
    for path, node in _nodes(tree):
        for key in node:
            yield _where(path, key), _at(tree, path, lambda node, key=key: node.pop(key))  # type: ignore[misc]


def tree(kind: str, content: Any, *, name: str = "f.json", **more: Any) -> Sample:
    values: tuple[Any, ...] = ("x", "", True, False, 0, None, {})
    write: Callable[[Any], Files] = lambda found: [(name, json.dumps(found))]  # noqa: E731
    return Sample(kind, content, write, _strange_in_tree, _without_in_tree, values, **more)


def _strange_in_xml(text: str, value: Any) -> Iterator[tuple[str, str]]:
    root = ET.fromstring(text)
    for place, element in enumerate(list(root.iter())):
        tag = element.tag.rpartition("}")[2]
        element.set(STRANGE, value)
        yield f"{place} {tag}", ET.tostring(root, encoding="unicode")
        del element.attrib[STRANGE]
        child = ET.SubElement(element, STRANGE)
        child.text = value
        yield f"{place} {tag}", ET.tostring(root, encoding="unicode")
        element.remove(child)


def _without_in_xml(text: str) -> Iterator[tuple[str, str]]:
    pairs = [(p, c) for p, parent in enumerate(ET.fromstring(text).iter()) for c in range(len(parent))]
    for parent_place, child_place in pairs:
        root = ET.fromstring(text)
        parent = list(root.iter())[parent_place]
        child = parent[child_place]
        parent.remove(child)
        yield child.tag.rpartition("}")[2], ET.tostring(root, encoding="unicode")


def _strange_in_units(files: Files, value: Any) -> Iterator[tuple[str, Files]]:
    for place, (path, text) in enumerate(files):
        lines = text.splitlines()
        for at, line in enumerate(lines):
            if line.startswith("["):
                changed = "\n".join([*lines[: at + 1], f"{STRANGE}={value}", *lines[at + 1 :]])
                yield f"{path} {line}", [*files[:place], (path, changed), *files[place + 1 :]]
        yield f"{path} [{STRANGE}]", [*files[:place], (path, f"{text}[{STRANGE}]\na={value}\n"), *files[place + 1 :]]


def _without_in_lines(files: Files) -> Iterator[tuple[str, Files]]:
    for place, (path, text) in enumerate(files):
        lines = text.splitlines()
        for at, line in enumerate(lines):
            if "=" in line:
                changed = "\n".join(lines[:at] + lines[at + 1 :])
                yield line.partition("=")[0], [*files[:place], (path, changed), *files[place + 1 :]]


class _Strange(ast.NodeTransformer):
    """Puts it into the dict or call of a number."""

    def __init__(self, place: int, value: Any) -> None:
        self._left, self._value = place, value
        self.where = ""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Dict | ast.Call):
            self._left -= 1
            if self._left == -1:
                self.where = ast.unparse(node)[:60]
                if isinstance(node, ast.Dict):
                    node.keys.append(ast.Constant(STRANGE))
                    node.values.append(ast.Constant(self._value))
                else:
                    node.keywords.append(ast.keyword(STRANGE, ast.Constant(self._value)))
        return self.generic_visit(node)


def _strange_in_python(text: str, value: Any) -> Iterator[tuple[str, str]]:
    for place in range(sum(isinstance(node, ast.Dict | ast.Call) for node in ast.walk(ast.parse(text)))):
        strange = _Strange(place, value)
        changed = ast.fix_missing_locations(strange.visit(ast.parse(text)))
        yield strange.where, ast.unparse(changed)


def _strange_in_calendar(text: str, value: Any) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    within: list[str] = []
    for at, line in enumerate(lines):
        if line.startswith("END:"):
            within.pop()
        elif line.startswith("BEGIN:"):
            within.append(line.removeprefix("BEGIN:"))
            yield ".".join(within), "\n".join([*lines[: at + 1], f"{STRANGE}:{value}", *lines[at + 1 :]])
        elif line.partition(":")[0] in ("DTSTART", "DTEND", "RRULE"):
            name, _, rest = line.partition(":")
            yield line, "\n".join([*lines[:at], f"{name};{STRANGE}={value}:{rest}", *lines[at + 1 :]])


def _strange_in_crontab(text: str, value: Any) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    for at in range(len(lines)):
        yield lines[at], "\n".join([*lines[:at], f"{STRANGE}={value}", *lines[at:]])


def _nothing(content: Any) -> Iterator[tuple[str, Any]]:
    yield from ()


DKRON = {
    "id": "a", "name": "a", "displayname": "Nightly", "schedule": "0 30 2 * * 1-5", "timezone": "Europe/Berlin",
    "owner": "Platform", "owner_email": "p@example.com", "success_count": 3, "error_count": 1, "last_success": "x",
    "last_error": "x", "disabled": True, "tags": {"role": "db:1"}, "metadata": {"office": "Barcelona"}, "retries": 2,
    "dependent_jobs": ["x"], "processors": {"files": {"forward": "true"}}, "concurrency": "forbid",
    "executor": "shell", "status": "success", "next": "2026-11-20T02:30:00Z",
    "executor_config": {"command": "pg_dump -f a", "env": "A=1", "cwd": "/srv", "timeout": "1h30m",
                        "mem_limit_kb": "524288", "shell": "true"},
    "starts_at": "2029-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z", "ephemeral": False,
}  # fmt: skip
DKRON_HTTP = {
    "name": "b", "schedule": "@daily", "executor": "http", "parent_job": "a", "timezone": "Europe/Berlin",
    "executor_config": {"method": "POST", "url": "http://a/", "headers": '["A: b"]', "body": "x", "timeout": "30",
                        "expectCode": "200", "expectBody": "ok", "debug": "true", "tlsNoVerifyPeer": "true"},
}  # fmt: skip
_DKRON_TIMES = {"timezone": "Europe/Berlin", "starts_at": "2029-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z",
                "executor_config": {"command": "a"}}  # fmt: skip
DKRON_OTHERS = [
    {"name": "c", "schedule": "@at 2029-06-01T00:00:00Z", **_DKRON_TIMES},
    {"name": "d", "schedule": "@manually", **_DKRON_TIMES},
    {"name": "e", "schedule": "@every 5m", **_DKRON_TIMES},
    {"name": "f", "schedule": "CRON_TZ=Asia/Tokyo 0 0 2 * * *", **_DKRON_TIMES},
]
KUBERNETES = {
    "apiVersion": "batch/v1", "kind": "CronJob", "status": {"active": []},
    "metadata": {
        "name": "nightly", "namespace": "billing", "uid": "0", "creationTimestamp": None, "generation": 1,
        "resourceVersion": "1", "managedFields": [], "selfLink": "x", "labels": {"app": "billing"},
        "annotations": {"team": "fin"},
    },
    "spec": {
        "schedule": "*/5 2 * * ?", "timeZone": "Europe/Madrid", "startingDeadlineSeconds": 200, "suspend": True,
        "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 0,
        "jobTemplate": {
            "metadata": {"creationTimestamp": None, "labels": {"made": "by"}, "annotations": {"a": "b"}},
            "spec": {
                "backoffLimit": 4, "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 60, "suspend": True,
                "completions": 2, "parallelism": 1, "completionMode": "NonIndexed",
                "podFailurePolicy": {"rules": [{"action": "Ignore"}]}, "successPolicy": {"rules": []},
                "podReplacementPolicy": "Failed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 1,
                "template": {
                    "metadata": {"name": "x", "labels": {"pod": "x"}, "annotations": {"c": "d"}},
                    "spec": {
                        "restartPolicy": "OnFailure", "dnsPolicy": "Default", "terminationGracePeriodSeconds": 20,
                        "activeDeadlineSeconds": 700, "schedulerName": "other", "imagePullSecrets": [{"name": "x"}],
                        "securityContext": {"runAsUser": 1}, "serviceAccountName": "billing",
                        "nodeSelector": {"disk": "ssd"}, "volumes": [{"name": "v", "emptyDir": {"medium": "x"}}],
                        "containers": [{
                            "name": "main", "image": "registry/billing:1", "imagePullPolicy": "IfNotPresent",
                            "command": ["/app/report", "--to"], "args": ["$(TARGET)"], "workingDir": "/srv",
                            "terminationMessagePath": "/x", "terminationMessagePolicy": "x",
                            "env": [{"name": "TARGET", "value": "out"},
                                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
                                    {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                            "envFrom": [{"configMapRef": {"name": "n"}}],
                            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                            "securityContext": {"privileged": True},
                            "resources": {"limits": {"memory": "512Mi", "cpu": "500m"}, "requests": {"cpu": "1"}},
                        }],
                    },
                },
            },
        },
    },
}  # fmt: skip


def _small(name: str, schedule: str) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"command": ["a"]}]}}
    spec = {"schedule": schedule, "timeZone": "Europe/Madrid", "jobTemplate": {"spec": {"template": pod}}}
    return {"kind": "CronJob", "metadata": {"name": name}, "spec": spec}


KUBERNETES_OTHERS = [_small("b", "@every 5m"), _small("c", "CRON_TZ=Asia/Tokyo 0 2 * * *")]
POWERJOB = {
    **test_powerjob.BASE, "lifecycle": {"start": 1_893_456_000_000, "end": 1_924_992_000_000}, "extra": None,
    "designatedWorkers": "w1", "maxWorkerCount": 0, "notifyUserIds": [1], "taskRetryNum": 2, "concurrency": 7,
    "dispatchStrategy": 2, "enable": False, "gmtCreate": 1, "gmtModified": 1, "alarmConfig": None, "logConfig": None,
    "advancedRuntimeConfig": None, "minDiskSpace": 0.0, "dispatchStrategyConfig": None,
}  # fmt: skip
POWERJOB_DAILY = {
    **POWERJOB, "id": 4, "jobName": "daily", "timeExpressionType": 11, "processorType": 1,
    "timeExpression": json.dumps({"interval": 30, "intervalUnit": "MINUTES", "startTimeOfDay": "08:00:00",
                                  "endTimeOfDay": "17:30:00", "daysOfWeek": [1, 7]}),
    "processorInfo": "tech.powerjob.official.processors.impl.HttpProcessor",
    "jobParams": json.dumps({"url": "http://a", "method": "POST", "body": "x", "headers": {"A": "b"}, "timeout": 5,
                             "mediaType": "text/plain"}),
}  # fmt: skip
POWERJOB_API = {"id": 5, "jobName": "api", "timeExpressionType": 1, "timeExpression": "0 0 2 * * ?",
                "processorInfo": "a.B", "lifecycle": {"start": 1_893_456_000_000}}  # fmt: skip
XXL_JOB = {
    **test_xxl_job.BASE, "alarmEmail": "a@example.com", "childJobId": "8", "triggerStatus": 0, "updateTime": "x",
    "executorRouteStrategy": "FIRST", "misfireStrategy": "FIRE_ONCE_NOW", "executorBlockStrategy": "COVER_EARLY",
    "glueRemark": "x", "glueUpdatetime": "x", "triggerLastTime": 1,
}  # fmt: skip
XXL_JOB_NONE = {"id": 9, "executorHandler": "h", "scheduleType": "NONE", "scheduleConf": "0 0 2 * * ?",
                "misfireStrategy": "FIRE_ONCE_NOW"}  # fmt: skip
QUARTZ_ROW = {
    **test_quartz.ROW, "TRIGGER_STATE": "PAUSED", "END_TIME": "1924992000000", "START_TIME": "1893456000000",
    "PRIORITY": "7", "JOB_GROUP": "jobs",
}  # fmt: skip
del QUARTZ_ROW["CALENDAR_NAME"]
QUARTZ_ROW_2 = {"TRIGGER_NAME": "u", "JOB_NAME": "load", "JOB_CLASS_NAME": "L", "CRON_EXPRESSION": "0 0 2 * * ?",
                "CALENDAR_NAME": "c"}  # fmt: skip
_QUARTZ_XML = (
    f"{test_quartz.HEAD}<pre-processing-commands><delete-jobs-in-group>g</delete-jobs-in-group>"
    "</pre-processing-commands><processing-directives><overwrite-existing-data>true</overwrite-existing-data>"
    f"</processing-directives><schedule>{test_quartz.JOB}"
    + test_quartz.trigger(
        "cron",
        "<description>x</description><calendar-name>c</calendar-name><priority>8</priority>"
        "<start-time>2030-01-01T00:00:00</start-time><end-time>2031-01-01T00:00:00</end-time>"
        "<misfire-instruction>MISFIRE_INSTRUCTION_DO_NOTHING</misfire-instruction>"
        "<job-data-map><entry><key>k</key><value>v</value></entry></job-data-map>"
        "<cron-expression>0 0/5 14 ? * 2-6</cron-expression><time-zone>Asia/Tokyo</time-zone>",
    )
    + test_quartz.trigger("simple", "<repeat-count>5</repeat-count><repeat-interval>60000</repeat-interval>", "z")
    + test_quartz.trigger(
        "calendar-interval",
        "<start-time>2030-01-01T00:00:00</start-time><repeat-interval>2</repeat-interval>"
        "<repeat-interval-unit>WEEK</repeat-interval-unit>",
        "y",
    )
    + test_quartz.trigger(
        "simple",
        "<start-time>2030-01-01T00:00:00</start-time><end-time>2031-01-01T00:00:00</end-time>"
        "<misfire-instruction>MISFIRE_INSTRUCTION_FIRE_NOW</misfire-instruction>",
        "x",
    )
    + "</schedule></job-scheduling-data>"
)
QUARTZ_XML = ET.tostring(ET.fromstring(_QUARTZ_XML), encoding="unicode")  # lines as in what is changed of it
BEAT = """
from celery.schedules import crontab, schedule
from datetime import timedelta
app.conf.timezone = 'Europe/Madrid'
beat_schedule = {
    'a': {'task': 'x.y', 'schedule': crontab(minute='*/5', day_of_week='mon-fri'), 'args': (1,), 'kwargs': {'k': 1},
          'options': {'expires': 60, 'queue': 'q', 'priority': 3}},
    'b': {'task': 'z', 'schedule': timedelta(minutes=5)},
    'c': {'task': 'z', 'schedule': schedule(30.0, relative=True)},
}
"""
BEAT_OBJECTS = {
    "a": {"name": "a", "task": "x", "schedule": {"every": 2, "period": "hours"}, "args": [1], "kwargs": {"k": 1},
          "options": {"queue": "q", "expires": 60, "priority": 3}, "relative": True, "enabled": False},
    "b": {"task": "x", "schedule": {"__type__": "crontab", "minute": 5, "hour": 2, "day_of_week": 1,
                                    "day_of_month": 2, "month_of_year": 3, "timezone": "Asia/Tokyo"}},
    "c": {"task": "x", "schedule": {"crontab": {"minute": 1, "hour": 2}}},
    "d": {"task": "x", "schedule": {"minutes": 3, "seconds": 1}},
    "e": {"task": "x", "schedule": {"clocked_time": "2030-01-01T00:00:00Z"}},
    "f": {"task": "x", "schedule": {"run_every": 5, "relative": True}},
}  # fmt: skip
DJANGO = [
    test_celery.SCHEDULES[0], test_celery.SCHEDULES[1],
    test_celery.row("clockedschedule", 1, clocked_time="2030-01-01T00:00:00Z"),
    test_celery.row("periodictask", 7, name="n", task="t", crontab=1, interval=None, solar=None, clocked=None,
                    args="[1]", kwargs='{"a": 1}', queue="q", priority=3, expires="2031-01-01T00:00:00", one_off=True,
                    start_time="2030-01-01T00:00:00Z", enabled=False, description="D", last_run_at=None,
                    total_run_count=1, date_changed="x", headers='{"a": 1}', exchange="e", routing_key="r"),
    test_celery.row("periodictask", 8, name="m", task="t", interval=1, expire_seconds=60, args="[]", kwargs="{}"),
    test_celery.row("periodictask", 9, name="o", task="t", clocked=1, expires="2031-01-01T00:00:00",
                    start_time="2030-01-01T00:00:00Z"),
]  # fmt: skip
UNITS = [
    ("/etc/systemd/system/a.timer",
     "[Unit]\nDescription=T\nDocumentation=man:a\nAfter=network.target\nConditionACPower=true\n"
     "[Timer]\nOnCalendar=Mon 02:30\nOnBootSec=5min\nRandomizedDelaySec=5min\nPersistent=yes\nAccuracySec=1us\n"
     "FixedRandomDelay=no\nRemainAfterElapse=yes\nWakeSystem=no\nUnit=b.service\nOnClockChange=no\n"
     "[Install]\nWantedBy=timers.target\nAlso=c.service\n"),
    ("/etc/systemd/system/b.service",
     "[Unit]\nDescription=S\nDocumentation=man:b\nAfter=network.target\nWants=other.service\nOnFailure=mail.service\n"
     "ConditionPathExists=/x\nDefaultDependencies=no\nStartLimitBurst=3\nStartLimitIntervalSec=1h\n"
     "[Service]\nType=oneshot\nEnvironment=A=b\nEnvironmentFile=-/e\nWorkingDirectory=/srv\nUser=u\nGroup=g\n"
     "ExecStartPre=/p\nExecStart=/x\nExecStartPost=/q\nExecStopPost=/r\nExecCondition=/c\nTimeoutStartSec=5min\n"
     "TimeoutStopSec=2min\nRuntimeMaxSec=1h\nRestart=on-failure\nRestartSec=5\nMemoryMax=5M\nLimitNOFILE=64\n"
     "LimitCPU=5\nStandardOutput=null\nStandardError=null\nSyslogIdentifier=x\nSyslogFacility=x\nSyslogLevel=x\n"
     "KillMode=process\nNice=5\nTasksMax=5\nCPUQuota=5%\nPrivateTmp=no\n"
     "[Install]\nWantedBy=multi-user.target\nAlias=d.service\n"),
]  # fmt: skip
CRONTAB = """SHELL=/bin/bash
HOME=/srv
MAILTO=a@example.com
MAILFROM=b@example.com
CRON_TZ=Europe/Madrid
RANDOM_DELAY=5
START_HOURS_RANGE=3-22
CONTENT_TYPE=text/plain
0 2 * * * -n -q /usr/bin/a
@daily /usr/bin/b
"""
CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VTIMEZONE
TZID:Europe/Madrid
BEGIN:STANDARD
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
DTSTART:20270326
DTEND:20270327
RRULE:FREQ=YEARLY
BEGIN:VALARM
TRIGGER:-PT15M
END:VALARM
END:VEVENT
BEGIN:VEVENT
DTSTART:20270326T090000Z
DTEND:20270327T100000Z
END:VEVENT
END:VCALENDAR
"""

TEXTS = ("x", "false", "")
SAMPLES = {
    "dkron": tree("dkron", [DKRON, DKRON_HTTP, *DKRON_OTHERS], left_whole=frozenset({"processors"}), silent=frozenset({
        "id", "success_count", "error_count", "last_success", "last_error", "dependent_jobs", "status", "next",
        "ephemeral", "forward", "executor"})),
    "kubernetes": tree("kubernetes", [KUBERNETES, *KUBERNETES_OTHERS], left_whole=frozenset({
        "volumes", "volumeMounts", "securityContext", "podFailurePolicy", "successPolicy", "requests",
        "imagePullSecrets", "status", "managedFields"}), silent=frozenset({
        "apiVersion", "status", "uid", "creationTimestamp", "generation", "resourceVersion", "managedFields",
        "selfLink", "imagePullPolicy", "completionMode", "restartPolicy", "name", "activeDeadlineSeconds"})),
    "powerjob": tree("powerjob", {"success": True, "data": [POWERJOB, POWERJOB_DAILY, POWERJOB_API]}, silent=frozenset({
        "success", "timeExpressionType", "executeType", "processorType", "status", "gmtCreate", "gmtModified",
        "nextTriggerTime", "minCpuCores", "minMemorySpace", "minDiskSpace",
        "maxWorkerCount", "extra", "alarmConfig", "logConfig", "advancedRuntimeConfig", "dispatchStrategyConfig"})),
    "xxl-job": tree("xxl-job", {"data": [XXL_JOB, XXL_JOB_NONE]}, silent=frozenset({
        "scheduleType", "glueType", "addTime", "updateTime", "glueRemark", "glueUpdatetime",
        "triggerLastTime", "triggerNextTime", "glueSource"})),
    "quartz tables": tree("quartz", [QUARTZ_ROW, QUARTZ_ROW_2], name="q.json", silent=frozenset({
        "TRIGGER_GROUP", "TRIGGER_TYPE"})),
    "quartz": Sample("quartz", QUARTZ_XML, lambda text: [("jobs.xml", text)], _strange_in_xml, _without_in_xml, TEXTS,
                     frozenset({"delete-jobs-in-group", "overwrite-existing-data"}),
                     frozenset({"durability", "recover"})),
    "apscheduler": tree("apscheduler", test_apscheduler.EXPORT, name="jobs.json", silent=frozenset({
        "apscheduler", "day_of_week", "next_run_time"})),
    "celery": Sample("celery", BEAT, lambda text: [("beat.py", text)], _strange_in_python, _nothing,
                     ("x", "", True, False, 0, None)),
    "celery objects": tree("celery", BEAT_OBJECTS, name="beat.json", silent=frozenset({"name", "__type__"})),
    "celery django": tree("celery", DJANGO, name="dump.json", left_whole=frozenset({"headers"}), silent=frozenset({
        "solar", "clocked", "interval", "day_of_month", "month_of_year", "pk", "args", "kwargs", "last_run_at",
        "total_run_count", "date_changed"})),
    "systemd": Sample("systemd", UNITS, lambda files: files, _strange_in_units, _without_in_lines, ("x", "no", "yes"),
                      silent=frozenset({"WantedBy", "Description"})),
    "crontab": Sample("crontab", CRONTAB, lambda text: [("tab", text)], _strange_in_crontab,
                      lambda text: ((w, f[0][1]) for w, f in _without_in_lines([("tab", text)])), TEXTS),
    "icalendar": Sample("icalendar", CALENDAR, lambda text: [("c.ics", text)], _strange_in_calendar, _nothing, TEXTS,
                        left_whole=frozenset({"VALARM", "VTIMEZONE"})),
}  # fmt: skip
