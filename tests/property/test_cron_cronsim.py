"""Five-field expressions away from clock changes: cronsim, another implementation, must agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raftsched.schedule import TriggerError, next_nominal
from tests.property.cron_strategies import five_fields
from tests.support.amounts import examples
from tests.support.cron_times import cron, following
from tests.support.crontab_lines import Line, schedules

LAST = datetime(2099, 12, 31, tzinfo=UTC)
FIVE = [line for line in schedules() if len(line.expr.split()) == 5]


def their_next(expr: str, start: datetime, count: int) -> list[int]:
    found: list[int] = []
    for at in CronSim(expr, start):
        if at > LAST or len(found) == count:
            break
        found.append(round(at.timestamp() * 1000))
    return found


@settings(max_examples=examples(600), deadline=None, print_blob=True)
@given(expr=five_fields(), start=st.datetimes(datetime(1990, 1, 1), datetime(2045, 1, 1)))
def test_agrees_with_cronsim(expr: str, start: datetime) -> None:
    start = start.replace(microsecond=0, tzinfo=UTC)
    after = round(start.timestamp()) * 1000
    try:
        theirs = their_next(expr, start, 6)
    except CronSimError:
        with pytest.raises(TriggerError):
            next_nominal(cron(expr), after)
        return
    assume(theirs)
    assert following(cron(expr), after, len(theirs)) == theirs


@pytest.mark.parametrize("line", FIVE, ids=lambda line: line.label)
def test_real_crontabs_agree_with_cronsim(line: Line) -> None:
    """In the file's own zone, through a winter and a summer, the hours around the clock changes left out."""
    for start in (datetime(2026, 11, 9, 7, 41, tzinfo=UTC), datetime(2027, 5, 10, 19, 3, tzinfo=UTC)):
        until = start + timedelta(days=120)
        theirs = [
            at
            for at in their_next(line.expr, start.astimezone(ZoneInfo(line.zone)), 200)
            if at < until.timestamp() * 1000
        ]
        assert following(cron(line.expr, line.zone), round(start.timestamp() * 1000), len(theirs)) == theirs
