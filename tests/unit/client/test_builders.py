"""Triggers made by functions: what they are as JSON, and what is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import raftsched
from raftsched.client.builders import Dates, Repeats
from raftsched.client.generated.content import Trigger


@pytest.mark.parametrize(
    "made, json",
    [
        (raftsched.cron("0 2 * * *"), {"cron": "0 2 * * *"}),
        (raftsched.cron("@daily", timezone="Europe/Madrid"), {"cron": "@daily", "timezone": "Europe/Madrid"}),
        (raftsched.cron("0 0 2 ? * MON-FRI *", dialect="quartz"), {"cron": "0 0 2 ? * MON-FRI *", "dialect": "quartz"}),
        (raftsched.every("10m", jitter="5s"), {"every": "10m", "jitter": "5s"}),
        (raftsched.every(timedelta(hours=1), mode="fixed_delay"), {"every": timedelta(hours=1), "mode": "fixed_delay"}),
        (raftsched.at("2027-01-01T08:00:00Z"), {"at": "2027-01-01T08:00:00Z"}),
        (raftsched.at(datetime(2027, 1, 1, tzinfo=UTC)), {"at": datetime(2027, 1, 1, tzinfo=UTC)}),
        (raftsched.in_("5m"), {"in": "5m"}),
        (raftsched.rrule("FREQ=DAILY", calendar="holidays"), {"rrule": "FREQ=DAILY", "calendar": "holidays"}),
        (raftsched.after("import"), {"after": {"job": "import", "on": "succeeded"}}),
        (raftsched.after("import", on="failed"), {"after": {"job": "import", "on": "failed"}}),
        (
            raftsched.after(any_of=["a", "b"], pass_result=True),
            {"after": {"any_of": ["a", "b"], "on": "succeeded", "pass": "result"}},
        ),
        (raftsched.manual(), {"manual": True}),
    ],
)
def test_triggers(made: Trigger, json: dict[str, Any]) -> None:
    assert made == json


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: raftsched.cron("0 2 * *"), "has 4 fields; write five"),
        (lambda: raftsched.cron(""), "write a text such as"),
        (lambda: raftsched.cron("0 0 2 * * * *"), "has 7 fields"),
        (lambda: raftsched.every("soon"), "every 'soon' is not a duration"),
        (lambda: raftsched.every(timedelta(-1)), "negative"),
        (lambda: raftsched.in_("-5m"), "negative"),
        (lambda: raftsched.at(datetime(2027, 1, 1)), "needs a time zone"),
        (lambda: raftsched.rrule("DAILY"), "has no FREQ"),
        (raftsched.after, "none of them"),
        (lambda: raftsched.after("a", any_of=["b"]), "not job and any_of"),
        (lambda: raftsched.after(all_of="import"), "are lists of jobs"),
        (lambda: raftsched.after("a", on="later"), "succeeded, failed, ended"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_at_first_sight_is_said(make: Callable[[], Trigger], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_what_they_take_besides_belongs_to_a_trigger() -> None:
    assert set(Dates.__annotations__) | set(Repeats.__annotations__) <= set(Trigger.__annotations__)
