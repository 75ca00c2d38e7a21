"""What is refused, where, and that the message says what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import DAY_MS
from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.errors import KINDS
from raftsched.schedule import TriggerError, validate
from tests.support.cron_times import cron, ms

NOW = ms("2026-09-21T14:13:20Z")
CRON = "/trigger/cron"

BAD_CRON = [
    ("61 * * * *", 'minute field "61": out of range; allowed are 0-59'),
    ("* 24 * * *", "allowed are 0-23"),
    ("* * 0 * *", "allowed are 1-31"),
    ("* * 32 * *", "allowed are 1-31"),
    ("* * * 13 *", "allowed are 1-12 and JAN-DEC"),
    ("* * * * 8", "allowed are 0-7 (0 and 7 are Sunday) and SUN-SAT"),
    ("60 * * * * *", "second field"),
    ("0 0 0 1 1 ? 1969", "allowed are 1970-2099"),
    ("0 0 0 1 1 ? 2100", "allowed are 1970-2099"),
    ("0 0 31 2 *", 'day-of-month "31" never comes in month "2"'),
    ("0 0 30-31 FEB *", "never comes"),
    ("0 0 31 4,6,9,11 *", "never comes"),
    ("0 0 30 2 ?", "never comes"),
    ("0 0 */31 2 MON#5", "on weekday"),
    ("0 0 0 29 2 ? 2027", 'do not occur in year "2027"'),
    ("0 0 0 1 1 ? 2020", "no time left after 2026-09-21T14:13:20Z"),
    ("", "empty"),
    (" \t ", "empty"),
    ("x" * 20_000, "has 20000 characters; at most 256"),
    ("*" + " " * 252 + "* * *", "at most 256"),
    ("* * * *", "has 4 fields; 5 are needed"),
    ("oops", "has 1 field; 5 are needed"),
    ("* * * * * * * *", "has 8 fields"),
    ("a * * * *", "not a value"),
    ("*/0 * * * *", "step after / must be a whole number from 1"),
    ("*/ * * * *", "step after /"),
    ("*/-5 * * * *", "step after /"),
    ("1/2/3 * * * *", "step after /"),
    ("1,,2 * * * *", "empty item"),
    (", * * * *", "empty item"),
    ("-5 * * * *", "a range has two ends"),
    ("5- * * * *", "a range has two ends"),
    ("1-2-3 * * * *", "a range has two ends"),
    ("+5 * * * *", "not a value"),
    ("1_0 * * * *", "not a value"),
    ("1.5 * * * *", "not a value"),
    ("٣ * * * *", "plain ASCII"),
    ("0 0 25-5 * *", "write two, like 25-31,1-5"),
    ("0 0 0 1 1 ? 2030-2028", "ends before it begins"),
    ("? * * * *", "write *"),
    ("0 0 ? * ?", "both days"),
    ("0 0 1,? * *", "not a value"),
    ("R * * * *", "write H"),
    ("R(0-9) * * * *", "write H"),
    ("R/5 * * * *", "write H"),
    ("H(5) * * * *", "like H(0-29)"),
    ("H(5-70) * * * *", "allowed are 0-59"),
    ("H(9-5) * * * *", "ends before it begins"),
    ("0 0 0 1 1 ? H", "no meaning for years"),
    ("0 0 * * L", "5L or FRIL"),
    ("0 0 * * MON#6", "1-5"),
    ("0 0 * * MON#", "1-5"),
    ("0 0 * * #2", "a value is missing"),
    ("0 0 * * 9L", "allowed are 0-7"),
    ("0 0 W * *", "15W"),
    ("0 0 32W * *", "15W"),
    ("0 0 L-31 * *", "0-30"),
    ("0 0 L/2 * *", "a step does not go with"),
    ("0 0 ? * 2", 'add "dialect": "quartz"'),
    ("0 0 ? * 2#1", 'add "dialect": "quartz"'),
    ("0 0 ? * MON,3", 'add "dialect": "quartz"'),
    ("0 0 0 * * 1-5 *", 'add "dialect": "quartz"'),
    ("0 0 0 * * 5L 2030", 'add "dialect": "quartz"'),
    ("0 0 * * MON-FRI#1", 'weekday field "MON-FRI#1": # goes with one weekday, not with a range'),
    ("0 0 * * MON-FRIL", "L goes with one weekday, not with a range; write a list like MONL,FRIL"),
    ("0 0 * * FRI#L", "the last one of the month is said without #; write FRIL"),
    ("0 0 * * L-3", "L is no end of a range; write one weekday with it"),
    ("0 0 * * 5W", "W belongs to the day-of-month field, like 15W"),
    ("0 0 * * MONDAY", "names have three letters; write MON"),
    ("0 0 * * +MON", "use a recurrence rule (rrule)"),
    ("0 0 * SEPT *", "names have three letters; write SEP"),
    ("0 0 29-L * *", "L is no end of a range; write 29-31, or a list like 15-20,L"),
    ("0 0 1-L/8 * *", "L is no end of a range"),
    ("0 0 W15 * *", "W follows the day; write 15W"),
    ("0 0 15W-20 * *", "W goes with one day, like 15W or LW, and is no end of a range"),
    ("0 0 5L * *", "5L, the last Friday, belongs to the weekday field"),
    ("0 0 L15 * *", "write L-15"),
    ("0 0 MON#1 * *", "# belongs to the weekday field, like MON#2"),
    ("0 L * * *", "L has a meaning in the two day fields only"),
    ("0 0 * * FRIL-MON", "L is no end of a range; write one weekday with it"),
    ("0 0 LW-3 * *", "LW is no end of a range"),
    ("0 0 * * FOO", "not a value; allowed are 0-7"),
    ("@reboot", "a cluster does not reboot"),
    ("@Reboot", "a cluster does not reboot"),
    ("@fortnightly", "known are @yearly"),
    ("@every 90s", '{"every": "90s"}'),
    ("@every", '{"every": "90s"}'),
    ("@", "known are"),
    ("CRON_TZ=Europe/Madrid 0 2 * * *", "trigger.timezone"),
    ("TZ=UTC 0 2 * * *", "trigger.timezone"),
]


def refused(trigger: Trigger) -> tuple[str, str]:
    with pytest.raises(TriggerError) as caught:
        validate(trigger, now_ms=NOW)
    assert caught.value.code == "invalid-trigger"
    assert KINDS[caught.value.code].status == 422
    assert len(caught.value.detail) < 400
    assert caught.value.detail.isprintable()
    return caught.value.pointer, caught.value.detail


@pytest.mark.parametrize("expr, detail", BAD_CRON, ids=lambda text: str(text)[:40])
def test_bad_cron(expr: str, detail: str) -> None:
    pointer, found = refused(cron(expr))
    assert pointer == CRON
    assert detail in found


@pytest.mark.parametrize("zone", ["UTC", "Europe/Madrid", "Etc/GMT-2", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    "expr", ["0 2 * * 1-5", "0 0 29 2 *", "0 0 31 2 MON", "*/15 0-4 1,15 JAN-JUN ?", "H H(1-5) * * *"]
)
def test_good_cron(expr: str, zone: str) -> None:
    validate(cron(expr, zone), now_ms=NOW)


@pytest.mark.parametrize(
    "zone, detail",
    [
        ("Europe/Madird", "did you mean Europe/Madrid?"),
        ("GMT+2", "for UTC+2 write Etc/GMT-2, whose sign is turned, or a place, like Europe/Madrid"),
        ("UTC-3", "for UTC-3 write Etc/GMT+3, whose sign"),
        ("GMT+02:00", "for UTC+2 write Etc/GMT-2,"),
        ("Etc/UTC+14", "for UTC+14 write Etc/GMT-14,"),
        ("+01", "for UTC+1 write Etc/GMT-1,"),
        ("-0300", "for UTC-3 write Etc/GMT+3,"),
        ("UTC+5:30", "no zone of IANA is always UTC+5:30; name the place, like Asia/Kolkata"),
        ("GMT-13", "no zone of IANA is always UTC-13; name the place"),
        ("UTC+00:00", "write UTC"),
        ("europe/madrid", "did you mean Europe/Madrid?"),
        ("Mars/Olympus", "use an IANA name"),
        ("", "1-64 characters"),
        ("x" * 65, "1-64 characters"),
        ("../../etc/passwd", "no time zone"),
        ("/etc/passwd", "no time zone"),
        ("Europe", "no time zone"),
        ("a\0b", "no time zone"),
        ("España", "no time zone"),
        ("+02:00", "no time zone"),
        ("localtime", "name the zone itself"),
        ("right/UTC", "name the zone itself"),
    ],
)
def test_bad_zone(zone: str, detail: str) -> None:
    pointer, found = refused(cron("0 0 * * *", zone))
    assert pointer == "/trigger/timezone"
    assert detail in found


def test_only_in_the_gap() -> None:
    """02:30 on the day it does not exist: as an expression that follows elapsed time it never comes."""
    assert refused(cron("0 */5 2 28 3 ? 2027", "Europe/Madrid")) == (
        CRON,
        "this never comes on the clocks of Europe/Madrid; change the time or the date",
    )
    validate(cron("0 30 2 28 3 ? 2027", "Europe/Madrid"), now_ms=NOW)


EVERY: dict[str, Any] = {"kind": TriggerKind.EVERY, "period_ms": 60_000}


@pytest.mark.parametrize(
    "pointer, detail, fields",
    [
        ("/trigger/every", "shortest is 1s", {**EVERY, "period_ms": 999}),
        ("/trigger/every", "shortest is 1s", {**EVERY, "period_ms": 0}),
        ("/trigger/every", "negative", {**EVERY, "period_ms": -60_000}),
        ("/trigger/every", "hundred years", {**EVERY, "period_ms": 2**60}),
        ("/trigger/in", "negative", {"kind": TriggerKind.IN, "period_ms": -1}),
        ("/trigger/in", "hundred years", {"kind": TriggerKind.IN, "period_ms": 2**60}),
        ("/trigger/in", "would never run", {"kind": TriggerKind.IN, "period_ms": 5000, "ends_at_ms": NOW}),
        ("/trigger/at", "1970 to 9999", {"kind": TriggerKind.AT, "at_ms": -1}),
        ("/trigger/at", "1970 to 9999", {"kind": TriggerKind.AT, "at_ms": 2**60}),
        ("/trigger/at", "would never run", {"kind": TriggerKind.AT, "at_ms": NOW, "starts_at_ms": NOW + 1}),
        ("/trigger/jitter", "negative", {**EVERY, "jitter_ms": -1}),
        ("/trigger/jitter", "at most 1d", {**EVERY, "jitter_ms": DAY_MS + 1}),
        ("/trigger/max_runs", "1 or more", {**EVERY, "max_runs": 0}),
        ("/trigger/max_runs", "1 or more", {**EVERY, "max_runs": -3}),
        ("/trigger/starts_at", "1970 to 9999", {**EVERY, "starts_at_ms": -1}),
        ("/trigger/ends_at", "1970 to 9999", {**EVERY, "ends_at_ms": 2**60}),
        (
            "/trigger/ends_at",
            "is before starts_at",
            {**EVERY, "starts_at_ms": NOW + 2, "ends_at_ms": NOW + 1},
        ),
        ("/trigger/ends_at", "is past", {**EVERY, "ends_at_ms": NOW}),
        ("/trigger/ends_at", "is past", {"kind": TriggerKind.CRON, "expr": "@daily", "ends_at_ms": NOW - 1}),
        (
            "/trigger/ends_at",
            "the next time after the start is 2026-09-22T00:00:00Z",
            {"kind": TriggerKind.CRON, "expr": "@daily", "ends_at_ms": NOW + 60_000},
        ),
        ("/trigger/calendar", "fixed_rate", {**EVERY, "calendar": "holidays", "mode": EveryMode.FIXED_DELAY}),
        ("/trigger/calendar", "goes with every", {"kind": TriggerKind.AT, "calendar": "holidays"}),
        ("/trigger/dialect", "leave it out", {"kind": TriggerKind.CRON, "expr": "@daily", "dialect": "aws"}),
        ("/trigger/timezone", "no time zone", {**EVERY, "timezone": "Nowhere"}),
    ],
)
def test_other_fields(pointer: str, detail: str, fields: dict[str, Any]) -> None:
    found, text = refused(Trigger(**fields))
    assert found == pointer
    assert detail in text


@pytest.mark.parametrize(
    "trigger",
    [
        Trigger(kind=TriggerKind.MANUAL),
        Trigger(kind=TriggerKind.AT, at_ms=1),  # past: runs now
        Trigger(kind=TriggerKind.IN, period_ms=0),
        Trigger(kind=TriggerKind.EVERY, period_ms=1000),
        Trigger(kind=TriggerKind.EVERY, period_ms=1000, mode=EveryMode.FIXED_DELAY, max_runs=1, jitter_ms=DAY_MS),
        Trigger(kind=TriggerKind.EVERY, period_ms=1000, starts_at_ms=NOW + 1, ends_at_ms=NOW + 1),
        cron("@daily", starts_at_ms=0, ends_at_ms=NOW + DAY_MS),
        cron("0 0 12 ? * 1", dialect="quartz"),
    ],
)
def test_good(trigger: Trigger) -> None:
    validate(trigger, now_ms=NOW)
