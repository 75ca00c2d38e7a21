"""Jobs of Dkron, as its API and its exports have them (GET /v1/jobs), to jobs.

Fields as in Dkron's API description, schedules as in its "Cron spec" page.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from raftsched.importers.documents import Document
from raftsched.importers.foreign import (
    Entry,
    Names,
    Notes,
    Reading,
    Unmapped,
    cron_trigger,
    go_duration_ms,
    job_name,
    text_map,
    whole,
)
from raftsched.quantities import format_duration

_STATE = frozenset(  # what Dkron says about a job, and nobody gave it
    ["id", "success_count", "error_count", "last_success", "last_error", "status", "next", "dependent_jobs"]
)
_KNOWN = _STATE | {
    "name", "displayname", "schedule", "timezone", "owner", "owner_email", "disabled", "tags", "metadata", "retries",
    "parent_job", "processors", "concurrency", "executor", "executor_config", "starts_at", "expires_at", "ephemeral",
}  # fmt: skip
_SHELL = frozenset(["shell", "command", "env", "cwd", "timeout", "mem_limit_kb"])
_HTTP = frozenset(["method", "url", "headers", "body", "timeout", "expectCode", "expectBody", "debug"])
_TLS = ("tlsNoVerifyPeer", "tlsCertificateFile", "tlsCertificateKeyFile", "tlsRootCAsFile")
_NO_TIME = "0001-01-01T00:00:00Z"  # how Go writes that there is none
_TAG_COUNT = re.compile(r"(.*):([0-9]+)", re.DOTALL)
RETRY_DELAY = "1s"  # Dkron retries at once; the least that leaves others a turn
RETRIES_MAX = 100


def read_dkron(documents: list[Document], *, timezone: str, prefix: str, now_ms: int) -> Reading:
    """`timezone`: of jobs that name none, which Dkron runs in its servers' local time. `now_ms`: UTC; what was due once
    and is past is not imported."""
    reading = Reading()
    names = Names()
    for document in documents:
        text = str(document.value.get("name") or "")
        place = f"job {text}" if text else document.place
        notes = Notes()
        try:
            name = names.take(job_name(text, prefix, notes), place)
            job = _job(document.value, timezone, now_ms, prefix, notes)
        except Unmapped as error:
            reading.refused.append((place, text, str(error)))
            continue
        reading.add(Entry(place, text, name, None, job), notes)
    return reading


def _job(given: Mapping[str, Any], zone: str, now_ms: int, prefix: str, notes: Notes) -> dict[str, Any]:
    if given.get("ephemeral"):
        raise Unmapped("it is deleted after its first success (ephemeral); use a job with at or in, which runs once")
    trigger = _after(given, prefix, notes) or _trigger(given, zone, now_ms, notes)
    handler, more = _handler(given, notes)
    job: dict[str, Any] = {"trigger": trigger, "handler": handler, **more}
    concurrency = given.get("concurrency") or "allow"
    if concurrency not in ("allow", "forbid"):
        raise Unmapped(f"its concurrency is {concurrency!r}; allow and forbid are known")
    job["overlap"] = concurrency
    if given.get("owner"):
        job["owner"] = str(given["owner"])
    if given.get("disabled") in (True, "true"):
        job["suspended"] = True
    retries = whole(given.get("retries"), "retries") or 0
    if retries:
        job["retry"] = {"delays": [RETRY_DELAY] * min(retries, RETRIES_MAX), "on": ["failed"]}
        notes.say(f"retries are {RETRY_DELAY} apart; in Dkron they follow at once")
    if retries > RETRIES_MAX:
        notes.say(f"it is retried {RETRIES_MAX} times, not {retries}")
    labels = text_map(given.get("metadata"), "metadata")
    if given.get("displayname"):
        job["description"] = str(given["displayname"])
    if given.get("owner_email"):
        labels.setdefault("owner_email", str(given["owner_email"]))
        notes.say("owner_email is kept as a label; nothing is mailed")
    if labels:
        job["labels"] = labels
    tags = _tags(given, notes)
    if tags:
        job["placement"] = {"labels": tags}
    processors = given.get("processors")
    if processors:
        names = f" ({', '.join(map(str, processors))})" if isinstance(processors, Mapping) else ""
        notes.say(f"processors{names} have no counterpart; output is kept with each run")
    notes.leave(given, _KNOWN, "")
    return job


def _after(given: Mapping[str, Any], prefix: str, notes: Notes) -> dict[str, Any] | None:
    """The trigger of a job that runs whenever another one has succeeded. Dkron does not look at its times."""
    parent = str(given.get("parent_job") or "")
    if not parent:
        return None
    fields = ("schedule", "timezone", "starts_at", "expires_at")
    times = [field for field in fields if given.get(field) not in (None, "", _NO_TIME)]
    if times:
        notes.say(f"{', '.join(times)} is left out: Dkron does not look at it where there is a parent_job")
    return {"after": {"job": job_name(parent, prefix, Notes())}}


def _trigger(given: Mapping[str, Any], zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    text = str(given.get("schedule") or "").strip()
    if not text:
        raise Unmapped("it has no schedule")
    own = str(given.get("timezone") or "")
    word, _, rest = text.partition(" ")
    if word.lower() == "@manually":
        _leave_times(given, ("timezone", "starts_at", "expires_at"), "what is only run by hand has no times", notes)
        return {"manual": True}
    if word.lower() in ("@at", "@every"):
        _leave_times(given, ("timezone",), f"{word} does not depend on it", notes)
    elif "TZ=" in text:
        _leave_times(given, ("timezone",), "the schedule names its own", notes)
    if word.lower() == "@at":
        if _time_ms(rest.strip(), "schedule") <= now_ms:
            raise Unmapped(f"it was due once, at {rest.strip()}, which is past: here it would run at once")
        trigger: dict[str, Any] = {"at": rest.strip()}
    else:
        if word.lower() == "@minutely":
            text = "0 * * * * *"
        fields = [re.sub(r"(?:\*|[0-9]+)?~(?:[0-9]+)?", _hashed, item) for item in text.split()]
        if "~" in text:
            notes.say("~ became H, which spreads by the job's id here and by its name there: other times, as evenly")
        trigger = cron_trigger(" ".join(fields), own or zone, seconds=True, notes=notes)
        if "timezone" in trigger and not own and "TZ=" not in text:
            notes.say(f"it names no timezone: Dkron takes its servers' local time, here it is {zone} (--timezone)")
    for field, name in (("starts_at", "starts_at"), ("expires_at", "ends_at")):
        value = given.get(field)
        if value and value != _NO_TIME:
            _time_ms(str(value), field)
            if "at" in trigger:
                notes.say(f"{field} means nothing for what is due once; it is left out")
            else:
                trigger[name] = str(value)
    return trigger


def _leave_times(given: Mapping[str, Any], fields: tuple[str, ...], why: str, notes: Notes) -> None:
    for field in fields:
        if given.get(field) not in (None, "", _NO_TIME):
            notes.say(f"{field} is left out: {why}")


def _hashed(found: re.Match[str]) -> str:
    low, _, high = found.group().partition("~")
    if not low and not high:
        return "H"
    if low.isdigit() and high:
        return f"H({low}-{high})"
    raise Unmapped(f"{found.group()!r} in its schedule is not known; ~ and a~b are")


def _time_ms(text: str, at: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise Unmapped(f"{at} {text[:40]!r} is not a time such as 2027-01-31T09:00:00Z")
    return round(time.timestamp() * 1000)


def _tags(given: Mapping[str, Any], notes: Notes) -> dict[str, str]:
    tags: dict[str, str] = {}
    for key, value in text_map(given.get("tags"), "tags").items():
        counted = _TAG_COUNT.fullmatch(value)
        tags[key] = counted[1] if counted else value
        many = "each node" if counted is None else "one node" if counted[2] == "1" else f"{counted[2]} nodes"
        if many != "one node":
            notes.say(f"tag {key}: Dkron runs it on {many} with {key}={tags[key]}, here one of them runs it")
    if tags:
        words = " ".join(f"{k}={v}" for k, v in tags.items())
        notes.say(f"tags became labels that a node needs: raftsched nodes label NODE {words}")
    return tags


def _handler(given: Mapping[str, Any], notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The handler, and fields of the job that come of it."""
    executor = given.get("executor") or "shell"
    config = text_map(given.get("executor_config"), "executor_config")
    if executor == "shell":
        return _shell(config, notes)
    if executor == "http":
        return _http(config, notes)
    raise Unmapped(f"its executor is {executor!r}; shell and http can be imported")


def _shell(config: Mapping[str, str], notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    command = config.get("command", "").strip()
    if not command:
        raise Unmapped("it has no command")
    handler: dict[str, Any]
    if config.get("shell") == "true":
        handler = {"shell": command}
    else:
        try:
            handler = {"exec": shlex.split(command)}
        except ValueError as error:
            raise Unmapped(f"its command cannot be split into words: {str(error).lower()}") from None
    env = {}
    for item in filter(None, config.get("env", "").split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise Unmapped(f"its env has {item[:40]!r}, which is no KEY=VALUE; commas stand between the variables")
        env[key] = value
    if env:
        handler["env"] = env
    if config.get("cwd"):
        handler["cwd"] = config["cwd"]
    memory = whole(config.get("mem_limit_kb"), "mem_limit_kb")
    if memory:
        handler["limits"] = {"memory": f"{memory}KiB"}
    notes.leave(config, _SHELL, "executor_config.")
    return handler, {"timeout": _timeout(config["timeout"])} if config.get("timeout") else {}


def _timeout(text: str) -> str:
    found = go_duration_ms(text)
    if found < 1:
        raise Unmapped(f"its timeout is {text!r}; a run needs some time")
    return format_duration(found)


def _http(config: Mapping[str, str], notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    if not config.get("url"):
        raise Unmapped("it has no url")
    http: dict[str, Any] = {"url": config["url"], "method": (config.get("method") or "GET").upper()}
    headers = _headers(config.get("headers", ""))
    if headers:
        http["headers"] = headers
    if config.get("body"):
        http["body"] = config["body"]
    statuses = [whole(s.strip(), "expectCode") for s in config.get("expectCode", "").split(",") if s.strip()]
    if statuses:
        http["expected_status"] = statuses
    if config.get("expectBody"):
        notes.say(f"expectBody {config['expectBody'][:60]!r} is not checked; a run succeeds by its status alone")
    for key in _TLS:
        if config.get(key) not in (None, "", "false"):
            notes.lack(f"{key} has no counterpart, so the request would probably fail")
    if config.get("debug") not in (None, "", "false"):
        notes.say("debug is left out: the answer is kept with each run")
    notes.leave(config, _HTTP | set(_TLS), "executor_config.")
    seconds = whole(config.get("timeout"), "timeout")
    return {"http": http}, {"timeout": f"{seconds}s"} if seconds else {}


def _headers(text: str) -> dict[str, str]:
    """Dkron keeps them as a JSON list of lines in a text."""
    try:
        lines = json.loads(text) if text.strip() else []
    except ValueError:
        lines = None
    if not isinstance(lines, list):
        raise Unmapped(f"its headers {text[:60]!r} are no JSON list of lines")
    found = {}
    for line in lines:
        name, colon, value = str(line).partition(":")
        if not colon:
            raise Unmapped(f"its header {str(line)[:60]!r} has no colon")
        found[name.strip()] = value.strip()
    return found
