"""What OpenAPI cannot say of the API, for schemathesis (loaded by it; see scripts/fuzz_api.py): what strings of its
formats look like, and which fields have to agree with each other."""

from __future__ import annotations

import os
from datetime import UTC
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import ServerError

from scripts.trials import fuzz_report  # noqa: F401: what it registers

CRONS = ["* * * * *", "0 2 * * 1-5", "@daily", "*/15 * * * *", "0 0 1 1 *", "H H * * *", "30 0 2 * * *", "0 9 * * MON"]
RULES = [
    "FREQ=DAILY",
    "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH",
    "FREQ=HOURLY;INTERVAL=5",
]
ZONES = ["UTC", "Europe/Madrid", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"]

spans = st.one_of(
    st.sampled_from(["30s", "5m", "1h30m", "1d", "PT5M", "PT12H"]),
    st.integers(1, 86_400).map(lambda s: f"{s}s"),
    st.integers(1, 20).map(lambda h: f"{h}h15m"),
)
times = st.datetimes(timezones=st.just(UTC)).filter(lambda t: 1971 <= t.year <= 2090)

schemathesis.openapi.format("cron", st.sampled_from(CRONS))
schemathesis.openapi.format("rrule", st.sampled_from(RULES))
schemathesis.openapi.format("iana-time-zone", st.sampled_from(ZONES))
schemathesis.openapi.format("time-span", spans)
schemathesis.openapi.format("whole-seconds", st.integers(1, 10_000).map(lambda s: f"{s}s"))
schemathesis.openapi.format("rate-period", st.integers(1, 86_400).map(lambda s: f"{s}s"))
schemathesis.openapi.format("memory-size", st.integers(4, 4096).map(lambda m: f"{m}MiB"))
schemathesis.openapi.format("http-url", st.integers(1, 65535).map(lambda p: f"http://127.0.0.1:{p}/hook"))
schemathesis.openapi.format("date-time", times.map(lambda t: t.isoformat().replace("+00:00", "Z")))

BY_FILTER = ("DELETE /v1/jobs", "DELETE /v1/dead-letters")  # that have to be told in one way what is meant
PAIRS = (
    *(("from", "to"), ("created_from", "created_to"), ("next_from", "next_to"), ("starts_at", "ends_at")),
    *(("first", "max"), ("delays", "exponential"), ("tail", "offset")),
)


def _agree(value: Any) -> Any:
    """Without the second of two that exclude each other, or may be in the wrong order."""
    if isinstance(value, list):
        return [_agree(one) for one in value]
    if not isinstance(value, dict):
        return value
    agreed = {key: _agree(one) for key, one in value.items()}
    if isinstance(agreed.get("name"), str) and isinstance(agreed.get("name_prefix"), str):
        del agreed["name_prefix"]
    for low, high in PAIRS:
        if low in agreed and _sound(agreed[low]) and high in agreed and _sound(agreed[high]):
            del agreed[high]
    return agreed


def _sound(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and bool(value))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """What is changed here is looked at anew by schemathesis: whether it is well-formed decides what it may be answered."""
    if isinstance(case.body, dict | list):
        body = _body(case.operation.label, _agree(case.body))
        if body != case.body:
            case.body = body
    if isinstance(case.query, dict):
        query = _query(case.operation.label, _agree(case.query))
        if query != case.query:
            case.query = query


def _body(label: str, body: Any) -> Any:
    """A cursor is none of those that were answered; where the address names the job, its body says no other name."""
    if not isinstance(body, dict):
        return body
    unfit = ["cursor", *(["name", "namespace"] if "{name}" in label else [])]
    return {key: value for key, value in body.items() if key not in unfit or not isinstance(value, str)}


def _query(label: str, query: dict[str, Any]) -> dict[str, Any]:
    """A cursor is none of those that were answered. An index that is not there yet would be waited for, five seconds
    each time, and then 503 is right: this node may be behind."""
    if isinstance(query.get("cursor"), str) and query["cursor"]:
        del query["cursor"]
    if label in BY_FILTER:
        chosen = {name: query.pop(name) for name in ("ids", "all") if name in query}
        if not any(name not in ("dry_run",) for name in query):
            query |= {"ids": chosen["ids"]} if chosen.get("ids") else {"all": "true"}
    index = query.get("min_index")
    if str(index).isascii() and str(index).isdigit() and 1 < int(index) <= 2**53:
        query["min_index"] = 1
    return query


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """While leaders are killed, 503 and 504 are answers like others; that they are as described is checked apart."""
    between_leaders = bool(os.environ.get("FUZZ_KILLS")) and response.status_code in (503, 504)
    return not (between_leaders and isinstance(failure, ServerError))
