"""The formats of texts that the description of the API names and OpenAPI does not know: texts that are of each, for
schemathesis, and whether a text is."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date

from hypothesis import strategies as st

from raftsched.api.http.durations import parse_time
from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.handlers import url_error
from raftsched.api.resources.webhooks_in import read_secret
from raftsched.bounds import OutOfRange
from raftsched.core.rules.key_templates import KeyTemplateError
from raftsched.core.rules.key_templates import parse as parse_template
from raftsched.quantities import parse_duration, parse_size
from raftsched.schedule import TriggerError, parse_cron_text
from raftsched.schedule.exclusions import parse_date, parse_month_day
from raftsched.schedule.rule_text import parse_rule

CRONS = ["* * * * *", "0 2 * * 1-5", "@daily", "*/15 * * * *", "0 0 1 1 *", "H H * * *", "30 0 2 * * *", "0 9 * * MON"]
RULES = [
    "FREQ=DAILY",
    "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH",
    "FREQ=HOURLY;INTERVAL=5",
]
ZONES = ["UTC", "Europe/Madrid", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"]

_spans = st.one_of(
    st.sampled_from(["30s", "5m", "1h30m", "1d", "PT5M", "PT12H"]),
    st.integers(1, 86_400).map(lambda s: f"{s}s"),
    st.integers(1, 20).map(lambda h: f"{h}h15m"),
)
_outcomes = st.sampled_from(["succeed", "retry", "fail", "cancel", "snooze 5m"])
_times = st.datetimes(timezones=st.just(UTC)).filter(lambda t: 1971 <= t.year <= 2090)
_secrets = st.binary(min_size=24, max_size=64).map(lambda raw: "whsec_" + b64encode(raw).decode())
_TEXTS: dict[str, st.SearchStrategy[str]] = {
    "calendar-date": st.dates(date(1971, 1, 1), date(2098, 12, 31)).map(date.isoformat),
    "cron": st.sampled_from(CRONS),
    "date-time": _times.map(lambda t: t.isoformat().replace("+00:00", "Z")),
    "http-url": st.integers(1, 65535).map(lambda p: f"http://127.0.0.1:{p}/hook"),
    "iana-time-zone": st.sampled_from(ZONES),
    "job-tag": st.sampled_from(["*", *(f'"0d3k5xw2a9f5m.{n}"' for n in range(1, 9))]),
    "key-template": st.sampled_from(["all", "{job}", "k:{job}/1", "mail server"]),
    "memory-size": st.integers(4, 4096).map(lambda m: f"{m}MiB"),
    "month-day": st.dates().map(lambda day: day.isoformat()[5:]),
    "outcome-of-exit": _outcomes,
    "outcome-of-status": _outcomes | st.just("snooze"),
    "rate-period": st.integers(1, 86_400).map(lambda s: f"{s}s"),
    "revision-tag": st.sampled_from(["*", *(f'"{n}"' for n in range(1, 9))]),
    "rrule": st.sampled_from(RULES),
    "time-span": _spans,
    "webhook-secret": _secrets,
    "webhook-timeout": st.integers(1, 300).map(lambda s: f"{s}s"),
    "whole-seconds": st.integers(1, 10_000).map(lambda s: f"{s}s"),
}


def register() -> None:
    """Tells schemathesis what texts of these formats look like. To import it takes most of a second."""
    import schemathesis

    for name, texts in _TEXTS.items():
        schemathesis.openapi.format(name, texts)


def _read_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Beyond its bounds a text is of the format all the same."""

    def check(text: str) -> bool:
        with suppress(ValueError, KeyTemplateError):
            try:
                parse(text)
            except OutOfRange:
                pass
            except TriggerError as error:
                return error.meaning is not None
            return True
        return False

    return check


def _secret(text: str) -> bool:
    errors: list[FieldError] = []
    read_secret(text, errors)
    return not errors


def _outcome(text: str) -> bool:
    return not text.startswith("snooze ") or _duration(text.partition(" ")[2])


_duration = _read_by(parse_duration)
CHECKS: dict[str, Callable[[str], bool]] = {
    "binary": lambda _: True,
    "calendar-date": _read_by(parse_date),
    "cron": _read_by(lambda text: parse_cron_text(text, None)),
    "date-time": _read_by(parse_time),
    "http-url": lambda text: url_error(text) is None and "\\" not in text,
    "iana-time-zone": lambda _: True,  # whether there is such a zone depends on what this machine knows of zones
    "job-tag": lambda _: True,
    "key-template": _read_by(parse_template),
    "memory-size": _read_by(parse_size),
    "month-day": _read_by(parse_month_day),
    "outcome-of-exit": _outcome,
    "outcome-of-status": _outcome,
    "rate-period": _duration,
    "revision-tag": lambda _: True,
    "rrule": _read_by(parse_rule),
    "time-span": _duration,
    "webhook-secret": _secret,
    "webhook-timeout": _duration,
    "whole-seconds": _duration,
}
