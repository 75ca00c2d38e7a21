"""What OpenAPI cannot say of the API, for schemathesis (loaded by it; see scripts/fuzz_api.py): which fields have to
agree with each other, and which ids there are, so that many requests are taken. Whether one that is refused should have
been taken is said by the API itself: by the codes of its problems (raftsched.errors)."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from datetime import date
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, ServerError
from schemathesis.core.parameters import ParameterLocation
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

from raftsched.api.http.durations import parse_time
from raftsched.errors import is_of_meaning
from raftsched.surface.output import COPY
from scripts.trials.fuzz_pool import Pool
from scripts.trials.fuzz_report import CALLS
from tests.support import api_formats

api_formats.register()
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
    """False for what is none. A request that is as the description says may be refused for what it means. While leaders
    are killed, 503 and 504 are answers like others; that they are as described is checked apart."""
    if (failure.operation, type(failure)) in NO_FAILURES:
        return False
    if isinstance(failure, ServerError):
        return not (os.environ.get("FUZZ_KILLS") and response.status_code in (503, 504))
    if isinstance(failure, AcceptedNegativeData):
        return not _takes_away(case, failure)
    if isinstance(failure, RejectedPositiveData):
        problem = response.json()
        return not is_of_meaning(problem["code"], [one.get("code") for one in problem.get("errors", ())])
    return True


_NO_NULL = re.compile(r"Invalid component: in body - (.+): Incorrect type")


def _takes_away(case: Any, failure: AcceptedNegativeData) -> bool:
    """A null inside of a merge patch takes a field away (RFC 7396, section 1), whatever the field's schema is."""
    match = _NO_NULL.search(failure.message)
    if case.method.upper() != "PATCH" or match is None:
        return False
    with suppress(KeyError, IndexError, ValueError, TypeError):
        return _at(case.body, match[1].split(" -> ")) is None
    return False


def _at(body: Any, path: list[str]) -> Any:
    """Returns what lies there. Raises KeyError, IndexError, ValueError or TypeError where nothing does."""
    for part in path:
        body = body[int(part)] if isinstance(body, list) else body[part.replace("~1", "/").replace("~0", "~")]
    return body
