"""Durations and times, exact to the millisecond, both ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.api.http.durations import (
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)
from raftsched.bounds import DURATION_MAX_MS, TIME_MAX_MS


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5m", 300_000),
        ("30s", 30_000),
        ("1h30m", 5_400_000),
        ("1d", 86_400_000),
        ("2w", 1_209_600_000),
        ("250ms", 250),
        ("1.5h", 5_400_000),
        ("0.001s", 1),
        ("0s", 0),
        ("1d2h3m4s5ms", 93_784_005),
        ("PT5M", 300_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("PT0.5S", 500),
        ("PT1,5H", 5_400_000),
        ("36525d", DURATION_MAX_MS),
    ],
)
def test_what_durations_mean(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "30s"),
        ("5", "30s"),
        ("5 m", "30s"),
        ("5M", "30s"),
        ("-5m", "negative"),
        ("-PT5M", "negative"),
        ("1m1m", "twice"),
        ("P1Y", "years or months"),
        ("P1M", "years or months"),
        ("P", "30s"),
        ("PT", "30s"),
        ("P1DT", "30s"),
        ("0.5ms", "millisecond"),
        ("1e3s", "30s"),
        ("٥m", "30s"),
        ("5m\n", "30s"),
        ("36525d1ms", "100 years"),
        ("9" * 15 + "w", "100 years"),
        ("1s" * 40, "too long"),
    ],
)
def test_what_is_no_duration(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_duration(text)


@given(st.integers(0, DURATION_MAX_MS))
def test_a_duration_survives_being_written(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_times_with_any_offset(moment: datetime, minutes: int) -> None:
    local = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=timezone(timedelta(minutes=minutes)))
    at_ms = parse_time(local.isoformat())
    assert at_ms == (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_time(format_time(at_ms)) == at_ms


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00.0019z", 1),
        ("1970-01-01 01:00:00+01:00", 0),
        ("9999-12-31T23:59:59.999999999Z", TIME_MAX_MS),
    ],
)
def test_times_at_the_edges(text: str, at_ms: int) -> None:
    assert parse_time(text) == at_ms


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "RFC 3339"),
        ("2030-01-01", "RFC 3339"),
        ("2030-01-01T00:00:00", "RFC 3339"),
        ("2030-02-30T00:00:00Z", "calendar"),
        ("2030-01-01T24:00:00Z", "calendar"),
        ("2030-01-01T00:00:60Z", "calendar"),
        ("0000-01-01T00:00:00Z", "calendar"),
        ("2030-01-01T00:00:00+24:00", "offset"),
        ("1970-01-01T00:00:00+00:01", "1970"),
        ("9999-12-31T23:59:59-00:01", "9999"),
        ("2030-01-01T00:00:00Z\n", "RFC 3339"),
        ("२०३०-01-01T00:00:00Z", "RFC 3339"),
    ],
)
def test_what_is_no_time(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_time(text)


def test_a_time_beyond_the_calendar_is_shown_as_its_end() -> None:
    assert format_time(TIME_MAX_MS + 86_400_000) == "9999-12-31T23:59:59.999Z"
