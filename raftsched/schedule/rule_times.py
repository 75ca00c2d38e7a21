"""Finds and counts the wall-clock seconds that a recurrence rule means, without any zone.

A search begins at the period it is asked about, not at the rule's start: `INTERVAL` is a matter of the distance from
the start, and `COUNT` is turned into a last time once. Times are counted by days, years or steps of the interval, and
not one by one. Searches end with fields.LAST_YEAR, or with their steps (see `budget`). Walls are as in `wall`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache, reduce
from itertools import product
from math import gcd
from operator import or_

from raftsched.schedule.budget import spend
from raftsched.schedule.fields import LAST_YEAR
from raftsched.schedule.rule_days import EPOCH, YEAR_MAX, RuleDays, bits, first_of, months_of, year_of
from raftsched.schedule.rule_text import Freq, Rule
from raftsched.schedule.wall import DAY_S

_UNIT_S = {Freq.HOURLY: 3600, Freq.MINUTELY: 60, Freq.SECONDLY: 1}  # a period; of longer ones each day has its times
_END_DAY = date(LAST_YEAR + 1, 1, 1).toordinal() - EPOCH
_CYCLE_MAX = 64  # days after which the times of day repeat, that are counted together; of longer ones each day is
_QUICK_MAX = 8  # days of a cycle that is counted up to the end of LAST_YEAR for a bound
_LOOKED = 512  # units of a day that are looked at in one step
_BULK = 32  # steps that are said together


class RuleTimes:
    """The wall times of a rule that starts at the wall time `start` (RFC 5545: DTSTART), which is one of its times only
    when it matches. What the rule leaves open, the time of day or the day, is that of the start. `since`: the first
    wall time that counts, when a clock that is turned back shows some that are earlier than the start after it.

    Raises ValueError for what no wall time can keep to: an UNTIL in UTC, which only a zone makes a wall time, and an
    UNTIL beside a COUNT."""

    def __init__(self, rule: Rule, start: int, since: int | None = None) -> None:
        if rule.until_utc:
            raise ValueError("UNTIL is an instant in UTC, and no wall time")
        if rule.until is not None and rule.count is not None:
            raise ValueError("the rule has COUNT and UNTIL; only one of them can end it")
        self._since = start if since is None else since
        day, second = divmod(start, DAY_S)
        self._days = RuleDays(rule, day)
        self.pattern = _pattern(rule, second)  # seconds in each period, or in each day of longer ones
        self._sets: _Sets | None = None
        if rule.positions and rule.freq < Freq.DAILY:
            self._sets = _Sets(rule, self._days, self.pattern)
        elif rule.positions:
            self.pattern = tuple(self.pattern[i] for i in _positions(rule, len(self.pattern)))
        self._clock = _Clock(rule, start, self.pattern)
        self._until = rule.until if rule.count is None else self.nth(start, rule.count)

    @property
    def most(self) -> int:
        """No more times than these, up to the end of LAST_YEAR."""
        days = max(0, _END_DAY - self._since // DAY_S)
        if self._sets is not None:
            return (days // self._sets.shortest + 2) * self._sets.most
        if self._clock.cycle > _QUICK_MAX and not (self._days.all_days and self._clock.is_grid):
            return days * self._clock.most
        return self.count(self._since, _END_DAY * DAY_S)

    def next_from(self, wall: int) -> int | None:
        """The first matching wall time at or after `wall`; None when there is none up to the end of LAST_YEAR."""
        low = max(wall, self._since)
        found = self._next(low) if self._sets is None else self._sets.next_from(low)
        return None if found is None or (self._until is not None and found > self._until) else found

    def matches(self, wall: int) -> bool:
        return self.next_from(wall) == wall

    def count(self, low: int, high: int) -> int:
        """Returns how many wall times match in low <= wall < high."""
        low = max(low, self._since)
        high = min(high, _END_DAY * DAY_S if self._until is None else self._until + 1)
        if low >= high:
            return 0
        return self._count(low, high) if self._sets is None else self._sets.count(low, high)

    def nth(self, low: int, number: int) -> int | None:
        """The wall time of so many matches from `low` on; None when there are fewer, whatever UNTIL says."""
        low = max(low, self._since)
        if self._sets is not None:
            return self._sets.nth(low, number)
        if not self._clock.most:
            return None
        if self._days.all_days and self._clock.is_grid:
            found = self._clock.nth_of_grid(low, number)
            return found if found < _END_DAY * DAY_S else None
        year = year_of(low // DAY_S)
        while year <= LAST_YEAR:
            end = first_of(year + 1) * DAY_S
            count = self._count(low, end)
            if count >= number:
                return self._nth_of_year(low, number)
            number -= count
            low, year = end, year + 1
        return None

    def _next(self, low: int) -> int | None:
        clock, days = self._clock, self._days
        if not clock.most:
            return None
        day, second = divmod(low, DAY_S)
        if second and days.has(day):
            at = clock.next_from(day, second)
            if at is not None:
                return day * DAY_S + at
        day += second > 0
        if clock.same:
            found = days.next_from(day)
            return None if found is None else found * DAY_S + clock.first
        for year in range(year_of(day), LAST_YEAR + 1):
            begin = max(first_of(year), day)
            at = clock.first_of_days(begin, days.of_year(year) >> begin - first_of(year))
            if at is not None:
                return at
        return None

    def _count(self, low: int, high: int) -> int:
        clock, days = self._clock, self._days
        if not clock.most:
            return 0
        if days.all_days and clock.is_grid:
            return clock.count_grid(low, high)
        first, second = divmod(low, DAY_S)
        last, end = divmod(high, DAY_S)
        if first == last:
            return clock.count(first, end) - clock.count(first, second) if days.has(first) else 0
        count = 0
        if second:
            count += clock.count(first, DAY_S) - clock.count(first, second) if days.has(first) else 0
            first += 1
        if end and days.has(last):
            count += clock.count(last, end)
        while first < last:
            until = min(first_of(year_of(first) + 1), last)
            count += clock.count_days(first, days.between(first, until))
            first = until
        return count

    def _nth_of_year(self, low: int, number: int) -> int:
        """The same, of a year that has so many from `low` on: by halves."""
        day, second = divmod(low, DAY_S)
        end = first_of(year_of(day) + 1)
        while end - day > 1:
            middle = (day + end) // 2
            count = self._count(low, middle * DAY_S)
            if count >= number:
                end = middle
            else:
                number -= count
                low, day, second = middle * DAY_S, middle, 0
        return day * DAY_S + self._clock.nth(day, self._clock.count(day, second) + number)


class _Clock:
    """The times of a day: those of the pattern, or of a rule that repeats within days, of each step of its interval
    that the rule allows."""

    def __init__(self, rule: Rule, start: int, pattern: tuple[int, ...]) -> None:
        self._pattern = pattern
        self._unit = _UNIT_S.get(rule.freq, DAY_S)
        self._size = DAY_S // self._unit  # units of a day
        self._interval = rule.interval if self._unit < DAY_S else 1
        self._first = start // self._unit
        hours = rule.hours if self._unit < DAY_S else ()
        minutes = rule.minutes if self._unit <= 60 else ()
        seconds = rule.seconds if self._unit == 1 else ()
        self.is_grid = self._unit < DAY_S and not (hours or minutes or seconds)
        self._filter = None if self._unit == DAY_S or self.is_grid else (self._unit, hours, minutes, seconds)
        # Days repeat after a cycle. Whether the steps reach a unit that the rule allows is a matter of their remainder
        # modulo the day.
        step = gcd(self._interval, self._size)
        self.cycle = self._interval // step
        self.same = self.cycle == 1
        self._kept = None if self._filter is None or self._unit == 1 else _allowed(*self._filter)
        ever = self._filter is None or self._allowed()[self._first % step :: step].find(1) >= 0
        self.most = len(pattern) * -(-self._size // self._interval) if ever else 0
        self.first = (
            (self.next_from(0, 0) or 0) if self.same and self.most else 0
        )  # of each day, where all are the same
        # How many each day of the cycle has, and those of them that have some.
        self._full = [self._count(day, DAY_S) for day in range(self.cycle)] if self.cycle <= _CYCLE_MAX else []
        self._due = [(day, count) for day, count in enumerate(self._full) if count]

    def _allowed(self) -> bytes:
        assert self._filter is not None
        return self._kept or _allowed(*self._filter)

    def _phase(self, day: int) -> int:
        """The first unit of the day, or of a later one, that a step comes to."""
        return (self._first - day * self._size) % self._interval

    def first_of_days(self, first: int, days: int) -> int | None:
        """The first wall time of some days: bit 0 is the day `first`."""
        if self._full:
            spend(1 + len(self._due) // 3)
            if not self.same:
                days &= reduce(or_, (_every(self.cycle, (day - first) % self.cycle) for day, _ in self._due), 0)
            day = first + (days & -days).bit_length() - 1
            at = self.next_from(day, 0) if days else None
            return None if at is None else day * DAY_S + at
        interval = self._interval
        allowed = None if self._filter is None else self._allowed()
        for day, phase in self._comes(first, days):
            found = 0 if allowed is None else allowed[phase::interval].find(1)
            if found >= 0:
                return day * DAY_S + (phase + found * interval) * self._unit + self._pattern[0]
        return None

    def count_days(self, first: int, days: int) -> int:
        """The times of some days of a year: bit 0 is the day `first`."""
        if self._full:
            spend(1 + len(self._due) // 3)
            if self.same:
                return self._full[0] * days.bit_count()
            cycle = self.cycle
            return sum(count * (days & _every(cycle, (day - first) % cycle)).bit_count() for day, count in self._due)
        interval, size = self._interval, self._size
        allowed = None if self._filter is None else self._allowed()
        count = 0
        for _, phase in self._comes(first, days):
            count += -(-(size - phase) // interval) if allowed is None else allowed[phase::interval].count(1)
        return count * len(self._pattern)

    def _comes(self, first: int, days: int) -> Iterator[tuple[int, int]]:
        """Yields those of some days that a step comes to, and the first unit of each that one comes to."""
        size, interval, start = self._size, self._interval, self._first
        steps, looked = 1 + size // interval // _LOOKED, 0
        unit = first * size
        while True:
            day, phase = divmod(unit + (start - unit) % interval, size)
            rest = days >> day - first if day - first <= YEAR_MAX else 0
            looked += steps
            if looked >= _BULK or not rest:
                spend(looked)
                looked = 0
            if not rest:
                return
            if rest & 1:
                yield day, phase
                day += 1
            else:
                day += (rest & -rest).bit_length() - 1
            unit = day * size

    def next_from(self, day: int, second: int) -> int | None:
        """The first time of the day at or after the second."""
        pattern = self._pattern
        if self._unit == DAY_S:
            at = bisect_left(pattern, second)
            return pattern[at] if at < len(pattern) else None
        unit, rest = divmod(second, self._unit)
        first = self._from(self._phase(day), unit)
        if first is None:
            return None
        if first == unit:
            at = bisect_left(pattern, rest)
            if at < len(pattern):
                return unit * self._unit + pattern[at]
            first = self._from(self._phase(day), unit + 1)
        return None if first is None else first * self._unit + pattern[0]

    def _from(self, phase: int, unit: int) -> int | None:
        """The first unit of the day at or after this one that counts."""
        interval = self._interval
        if unit > phase:
            phase += -(-(unit - phase) // interval) * interval
        if phase >= self._size:
            return None
        if self._filter is None:
            return phase
        allowed = self._allowed()
        if interval == 1:
            found = allowed.find(1, phase)
            return found if found >= 0 else None
        spend((self._size - phase) // interval // _LOOKED)
        found = allowed[phase::interval].find(1)
        return phase + found * interval if found >= 0 else None

    def count(self, day: int, end: int) -> int:
        """The times of the day before the second `end`."""
        return self._full[day % self.cycle] if end == DAY_S and self._full else self._count(day, end)

    def _count(self, day: int, end: int) -> int:
        pattern = self._pattern
        if self._unit == DAY_S:
            return bisect_left(pattern, end)
        unit, rest = divmod(end, self._unit)
        phase, interval = self._phase(day), self._interval
        here = rest > 0 and unit >= phase and (unit - phase) % interval == 0
        before = max(0, -(-(unit - phase) // interval))
        if self._filter is not None:
            spend(2 + before // _LOOKED)
            allowed = self._allowed()
            here = here and allowed[unit] == 1
            before = allowed[phase:unit:interval].count(1)
        return before * len(pattern) + (bisect_left(pattern, rest) if here else 0)

    def nth(self, day: int, number: int) -> int:
        """The second of the day at which so many have come; there are as many."""
        number, place = divmod(number - 1, len(self._pattern))
        if self._unit == DAY_S:
            return self._pattern[place]
        phase = self._phase(day)
        if self._filter is None:
            return (phase + number * self._interval) * self._unit + self._pattern[place]
        steps = self._allowed()[phase :: self._interval]
        spend(1 + 2 * len(steps) // _LOOKED)
        low, high = 0, len(steps)
        while high - low > 1:
            middle = (low + high) // 2
            count = steps.count(1, low, middle)
            if count > number:
                high = middle
            else:
                low, number = middle, number - count
        return (phase + low * self._interval) * self._unit + self._pattern[place]

    # A grid: of a rule by hours, minutes or seconds that asks for nothing but the interval, counted from the first.

    def _before(self, wall: int) -> int:
        unit, rest = divmod(wall, self._unit)
        steps = -(-(unit - self._first) // self._interval)
        here = (unit - self._first) % self._interval == 0
        return steps * len(self._pattern) + (bisect_left(self._pattern, rest) if here else 0)

    def count_grid(self, low: int, high: int) -> int:
        spend(1)
        return self._before(high) - self._before(low)

    def nth_of_grid(self, low: int, number: int) -> int:
        spend(1)
        steps, place = divmod(self._before(low) + number - 1, len(self._pattern))
        return (self._first + steps * self._interval) * self._unit + self._pattern[place]


class _Sets:
    """The times of a rule by years, months or weeks with BYSETPOS."""

    def __init__(self, rule: Rule, days: RuleDays, pattern: tuple[int, ...]) -> None:
        self._rule = rule
        self._days = days
        self._pattern = pattern
        self._chosen: dict[int, list[int]] = {}  # by how many a period has to choose among
        self.shortest = {Freq.YEARLY: 365, Freq.MONTHLY: 28}.get(rule.freq, 7)  # days of a period
        self.most = len(rule.positions)  # of a period
        if rule.freq is Freq.WEEKLY:
            self._chosen = {
                size: _positions(rule, size) for size in range(0, (1 + days.in_week) * len(pattern), len(pattern) or 1)
            }
            self.most = max(len(chosen) for chosen in self._chosen.values())

    def next_from(self, low: int) -> int | None:
        for first, days, chosen in self._periods(low // DAY_S) if self.most else ():
            walls = self._walls(first, days, chosen)
            at = bisect_left(walls, low)
            if at < len(walls):
                return walls[at]
        return None

    def count(self, low: int, high: int) -> int:
        total = 0
        for first, days, chosen in self._periods(low // DAY_S):
            begin = first * DAY_S
            if begin >= high:
                break
            if begin >= low and begin + days.bit_length() * DAY_S <= high:
                total += len(chosen)
            else:
                walls = self._walls(first, days, chosen)
                total += bisect_left(walls, high) - bisect_left(walls, low)
        return total

    def nth(self, low: int, number: int) -> int | None:
        for first, days, chosen in self._periods(low // DAY_S):
            if first * DAY_S >= low and len(chosen) < number:
                number -= len(chosen)
                continue
            walls = self._walls(first, days, chosen)
            skip = bisect_left(walls, low)
            if skip + number <= len(walls):
                return walls[skip + number - 1]
            number -= len(walls) - skip
        return None

    def _walls(self, first: int, days: int, chosen: Sequence[int]) -> list[int]:
        size, numbers = len(self._pattern), bits(days)
        spend(1 + (len(numbers) + len(chosen)) // 8)
        return [(first + numbers[i // size]) * DAY_S + self._pattern[i % size] for i in chosen]

    def _periods(self, low: int) -> Iterator[tuple[int, int, list[int]]]:
        """Yields the years, months or weeks from the one that holds `low` on: the first day, the matching days from it
        on, and which of their times are chosen; none is empty."""
        times, known = len(self._pattern), self._chosen
        low -= (low - self._days.week) % 7 if self._rule.freq is Freq.WEEKLY else 0
        for year in range(year_of(low), LAST_YEAR + 1):
            days = self._days.of_year(year)
            first = first_of(year)
            if self._rule.freq is Freq.WEEKLY:  # the last week goes on in the next year
                days |= self._days.of_year(year + 1) << first_of(year + 1) - first
            if not days:
                continue
            spans = [span for span in self._spans(year) if first + span[1] > low]
            spend((len(spans) + 1) // 2)
            for begin, end in spans:
                size = ((days >> begin) & ((1 << end - begin) - 1)).bit_count() * times
                chosen = known.get(size)
                if chosen is None:
                    chosen = known[size] = _positions(self._rule, size)
                if chosen:
                    yield first + begin, (days >> begin) & ((1 << end - begin) - 1), chosen

    def _spans(self, year: int) -> Sequence[tuple[int, int]]:
        """The periods that begin in the year: days of it from which and before which."""
        first, end = first_of(year), first_of(year + 1)
        if self._rule.freq is Freq.YEARLY:
            return [(0, end - first)]
        if self._rule.freq is Freq.MONTHLY:
            return months_of(end - first)
        return [(begin, begin + 7) for begin in range((self._days.week - first) % 7, end - first, 7)]


@lru_cache(maxsize=32)
def _allowed(unit: int, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> bytes:
    """Returns a byte for each unit of a day, 1 where the rule allows it. An empty part allows all."""
    second = bytes([1]) if unit > 1 else _flags(60, seconds)
    minute = (
        bytes([1]) if unit > 60 else b"".join(second if flag else bytes(len(second)) for flag in _flags(60, minutes))
    )
    return b"".join(minute if flag else bytes(len(minute)) for flag in _flags(24, hours))


def _where(flags: bytes, part: bytes) -> bytes:
    nothing = bytes(len(part))
    return b"".join(part if flag else nothing for flag in flags)


def _flags(size: int, allowed: tuple[int, ...]) -> bytes:
    return bytes(not allowed or number in allowed for number in range(size))


@lru_cache(maxsize=1024)
def _every(cycle: int, offset: int) -> int:
    """The bits offset, offset + cycle, .. of a year."""
    return sum(1 << bit for bit in range(offset, 366, cycle))


def _pattern(rule: Rule, second: int) -> tuple[int, ...]:
    if rule.freq is Freq.SECONDLY:
        return (0,)
    hours = (rule.hours or (second // 3600,)) if rule.freq <= Freq.DAILY else (0,)
    minutes = (rule.minutes or (second // 60 % 60,)) if rule.freq <= Freq.HOURLY else (0,)
    seconds = rule.seconds or (second % 60,)
    return tuple(h * 3600 + m * 60 + s for h, m, s in product(hours, minutes, seconds))


def _positions(rule: Rule, size: int) -> list[int]:
    """Returns which of so many BYSETPOS chooses, from 0 on, ascending."""
    found = {position - 1 if position > 0 else size + position for position in rule.positions}
    return sorted(i for i in found if 0 <= i < size)
