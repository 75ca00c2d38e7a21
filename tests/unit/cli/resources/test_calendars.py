"""`raftsched calendars` against a stub of the API, and what an iCalendar file becomes."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from raftsched.importers.icalendar import Days, read_icalendar
from tests.support.stub_server import Request, problem, serve
from tests.unit.cli.house import asked, routes, run

CALENDAR = {
    "name": "holidays", "description": "Spain", "timezone": "Europe/Madrid", "dates": ["2027-03-26"],
    "ranges": [{"from": "2027-08-01", "to": "2027-08-31"}], "yearly": ["01-01", "12-25"], "weekdays": ["sat", "sun"],
    "hours": [{"from": "22:00", "to": "06:00"}], "only": [], "excludes": [],
    "revision": 3, "created_at": "2026-11-20T11:00:00Z", "modified_at": "2026-11-20T11:00:00Z",
}  # fmt: skip
PATH = "/v1/calendars/holidays"


def ics(*events: str) -> str:
    inside = "".join(f"BEGIN:VEVENT\n{event}\nEND:VEVENT\n" for event in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nX-WR-CALNAME:Spain\n{inside}END:VCALENDAR\n"


def test_list_and_get() -> None:
    with serve(
        routes({"GET /v1/calendars?limit=100": {"items": [CALENDAR], "next": None}, f"GET {PATH}": CALENDAR})
    ) as stub:
        table = run("--server", stub.url, "calendars", "list").output
        assert "sat, sun; 22:00-06:00; 2 yearly; 1 range; 1 date" in table
        shown = run("--server", stub.url, "calendars", "get", "holidays").output
        assert "2027-08-01 to 2027-08-31" in shown
        assert run("--server", stub.url, "calendars", "get", "holidays", "-o", "name").output == "holidays\n"
        assert json.loads(run("--server", stub.url, "calendars", "get", "holidays", "-o", "json").output) == CALENDAR
        assert run("--server", stub.url, "calendars", "get", "Bank Holidays").exit_code == 2
        assert run("--server", stub.url, "calendars", "get", "other").exit_code == 3


def test_set_changes_what_is_named() -> None:
    with serve(routes({f"PATCH {PATH}": CALENDAR})) as stub:
        result = run(
            *("--server", stub.url, "calendars", "set", "holidays", "--date", "2027-03-26", "--date", "2027-05-01"),
            *("--range", "2027-08-01..2027-08-31", "--yearly", "none", "--weekdays", "SAT, sun", "-z", "none"),
        )
        assert result.output == "holidays: sat, sun; 22:00-06:00; 2 yearly; 1 range; 1 date\n"
        assert stub.requests[0].json == {
            "dates": ["2027-03-26", "2027-05-01"],
            "ranges": [{"from": "2027-08-01", "to": "2027-08-31"}],
            "yearly": [],
            "weekdays": ["sat", "sun"],
            "timezone": None,
        }
        assert run("--server", stub.url, "calendars", "set", "holidays").exit_code == 2
        assert run("--server", stub.url, "calendars", "set", "holidays", "--range", "2027-08-01").exit_code == 2


def test_set_hours() -> None:
    with serve(routes({f"PATCH {PATH}": CALENDAR})) as stub:
        result = run(
            *("--server", stub.url, "calendars", "set", "holidays", "--hours", "22:00-06:00", "--only"),
            *("mon-wed, SUN 09:00-24:00", "--exclude", "2027-03-07T20:00:00Z..2027-03-08T04:00:00Z"),
        )
        assert result.exit_code == 0
        assert stub.requests[0].json == {
            "hours": [{"from": "22:00", "to": "06:00"}],
            "only": [{"from": "09:00", "to": "24:00", "weekdays": ["mon", "tue", "wed", "sun"]}],
            "excludes": [{"from": "2027-03-07T20:00:00Z", "to": "2027-03-08T04:00:00Z"}],
        }
        for bad in (["--hours", "22-06"], ["--only", "monday 09:00-17:00"], ["--exclude", "2027-03-07T20:00:00Z"]):
            assert run("--server", stub.url, "calendars", "set", "holidays", *bad).exit_code == 2


def test_set_makes_one_that_is_not_there() -> None:
    with serve(routes({f"PUT {PATH}": (201, CALENDAR)})) as stub:
        assert run("--server", stub.url, "calendars", "set", "holidays", "--date", "2027-03-26").exit_code == 0
        assert asked(stub) == [f"PATCH {PATH}", f"PUT {PATH}"]
        assert stub.requests[1].headers["if-none-match"] == "*"


def test_set_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "holidays.yaml"
    file.write_text("dates: ['2027-03-26']\nweekdays: [sat]\n")
    with serve(routes({f"PUT {PATH}": CALENDAR})) as stub:
        assert run("--server", stub.url, "calendars", "set", "holidays", "-f", str(file)).exit_code == 0
        assert stub.requests[0].json == {"dates": ["2027-03-26"], "weekdays": ["sat"]}
        both = run("--server", stub.url, "calendars", "set", "holidays", "-f", str(file), "--date", "none")
        assert both.exit_code == 2
        file.write_text("name: other\n")
        assert run("--server", stub.url, "calendars", "set", "holidays", "-f", str(file)).exit_code == 2


def test_delete_says_who_uses_it() -> None:
    used = problem(409, "in-use", "Jobs use the calendar holidays: default/a.")
    with serve(routes({f"DELETE {PATH}": used})) as stub:
        result = run("--server", stub.url, "calendars", "delete", "holidays")
        assert (result.exit_code, "default/a" in result.output + result.stderr) == (4, True)


def test_import(tmp_path: Path) -> None:
    file = tmp_path / "Holidays.ics"
    text = ics(
        "SUMMARY:Christmas\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261226\nRRULE:FREQ=YEARLY",
        "SUMMARY:Meeting\nDTSTART;TZID=Europe/Madrid:20261225T100000\nDTEND;TZID=Europe/Madrid:20261225T110000\nRRULE:FREQ=DAILY",
    )
    file.write_bytes(text.replace("\n", "\r\n").encode())

    def answer(request: Request) -> tuple[int, object]:
        return (201, CALENDAR) if request.method == "PUT" else problem(404, "not-found", "None.")

    with serve(answer) as stub:
        dry = run("--server", stub.url, "calendars", "import", str(file), "--dry-run")
        assert (dry.exit_code, stub.requests) == (1, [])
        assert "1 event would be imported, 1 refused" in dry.output
        result = run("--server", stub.url, "calendars", "import", str(file), "-z", "Europe/Madrid")
        assert result.exit_code == 1
        assert stub.requests[-1].path == PATH  # of the file's name
        assert stub.requests[-1].json == {
            "description": "Spain",
            "dates": [],
            "ranges": [],
            "yearly": ["12-25"],
            "timezone": "Europe/Madrid",
        }
        assert "line 14: refused: Meeting" in result.stderr
        assert "repeats at a time of day" in result.stderr
        shown = run("--server", stub.url, "calendars", "import", str(file), "-o", "json")
        assert [r["line"] for r in json.loads(shown.stdout)["refused"]] == [14]
        assert run("--server", stub.url, "calendars", "import", "-", input=b"\xff").exit_code == 2
        sent = len(stub.requests)
        nothing = run("--server", stub.url, "calendars", "import", "-", input=b"junk\n")
        assert (nothing.exit_code, len(stub.requests)) == (1, sent)
        assert nothing.stdout.endswith(": 0 events imported, 2 refused\n")


def read(*events: str) -> Days:
    return read_icalendar(ics(*events))


@pytest.mark.parametrize(
    ("event", "found"),
    [
        ("DTSTART;VALUE=DATE:20270326", {"dates": ["2027-03-26"]}),
        ("DTSTART;VALUE=DATE:20270326\nDTEND;VALUE=DATE:20270327", {"dates": ["2027-03-26"]}),
        ("DTSTART:20270326\nDURATION:P1D", {"dates": ["2027-03-26"]}),
        ("DTSTART:20270326\nDTEND:20270326", {"dates": ["2027-03-26"]}),
        ("DTSTART:20270801\nDTEND:20270901", {"ranges": [{"from": "2027-08-01", "to": "2027-08-31"}]}),
        ("DTSTART:20270801\nDURATION:P1W", {"ranges": [{"from": "2027-08-01", "to": "2027-08-07"}]}),
        ("DTSTART:20201225\nDTEND:20201227\nRRULE:FREQ=YEARLY", {"yearly": ["12-25", "12-26"]}),
        ("DTSTART;TZID=Romance Standard Time:20270701T000000\nDTEND;TZID=Romance Standard Time:20270703T000000\n"
         "X-MICROSOFT-CDO-ALLDAYEVENT:TRUE", {"ranges": [{"from": "2027-07-01", "to": "2027-07-02"}]}),
        ("DTSTART:20201231\nDTEND:20210102\nRRULE:FREQ=YEARLY", {"yearly": ["01-01", "12-31"]}),
        ("DTSTART:20201225\nRRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;INTERVAL=1", {"yearly": ["12-25"]}),
        ("DTSTART:20201225\nRRULE:FREQ=YEARLY;COUNT=3", {"dates": ["2020-12-25", "2021-12-25", "2022-12-25"]}),
        ("DTSTART:20201225\nRRULE:FREQ=YEARLY;UNTIL=20211225", {"dates": ["2020-12-25", "2021-12-25"]}),
        ("DTSTART:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;COUNT=2", {"dates": ["2026-11-26", "2027-11-25"]}),
        ("DTSTART:20270102\nDTEND:20270104\nRRULE:FREQ=WEEKLY", {"weekdays": ["sat", "sun"]}),
        ("DTSTART:20270102\nRRULE:FREQ=WEEKLY;BYDAY=SA,WE", {"weekdays": ["wed", "sat"]}),
        ("SUMMARY;LANGUAGE=\"a:b\":x\n y\nDTSTART;VALUE=DATE:2027\n 0326", {"dates": ["2027-03-26"]}),
        ("DTSTART:20270326\nBEGIN:VALARM\nTRIGGER:-PT15M\nEND:VALARM", {"dates": ["2027-03-26"]}),
    ],
)  # fmt: skip
def test_days_of_an_event(event: str, found: dict[str, object]) -> None:
    days = read(event)
    assert days.refused == []
    assert {k: v for k, v in days.content().items() if v} == found
    assert (days.name, days.events) == ("Spain", 1)


@pytest.mark.parametrize(
    ("event", "begin", "end"),
    [
        ("DTSTART:20270326T090000Z\nDTEND:20270327T100000Z", "2027-03-26T09:00:00Z", "2027-03-27T10:00:00Z"),
        ("DTSTART:20270326T090000Z\nDURATION:P1DT2H30M", "2027-03-26T09:00:00Z", "2027-03-27T11:30:00Z"),
        (
            'DTSTART;TZID=Europe/Madrid:20261025T023000\nDTEND;TZID="Europe/Madrid":20261025T024500',
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:45:00Z",  # that time comes twice
        ),
    ],
)
def test_times_of_an_event(event: str, begin: str, end: str) -> None:
    days = read(event)
    assert days.refused == []
    assert {k: v for k, v in days.content().items() if v} == {"excludes": [{"from": begin, "to": end}]}


def test_a_rule_is_written_out_to_the_end() -> None:
    days = read("DTSTART:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")
    assert len(days.dates) == 74
    assert days.notes == [(6, "written out: 74 dates, up to 2099")]


@pytest.mark.parametrize(
    ("event", "line", "reason"),
    [
        ("DTSTART:20270326T090000Z", 5, "has no end"),
        ("DTSTART:20270326T090000Z\nDTEND:20270326", 6, "has no time of day, as its start has"),
        ("DTSTART:20270326T090000Z\nDTEND:20270326T090000Z", 6, "ends when it begins"),
        ("DTSTART:20270326T090000Z\nDURATION:-PT1H", 6, "is no duration"),
        ("DTSTART:20270326T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY", 7, "repeats at a time of day"),
        ("DTSTART:20270326T090000\nDURATION:PT1H", 5, "names no time zone"),
        ("DTSTART;TZID=Mars:20270326T090000\nDURATION:PT1H", 5, "not known here"),
        ("DTSTART:20270326T250000Z\nDURATION:PT1H", 5, "is no time"),
        ("DTSTART:21010326T090000Z\nDURATION:PT1H", 5, "1970"),
        ("DTSTART:20270326T0900", 5, "is no date"),
        ("DTSTART:20270230", 5, "no date"),
        ("DTSTART:19690230", 5, "no date"),
        ("DTSTART:19690228", 5, "1970"),
        ("SUMMARY:x", 4, "no DTSTART"),
        ("DTSTART:20270326\nDTEND:20270325", 6, "before DTSTART"),
        ("DTSTART:20270326\nDURATION:PT5H", 6, "number of days"),
        ("DTSTART:20270326\nRRULE:FREQ=HOURLY", 6, "within days"),
        ("DTSTART:20270326\nRRULE:FREQ=DAILY", 6, "more than 400 dates"),
        ("DTSTART:20270326\nRRULE:FREQ=YEARLY;UNTIL=20270101", 6, "has no day from its start"),
        ("DTSTART:20270326\nRRULE:FREQ=YEARLY;BYMINUTE=30", 6, "within days"),
        ("DTSTART:20270326\nRRULE:FREQ=NEVER", 6, "use one of YEARLY"),
        ("DTSTART:20270326\nEXDATE:20280326", 6, "by hand"),
        ("DTSTART:20270326\nwhat is this", 6, "NAME:VALUE"),
    ],
)
def test_what_does_not_map(event: str, line: int, reason: str) -> None:
    refused = read(event).refused
    assert [number for number, _, _ in refused] == [line]
    assert reason in refused[0][2]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("hello", 1, "NAME:VALUE"),
        ("A:b", 1, "not iCalendar"),
        ("", 1, "not iCalendar"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20270326", 2, "breaks off"),
        ("BEGIN:VCALENDAR\nEND:VEVENT", 2, "not begun"),
        ("BEGIN:VCALENDAR\nBEGIN:VTODO\nDUE:20270326\nEND:VTODO\nEND:VCALENDAR", 2, "no event"),
    ],
)
def test_what_is_no_calendar(text: str, line: int, reason: str) -> None:
    refused = read_icalendar(text).refused
    assert any(number == line and reason in why for number, _, why in refused)


YEARLY_20 = "DTSTART:20261220\nRRULE:FREQ=YEARLY;UNTIL="
YEARS_20 = ["2026-12-20", "2027-12-20", "2028-12-20"]


@pytest.mark.parametrize(
    ("event", "zone", "dates"),
    [
        (YEARLY_20 + "20281219T230000Z", "Europe/Berlin", YEARS_20),  # midnight there, as Outlook has it
        (YEARLY_20 + "20281220T225959Z", "Europe/Berlin", YEARS_20),  # the end of that day, as Google has it
        (YEARLY_20 + "20281220T050000Z", "America/New_York", YEARS_20),
        (YEARLY_20 + "20281221T045959Z", "America/New_York", YEARS_20),
        (YEARLY_20 + "20281219T110000Z", "Pacific/Auckland", YEARS_20),
        (YEARLY_20 + "20281219T230000Z", None, YEARS_20),
        (YEARLY_20 + "20281220T050000Z", None, YEARS_20),
        (YEARLY_20 + "20281221T045959Z", None, YEARS_20),
        (YEARLY_20 + "20281220T225900Z", None, YEARS_20),
        (YEARLY_20 + "20281220T000000Z", None, YEARS_20),
        (YEARLY_20 + "20281220T235959Z", None, YEARS_20),
        (YEARLY_20 + "20281219T220000Z", "UTC", YEARS_20[:2]),
        ("DTSTART:20270301\nRRULE:FREQ=DAILY;UNTIL=20270303T230000Z", "Europe/Berlin",
         ["2027-03-01", "2027-03-02", "2027-03-03", "2027-03-04"]),
        ("DTSTART:20270510\nRRULE:FREQ=DAILY;UNTIL=20270509T220000Z", "Europe/Berlin", ["2027-05-10"]),
        ("DTSTART:20260105\nRRULE:FREQ=MONTHLY;INTERVAL=3;BYDAY=1MO;UNTIL=20261231T225959Z", None,
         ["2026-01-05", "2026-04-06", "2026-07-06", "2026-10-05"]),
    ],
)  # fmt: skip
def test_a_rule_ends_on_the_day_of_its_instant(event: str, zone: str | None, dates: list[str]) -> None:
    days = read_icalendar(ics(event), zone)
    assert (sorted(days.dates), days.refused) == (dates, [])


def test_the_file_says_whose_days_an_instant_ends() -> None:
    text = ics(YEARLY_20 + "20281220T050000Z").replace("X-WR-", "X-WR-TIMEZONE:America/New_York\nX-WR-", 1)
    days = read_icalendar(text, "Europe/Berlin")
    assert (sorted(days.dates), days.notes) == (YEARS_20, [])


def test_an_instant_that_leaves_a_doubt_is_noted() -> None:
    (note,) = read(YEARLY_20 + "20281219T230000Z").notes
    assert note == (
        6,
        "UNTIL=20281219T230000Z is an instant, and neither the file nor -z names its time zone: taken as 2028-12-20,"
        " that day included",
    )
    (note,) = read_icalendar(ics(YEARLY_20 + "20281219T220000Z"), "UTC").notes
    assert "neither begins nor ends a day in UTC: taken as 2028-12-19" in note[1]


def test_days_of_each_year_or_week_are_said_to_hold_before_the_event_begins() -> None:
    yearly, weekly = "DTSTART:20280102\nRRULE:FREQ=YEARLY", "DTSTART:20280102\nRRULE:FREQ=WEEKLY"
    said = [note for _, note in read_icalendar(ics(yearly, weekly), today=date(2026, 11, 30)).notes]
    assert said == [
        "each year: taken for all years, also before 2028",
        "each week: taken for all times, also before the first",
    ]
    assert read_icalendar(ics(yearly, weekly), today=date(2028, 1, 2)).notes == []


@pytest.mark.parametrize(
    ("event", "dates", "note"),
    [
        # a day of the month without a month is one of each
        ("DTSTART:20271220\nRRULE:FREQ=YEARLY;BYMONTHDAY=20;UNTIL=20280120", ["2027-12-20", "2028-01-20"], None),
        ("DTSTART:20270101\nRRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;COUNT=1", ["2027-12-25"],
         "its start, 2027-01-01, is no day of its rule; it is left out"),
    ],
)  # fmt: skip
def test_a_rule_that_means_other_days_than_its_start(event: str, dates: list[str], note: str | None) -> None:
    days = read(event)
    assert (sorted(days.dates), days.refused) == (dates, [])
    assert note is None or any(note in said for _, said in days.notes)


def test_the_day_of_each_month_is_no_day_of_the_year() -> None:
    days = read("DTSTART:20271220\nRRULE:FREQ=YEARLY;BYMONTHDAY=20")
    assert (days.yearly, [reason for _, _, reason in days.refused]) == (
        set(),
        ["has more than 400 dates; give its weekdays to the calendar by hand"],
    )


def test_days_around_29_february_are_those_of_each_year() -> None:
    days = read("DTSTART:20270227\nDTEND:20270302\nRRULE:FREQ=YEARLY")
    assert (days.yearly, len(days.ranges)) == (set(), 73)
    assert {("2027-02-27", "2027-03-01"), ("2028-02-27", "2028-02-29")} <= days.ranges


def test_times_in_a_gap_are_those_of_cron() -> None:
    days = read("DTSTART;TZID=Europe/Madrid:20270328T023000\nDTEND;TZID=Europe/Madrid:20270328T024500")
    assert [reason for _, _, reason in days.refused] == ["ends when it begins, or before"]
    days = read("DTSTART;TZID=Europe/Madrid:20270328T023000\nDTEND;TZID=Europe/Madrid:20270328T040000")
    assert days.excludes == {("2027-03-28T01:00:00Z", "2027-03-28T02:00:00Z")}


def test_what_is_not_read_is_named() -> None:
    days = read(
        "DTSTART;X-ODD=1;VALUE=DATE:20270326\nUID:1\nTRANSP:TRANSPARENT\nX-OTHER:\nBEGIN:VALARM\nEND:VALARM",
        "DTSTART:20270327\nTRANSP:OPAQUE",
    )
    what = "DTSTART;X-ODD, TRANSP, X-OTHER, VALARM"
    assert sorted(days.notes[0][1].partition(" have ")[0].split(", ")) == sorted(what.split(", "))


def test_a_cancelled_event_is_left_out() -> None:
    days = read("DTSTART:20270326\nSTATUS:CANCELLED\nSUMMARY:Fair")
    assert (days.content()["dates"], days.refused) == ([], [])
    assert days.notes == [(4, "Fair: was cancelled, and is left out")]


def test_the_options_elsewhere() -> None:
    answer = {"description": "x", "next": []}
    jobs = {"GET /v1/jobs?calendar=holidays&limit=100": {"items": [], "next": None}}
    made = {"POST /v1/schedules/preview": answer, "POST /v1/jobs": (201, {"id": "0d3k5xw2a9f4m", "name": "a",
            "namespace": "default", "state": "SCHEDULED", "next_fire_at": None}), **jobs}  # fmt: skip
    with serve(routes(made)) as stub:
        assert run("--server", stub.url, "preview", "@daily", "--calendar", "holidays").exit_code == 0
        assert stub.requests[-1].json["trigger"] == {"cron": "@daily", "calendar": "holidays"}
        run(
            "--server",
            stub.url,
            "jobs",
            "create",
            "a",
            "--rrule",
            "FREQ=DAILY",
            "--calendar",
            "holidays",
            "--shell",
            "x",
        )
        assert stub.requests[-1].json["trigger"] == {"rrule": "FREQ=DAILY", "calendar": "holidays"}
        assert run("--server", stub.url, "jobs", "list", "--calendar", "holidays").exit_code == 0


def test_the_name_may_stand_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "days.ics"
    file.write_text(ics("SUMMARY:Christmas\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261226"))
    with serve(lambda r: (201, CALENDAR) if r.method == "PUT" else problem(404, "not-found", "None.")) as stub:
        assert run("--server", stub.url, "calendars", "import", "spain", str(file)).exit_code == 0
        assert stub.requests[-1].path == "/v1/calendars/spain"
        both = run("--server", stub.url, "calendars", "import", "spain", str(file), "--name", "france")
        more = run("--server", stub.url, "calendars", "import", "spain", str(file), str(file))
        gone = run("--server", stub.url, "calendars", "import", "spain", str(tmp_path / "none.ics"))
    assert [result.exit_code for result in (both, more, gone)] == [2, 2, 2]
    assert "say one FILE" in both.stderr
    assert "No such file" in gone.stderr
