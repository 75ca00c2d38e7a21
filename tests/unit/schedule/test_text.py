from __future__ import annotations

import pytest

from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule import TriggerError, parse_cron_text
from tests.support.cron_times import cron


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0 2 * * 1-5", cron("0 2 * * 1-5")),
        (" @daily ", cron("@daily")),
        ("CRON_TZ=Europe/Madrid 0 2 * * *", cron("0 2 * * *", "Europe/Madrid")),
        ("TZ=America/New_York @hourly", cron("@hourly", "America/New_York")),
        ('CRON_TZ="Asia/Kathmandu"  */5 * * * * *', cron("*/5 * * * * *", "Asia/Kathmandu")),
        ("@every 90s", Trigger(kind=TriggerKind.EVERY, period_ms=90_000)),
        ("@EVERY 1h30m", Trigger(kind=TriggerKind.EVERY, period_ms=5_400_000)),
        ("@every 1.5h", Trigger(kind=TriggerKind.EVERY, period_ms=5_400_000)),
        ("@every 2d", Trigger(kind=TriggerKind.EVERY, period_ms=172_800_000)),
        ("@every 1s500ms", Trigger(kind=TriggerKind.EVERY, period_ms=1500)),
    ],
)
def test_reads(text: str, expected: Trigger) -> None:
    assert parse_cron_text(text) == expected


def test_zone_given_twice() -> None:
    assert parse_cron_text("0 2 * * *", "Europe/Madrid").timezone == "Europe/Madrid"
    assert parse_cron_text("CRON_TZ=Europe/Madrid 0 2 * * *", "Europe/Madrid").timezone == "Europe/Madrid"
    assert parse_cron_text("CRON_TZ=Europe/Madrid 0 2 * * *", "UTC").timezone == "Europe/Madrid"
    with pytest.raises(TriggerError, match="name the zone once") as caught:
        parse_cron_text("CRON_TZ=Europe/Madrid 0 2 * * *", "Asia/Kathmandu")
    assert caught.value.pointer == "/trigger/timezone"


def test_dialect_and_mode() -> None:
    assert parse_cron_text("0 0 12 ? * 2", dialect="quartz").dialect == "quartz"
    assert parse_cron_text("@every 5m", "Europe/Madrid").mode is EveryMode.FIXED_RATE


@pytest.mark.parametrize(
    "text, pointer, detail",
    [
        ("@every", "/trigger/cron", "takes one interval"),
        ("@every 5m 5s", "/trigger/cron", "takes one interval"),
        ("@every 5", "/trigger/cron", "is not an interval"),
        ("@every -5s", "/trigger/cron", "is not an interval"),
        ("@every 5x", "/trigger/cron", "is not an interval"),
        ("@every ٣s", "/trigger/cron", "is not an interval"),
        ("@every 999ms", "/trigger/cron", "the shortest interval is 1s"),
        ("@every 0s", "/trigger/cron", "the shortest interval is 1s"),
        ("@reboot", "/trigger/cron", "does not reboot"),
        ("", "/trigger/cron", "empty"),
        ("CRON_TZ=UTC", "/trigger/cron", "empty"),
        ("CRON_TZ= 0 2 * * *", "/trigger/cron", "names no zone"),
        ("CRON_TZ=Moon/Base 0 2 * * *", "/trigger/timezone", "no time zone"),
        ("MAILTO=ana 0 2 * * *", "/trigger/cron", "begins with a setting"),
        ("0 2 * *", "/trigger/cron", "has 4 fields"),
        ("0 2 * * * " + "x" * 20_000, "/trigger/cron", "at most 256"),
        ("*," * 150 + "* * * * *", "/trigger/cron", "at most 256"),
    ],
)
def test_refuses(text: str, pointer: str, detail: str) -> None:
    with pytest.raises(TriggerError) as caught:
        parse_cron_text(text)
    assert caught.value.pointer == pointer
    assert detail in caught.value.detail
    assert len(caught.value.detail) < 300
