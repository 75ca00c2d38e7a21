"""`raftsched calendars`: named days and hours in which nothing is due."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.lazy import Group
from raftsched.cli.remote import format_option, remote, source_name
from raftsched.cli.resources.resource import (
    Resource,
    delete_command,
    get_command,
    list_command,
    put_or_patch,
    said_fields,
    tell,
)
from raftsched.cli.terminal.output import print_json
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell
from raftsched.surface.plain import calendars as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client
    from raftsched.importers.icalendar import Days

_CALENDARS = Resource(addresses.LIST, names.CALENDAR)
_NONE = "none"
_FILE_MAX = 10 << 20  # bytes
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(?:(?P<days>[a-z, -]+)\s+)?(?P<from>\d\d:\d\d)\s*-\s*(?P<to>\d\d:\d\d)")
_NO_NAME = re.compile(r"[^a-z0-9._-]+")


def _days(calendar: Mapping[str, Any]) -> str:
    """Such as "sat, sun; 22:00-06:00; 2 yearly; 1 range; 14 dates"."""
    parts = [", ".join(calendar["weekdays"])] if calendar["weekdays"] else []
    parts += [_hours_text(one) for one in calendar.get("hours", ())]
    if calendar.get("only"):
        parts.append(f"all but {', '.join(_hours_text(one) for one in calendar['only'])}")
    for field, one in (("yearly", "yearly"), ("ranges", "range"), ("dates", "date"), ("excludes", "time range")):
        count = len(calendar.get(field, ()))
        if count:
            parts.append(f"{count} {one}{'s' if count > 1 and one != 'yearly' else ''}")
    return "; ".join(parts)


def _hours_text(hours: Mapping[str, Any]) -> str:
    """Such as "mon-fri 22:00-06:00"."""
    days = list(hours.get("weekdays") or ())
    at = [_WEEKDAYS.index(day) for day in days]
    in_row = len(at) > 2 and at == list(range(at[0], at[0] + len(at)))
    named = f"{days[0]}-{days[-1]}" if in_row else ",".join(days)
    return f"{named} {hours['from']}-{hours['to']}".lstrip()


_COLUMNS = [
    Column("NAME", lambda c: c["name"], "name", 1),
    Column("EXCLUDED", _days, "text", 2),
    Column("TIMEZONE", lambda c: c["timezone"], "text", 3),
    Column("DESCRIPTION", lambda c: c["description"], "text", 4),
]


@click.group(cls=Group)
def calendars() -> None:
    """Calendars: named days and hours in which nothing is due.

    A trigger with times of its own (cron, rrule, every) may name one: {"cron": "0 9 * * *", "calendar": "holidays"}.
    Changing a calendar changes the next times of the jobs that use it.
    """


list_command(
    calendars,
    _CALENDARS,
    _COLUMNS,
    "no calendars",
    """List calendars.

    \b
      raftsched calendars list
    """,
)


def _shown(calendar: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(calendar)
    for field in ("ranges", "excludes"):
        shown[field] = [f"{one['from']} to {one['to']}" for one in calendar.get(field, ())]
    for field in ("hours", "only"):
        shown[field] = [_hours_text(one) for one in calendar.get(field, ())]
    for field in ("dates", "ranges", "yearly", "weekdays", "hours", "only", "excludes"):
        shown[field] = ", ".join(shown[field])
    return said_fields(shown)


get_command(
    calendars,
    _CALENDARS,
    "CALENDAR",
    """Show the days and hours of a calendar.

    \b
      raftsched calendars get holidays
      raftsched jobs list --calendar holidays      (who uses it)
    """,
    _shown,
)


@calendars.command("set")
@click.argument("calendar", metavar="CALENDAR")
@click.option("--date", "dates", metavar="DATE", multiple=True, help="This day, 2026-12-25; may be repeated.")
@click.option(
    "--range", "ranges", metavar="FROM..TO", multiple=True, help="These days, both included; may be repeated."
)
@click.option("--yearly", metavar="MM-DD", multiple=True, help="This day each year, 12-25; may be repeated.")
@click.option("--weekdays", metavar="DAYS", help="These days each week, such as sat,sun.")
@click.option(
    "--hours", metavar="[DAYS ]FROM-TO", multiple=True, help="These hours, 'fri,sat 22:00-06:00'; may be repeated."
)
@click.option("--only", metavar="[DAYS ]FROM-TO", multiple=True, help="All but these hours; may be repeated.")
@click.option("--exclude", "excludes", metavar="TIME..TIME", multiple=True, help="Once, this time; may be repeated.")
@click.option("--timezone", "-z", metavar="TZ", help="Whose days; 'none': those of each trigger's zone.")
@click.option("--description", metavar="TEXT", help="What it is; 'none' for nothing.")
@click.option("-f", "--file", "file", type=click.File("rb"), help="All of it as YAML or JSON ('-': stdin).")
@format_option
@remote
def set_(client: Client, calendar: str, fmt: str, file: Any, **given: Any) -> None:
    """Make a calendar, or change what is named of one: a list that is given replaces the one there is, 'none' empties
    it.

    \b
      raftsched calendars set holidays -z Europe/Madrid --yearly 01-01 --yearly 12-25 --date 2027-03-26
      raftsched calendars set holidays --weekdays sat,sun --range 2027-08-01..2027-08-31
      raftsched calendars set holidays --date none
      raftsched calendars set office -z Europe/Madrid --only 'mon-fri 09:00-17:00'
      raftsched calendars set nights --hours 22:00-06:00 --exclude 2027-03-07T20:00:00Z..2027-03-08T04:00:00Z
      raftsched calendars get holidays -o yaml > holidays.yaml; raftsched calendars set holidays -f holidays.yaml
    """
    path = _CALENDARS.path_of(calendar)
    change = _change_of(given)
    if file is not None:
        if change:
            raise click.UsageError("say the days in FILE, or by options, not both")
        found = client.request("PUT", path, body=_content(file, calendar)).json()
    elif change:
        found = put_or_patch(client, _CALENDARS, calendar, change)
    else:
        raise click.UsageError("say what to set: --date, --range, --yearly, --weekdays, --hours, ..., or -f FILE")
    tell(fmt, found, f"{found['name']}: {_days(found) or 'nothing'}")


delete_command(
    calendars,
    _CALENDARS,
    "CALENDAR",
    """Delete calendars. One that a job uses stays.

    \b
      raftsched calendars delete holidays
    """,
)


@calendars.command("import")
@click.argument("words", metavar="[CALENDAR] FILE", nargs=-1, required=True)
@click.option("--name", metavar="CALENDAR", help="Its name.  [default: that of the file]")
@click.option(
    "--timezone", "-z", metavar="TZ", help="The zone of its days.  [default: as it is, else each trigger's zone]"
)
@click.option("--dry-run", is_flag=True, help="Read and report, send nothing.")
@format_option
@remote
def import_(
    client: Client, words: tuple[str, ...], name: str | None, timezone: str | None, dry_run: bool, fmt: str
) -> None:
    """Make a calendar of an iCalendar file (.ics): its all-day events, once, each year, or by a rule, and events with
    times of day that do not repeat.

    Importing again brings its dates up to date; weekdays, hours, zone and description that it has stay. What does not
    map is listed with its line and the reason, and the rest goes in: the exit code is then 1. A rule that ends with an
    instant in UTC ends on the day on which that is: in the zone that the file names (X-WR-TIMEZONE), else in that of
    --timezone.

    \b
      raftsched calendars import holidays.ics --dry-run
      raftsched calendars import spain holidays.ics
      curl -s https://example.com/es.ics | raftsched calendars import - --name spain -z Europe/Madrid
    """
    from raftsched.importers.icalendar import read_icalendar
    from raftsched.schedule.zones import is_zone
    from raftsched.system.clock import SystemClock

    if timezone is not None and not is_zone(timezone):
        raise click.UsageError(f"--timezone {timezone!r} is not a time zone; write an IANA name such as Europe/Madrid")
    if len(words) > 2 or (len(words) == 2 and name is not None):
        raise click.UsageError("say one FILE, and before it, or by --name, at most one name of a calendar")
    file = click.File("rb").convert(words[-1], None, click.get_current_context())
    source = source_name(file)
    name = name or (words[0] if len(words) == 2 else None) or _NO_NAME.sub("-", Path(source).stem.lower()).strip("-.")
    _CALENDARS.path_of(name)  # checked before the file is read
    data = file.read(_FILE_MAX + 1)
    if len(data) > _FILE_MAX:
        raise click.UsageError(f"{source} is larger than {_FILE_MAX:,} bytes; split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{source} is not UTF-8 text") from None
    today = datetime.fromtimestamp(SystemClock().wall_ms() // 1000, UTC).date()
    days = read_icalendar(text, timezone, today)
    change = {**days.content(), **({} if timezone is None else {"timezone": timezone})}
    found = None
    if not dry_run and days.events:
        found = put_or_patch(client, _CALENDARS, name, change, {"description": days.name} if days.name else {})
    _report(fmt, source, name, days, found, change)
    sys.exit(1 if days.refused else 0)


def _report(fmt: str, source: str, name: str, days: Days, found: Any, change: dict[str, Any]) -> None:
    if fmt == "json":
        refused = [{"line": line, "text": text, "reason": reason} for line, text, reason in days.refused]
        notes = [{"line": line, "note": note} for line, note in days.notes]
        shown = {"name": name, **change} if found is None else found
        print_json({"calendar": shown, "events": days.events, "refused": refused, "notes": notes})
        return
    for line, text, reason in sorted(days.refused):
        cut = text if len(text) <= 100 else text[:99] + "…"
        click.echo(f"line {line}: refused: {cell(cut)}\n    {cell(reason)}", err=True)
    if fmt == "name":
        click.echo(name)
        return
    for line, note in sorted(days.notes):
        click.echo(f"line {line}: note: {cell(note)}", err=True)
    what = "imported" if found is not None or not days.events else "would be imported"
    events = "1 event" if days.events == 1 else f"{days.events} events"
    shown = {"weekdays": [], **change} if found is None else found
    click.echo(f"{source}: {events} {what}, {len(days.refused)} refused")
    if days.events:
        click.echo(f"{name}: {_days(shown) or 'nothing'}")


def _change_of(given: Mapping[str, Any]) -> dict[str, Any]:
    change: dict[str, Any] = {}
    for field in ("dates", "yearly"):
        if given[field]:
            change[field] = _listed(given[field])
    if given["ranges"]:
        change["ranges"] = [_range("range", text, "2027-08-01..2027-08-31") for text in _listed(given["ranges"])]
    if given["excludes"]:
        right = "2027-03-07T20:00:00Z..2027-03-08T04:00:00Z"
        change["excludes"] = [_range("exclude", text, right) for text in _listed(given["excludes"])]
    for field in ("hours", "only"):
        if given[field]:
            change[field] = [_hours(field, text) for text in _listed(given[field])]
    if given["weekdays"] is not None:
        change["weekdays"] = [d.strip().lower() for d in _listed(given["weekdays"].split(","))]
    for field in ("timezone", "description"):
        if given[field] is not None:
            change[field] = None if given[field] == _NONE else given[field]
    return change


def _listed(texts: Sequence[str]) -> list[str]:
    return [] if list(texts) == [_NONE] else list(texts)


def _range(option: str, text: str, right: str) -> dict[str, str]:
    first, dots, last = text.partition("..")
    if not dots or not first or not last:
        raise click.UsageError(f"--{option} {text!r} is not FROM..TO; write {right}")
    return {"from": first, "to": last}


def _hours(option: str, text: str) -> dict[str, Any]:
    match = _HOURS.fullmatch(text.strip().lower())
    if match is None:
        raise click.UsageError(
            f"--{option} {text!r} is not [DAYS ]FROM-TO; write 22:00-06:00, or 'mon-fri 09:00-17:00'"
        )
    found: dict[str, Any] = {"from": match["from"], "to": match["to"]}
    if match["days"]:
        found["weekdays"] = [day for part in match["days"].split(",") for day in _named_days(option, part.strip())]
    return found


def _named_days(option: str, text: str) -> list[str]:
    """The days of "fri" or "mon-fri"; "sat-mon" goes over the end of the week. Raises a usage error."""
    first, dash, last = text.partition("-")
    if first not in _WEEKDAYS or (dash and last not in _WEEKDAYS):
        raise click.UsageError(
            f"--{option}: {text!r} is no day; write {', '.join(_WEEKDAYS)}, or two of them as mon-fri"
        )
    begin, end = _WEEKDAYS.index(first), _WEEKDAYS.index(last or first)
    return [_WEEKDAYS[(begin + i) % 7] for i in range((end - begin) % 7 + 1)]


def _content(file: Any, name: str) -> dict[str, Any]:
    """Raises a usage error."""
    from raftsched.importers.documents import read_documents

    source = source_name(file)
    found = read_documents(file.read(), source)
    if len(found) != 1:
        raise click.UsageError(f"{source} holds {len(found)} calendars; set takes one")
    value = found[0].value
    if value.get("name", name) != name:
        raise click.UsageError(f"{source} holds the calendar {value['name']!r}, not {name!r}")
    return value
