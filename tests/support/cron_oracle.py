"""A second reading of cron, slow and plain, to hold the real one against. Shares no code with raftsched.

Nothing is expanded or precomputed: every minute of UTC is visited, the zone is asked what its clocks show, and each
field is asked whether it matches. Daylight saving time is not treated at all, only observed: the clocks are watched for
wall times they show for the first time (fixed expressions) or show at all (the others).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_NICKNAMES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_MINUTE = timedelta(minutes=1)
_ONE_DAY = timedelta(days=1)


class Oracle:
    def __init__(self, expr: str, zone: str, dialect: str = "") -> None:
        text = expr.upper().strip()
        parts = _NICKNAMES.get(text, text).split()
        if len(parts) == 5:
            parts.insert(0, "0")
        if len(parts) == 6:
            parts.append("*")
        self.second, self.minute, self.hour, self.day, self.month, self.weekday, self.year = parts
        self.zone = ZoneInfo(zone)
        self.quartz = dialect == "quartz"
        self.fixed = self.minute[0] != "*" and self.hour[0] != "*"
        self._dates: dict[date, bool] = {}

    def fires(self, low: int, high: int) -> Iterator[int]:
        """UTC seconds of all fires in low <= t < high, ascending."""
        at = low // 3600 * 3600 - 2 * 86_400
        highest = self._wall(at) - _MINUTE
        while at < high:
            wall = self._wall(at)
            in_an_hour = self._wall(at + 3600)
            if in_an_hour - wall == timedelta(hours=1) and wall - highest == _MINUTE and not self._possible(wall):
                highest = in_an_hour - _MINUTE
                at += 3600
                continue
            for _ in range(60):
                yield from (t for t in self._minute_fires(at, highest) if low <= t < high)
                highest = max(highest, self._wall(at))
                at += 60

    def _minute_fires(self, at: int, highest: datetime) -> Iterator[int]:
        wall = self._wall(at)
        if not self.fixed:
            if self._minute_matches(wall):
                yield from (at + s for s in range(60) if _field(self.second, s, 0, 59))
            return
        jumped = False
        missed = highest + _MINUTE
        while missed < wall:
            jumped = jumped or self._minute_matches(missed)
            missed += _MINUTE
        if jumped:
            yield at
        if wall > highest and self._minute_matches(wall):
            yield from (at + s for s in range(60) if _field(self.second, s, 0, 59) and not (jumped and s == 0))

    def _wall(self, at: int) -> datetime:
        wall = datetime.fromtimestamp(at, self.zone)
        assert wall.second == 0, "this oracle knows whole minutes only"
        return wall.replace(tzinfo=None, fold=0)

    def _possible(self, wall: datetime) -> bool:
        """Could anything in the hour from `wall` on match?"""
        ends = (wall, wall + timedelta(minutes=59))
        return any(_field(self.hour, end.hour, 0, 23) and self._date_matches(end.date()) for end in ends)

    def _minute_matches(self, wall: datetime) -> bool:
        return (
            _field(self.minute, wall.minute, 0, 59)
            and _field(self.hour, wall.hour, 0, 23)
            and self._date_matches(wall.date())
        )

    def _date_matches(self, day: date) -> bool:
        if day not in self._dates:
            self._dates[day] = self._ask_date(day)
        return self._dates[day]

    def _ask_date(self, day: date) -> bool:
        if not _field(self.year, day.year, 1970, 2099) or not _field(self.month, day.month, 1, 12, _MONTHS, 1):
            return False
        if day.year > 2099:
            return False
        by_month = any(self._day_item(item, day) for item in self.day.split(","))
        by_week = any(self._weekday_item(item, day) for item in self.weekday.split(","))
        if self.day[0] in "*?" or self.weekday[0] in "*?":
            return by_month and by_week
        return by_month or by_week

    def _day_item(self, item: str, day: date) -> bool:
        if item == "?":
            return True
        if item in ("LW", "WL"):
            return day == _nearest_working_day(_last(day))
        if item.startswith("L"):
            working = item.endswith("W")
            back = int(item.strip("LW-") or 0)
            target = _last(day) - back * _ONE_DAY
            if target.month != day.month:
                return False
            return day == (_nearest_working_day(target) if working else target)
        if item.endswith("W"):
            try:
                target = day.replace(day=int(item[:-1]))
            except ValueError:
                return False
            return day == _nearest_working_day(target)
        return _item(item, day.day, 1, 31)

    def _weekday_item(self, item: str, day: date) -> bool:
        number = day.isoweekday() % 7
        if item == "?":
            return True
        if "#" in item:
            name, nth = item.split("#")
            return self._weekday_number(name) == number and (day.day + 6) // 7 == int(nth)
        if item == "L":
            return self.quartz and number == 6
        if "L" in item:
            last = (day + 7 * _ONE_DAY).month != day.month
            return self._weekday_number(item.strip("L")) == number and last
        if self.quartz:
            return _item(item, number + 1, 1, 7, _DAYS, 1)
        base = item.split("/", maxsplit=1)[0]
        if "-" in base:
            first, last_name = (_number(end, _DAYS, 0) for end in base.split("-"))
            if first > last_name:
                step = int(item.split("/")[1]) if "/" in item else 1
                distance = (number - first) % 7
                return distance <= (last_name - first) % 7 and distance % step == 0
        return _item(item, number, 0, 7, _DAYS, 0) or (number == 0 and _item(item, 7, 0, 7, _DAYS, 0))

    def _weekday_number(self, text: str) -> int:
        if text in _DAYS:
            return _DAYS.index(text)
        return int(text) - 1 if self.quartz else int(text) % 7


def _last(day: date) -> date:
    while (day + _ONE_DAY).month == day.month:
        day += _ONE_DAY
    return day


def _nearest_working_day(target: date) -> date:
    around = [target + n * _ONE_DAY for n in range(-3, 4)]
    inside = [day for day in around if day.month == target.month and day.isoweekday() <= 5]
    return min(inside, key=lambda day: abs(day - target))


def _number(text: str, names: list[str], base: int) -> int:
    return names.index(text) + base if text in names else int(text)


def _field(text: str, value: int, low: int, high: int, names: list[str] | None = None, base: int = 0) -> bool:
    return any(_item(item, value, low, high, names, base) for item in text.split(","))


def _item(item: str, value: int, low: int, high: int, names: list[str] | None = None, base: int = 0) -> bool:
    known = names or []
    body, slash, rest = item.partition("/")
    step = int(rest) if slash else 1
    if body == "*":
        return (value - low) % step == 0
    if "-" in body:
        first, last = (_number(end, known, base) for end in body.split("-"))
        if first <= last:
            return first <= value <= last and (value - first) % step == 0
        span = high - low + 1
        distance = (value - first) % span
        return distance <= (last - first) % span and distance % step == 0
    first = _number(body, known, base)
    if slash:
        return first <= value <= high and (value - first) % step == 0
    return value == first


def clock_changes(zone: str, first_year: int, last_year: int) -> list[int]:
    """The instants (UTC seconds, found to the minute) at which a zone's offset changes."""
    info = ZoneInfo(zone)
    changes = []
    at = int(datetime(first_year, 1, 1).timestamp()) // 86_400 * 86_400
    end = int(datetime(last_year + 1, 1, 1).timestamp())
    while at < end:
        if _offset(info, at) != _offset(info, at + 86_400):
            minute = at
            while _offset(info, minute) == _offset(info, at):
                minute += 60
            changes.append(minute)
        at += 86_400
    return changes


def _offset(info: ZoneInfo, at: int) -> timedelta:
    offset = datetime.fromtimestamp(at, info).utcoffset()
    assert offset is not None
    return offset
