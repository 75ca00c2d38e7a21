"""The part of a cron expression that is cron everywhere: croniter validates it and expands it to numbers.

That part is what crontab(5) has, with or without a field of seconds before it: `*`, values and names, ranges, lists and
steps. croniter reads some of these otherwise, and knows other forms by other rules. `understands` leaves those to
`fields`:

- `5-5` is the whole field to croniter, as is `7-0` of weekdays; a range that wraps around, with a step, loses the step
  at the turn (`10-3/4`); a range of days of the month that ends before it begins wraps, too, and is refused here;
- `2/3` of weekdays ends with Saturday there, and with Sunday, 7, here;
- `7-0` of months is July to December there, and refused here;
- L, W, # and ? of Quartz, and H.

Only the expansion is taken from croniter. How the two day fields go together, which days a month has and what happens
when clocks change is this room's own (`days`, `wall`, `cron`): croniter joins `*/10` and `MON` by OR, runs what is
fixed twice in the hour that comes twice, and leaves the grid in the one that is left out.

Importing this module imports croniter, which takes some tens of milliseconds: the command line does so only when it
has a trigger to check.
"""

from __future__ import annotations

import re
from functools import lru_cache

from croniter import CroniterBadCronError, croniter

from raftsched.schedule.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, Kind

_KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class NotCron(ValueError):
    """croniter refuses it. What is wrong is said by `fields`, field by field."""


def _item(kind: Kind) -> re.Pattern[str]:
    value = "|".join((r"\d{1,4}", *kind.names))
    return re.compile(rf"(?:\*|(?P<low>{value})(?:-(?P<high>{value}))?)(?P<step>/\d{{1,4}})?", re.ASCII)


_ITEMS = {kind.name: _item(kind) for kind in _KINDS}


def understands(kind: Kind, text: str) -> bool:
    """Returns whether croniter reads this upper-case field as crontab(5) does; the field need not be valid."""
    return kind.name in _ITEMS and all(_alike(kind, item) for item in text.split(","))


def _alike(kind: Kind, item: str) -> bool:
    found = _ITEMS[kind.name].fullmatch(item)
    if found is None:
        return False
    low, high, step = found["low"], found["high"], found["step"]
    if low is None:
        return True
    if high is None:
        return step is None or kind is not WEEKDAY
    first, last = _number(kind, low), _number(kind, high)
    if first > last:
        return kind.cycle and step is None and last >= kind.low and (kind is not WEEKDAY or first - last < 7)
    return first < last


def _number(kind: Kind, text: str) -> int:
    return kind.names.index(text) + kind.low if text in kind.names else int(text)


@lru_cache(maxsize=2048)
def numbers(kind: Kind, text: str) -> frozenset[int]:
    """Returns the values of an upper-case field of which `understands` is true; weekdays from 0 = Sunday. They are
    cached: there are far fewer fields than expressions.

    Raises:
        NotCron: a value is out of range, or a step is 0.
    """
    place = _KINDS.index(kind)
    fields = ["*"] * len(_KINDS)
    fields[place] = text
    try:
        found, _ = croniter.expand(" ".join(fields), second_at_beginning=True)
    except CroniterBadCronError as error:
        raise NotCron(str(error)) from error
    values = found[place - 1]  # its own order has the seconds last
    if "*" in values:  # also beside others, as in *,13
        return frozenset(range(kind.low, 7 if kind is WEEKDAY else kind.high + 1))
    return frozenset(value for value in values if isinstance(value, int))
