"""Expressions that are valid and hardly ever meant, in words."""

from __future__ import annotations

import pytest

from raftsched.schedule import describe
from raftsched.schedule.remarks import remarks
from tests.support.cron_times import cron


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        ("*/90 * * * *",
         '*/90 begins anew with each hour, so it means minute 0 of each; for every 90 minutes say "every": "90m"'),
        ("*/45 * * * *", 'it means minutes 0 and 45 of each; for every 45 minutes say "every": "45m"'),
        ("0 */36 * * *", 'it means hour 0 of each; for every 36 hours say "every": "36h"'),
        ("0 0 */40 * *", 'it means day 1 of each; for every 40 days say "every": "40d"'),
        ("0 0 1 */13 *", "so it means month 1 of each"),
        ("0 0 * * */8", 'it means SUN of each; for every 8 days say "every": "8d"'),
        ("0/120 * * * * *", 'it means second 0 of each; for every 120 seconds say "every": "120s"'),
        ("50/15 * * * *", "it means minute 50 of each"),
        ("H/90 * * * *", "it comes once in each"),
    ],
)  # fmt: skip
def test_steps_that_do_not_come_round(expr: str, said: str) -> None:
    (found,) = remarks(expr)
    assert said in found
    assert found in describe(cron(expr))


@pytest.mark.parametrize(
    "expr",
    ["*/15 * * * *", "*/7 * * * *", "*/60 * * * *", "*/30 * * * *", "0 */24 * * *", "0 */12 * * *", "0 0 1 */6 *",
     "0 0 */2 * *", "0 0 1 */12 *", "@daily", "5,35/90 * * * *", "0 0 * * 1-5", "0-30/10 * * * *", "H/15 * * * *",
     "0 0 L * *"],
)  # fmt: skip
def test_what_comes_round_needs_no_words(expr: str) -> None:
    assert remarks(expr) == []
    assert "begins anew" not in describe(cron(expr))
