"""Jobs at random as people write them: every kind of trigger and handler, any of the other fields. They name calendars,
webhooks and secrets that `NAMED` makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

NAMED = {
    "/v1/calendars/holidays": {"dates": ["2030-12-25"]},
    "/v1/webhooks/ops": {"url": "http://127.0.0.1:1/hook"},
    "/v1/namespaces/default/secrets/pw": {"value": "x"},
    "/v1/namespaces/billing/secrets/pw": {"value": "y"},
    "/v1/namespaces/billing": {
        "defaults": {
            "timezone": "Europe/Madrid", "priority": 3, "timeout": "7m", "labels": {"team": "fin"},
            "retry": {"delays": ["3s"]}, "notify": {"on": ["failed"], "webhook": "ops"},
            "placement": {"prefer": {"zone": "a"}}, "overlap": "queue_one",
        }
    },
}  # fmt: skip
_SECRET = {"$secret": "pw"}
_TIMES = ("2040-01-01T00:00:00Z", "2040-06-30T12:30:00.250Z", "2040-01-01T02:00:00+02:00")
_SPANS = ("30s", "5m", "1h30m", "PT1H", "1d", "2w")


def trigger(r: random.Random) -> dict[str, Any]:
    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: {"at": r.choice(_TIMES)},
        lambda: {"in": r.choice(_SPANS)},
        lambda: {"every": r.choice(_SPANS), **_some(r, mode=["fixed_rate", "fixed_delay"])},
        lambda: {"cron": r.choice(["0 5 * * *", "H H * * 1-5", "@daily", "*/20 0 5 L * *", "TZ=UTC 0 1 * * *"])},
        lambda: {"cron": "0 0 12 ? * MON#2", "dialect": "quartz", "timezone": "Asia/Tokyo"},
        lambda: {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", **_some(r, timezone=["Europe/Madrid"])},
    ]
    found = r.choice(kinds)()
    found |= _some(r, jitter=["1s", "250ms"])
    if "at" not in found and "in" not in found:
        found |= _some(r, starts_at=_TIMES, ends_at=["2050-01-01T00:00:00Z"])
        if found.get("mode") != "fixed_delay" and r.random() < 0.3:
            found |= {"calendar": "holidays", **_some(r, calendar_action=["skip", "move"])}
    return found


def body(r: random.Random, name: str) -> dict[str, Any]:
    """Returns one that may be refused for what does not go together."""
    found: dict[str, Any] = {"name": name, "namespace": r.choice(["default", "default", "billing"])}
    way = r.random()
    if way < 0.2:
        found["triggers"] = [{**trigger(r), "id": f"t{number}"} for number in range(r.choice([1, 2, 3]))]
        found |= _some(r, max_runs=[1, 5])
    elif way < 0.3:
        found["trigger"] = r.choice(
            [{"manual": True}, {"after": {"job": "default/first"}, "max_runs": 3},
             {"after": {"all_of": ["default/first", "billing/second"], "on": "ended", "pass": "result"}}]
        )  # fmt: skip
    else:
        found["trigger"] = trigger(r)
    found["handler"] = _handler(r)
    found |= _some(
        r, 0.15,
        params=[{}, {"a": [1, None, {"b": 2.5}], "c": _SECRET}, {"t": "é\u2028"}],
        description=["Says what it is for.\nIn two lines: yes, no, 012, ~"],
        owner=["ana"], priority=[0, 5, 9], queue=["slow", "default"], timeout=["10m", "1h", "600s"],
        grace=["10s", "30s"],
        user=["nobody"], delivery=["at_least_once", "at_most_once"], max_lost=[0, 3], suspend_after=[2],
        retry=[{"delays": ["1s", "PT5M"]}, {"exponential": {"first": "2s"}, "jitter_percent": 10}, {"delays": []},
               {"delays": ["1s"], "on": ["failed"]}],
        outcomes=[{"exit": {"3": "succeed", "75-79": "snooze 5m"}, "status": {"404": "cancel"}}],
        overlap=["allow", "forbid", "queue_all", "queue_one", "replace"],
        misfire=[{"policy": "skip"}, {"policy": "once", "grace": "1m"}, {"grace": "5m"}],
        max_concurrency=[1, 2],
        concurrency=[{"key": "{params.t}", "max": 2}, {"key": "k", "rate": {"count": 3, "per": "1m"}}],
        conditions=[[{"path": "/data/*.csv"}, {"http": "http://h/", "status": 204}],
                    [{"job_succeeded": "default/first", "within": "1h"}]],
        conditions_timeout=["5m"], expires=["1h"], labels=[{}, {"team": "ops", "on": "yes"}],
        placement=[{"on": "all"}, {"shards": 3}, {"prefer": {"zone": "b"}, "labels": {"disk": "ssd"}}, {}],
        notify=[{"on": ["failed"], "webhook": "ops"}, [{"on": ["late"], "webhook": "ops", "late_by": "5m"}], []],
        retention=[{"succeeded": 5}, {"max_age": "1d"}], suspended=[True, False],
    )  # fmt: skip
    return found


def _handler(r: random.Random) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"exec": ["echo", "a b", ""]},
        {"shell": "echo $A && true"},
        {"python": "a.b:c", **_some(r, fresh=[True, False])},
        {"call": "report"},
        {"http": {"url": "http://h/x?y=%20", **_some(
            r, method=["POST", "GET"], headers=[{"X-A": "b", "Authorization": _SECRET}], body=["{}", _SECRET],
            expected_status=[[200, 302]])}},
    ]  # fmt: skip
    found = r.choice(kinds)
    if "http" not in found:
        found |= _some(r, env=[{"A": "b", "P": _SECRET}], cwd=["/tmp"], limits=[{"memory": "1GiB"}, {"cpu": "30s"}, {}])
    return {**found, **_some(r, template=[True, False])}


def _some(r: random.Random, likely: float = 0.3, **fields: Any) -> dict[str, Any]:
    return {name: r.choice(values) for name, values in fields.items() if r.random() < likely}
