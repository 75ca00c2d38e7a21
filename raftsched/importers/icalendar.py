"""Reads the events of an iCalendar file (RFC 5545) into the days of a calendar, and the times that it excludes once.
Nothing raises: what does not map is a refusal with its line.

An event of one day is a date, of more a range, one that comes each year on its date a yearly day, one that comes each
week a weekday. Another rule is written out, date by date, up to the last year that calendars know. An event with times
of day is a time range, in UTC or in the zone that it names; those that repeat are refused.

Programs end a rule of all-day events with an instant in UTC, where RFC 5545 wants a date. It is the begin or the end of
a day in the zone of the program, which the file may name (X-WR-TIMEZONE).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from raftsched.schedule import TriggerError
from raftsched.schedule.fields import FIRST_YEAR, LAST_YEAR
from raftsched.schedule.local_days import local_ms
from raftsched.schedule.rule_text import Freq, Rule, parse_rule
from raftsched.schedule.rule_times import RuleTimes
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.zones import is_zone
from raftsched.schedule.zones import zone as find_zone

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WRITTEN_MAX = 400  # dates of one rule
_EPOCH = date(1970, 1, 1)
_DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})", re.ASCII)
_MOMENT = re.compile(r"([0-9]{8}T[0-9]{6})(Z?)", re.ASCII | re.IGNORECASE)
_MIDNIGHT = re.compile(r"([0-9]{8})T000000", re.ASCII | re.IGNORECASE)
_ZONE = re.compile(r';TZID=(?:"([^"]*)"|([^";:]*))', re.IGNORECASE)
_LASTS = re.compile(
    r"\+?P(?:([0-9]{1,4})W|(?:([0-9]{1,4})D)?(?:T(?:([0-9]{1,4})H)?(?:([0-9]{1,5})M)?(?:([0-9]{1,6})S)?)?)"
)
_DAYS = re.compile(r"\+?P([0-9]{1,4})([DW])", re.ASCII)
_NAME_OF_PARAMETER = re.compile(r'(?:^|;)([^=;"]+)=(?:"[^"]*"|[^;"]*)')
_SILENT = frozenset({"VTIMEZONE", "VALARM", "STANDARD", "DAYLIGHT"})
_READ = frozenset({"DTSTART", "DTEND", "DURATION", "RRULE", "STATUS", "SUMMARY", "RDATE", "EXDATE", "EXRULE",
                   "RECURRENCE-ID", "X-MICROSOFT-CDO-ALLDAYEVENT"})  # fmt: skip
_KEPT_BY_PROGRAMS = frozenset({"UID", "DTSTAMP", "CREATED", "LAST-MODIFIED", "SEQUENCE"})  # about the event itself
_OF_FILE = frozenset({"BEGIN", "END", "VERSION", "PRODID", "METHOD", "X-WR-CALNAME", "X-WR-TIMEZONE"})
_PARAMETERS = frozenset({"VALUE", "TZID", "LANGUAGE"})


@dataclass
class Days:
    """`refused` and `notes` name lines of the file."""

    dates: set[str] = field(default_factory=set)
    ranges: set[tuple[str, str]] = field(default_factory=set)
    yearly: set[str] = field(default_factory=set)
    weekdays: set[str] = field(default_factory=set)
    excludes: set[tuple[str, str]] = field(default_factory=set)
    name: str | None = None  # as the file calls itself
    events: int = 0  # that were taken
    refused: list[tuple[int, str, str]] = field(default_factory=list)  # line, text, reason
    notes: list[tuple[int, str]] = field(default_factory=list)
    zone: str | None = None  # in which its days begin, as the file says, or as it was asked for
    today: date | None = None  # what begins later begins after some time that the calendar is about already
    left: dict[str, int] = field(default_factory=dict)  # what is not read, with the line of the first

    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "dates": sorted(self.dates),
            "ranges": [{"from": first, "to": last} for first, last in sorted(self.ranges)],
            "yearly": sorted(self.yearly),
        }
        if self.weekdays:
            found["weekdays"] = [day for day in WEEKDAYS if day in self.weekdays]
        if self.excludes:
            found["excludes"] = [{"from": first, "to": last} for first, last in sorted(self.excludes)]
        return found


@dataclass
class _Line:
    number: int
    text: str
    name: str
    parameters: str
    value: str


class _Refusal(Exception):
    def __init__(self, line: _Line, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def read_icalendar(text: str, zone: str | None = None, today: date | None = None) -> Days:
    """`zone`: an IANA name, of whose days they are where the file does not say it."""
    found = Days(zone=zone, today=today)
    _read(text, found)
    if found.left:
        names = list(found.left)
        has, are = ("has", "it is") if len(names) == 1 else ("have", "they are")
        found.notes.append((found.left[names[0]], f"{', '.join(names)} {has} no counterpart here; {are} left out"))
    return found


def _read(text: str, found: Days) -> None:
    open_: list[_Line] = []
    event: list[_Line] = []
    seen = False
    for line in _lines(text, found):
        if line.name == "BEGIN":
            open_.append(line)
            seen = seen or line.value.upper() == "VCALENDAR"
            if line.value.upper() == "VEVENT":
                event = []
            elif line.value.upper() in ("VALARM", "VTIMEZONE"):
                found.left.setdefault(line.value.upper(), line.number)
        elif line.name == "END":
            if not open_ or open_[-1].value.upper() != line.value.upper():
                found.refused.append((line.number, line.text, "ends what was not begun; the rest is not read"))
                return
            begun = open_.pop()
            if begun.value.upper() == "VEVENT":
                _take(begun, event, found)
            elif begun.value.upper() not in ("VCALENDAR", *_SILENT):
                found.refused.append((begun.number, begun.text, "is no event; only those have days"))
        elif open_ and open_[-1].value.upper() == "VEVENT":
            event.append(line)
        elif len(open_) == 1:
            _take_of_file(line, found)
    if open_:
        found.refused.append((open_[-1].number, open_[-1].text, "is not ended; the file breaks off"))
    elif not seen:
        found.refused.append((1, text[:60], "is not iCalendar, which begins with BEGIN:VCALENDAR"))


def _take_of_file(line: _Line, found: Days) -> None:
    """Takes a property of the whole file."""
    if line.name == "X-WR-CALNAME":
        found.name = line.value
    elif line.name == "X-WR-TIMEZONE" and is_zone(line.value):
        found.zone = line.value
    elif line.name not in _OF_FILE and (line.name != "CALSCALE" or line.value.upper() != "GREGORIAN"):
        found.left.setdefault(line.name, line.number)


def _lines(text: str, found: Days) -> Iterator[_Line]:
    """Content lines, those that are folded put together."""
    parts: list[tuple[int, str]] = []
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        if raw[:1] in (" ", "\t") and parts:
            parts[-1] = (parts[-1][0], parts[-1][1] + raw[1:])
        elif raw.strip():
            parts.append((number, raw))
    for number, raw in parts:
        head, colon, value = _split(raw)
        if not colon:
            found.refused.append((number, raw, "is not NAME:VALUE"))
            continue
        name, _, parameters = head.partition(";")
        yield _Line(number, raw, name.strip().upper(), parameters.upper(), value.strip())


def _split(raw: str) -> tuple[str, str, str]:
    """Splits a line at the first colon outside quotes."""
    quoted = False
    for at, char in enumerate(raw):
        if char == '"':
            quoted = not quoted
        elif char == ":" and not quoted:
            return raw[:at], ":", raw[at + 1 :]
    return raw, "", ""


def _take(begun: _Line, event: list[_Line], found: Days) -> None:
    for line in event:
        _leave(line, found)
    given = {line.name: line for line in event}
    summary = given["SUMMARY"].value if "SUMMARY" in given else begun.text
    status = given.get("STATUS")
    if status is not None and status.value.upper() == "CANCELLED":
        found.notes.append((begun.number, f"{summary}: was cancelled, and is left out"))
        return
    try:
        start = given.get("DTSTART")
        if start is None:
            raise _Refusal(begun, "has no DTSTART")
        if given.get("X-MICROSOFT-CDO-ALLDAYEVENT", start).value.upper() == "TRUE":
            given = {name: _midnight(line) for name, line in given.items()}
            start = given["DTSTART"]
        if _MOMENT.fullmatch(start.value):
            _take_times(start, given, found)
        else:
            first = _date(start)
            days = _length(first, given, found)
            if "RRULE" in given:
                _repeat(given["RRULE"], first, days, found)
            else:
                _add(first, days, start, found)
        for line in event:
            if line.name in ("RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID"):
                reason = "is not read: the dates that it adds or takes out have to be given to the calendar by hand"
                found.refused.append((line.number, f"{summary}: {line.text}", reason))
        found.events += 1
    except _Refusal as refusal:
        found.refused.append((refusal.line.number, f"{summary}: {refusal.line.text}", str(refusal)))


def _leave(line: _Line, found: Days) -> None:
    """Keeps the name of a property, or of a parameter of one, that is not read."""
    if line.name not in _READ | _KEPT_BY_PROGRAMS:
        found.left.setdefault(line.name, line.number)
    elif line.name in _READ:
        for parameter in _NAME_OF_PARAMETER.findall(line.parameters):
            if parameter not in _PARAMETERS:
                found.left.setdefault(f"{line.name};{parameter}", line.number)


def _midnight(line: _Line) -> _Line:
    """The line with a date in place of a midnight, which Outlook writes for whole days in a zone of its own."""
    found = _MIDNIGHT.fullmatch(line.value) if line.name in ("DTSTART", "DTEND") else None
    return line if found is None else replace(line, value=found[1])


def _take_times(start: _Line, given: dict[str, _Line], found: Days) -> None:
    if "RRULE" in given:
        raise _Refusal(given["RRULE"], "repeats at a time of day; give the calendar its hours by hand (--hours)")
    end, duration = given.get("DTEND"), given.get("DURATION")
    begin = _moment(start)
    if end is not None:
        last = _moment(end, last=True)
    elif duration is not None:
        last = begin + _lasting(duration)
    else:
        raise _Refusal(start, "has no end: neither DTEND nor DURATION")
    if last <= begin:
        raise _Refusal(end or start, "ends when it begins, or before")
    found.excludes.add((_text(begin), _text(last)))


def _moment(line: _Line, *, last: bool = False) -> datetime:
    """`last`: the second one of two, where clocks show a time twice."""
    match = _MOMENT.fullmatch(line.value)
    if match is None:
        raise _Refusal(line, "has no time of day, as its start has")
    zone = _ZONE.search(line.text.partition(":")[0] if '"' not in line.text else line.text)
    if not match[2] and zone is None:
        raise _Refusal(line, "names no time zone; give its time to the calendar by hand (--exclude)")
    try:
        local = datetime.strptime(match[1].upper(), "%Y%m%dT%H%M%S")
        place = "UTC" if match[2] or zone is None else zone[1] or zone[2]
        moment = datetime.fromtimestamp(local_ms(local, place, last=last) // 1000, UTC)
    except (ValueError, OverflowError):
        raise _Refusal(line, "is no time") from None
    except TriggerError:
        raise _Refusal(line, "names a time zone that is not known here; use an IANA name") from None
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise _Refusal(line, f"is not within {FIRST_YEAR} to {LAST_YEAR}")
    return moment


def _lasting(line: _Line) -> timedelta:
    match = _LASTS.fullmatch(line.value.upper())
    if match is None:
        raise _Refusal(line, "is no duration such as PT5H")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _date(line: _Line) -> date:
    match = _DATE.fullmatch(line.value)
    if match is None:
        raise _Refusal(line, "is no date such as 20270326")
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise _Refusal(line, "is no date") from None
    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        raise _Refusal(line, f"is not within {FIRST_YEAR} to {LAST_YEAR}")
    return day


def _length(first: date, given: dict[str, _Line], found: Days) -> int:
    """Returns the length in days. The end is the day after the last one."""
    end, duration = given.get("DTEND"), given.get("DURATION")
    if end is not None:
        days = (_date(end) - first).days
        if days < 0:
            raise _Refusal(end, "is before DTSTART")
        if days == 0:
            found.notes.append((end.number, "the end is the start; taken as one day"))
        return max(1, days)
    if duration is None:
        return 1
    match = _DAYS.fullmatch(duration.value.upper())
    if match is None or int(match[1]) == 0:
        raise _Refusal(duration, "is no number of days")
    return int(match[1]) * (7 if match[2] == "W" else 1)


def _add(first: date, days: int, line: _Line, found: Days) -> None:
    last = first + timedelta(days - 1)
    if last.year > LAST_YEAR:
        raise _Refusal(line, f"goes on after {LAST_YEAR}")
    if days == 1:
        found.dates.add(first.isoformat())
    else:
        found.ranges.add((first.isoformat(), last.isoformat()))


def _repeat(line: _Line, first: date, days: int, found: Days) -> None:
    try:
        rule = _to_its_last_day(line, parse_rule(line.value), found)
    except TriggerError as error:
        raise _Refusal(line, error.detail) from None
    if _is_plain(rule, Freq.YEARLY) and _own_date(rule, first) and days <= 31 and not _over_29_february(first, days):
        for more in range(days):
            # of a year that has them all; a range over New Year's goes on in the next one
            day = date(2000, first.month, first.day) + timedelta(more)
            found.yearly.add(f"{day.month:02}-{day.day:02}")
        _say_all_times(line, first, f"each year: taken for all years, also before {first.year}", found)
        return
    if _is_plain(rule, Freq.WEEKLY) and not rule.months and days <= 7:
        for weekday in rule.weekdays or {first.weekday()}:
            found.weekdays.update(WEEKDAYS[(weekday + more) % 7] for more in range(days))
        _say_all_times(line, first, "each week: taken for all times, also before the first", found)
        return
    _write_out(line, rule, first, days, found)


def _say_all_times(line: _Line, first: date, text: str, found: Days) -> None:
    """Notes that days are excluded before the event begins, where that may matter."""
    if found.today is None or first > found.today:
        found.notes.append((line.number, text))


def _to_its_last_day(line: _Line, rule: Rule, found: Days) -> Rule:
    """The rule with a date in place of an UNTIL in UTC."""
    if rule.until is None or not rule.until_utc:
        return rule
    if found.zone is None:
        day, sure = _nearest_day(rule.until)
        why = f"UNTIL={_instant_text(rule.until)} is an instant, and neither the file nor -z names its time zone"
    else:
        day, second = divmod(rule.until + find_zone(found.zone).stretch(rule.until).offset, DAY_S)
        sure = second in (0, DAY_S - 60, DAY_S - 1)
        why = f"UNTIL={_instant_text(rule.until)} neither begins nor ends a day in {found.zone}"
    if not sure:
        found.notes.append((line.number, f"{why}: taken as {_EPOCH + timedelta(day)}, that day included"))
    return replace(rule, until=(day + 1) * DAY_S - 1, until_utc=False)


def _nearest_day(until: int) -> tuple[int, bool]:
    """(the day, since 1970, that an instant begins or ends in the zones that are nearest to UTC, whether it does in UTC
    itself). The end of a day is written as its last second or minute."""
    ends = until % 60 == 59 or until % 900 == 840
    midnight = until + (60 - until % 60 if ends else 0)
    return (midnight + DAY_S // 2) // DAY_S - ends, midnight % DAY_S == 0


def _instant_text(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")


def _is_plain(rule: Rule, freq: Freq) -> bool:
    ends = rule.count is not None or rule.until is not None
    within_days = rule.hours or rule.minutes or rule.seconds
    return rule.freq is freq and rule.interval == 1 and not ends and not (within_days or rule.positions)


def _own_date(rule: Rule, first: date) -> bool:
    """Returns True when the rule names no other day than the first one. A day of the month alone is one of each."""
    return (
        rule.months <= {first.month}
        and rule.month_days <= {first.day}
        and bool(rule.months or not rule.month_days)
        and not (rule.weekdays or rule.nth or rule.weeks or rule.year_days)
    )


def _over_29_february(first: date, days: int) -> bool:
    """Returns True for several days of which one is 29 February in leap years only."""
    begin = date(2000, first.month, first.day)
    return days > 1 and begin <= date(2000, 2, 29) < begin + timedelta(days)


def _write_out(line: _Line, rule: Rule, first: date, days: int, found: Days) -> None:
    if rule.freq > Freq.DAILY or rule.hours or rule.minutes or rule.seconds:
        raise _Refusal(line, "repeats within days; give the calendar its hours by hand")
    start = (first - _EPOCH).days * DAY_S
    times, at = RuleTimes(rule, start), start
    written: list[date] = []
    while len(written) <= WRITTEN_MAX:
        wall = times.next_from(at)
        if wall is None:
            break
        written.append(_EPOCH + timedelta(wall // DAY_S))
        at = wall + 1
    if not written:
        raise _Refusal(line, f"has no day from its start, {first}, on")
    if len(written) > WRITTEN_MAX:
        raise _Refusal(line, f"has more than {WRITTEN_MAX} dates; give its weekdays to the calendar by hand")
    for day in written:
        _add(day, days, line, found)
    if written[0] != first:
        found.notes.append((line.number, f"its start, {first}, is no day of its rule; it is left out"))
    if rule.count is None and rule.until is None:
        found.notes.append((line.number, f"written out: {len(written)} dates, up to {LAST_YEAR}"))
