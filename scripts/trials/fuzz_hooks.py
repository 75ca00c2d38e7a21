"""What OpenAPI cannot say of the API, for schemathesis (loaded by it; see scripts/fuzz_api.py): what strings of its
formats look like, which fields have to agree with each other, and which ids there are."""

from __future__ import annotations

import hashlib
import os
import re
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date
from typing import Any
from zoneinfo import available_timezones

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import AcceptedNegativeData, ServerError
from schemathesis.core.parameters import ParameterLocation
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

from raftsched.api.http.durations import parse_time
from raftsched.api.openapi import patterns
from raftsched.api.runs.output_copies import COPY
from raftsched.core.access import ANONYMOUS
from raftsched.core.limits import BOOT_ID_MAX
from raftsched.quantities import parse_duration, parse_size
from scripts.trials.fuzz_pool import Pool
from scripts.trials.fuzz_report import CALLS

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
schemathesis.openapi.format("calendar-date", st.dates(date(1971, 1, 1), date(2098, 12, 31)).map(date.isoformat))
schemathesis.openapi.format("month-day", st.dates().map(lambda day: day.isoformat()[5:]))
schemathesis.openapi.format("iana-time-zone", st.sampled_from(ZONES))
schemathesis.openapi.format("time-span", spans)
schemathesis.openapi.format("whole-seconds", st.integers(1, 10_000).map(lambda s: f"{s}s"))
schemathesis.openapi.format("rate-period", st.integers(1, 86_400).map(lambda s: f"{s}s"))
schemathesis.openapi.format("key-template", st.sampled_from(["all", "{job}", "k:{job}/1", "mail server"]))
outcomes = st.sampled_from(["succeed", "retry", "fail", "cancel", "snooze 5m"])
schemathesis.openapi.format("outcome-of-exit", outcomes)
schemathesis.openapi.format("outcome-of-status", outcomes | st.just("snooze"))
schemathesis.openapi.format("memory-size", st.integers(4, 4096).map(lambda m: f"{m}MiB"))
schemathesis.openapi.format("http-url", st.integers(1, 65535).map(lambda p: f"http://127.0.0.1:{p}/hook"))
schemathesis.openapi.format("webhook-timeout", st.integers(1, 300).map(lambda s: f"{s}s"))
secrets = st.binary(min_size=24, max_size=64).map(lambda raw: "whsec_" + b64encode(raw).decode())
schemathesis.openapi.format("webhook-secret", secrets)
schemathesis.openapi.format("date-time", times.map(lambda t: t.isoformat().replace("+00:00", "Z")))
schemathesis.openapi.format("revision-tag", st.sampled_from(["*", *(f'"{n}"' for n in range(1, 9))]))

schemathesis.serializer.alias(COPY, "application/octet-stream")

BY_FILTER = ("DELETE /v1/jobs", "DELETE /v1/dead-letters")  # that have to be told in one way what is meant
TIMES = (("from", "to"), ("created_from", "created_to"), ("next_from", "next_to"), ("starts_at", "ends_at"))
ENDS = (("tail", "offset"), ("tail", "tail_bytes"), ("tail", "limit_bytes"))
OFFSETS = (("tail_bytes", "offset"), ("tail_bytes", "limit_bytes"))
PAIRS = (*TIMES, ("to", "for"), ("until", "for"), ("delays", "exponential"), *ENDS, *OFFSETS, ("by_day", "to"))
NO_FAILURES = {
    ("DELETE /v1/jobs/{id}/state", UseAfterFree): "the state is EXPIRED then, and can be read as any other",
    ("DELETE /v1/namespaces/{ns}/jobs/{name}/state", UseAfterFree): "the same",
    ("DELETE /v1/instances/{id}", UseAfterFree): "it is cancelled, and can be read as any other",
    ("DELETE /v1/tokens/{id}", UseAfterFree): "a revoked token is kept for a while, to be seen as such",
    ("POST /v1/jobs:batch", AcceptedNegativeData): "each job of a batch has a result of its own, with its own status",
}
_KEY = re.compile(r"[\x21-\x7e]{1,255}")

KEPT = frozenset(os.environ.get("FUZZ_KEPT", "").split(","))  # ids of the tokens that requests are sent with
POOL = Pool()


def _agree(value: Any) -> Any:
    """Without the second of two that exclude each other, or may be in the wrong order."""
    if isinstance(value, list):
        return [_agree(one) for one in value]
    if not isinstance(value, dict):
        return value
    agreed = {key: _agree(one) for key, one in value.items()}
    if isinstance(agreed.get("name"), str) and isinstance(agreed.get("name_prefix"), str):
        del agreed["name_prefix"]
    if isinstance(agreed.get("first"), str):
        agreed["max"] = agreed["first"]  # which is not below it, as the default might be
    for low, high in PAIRS:
        sound = _is_time if (low, high) in TIMES else _sound
        if low in agreed and sound(agreed[low]) and high in agreed and sound(agreed[high]):
            del agreed[high]
    return agreed


def _known(value: Any) -> Any:
    """A job names webhooks and calendars that there are, if any, and no secret; nor do defaults of namespaces."""
    if not isinstance(value, dict):
        return value
    known = {key: _told(one) if key in ("handler", "params") else one for key, one in value.items()}
    if isinstance(value.get("defaults"), dict):
        known["defaults"] = {key: one for key, one in value["defaults"].items() if key != "notify"}
    if isinstance(value.get("notify"), dict | list):
        webhook = POOL.newest("webhooks")
        known["notify"] = None if webhook is None else [{"webhook": webhook, "on": ["failed"]}]
    if isinstance(value.get("trigger"), dict) and isinstance(value["trigger"].get("calendar"), str):
        known["trigger"] = {**value["trigger"], "calendar": POOL.newest("calendars")}
    return known


def _told(value: Any) -> Any:
    """With a text in place of each reference to a secret, which is hardly there; braces at random are no templates."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key != "template" or one is not True}
        return "told" if "$secret" in value else {key: _told(one) for key, one in kept.items()}
    return [_told(one) for one in value] if isinstance(value, list) else value


def _is_time(value: Any) -> bool:
    """A time, or a day of a calendar. What is neither is to be refused, and so has to be sent."""
    for read in (parse_time, date.fromisoformat):
        with suppress(TypeError, ValueError, AttributeError):
            read(value)
            return True
    return False


def _sound(value: Any) -> bool:
    return isinstance(value, list | dict | int) or (isinstance(value, str) and bool(value))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """What is changed here is looked at anew by schemathesis: is it well-formed or not?"""
    if isinstance(case.body, dict | list):
        body = _body(case.operation.label, _agree(case.body))
        if case.meta is not None and not case.meta.is_negative_at(ParameterLocation.BODY):
            body = [_known(one) for one in body] if isinstance(body, list) else _known(body)
        if body != case.body:
            case.body = body
    if isinstance(case.query, dict):
        query = _query(case.operation.label, _agree(case.query))
        if query != case.query:
            case.query = query
    if case.headers and _is_index(case.headers.get("Last-Event-ID")):
        case.headers["Last-Event-ID"] = "1"
    POOL.put_in(case)
    if case.operation.label == "DELETE /v1/tokens/{id}" and (case.path_parameters or {}).get("id") in KEPT:
        case.path_parameters = {"id": "0000000000000"}  # nothing would be known of the rest of the requests
    POOL.take_conditions(case)
    key = case.headers.get("Idempotency-Key") if case.headers else None
    if isinstance(key, str) and _KEY.fullmatch(key):
        # One key means one request: it is the same one again only when the whole request is.
        others = sorted((name, value) for name, value in case.headers.items() if name != "Idempotency-Key")
        said = repr((case.method, case.path, case.path_parameters, dict(case.query or {}), case.body, others))
        digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        case.headers = type(case.headers)(dict(case.headers) | {"Idempotency-Key": f"{key[:200]}-{digest}"})


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    CALLS.add(case.operation.label, response.status_code)
    POOL.take_out(response)


def _body(label: str, body: Any) -> Any:
    """A cursor is none of those that were answered; where the address names the job, its body says no other name or
    namespace."""
    if not isinstance(body, dict):
        return body
    unfit = {"cursor", *(("name",) if "{name}" in label or "{ns}" in label else ())}
    unfit |= {"namespace"} if "/jobs/{" in label else set()
    if label == "PUT /v1/cluster/access" and body.get("required") is True:
        body = {key: value for key, value in body.items() if key != "admin"}  # all that follows would want a token
    return {key: value for key, value in body.items() if key not in unfit or not isinstance(value, str)}


def _query(label: str, query: dict[str, Any]) -> dict[str, Any]:
    """A cursor is none of those that were answered. An index that is not there yet would be waited for, five seconds
    each time, and then 503 is right: this node may be behind. Parts are asked for by their parent alone."""
    if isinstance(query.get("cursor"), str) and query["cursor"]:
        del query["cursor"]
    if isinstance(query.get("parent"), str) and query["parent"]:
        query = {name: value for name, value in query.items() if name not in ("job", "namespace", "from", "to")}
    if query.get("follow", "true" if label in ("GET /v1/events", "GET /v1/changes") else None) == "true":
        query["follow"] = "false"  # it might never end
    if label in BY_FILTER:
        chosen = {name: query.pop(name) for name in ("ids", "all") if name in query}
        if not any(name not in ("dry_run",) for name in query):
            query |= {"ids": chosen["ids"]} if chosen.get("ids") else {"all": "true"}
    whole = label == "GET /v1/cluster/log"  # elsewhere it may be the id of an event, which has a part behind a dot
    if _is_index(query.get("after"), 2**53 if whole else 10**18) and not (whole and "." in str(query["after"])):
        query["after"] = "1"
    if _is_index(query.get("min_index"), 2**53):
        query["min_index"] = 1
    return query


def _is_index(value: Any, most: int = 10**18) -> bool:
    if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", str(value), re.ASCII):
        return False  # malformed, and to be refused as such
    whole = str(value).partition(".")[0]
    return whole.isascii() and whole.isdigit() and 1 < int(whole) <= most


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """False for what is none. While leaders are killed, 503 and 504 are answers like others; that they are as described
    is checked apart. And bounds of durations, and what the clock says, are no part of a schema."""
    if (failure.operation, type(failure)) in NO_FAILURES:
        return False
    if isinstance(failure, ServerError):
        return not (os.environ.get("FUZZ_KILLS") and response.status_code in (503, 504))
    if isinstance(failure, AcceptedNegativeData) and _takes_away(case, failure):
        return False
    if isinstance(failure, RejectedPositiveData) and response.status_code in (400, 422):
        errors = response.json().get("errors", [])
        return not (errors and all(_is_beyond_schemas(case, error) for error in errors))
    return True


_BOUNDS = re.compile(r"must be from (\w+) to (\w+)")
_SIZES = re.compile(r"must lie between (\w+) and (\w+)")
_SHORTEST = re.compile(r"the shortest is (\w+)")
_LONGEST = re.compile(r"at most (\w+)")
_STEPS = re.compile(r"makes ([\d,]+) steps; the limit is ([\d,]+)")
_TIMES = re.compile(r"have ([\d,]+) times between them; at most ([\d,]+) are allowed")


_SAME_CODES = re.compile(r"has codes that (\S+) has too")
_PUT_OFF = re.compile(r"is put off by (.+); (\w+) to (\w+) is allowed")
_NO_NULL = re.compile(r"Invalid component: in body - (.+): Incorrect type")


def _always(_: Any) -> bool:
    return True


# What fields say of each other, and what the thing that is changed says: pointer, words of the answer, and what has to
# hold of the body that was sent.
_AGREEMENTS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    (".*", "is not declared, which it has to be", _always),  # a setting says so
    (".*", "has no meaning for a job that is due once", _always),  # its trigger, which may be that of the job as it is
    ("/user|/outcomes/exit", "has no meaning with http", _always),  # its handler, which may be that of the job as it is
    (".*/headers", "has a header twice", _always),  # but for their case
    ("/outcomes/status", "is for http alone", _always),
    (
        "/outcomes",
        "entries; that is the limit",
        lambda body: all(body["outcomes"].get(at) for at in ("exit", "status")),
    ),
    ("/trigger", "is missing", lambda body: body.get("trigger") is None and not body.get("triggers")),
    (r"/triggers/\d+/id", "is that of an earlier trigger", lambda body: _repeats(body["triggers"])),
    (r"/conditions/\d+/job_\w+", "would never run", _always),  # other jobs that there are say so
    (".*", 'goes with "pause" only', lambda body: body.get("action") != "pause"),
    ("/max_runs", "goes with triggers", lambda body: not body.get("triggers")),
    (".*/to", "is the same as from", _always),  # hours that begin and end at one time of day
    (".*", "goes with a rate", lambda body: body.get("rate") is None),
    ("/placement/(on|shards)", "does not go with", _always),  # the other of them, or a path among the conditions
    (".*", 'goes with the role "worker"', lambda body: body["role"] != "worker"),
    ("/name", "stands for nobody", lambda body: body["name"] == ANONYMOUS),
    (".*", "a worker's token is for workers only", lambda body: body["role"] == "worker"),
    (r"/allowed|/users/\d+", "", _always),  # rules and users have forms of their own
    ("/incarnation", "", lambda body: len(body["incarnation"].encode()) > BOOT_ID_MAX),  # bytes
    (".*", "a grant can only add", lambda body: len(body["grants"]) > 0),  # to the role
    (".*", "say one role for each namespace", lambda body: len(body["grants"]) > 0),
    ("/keep", "", _always),
    ("/admin", "required: true", _always),
    (".*", "an admin is one everywhere", _always),  # the role beside it says so
    (".*", "an admin can make tokens for all namespaces", _always),
    ("/url", "is missing", lambda body: body.get("url") is None),  # the kind may be that of the webhook as it is
    ("/url", "goes with other kinds", _always),
    ("/secret", 'goes with the kind "webhook"', _always),
    ("/smtp", 'goes with the kind "email"', lambda body: body.get("kind") != "email"),
    ("/smtp", "is missing", lambda body: body.get("smtp") is None),
    ("/smtp/(user|password)", "go together", _always),
    ("/smtp/user", "is hidden", lambda body: body["smtp"]["user"] == "***"),
    ("/smtp/tls", "where a password is sent", lambda body: body["smtp"].get("tls") == "none"),
)


def _repeats(triggers: list[dict[str, Any]]) -> bool:
    """Whether two of the triggers have one id."""
    ids = [one.get("id") for one in triggers]
    return len(set(ids)) < len(ids)


def _at(body: Any, path: list[str]) -> Any:
    """Returns what lies there. Raises KeyError, IndexError, ValueError or TypeError where nothing does."""
    for part in path:
        body = body[int(part)] if isinstance(body, list) else body[part.replace("~1", "/").replace("~0", "~")]
    return body


def _takes_away(case: Any, failure: AcceptedNegativeData) -> bool:
    """A null inside of a merge patch takes a field away (RFC 7396, section 1), whatever the field's schema is."""
    match = _NO_NULL.search(failure.message)
    if case.method.upper() != "PATCH" or match is None:
        return False
    with suppress(KeyError, IndexError, ValueError, TypeError):
        return _at(case.body, match[1].split(" -> ")) is None
    return False


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _is_beyond_schemas(case: Any, error: dict[str, str]) -> bool:
    """What the answer says is held against what was sent."""
    if "pointer" in error:
        return _is_beyond_body(case.body, error)
    return "parameter" in error and _is_beyond_query(case.query or {}, error)


def _is_beyond_query(query: dict[str, Any], error: dict[str, str]) -> bool:
    name, said = error["parameter"], error["detail"]
    if match := _STEPS.search(said):
        return _number(match[1]) > _number(match[2])
    if "names no time zone" in said:  # the format of the parameter, which is taken for a remark
        return query.get(name) not in available_timezones()
    if name == "from" and 'is after "to"' in said and "from" not in query:  # that is now then
        return _is_time(query.get("to")) and parse_time(query["to"]) < time.time() * 1000
    return False


def _is_beyond_body(body: Any, error: dict[str, str]) -> bool:
    said = error["detail"]
    if any(re.fullmatch(at, error["pointer"]) and words in said and holds(body) for at, words, holds in _AGREEMENTS):
        return True
    if (match := _SAME_CODES.search(said)) is not None:
        return "-" in match[1] + error["pointer"].rpartition("/")[2] or int(match[1]) < 100  # ranges meet, or 7 and 07
    try:
        value = _at(body, error["pointer"].split("/")[1:])
        if "use one from" in said and "or a range such as" in said:
            first, _, last = error["pointer"].rpartition("/")[2].partition("-")
            return int(last) < int(first)
        if match := _PUT_OFF.search(said):
            return not parse_duration(match[2]) <= parse_duration(match[1]) <= parse_duration(match[3])
        if "which is not there" in said or "names no calendar that there is" in said:
            return isinstance(value, str)  # one that was deleted meanwhile
        if match := _TIMES.search(said):
            return parse_time(value) < time.time() * 1000 and _number(match[1]) > _number(match[2])
        if re.search(r"\bis past\b", said):
            return parse_time(value) < time.time() * 1000
        if match := _SIZES.search(said):
            return not parse_size(match[1]) <= parse_size(value) <= parse_size(match[2])
        if not re.fullmatch(patterns.DURATION, value):
            return False
        length_ms = parse_duration(value)
        if match := _BOUNDS.search(said):
            return not parse_duration(match[1]) <= length_ms <= parse_duration(match[2])
        if match := _SHORTEST.search(said):
            return length_ms < parse_duration(match[1])
        if "more than zero" in said and length_ms == 0:
            return True
        if "whole seconds, at least one" in said:
            return length_ms < 1_000 or length_ms % 1_000 > 0
        match = _LONGEST.search(said)
        return match is not None and length_ms > parse_duration(match[1])
    except (KeyError, IndexError, ValueError, TypeError):
        return False
