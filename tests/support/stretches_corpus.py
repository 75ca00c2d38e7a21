"""What is known to be dear: texts of each format, things to ask about, and bodies of single operations."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from raftsched.surface.worker_sessions import FRAMES

Made = tuple[str, bytes | None, str]  # the query, the body and its type; empty: the operation's

TRUE = {"exec": ["true"]}
EVERY_MINUTE = "0," + ",".join(map(str, range(1, 60)))
RULE = "FREQ=SECONDLY;INTERVAL=86399;BYMINUTE={};COUNT=999999999"
NEVER = "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"

WORDS: dict[str, list[str]] = {
    "cron": [f"{EVERY_MINUTE} {','.join(map(str, range(24)))} 29 2 *", "0 0 31 2 *", "* * * * *", "H H * * *"],
    "rrule": [
        RULE.format(7),
        "FREQ=SECONDLY",
        NEVER,
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;COUNT=9999",
        f"FREQ=YEARLY;BYYEARDAY={','.join(map(str, range(1, 367)))};BYSETPOS=-366",
    ],
    "iana-time-zone": ["UTC", "Europe/Madrid", "Australia/Lord_Howe", "America/New_York"],
    "date-time": ["1971-01-01T00:00:00Z", "2099-12-31T23:59:59Z", "2030-01-01T00:00:00Z"],
    "time-span": ["1s", "365d", "1h"],
    "http-url": ["http://example.com/" + "a" * 1_900],
    "key-template": ["{params.a}" * 8, "x" * 100],
    "memory-size": ["1GiB"],
    "month-day": ["02-29"],
    "calendar-date": ["2030-01-01", "2099-12-31"],
    "whole-seconds": ["1s", "1h"],
    "webhook-timeout": ["10s"],
    "rate-period": ["1m"],
    "outcome-of-exit": ["retry", "snooze 5m"],
    "outcome-of-status": ["retry", "snooze 5m"],
    "prefix": [""],
    "q": ["a" * 200, "aaaaaaaab"],
    "label": ["k1=v", "a=" + "b" * 60],
    "limit": ["1000"],
    "fields": ["id,name,next_fire_at"],
    "step": ["1m"],
    "job": ["default/job-0"],
    "namespace": ["default"],
}

_jobs = [
    {
        "name": f"job-{number}",
        "trigger": {"cron": f"{number % 60} {number % 24} * * *"},
        "handler": TRUE,
        "owner": "ana",
        "labels": {f"k{n}": "v" for n in range(number % 16)},
        "params": {"text": "x" * (number % 400)},
    }
    for number in range(3_000)
]
_followers = [
    {"name": f"after-{n}", "trigger": {"after": {"any_of": [f"job-{n + k}" for k in range(16)]}}, "handler": TRUE}
    for n in range(150)
]
_several = [
    {
        "name": f"several-{n}",
        "triggers": [{"id": f"t{k}", "cron": f"{k} {n % 24} * * *", "timezone": "Europe/Madrid"} for k in range(16)],
        "handler": TRUE,
    }
    for n in range(60)
]
KNOWN: list[tuple[str, str, Any]] = [
    ("POST", "/v1/jobs:batch", _jobs),
    ("POST", "/v1/jobs:batch", _followers),
    ("POST", "/v1/jobs:batch", _several),
    (
        "PUT",
        "/v1/calendars/holidays",
        {"timezone": "Europe/Madrid", "dates": ["2030-12-25"], "hours": [{"from": "22:00", "to": "06:00"}]},
    ),
    ("POST", "/v1/jobs:actions", {"action": "run", "filter": {"owner": "ana"}}),
]


def _of(body: Any, query: str = "", media: str = "") -> Made:
    return query, body if isinstance(body, bytes) else json.dumps(body).encode(), media


def _rules(chosen: random.Random, text: str = RULE) -> list[dict[str, Any]]:
    return [
        {"id": f"t{n}", "rrule": text.format(chosen.randrange(60)), "starts_at": "1971-01-01T00:00:00Z"}
        for n in range(16)
    ]


def _job(chosen: random.Random, **fields: Any) -> dict[str, Any]:
    return {"name": f"n{chosen.getrandbits(60):x}", "trigger": {"in": "30m"}, "handler": TRUE, **fields}


def _deep(levels: int = 10_000) -> bytes:
    return b'{"trigger": {"in": "1h"}, "handler": {"exec": ["true"]}, "params": {"a": %s1%s}}' % (
        b"[" * levels,
        b"]" * levels,
    )


def _wide(keys: int = 4_000) -> dict[str, Any]:
    return {"trigger": {"in": "1h"}, "handler": TRUE, **{f"field{n}": n for n in range(keys)}}


def _crontab(line: str, count: int = 2_000) -> dict[str, Any]:
    return {"text": (line + "\n") * min(count, 128 * 1024 // (len(line) + 1))}


def _reports(more: bytes, count: int = 1) -> Made:
    return _of(b'{"reports":[' + b",".join([b'{"token":1,' + more + b"}"] * count) + b"]}")


def _query(**given: Any) -> Callable[[random.Random], Made]:
    return lambda _: (urlencode(given, doseq=True), None, "")


JOB_BODIES: list[Callable[[random.Random], Made]] = [
    lambda r: _of(_job(r, trigger={"rrule": RULE.format(r.randrange(60)), "starts_at": "1971-01-01T00:00:00Z"})),
    lambda r: _of({"triggers": _rules(r), "handler": TRUE}),
    lambda r: _of({"triggers": _rules(r, NEVER + ";BYSECOND={}"), "handler": TRUE}),
    lambda r: _of({"triggers": [{"rrule": t["rrule"]} for t in _rules(r)], "handler": TRUE}),  # without ids
    lambda r: _of(_deep()),
    lambda r: _of(_deep(60)),
    lambda r: _of(_wide()),
    lambda r: _of(_job(r, params={f"k{n}": n for n in range(2_500)})),
    lambda r: _of(_job(r, params={"a": "\\" * 15_000})),
    lambda r: _of(_job(r, labels={f"k{n}": "v" * 60 for n in range(64)})),
    lambda r: _of(_job(r, handler={"exec": ["{{params.a}}" * 500], "template": True}, params={"a": "{{params.a}}"})),
    lambda r: _of(b'{"trigger": {"in": "1h"}, ' + b'"a": 1, ' * 7_000 + b'"a": 2}'),  # a key that is given twice
    lambda r: _of(b'{"params": {"a": 1' + b"0" * 60_000 + b"}}"),
    lambda r: _of(b'{"params": "' + b"\\ud800" * 10_000 + b'"}'),
]
DEAR: dict[str, list[Callable[[random.Random], Made]]] = {
    "jobs_create": JOB_BODIES,
    "checking_check_new": JOB_BODIES,
    "jobs_put": JOB_BODIES[:4],
    "jobs_patch": [lambda r: _of({"trigger": None, "triggers": _rules(r)}), lambda r: _of(_wide())],
    "checking_check_change": [lambda r: _of({"trigger": None, "triggers": _rules(r)})],
    "schedules_preview": [
        lambda r: _of({"triggers": _rules(r), "count": 1_000}),
        lambda r: _of({"trigger": {"rrule": RULE.format(r.randrange(60))}, "count": 1_000, "by_day": "Europe/Madrid"}),
        lambda r: _of({"trigger": {"cron": "0 0 29 2 *"}, "count": 1_000, "by_day": "UTC"}),
        lambda r: _of({"trigger": {"cron": "* * * * *"}, "count": 1_000, "by_day": "Australia/Lord_Howe"}),
        lambda r: _of({"trigger": {"every": "1s", "calendar": "holidays"}, "count": 1_000, "by_day": "UTC"}),
    ],
    "batch_create_batch": [
        lambda r: _of([_job(r) for _ in range(10_000)]),
        lambda r: _of([_job(r, trigger={"cron": f"{n % 60} 1 * * *"}) for n in range(1_000)]),
        lambda r: _of([_job(r, trigger={"rrule": NEVER + f";BYSECOND={n % 60}"}) for n in range(1_000)]),
        lambda r: _of([{"triggers": _rules(r), "handler": TRUE} for _ in range(12)]),
        lambda r: _of(b"[" + b"0," * 8_000_000 + b"0]"),
        lambda r: _of(b"[" + b"[" * 8_000_000),
        lambda r: _of(b"[{" + b'"a":0,' * 2_500_000 + b'"a":0}]'),
        lambda r: _of(b"\n" * 16_000_000, media="application/x-ndjson"),
        lambda r: _of(b"0\n" * 8_000_000, media="application/x-ndjson"),
        lambda r: _of([_job(r, params={"text": "x" * 1_500}) for _ in range(9_000)]),
        lambda r: _of([{"a": 1, "b": 2, "trigger": 7} for _ in range(10_000)]),
    ],
    "crontabs_convert": [
        lambda r: _of(_crontab("0 2 * * * x")),
        lambda r: _of(_crontab(f"{EVERY_MINUTE} 2 29 2 * x")),
        lambda r: _of(_crontab("0 0 31 2 * x")),
        lambda r: _of({"text": "\n".join(f"V{n}={'y' * 400}" for n in range(200)) + "\n0 2 * * * x" * 1_800}),
        lambda r: _of({"text": "x" * 128 * 1024}),
        lambda r: _of({"text": "\n" * 128 * 1024}),
        lambda r: _of({"text": "% " * 60 * 1024}),
    ],
    "calendars_put": [
        lambda r: _of(
            {
                "timezone": "UTC",
                "dates": [f"20{30 + n // 336}-{n // 28 % 12 + 1:02}-{n % 28 + 1:02}" for n in range(1_000)],
            }
        ),
        lambda r: _of({"hours": [{"from": "00:00", "to": "23:59"}] * 100}),
    ],
    "jobs_list_list_jobs": [
        _query(limit=1_000),
        _query(limit=1_000, label="k3=v"),
        _query(limit=1_000, name_prefix="j", namespace="default"),
        _query(limit=1_000, name_contains="zzz", owner="ana"),
        _query(limit=1_000, state="SUSPENDED,SCHEDULED", owner="nobody"),
        _query(limit=1_000, next_to="2099-01-01T00:00:00Z"),
        _query(limit=1_000, fields="id,name,trigger,next_fire_at"),
    ],
    "operations_act": [
        lambda r: _of({"action": "pause", "all": True, "dry_run": True}),
        lambda r: _of({"action": "run", "filter": {"labels": {"k1": "w"}}, "dry_run": True}),
        lambda r: _of({"action": "run", "ids": [f"{n:013d}" for n in range(1_000)], "dry_run": True}),
    ],
    "operations_delete_matching": [_query(dry_run="true", all="true"), _query(dry_run="true", owner="ana")],
    "jobs_graph": [_query(), _query(namespace="default"), _query(job="default/job-20")],
    "forecast_get": [
        _query(),
        _query(**{"for": "60d", "step": "1h"}),
        _query(namespace="default", **{"for": "24h", "step": "1m"}),
    ],
    "stats_of_all": [_query(owner="ana"), _query(namespace="default")],
    "now_get": [_query()],
    "recent_get": [_query(jobs=",".join(f"{n:013d}" for n in range(100)))],
    "instances_search": [_query(q="a" * 200, ignore_case="true")],
    "instances_list_all": [_query(limit=1_000)],
    "schedules_next_of_job": [
        _query(count=1_000, by_day="Europe/Madrid"),
        _query(count=1_000, **{"from": "2099-01-01T00:00:00Z"}),
    ],
    "worker_sessions_poll": [
        lambda r: _reports(b'"result":[' + b'{"a":[]},' * 460_000 + b"1]"),
        lambda r: _reports(b'"state":[' + b'{"a":[]},' * 460_000 + b"1]"),
        lambda r: _reports(b'"result":[' + b'{"a":[]},' * 43_000 + b"1]"),
        lambda r: _reports(b'"result":[' + b'"",' * 130_000 + b"1]"),
        lambda r: _reports(b'"result":' + b"[" * 190_000 + b"]" * 190_000),
        lambda r: _reports(b'"result":' + b"[" * 900 + b"1," * 190_000 + b"1" + b"]" * 900),
        lambda r: _reports(b'"result":[' + b'{"a":[]},' * 7_000 + b"1]", 60),
        lambda r: _reports(b'"result":[' + b'{"a":0,"a":[]},' * 4_000 + b"1]", 60),
        lambda r: _reports(b'"result":[' + b'{"a":[]},' * 440 + b"1]", 1_000),
        lambda r: _reports(b'"text":""', 180_000),
        lambda r: _of(b'{"reports":[' + b"0," * 2_000_000 + b"0]}"),
        lambda r: _of(b'{"killing":[' + b"1," * 2_000_000 + b"1]}"),
        lambda r: _of(b"[" * 4_000_000),
        lambda r: _of(b"{" + b'"a":0,' * 690_000 + b'"a":0}'),
    ],
    "worker_sessions_close": [
        lambda r: _of(b'{"ran":[' + b"1," * 260_000 + b"1]}"),
        lambda r: _of(b'{"ran":[' + b"[]," * 170_000 + b"[]]}"),
    ],
    "worker_output_put": [
        lambda r: ("offset=0", b"\1\1\0\0\0a" * 170_000, FRAMES),
        lambda r: ("offset=0", b"\1\1\0\0\0a\2\1\0\0\0b" * 85_000, FRAMES),
        lambda r: ("offset=0", b"\1\0\0\0\0" * 200_000, FRAMES),
        lambda r: ("offset=0", b"\3\x08\0\0\0\1\0\0\0\0\0\0\0" * 80_000, FRAMES),
        lambda r: ("offset=0", b"a" * 1_000_000, ""),
    ],
    "documents_openapi": [_query()],
    "documents_page": [_query()],
    "health_metrics": [_query()],
}
