"""docs/schedules.md: what it says of cron expressions is what they mean."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from raftsched.schedule import TriggerError, describe, next_nominal, validate
from raftsched.schedule import fields as cron_fields
from raftsched.schedule.expression import NICKNAMES, compiled
from raftsched.schedule.local_days import local_ms
from tests.support.cron_times import cron, local, ms

PAGE = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text()
SECTION = PAGE.partition("## Cron expressions\n")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("| ")]
TIMES = [row for row in ROWS if len(row) == 4 and row[0].startswith("`")]
FORMS = [row for row in ROWS if len(row) == 2 and row[0].startswith("`")]


@pytest.mark.parametrize("row", TIMES, ids=lambda row: f"{row[0]} {row[1]} {row[2]}")
def test_times(row: list[str]) -> None:
    expression, zone, after, following = row
    found = re.fullmatch(r"`(.+?)`(?: \((quartz)\))?", expression)
    assert found is not None
    trigger = cron(found[1], zone, found[2] or "")
    at: int | None = local_ms(datetime.fromisoformat(after), zone)
    told = []
    for _ in following.split(", "):
        assert at is not None
        at = next_nominal(trigger, at)
        assert at is not None
        told.append(local(at, zone)[:16].replace("T", " "))
    assert told == following.split(", ")


def test_there_are_times_of_both_changes_of_clocks() -> None:
    assert len(TIMES) > 15
    assert {"Europe/Madrid", "Australia/Lord_Howe", "Pacific/Apia"} <= {row[1] for row in TIMES}


def test_the_fields() -> None:
    kinds = {kind.name.replace("-of-", " of the "): kind for kind in (
        cron_fields.SECOND, cron_fields.MINUTE, cron_fields.HOUR, cron_fields.DAY, cron_fields.MONTH,
        cron_fields.WEEKDAY, cron_fields.YEAR)}  # fmt: skip
    said = {row[0].partition(" (")[0]: row for row in ROWS if len(row) == 3 and row[0] != "field"}
    assert said.keys() == kinds.keys()
    for name, kind in kinds.items():
        assert said[name][1].startswith(f"{kind.low}-{kind.high}")
        assert said[name][2] == (f"`{kind.names[0]}` to `{kind.names[-1]}`" if kind.names else "")


@pytest.mark.parametrize("row", FORMS, ids=lambda row: row[0])
def test_the_forms(row: list[str]) -> None:
    """Each is a value of one of the fields."""
    for form in re.findall(r"`([^`]+)`", row[0]):
        ways = [["0", "0", "1", "1", "*"] for _ in range(5)]
        for place, parts in enumerate(ways):
            parts[place] = form
            if place == 4:
                parts[2] = "*"
        assert any(is_valid(" ".join(parts)) for parts in ways), form


def is_valid(expression: str) -> bool:
    try:
        compiled(expression)
    except TriggerError:
        return False
    return True


def test_nicknames() -> None:
    assert {name for name in re.findall(r"`(@\w+)`", SECTION) if name != "@reboot"} == set(NICKNAMES)


def test_what_is_refused() -> None:
    (line,) = re.findall(r"^Refused, with the correct form: (.*)$", SECTION, re.MULTILINE)
    refused = re.findall(r"`([^`]+)`", line)
    assert len(refused) == 6
    for expression in refused:
        with pytest.raises(TriggerError):
            validate(cron(expression), now_ms=ms("2026-11-30T00:00:00Z"))


def test_a_step_that_does_not_come_round_is_said() -> None:
    assert '"every": "90m"' in describe(cron("*/90 * * * *"))


def test_the_readme_and_moving_lead_to_it() -> None:
    root = Path(__file__).parents[3]
    assert "(docs/schedules.md#cron-expressions)" in (root / "README.md").read_text()
    assert "(schedules.md#cron-expressions)" in (root / "docs/moving.md").read_text()
