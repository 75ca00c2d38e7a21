"""Timers of systemd: calendars, lengths of time, commands, drop-ins, and that nothing is dropped silently."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from raftsched.importers.foreign import Notes, Reading, Unmapped
from raftsched.importers.systemd.calendar import read_calendar
from raftsched.importers.systemd.commands import Specifiers, as_exec, as_shell, read_commands
from raftsched.importers.systemd.spans import span_ms
from raftsched.importers.wall_fields import wall_trigger
from tests.unit.importers.house import NOW_MS, read, reasons, said

SERVICE = "[Service]\nType=oneshot\nExecStart=/usr/bin/run\n"


def timer(timer: str, service: str = SERVICE, name: str = "a") -> Reading:
    return read("systemd", (f"/etc/systemd/system/{name}.timer", f"[Timer]\n{timer}\n"),
                (f"/etc/systemd/system/{name}.service", service))  # fmt: skip


def one(lines: str, service: str = SERVICE) -> tuple[dict[str, Any], str]:
    """(the job, all notes) of a timer that can be imported."""
    reading = timer(lines, service)
    assert not reading.refused, reading.refused
    return reading.entries[0].job, said(reading)


def service(lines: str) -> tuple[dict[str, Any], str]:
    return one("OnCalendar=daily", f"[Service]\n{lines}\n")


def calendar_trigger(text: str, default: str = "UTC") -> dict[str, Any]:
    fields, zone = read_calendar(text)
    return wall_trigger(fields, zone or default, NOW_MS, Notes())


@pytest.mark.parametrize(
    "text, trigger",
    [
        ("minutely", {"cron": "* * * * *"}),
        ("hourly", {"cron": "0 * * * *"}),
        ("daily", {"cron": "0 0 * * *"}),
        ("weekly", {"cron": "0 0 * * MON"}),
        ("monthly", {"cron": "0 0 1 * *"}),
        ("yearly", {"cron": "0 0 1 1 *"}),
        ("quarterly", {"cron": "0 0 1 */3 *"}),
        ("semiannually", {"cron": "0 0 1 1,7 *"}),
        ("Daily Europe/Madrid", {"cron": "0 0 * * *", "timezone": "Europe/Madrid"}),
        ("*-*-* 02:30:00", {"cron": "30 2 * * *"}),
        ("02:30", {"cron": "30 2 * * *"}),
        ("Mon..Fri 9:00", {"cron": "0 9 * * MON-FRI"}),
        ("Sat,Sun *-*-* 10:00", {"cron": "0 10 * * SAT,SUN"}),
        ("Mon-Wed,friday", {"cron": "0 0 * * MON-WED,FRI"}),
        ("*:0/15", {"cron": "*/15 * * * *"}),
        ("*:5/20:30", {"cron": "30 5-45/20 * * * *"}),
        ("*-*-* 9..17:00", {"cron": "0 9-17 * * *"}),
        ("*-*-* 8..18/2:00:00", {"cron": "0 8-18/2 * * *"}),
        ("*-01..03-01,15 6:00", {"cron": "0 6 1,15 1-3 *"}),
        ("2027..2029-12-24 18:00", {"cron": "0 0 18 24 12 * 2027-2029"}),
        ("12-24T18:00", {"cron": "0 18 24 12 *"}),
        ("*-*-* 00:00:00.000 UTC", {"cron": "0 0 * * *"}),
        ("2027-01-31 09:00 Europe/Madrid", {"at": "2027-01-31T08:00:00Z"}),
        ("@1893456000", {"at": "2030-01-01T00:00:00Z"}),
        ("@1893456000 UTC", {"at": "2030-01-01T00:00:00Z"}),
        ("@1893456000 utc", {"at": "2030-01-01T00:00:00Z"}),
        ("*-*-* 04:00 utc", {"cron": "0 4 * * *"}),
        ("daily uTc", {"cron": "0 0 * * *"}),
        ("2027-03-28 02:30:00 Europe/Madrid", {"at": "2027-03-28T01:00:00Z"}),  # right after the gap, as of cron
        ("2027-10-31 02:30:00 Europe/Madrid", {"at": "2027-10-31T00:30:00Z"}),
        ("*-*~01", {"rrule": "FREQ=DAILY;BYMONTHDAY=-1;BYHOUR=0;BYMINUTE=0;BYSECOND=0"}),
        ("*-02~01..03 4:00", {"rrule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=-3,-2,-1;BYHOUR=4;BYMINUTE=0;BYSECOND=0"}),
        ("*-*~1..20/7 4:00", {"rrule": "FREQ=DAILY;BYMONTHDAY=-15,-8,-1;BYHOUR=4;BYMINUTE=0;BYSECOND=0"}),
        ("Mon *-05~07/1",
         {"rrule": "FREQ=DAILY;BYMONTH=5;BYMONTHDAY=-7,-6,-5,-4,-3,-2,-1;BYHOUR=0;BYMINUTE=0;BYSECOND=0;BYDAY=MO"}),
        ("Fri *-*-13 *:*", {"rrule": "FREQ=MINUTELY;BYMONTHDAY=13;BYSECOND=0;BYDAY=FR"}),
    ],
)  # fmt: skip
def test_calendars(text: str, trigger: dict[str, Any]) -> None:
    found = calendar_trigger(text)
    assert found == ({"timezone": "UTC", **trigger} if "at" not in trigger else trigger)


@pytest.mark.parametrize(
    ("lines", "jitter", "told"),
    [
        ("RandomizedOffsetSec=60min", "1h", ["RandomizedOffsetSec=60min became the jitter"]),
        ("RandomizedOffsetSec=30min\nRandomizedDelaySec=5min", "35m", ["became the jitter"]),
        ("RandomizedOffsetSec=2d", "1d", ["is more than a day"]),
        ("RandomizedDelaySec=5min\nFixedRandomDelay=true", "5m", ["FixedRandomDelay=true is left out: each run"]),
        ("RandomizedDelay=5min\nOnCalender=daily", None,
         ["RandomizedDelay, OnCalender have no counterpart here; they are left out"]),
    ],
)  # fmt: skip
def test_spread_times(lines: str, jitter: str | None, told: list[str]) -> None:
    job, notes = one(f"OnCalendar=hourly\n{lines}")
    assert job["trigger"].get("jitter") == jitter
    for text in told:
        assert text in notes


def test_years_of_a_rule_are_its_start_and_its_end() -> None:
    found = calendar_trigger("Fri 2027..2028-*-13", "Europe/Madrid")
    assert (found["starts_at"], found["ends_at"]) == ("2026-12-31T23:00:00Z", "2028-12-31T22:59:59Z")


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "is empty"),
        ("fortnightly", "neither a weekday nor a shorthand"),
        ("Sun..Mon", "ends before it begins"),
        ("*/2:00", "write 0/2"),
        ("25:00", "out of range"),
        ("*-13-01", "out of range"),
        ("*-*-* 10:00:00.5", "fractions of a second"),
        ("*-*-* *:*:0/0.5", "fractions of a second"),
        ("10..9:00", "ends before it begins"),
        ("*:0/0", "repeats after nothing"),
        ("*-*-* 10:00 Mars/Olympus", "no time zone"),
        ("*-*-* 10:00 11:00", "nothing more is expected"),
        ("2026-01-01 00:00", "is past"),
        ("Mon 2027-01-31 00:00", "none of its weekdays"),
        ("Sun 12-*-* 2:00", "its last year is 2012"),
        ("2100-*-*", "not among"),
        ("*-02-30", "no such date"),
        ("*-*~31/7", "out of range; allowed are 1 to 28"),
        ("*-*~20..1", "ends before it begins"),
        ("*:0/90", "does not repeat: it goes from 0 to 59, and systemd refuses it"),
        ("21/3:00", "does not repeat"),
        ("*-*-*~07/7", "is no date"),
        ("*-*~07/7", "does not repeat"),
        ("@1893456000 Mon", "stands where nothing more"),
        ("Fri 2027,2029-*-13", "gaps"),
        ("Mon *-*-1/2 1,4,5:1,3,5,7,11,13,17,19,23,29,31,37,41,43,47,53,59:" + ",".join(map(str, range(59))),
         "cannot be said"),
        ("*" * 600, "is the limit"),
        ("1-2-3-4", "no date"),
        ("1:2:3:4", "no time"),
        ("٣:00", "neither a value"),
        ("99999:00", "neither a value"),
    ],
)  # fmt: skip
def test_calendars_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(Unmapped) as refused:
        calendar_trigger(text)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "text, ms",
    [("90", 90_000), ("1min 30s", 90_000), ("2h", 7_200_000), ("1.5h", 5_400_000), ("1w2d", 777_600_000),
     ("500ms", 500), ("1us", 1), ("infinity", None), ("1M", 2_629_800_000), ("1m", 60_000)],
)  # fmt: skip
def test_spans(text: str, ms: int | None) -> None:
    assert span_ms(text, "X") == ms


@pytest.mark.parametrize("text", ["", "soon", "5 fortnights", "-1s", "999999999y", "1..2s"])
def test_spans_that_are_refused(text: str) -> None:
    with pytest.raises(Unmapped):
        span_ms(text, "X")


@pytest.mark.parametrize(
    ("lines", "gap"),
    [
        ("OnCalendar=hourly\nRandomizedDelaySec=12h", "1h"),
        ("OnCalendar=daily\nOnCalendar=*-*-* 6:00,18:00\nRandomizedDelaySec=30min", "18m"),
        ("OnUnitActiveSec=10min\nRandomizedDelaySec=10min", "10m"),
        ("OnCalendar=daily\nRandomizedDelaySec=12h", None),
        ("OnUnitInactiveSec=10min\nRandomizedDelaySec=1h", None),
    ],
)
def test_a_delay_that_is_longer_than_the_time_to_the_next_run_is_noted(lines: str, gap: str | None) -> None:
    _, notes = one(lines, "[Service]\nExecStart=/bin/true\n")
    said = f"may be longer than the time to the next run, {gap}; here each delay ends before that"
    assert (said in notes) is (gap is not None)
    assert ("to the next run" in notes) is (gap is not None)


def test_a_whole_timer() -> None:
    job, notes = one(
        "OnCalendar=Mon..Fri 02:30\nRandomizedDelaySec=5min\nPersistent=true\nAccuracySec=1us\nWakeSystem=true",
        "[Unit]\nDescription=Back up %p\nAfter=network-online.target db.service\nOnFailure=mail@%n.service\n"
        "ConditionPathExists=/srv\n[Service]\nType=oneshot\nUser=backup\nWorkingDirectory=/srv\n"
        'Environment="A=b c" D=%h\nExecStart=/usr/bin/dump -f "/srv/a b.sql" ${A} $$5 %%x\n'
        "TimeoutStartSec=1h\nTimeoutStopSec=20s\nRestart=on-failure\nRestartSec=1s\nNice=10\nProtectSystem=strict\n"
        "PrivateTmp=yes\nMemoryMax=512M\nLimitNOFILE=1024\nStandardOutput=append:/var/log/x\n",
    )
    assert job == {
        "trigger": {"cron": "30 2 * * MON-FRI", "timezone": "UTC", "jitter": "5m"},
        "handler": {"exec": ["/usr/bin/dump", "-f", "/srv/a b.sql", "b c", "$5", "%x"],
                    "env": {"A": "b c", "D": "/root"}, "cwd": "/srv",
                    "limits": {"memory": "512MiB", "open_files": 1024}},
        "user": "backup", "timeout": "1h", "grace": "20s", "overlap": "forbid", "misfire": {"policy": "once"},
        "retry": {"delays": ["1s"] * 4, "on": ["failed", "timed_out"]},
        "description": "Back up a", "labels": {"source": "systemd:a.timer"},
    }  # fmt: skip
    for word in ("runs as backup", "AccuracySec=1us", "WakeSystem has no counterpart", "After=db.service",
                 "OnFailure=", "notify", "ConditionPathExists=/srv is not checked", "Nice is left out",
                 "ProtectSystem, PrivateTmp have",
                 "StandardOutput=append:/var/log/x", "each process"):  # fmt: skip
        assert word in notes
    assert "network-online.target" not in notes


@pytest.mark.parametrize(
    "lines, trigger",
    [
        ("OnUnitActiveSec=10min\nOnBootSec=1min", {"every": "10m", "mode": "fixed_rate"}),
        ("OnUnitInactiveSec=1h", {"every": "1h", "mode": "fixed_delay"}),
        ("OnUnitActiveSec=200ms", {"every": "1s", "mode": "fixed_rate"}),
    ],
)
def test_monotonic_timers(lines: str, trigger: dict[str, Any]) -> None:
    job, notes = one(lines)
    assert job["trigger"] == trigger
    assert ("OnBootSec=1min is left out" in notes) == ("OnBootSec" in lines)


@pytest.mark.parametrize(
    "lines, reason",
    [
        ("OnBootSec=1min", "a cluster does not start"),
        ("OnCalendar=daily\nOnUnitActiveSec=1h", "keep one of them"),
        ("OnUnitActiveSec=1h\nOnUnitInactiveSec=1h", "keep one of them"),
        ("Persistent=true", "no time at which it is due"),
        ("OnUnitActiveSec=infinity", "no period"),
        ("OnCalendar=daily\nUnit=x.target", "no service"),
        ("OnCalendar=daily\nUnit=b.service", "not among the files"),
        ("OnCalendar=*:0/0", "repeats after nothing"),
    ],
)
def test_timers_that_are_refused(lines: str, reason: str) -> None:
    reading = timer(lines)
    assert not reading.entries
    assert reason in reasons(reading)[0]


def test_several_times_are_several_triggers() -> None:
    job, _ = one("OnCalendar=daily\nOnCalendar=\nOnCalendar=hourly\nOnCalendar=weekly\nOnUnitInactiveSec=1h")
    assert job["triggers"] == [
        {"id": "t1", "cron": "0 * * * *", "timezone": "UTC"}, {"id": "t2", "cron": "0 0 * * MON", "timezone": "UTC"},
        {"id": "t3", "every": "1h", "mode": "fixed_delay"},
    ]  # fmt: skip
    assert "misfire" in job
    assert "trigger" not in job
    assert "misfire" not in one("OnCalendar=2030-01-01 0:00\nOnCalendar=2031-01-01 0:00")[0]
    assert "16 triggers is the limit" in reasons(timer("OnCalendar=daily\n" * 17))[0]


def test_what_is_missed_is_skipped_unless_it_is_persistent() -> None:
    assert one("OnCalendar=daily")[0]["misfire"] == {"policy": "skip", "grace": "1m"}
    assert "misfire" not in one("OnUnitActiveSec=1h")[0]
    assert "misfire" not in one("OnCalendar=2027-01-31 09:00")[0], "what is due once runs, however late"


@pytest.mark.parametrize(
    "lines, handler",
    [
        ("ExecStart=-/bin/a", {"shell": "{ /bin/a || true; }"}),
        ("ExecStart=/bin/a\nExecStart=/bin/b 'x y'", {"shell": "/bin/a && /bin/b 'x y'"}),
        ("ExecStart=/bin/a ; /bin/b \\; c", {"shell": "/bin/a && /bin/b ';' c"}),
        ("ExecStartPre=/bin/p\nExecStart=/bin/a\nExecStartPost=/bin/q", {"shell": "/bin/p && /bin/a && /bin/q"}),
        ("ExecCondition=/bin/c\nExecStart=/bin/a", {"shell": "{ /bin/c || exit 0; } && /bin/a"}),
        ("ExecStart=/bin/a $OPTS ${HOME}/x", {"shell": 'set -f; /bin/a $OPTS "${HOME}"/x'}),
        ("ExecStart=:/bin/a $OPTS", {"exec": ["/bin/a", "$OPTS"]}),
        ("ExecStart=@/bin/a other x", {"exec": ["/bin/a", "x"]}),
        ("ExecStart=+/bin/a", {"exec": ["/bin/a"]}),
        ("ExecStart=/bin/a \\\n  # a comment between\n  b", {"exec": ["/bin/a", "b"]}),
        ("ExecStart=/bin/old\nExecStart=\nExecStart=/bin/a", {"exec": ["/bin/a"]}),
        ("Environment=O='a b' \"P=c d\"\nExecStart=/bin/a $P", {"exec": ["/bin/a", "c", "d"],
         "env": {"O": "a b", "P": "c d"}}),
    ],
)  # fmt: skip
def test_commands(lines: str, handler: dict[str, Any]) -> None:
    assert service(f"Type=oneshot\n{lines}")[0]["handler"] == handler


@pytest.mark.parametrize(
    "line, words",
    [
        (r'/a "b \"c\"" d\x20e \101', ["/a", 'b "c"', "d e", "A"]),
        ("/a 'x'y", ["/a", "xy"]),
        ("/a it's", None),
        ("/a b'c d'", ["/a", "bc d"]),
        (r"/a \u00e9 \s", ["/a", "é", " "]),
        ('/a "', None),
        (r"/a \ud800", None),
        ("|/a", None),
        ("@/a", None),
        ("-", None),
    ],
)
def test_quoting(line: str, words: list[str] | None) -> None:
    if words is None:
        with pytest.raises(Unmapped):
            read_commands(line, "ExecStart=", str)
        return
    (command,) = read_commands(line, "ExecStart=", str)
    assert command.words == words


def test_a_command_means_the_same_to_a_shell() -> None:
    line = r"""/usr/bin/printf '[%%s]' "a b" 'c"d' $$x ${E} *.py e\x27f ";" '' """
    (command,) = read_commands(line, "ExecStart=", Specifiers("a.service", "/root", set()).resolve)
    words = as_exec(command, {"E": "1  2"})
    shell = subprocess.run(["sh", "-c", f"set -f; {as_shell(command)}"], env={"E": "1  2"}, capture_output=True,
                           text=True, check=True)  # fmt: skip
    plain = subprocess.run(words, capture_output=True, text=True, check=True)
    assert shell.stdout == plain.stdout == "[a b][c\"d][$x][1  2][*.py][e'f][;][]"


@pytest.mark.parametrize(
    "lines, reason",
    [
        ("Type=forking\nExecStart=/a", "goes on in the background"),
        ("Type=oneshot", "no ExecStart="),
        ("Type=simple\nExecStart=/a\nExecStart=/b", "only Type=oneshot"),
        ("ExecStart=/a\nWorkingDirectory=srv", "no absolute path"),
        ("ExecStart=/a\nRestart=always", "after each end"),
        ("ExecStart=/a\nTimeoutStopSec=soon", "no length of time"),
    ],
)
def test_services_that_are_refused(lines: str, reason: str) -> None:
    reading = timer("OnCalendar=daily", f"[Service]\n{lines}\n")
    assert not reading.entries
    assert reason in reasons(reading)[0]


@pytest.mark.parametrize(
    "lines, lacks",
    [
        ("ExecStart=/a\nEnvironmentFile=/etc/default/a", "EnvironmentFile=/etc/default/a is not read"),
        ("ExecStart=/a %H", "%H is not known here"),
        ("ExecStart=/a\nWorkingDirectory=~", "home of its user"),
    ],
)
def test_what_lacks_something_comes_in_suspended(lines: str, lacks: str) -> None:
    job, notes = service(lines)
    assert job["suspended"] is True
    assert lacks in notes


def test_times_of_ends() -> None:
    assert "timeout" not in service("Type=simple\nExecStart=/a\nTimeoutStartSec=5")[0], "that is about its start"
    assert service("Type=simple\nExecStart=/a\nRuntimeMaxSec=1min")[0]["timeout"] == "1m"
    job, notes = service("Type=oneshot\nExecStart=/a\nTimeoutSec=2h")
    assert job["timeout"] == "2h"
    assert "longer than an hour" in notes
    job, notes = service("ExecStart=/a\nRestart=on-failure\nRestartSec=1min")
    assert len(job["retry"]["delays"]) == 100
    assert "for ever" in notes


def test_instances_and_specifiers() -> None:
    reading = read(
        "systemd",
        ("/etc/systemd/system/copy@.service", "[Service]\nExecStart=/bin/copy %i %I %n %N %p %f\n"),
        ("/etc/systemd/system/copy@srv-data.timer", "[Timer]\nOnCalendar=daily\n"),
        ("/etc/systemd/system/other@.timer", "[Timer]\nOnCalendar=daily\n"),
    )
    (entry,) = reading.entries
    assert entry.name == "copy-srv-data"
    assert entry.job["handler"]["exec"][1:] == [
        "srv-data", "srv/data", "copy@srv-data.service", "copy@srv-data", "copy", "/srv/data"
    ]  # fmt: skip
    assert "template" in reasons(reading)[0]


def test_units_of_a_user_have_the_home_that_the_path_tells() -> None:
    base = "/home/ana/.config/systemd/user/"
    reading = read("systemd", (f"{base}a.timer", "[Timer]\nOnCalendar=daily"),
                   (f"{base}a.service", "[Service]\nExecStart=%h/run %C"))  # fmt: skip
    assert reading.entries[0].job["handler"]["exec"] == ["/home/ana/run", "/home/ana/.cache"]
    reading = read("systemd", ("/usr/lib/systemd/user/a.timer", "[Timer]\nOnCalendar=daily"),
                   ("/usr/lib/systemd/user/a.service", "[Service]\nExecStart=%h/run"))  # fmt: skip
    assert "%h is not known here" in said(reading)


def test_drop_ins_hold_in_the_order_of_their_names() -> None:
    reading = read(
        "systemd",
        ("d/a.timer", "[Timer]\nOnCalendar=daily\n"),
        ("d/a.timer.d/20-b.conf", "[Timer]\nOnCalendar=weekly\n"),
        ("d/a.timer.d/10-a.conf", "[Timer]\nOnCalendar=\nOnCalendar=hourly\n"),
        ("d/a.service", SERVICE),
        ("d/a.service.d/env.conf", "[Service]\nEnvironment=A=1\n"),
        ("d/lost.timer.d/x.conf", "[Timer]\nOnCalendar=daily\n"),
        ("d/idle.service", SERVICE),
    )
    assert [each["cron"] for each in reading.entries[0].job["triggers"]] == ["0 * * * *", "0 0 * * MON"]
    assert reading.entries[0].job["handler"]["env"] == {"A": "1"}
    assert "only drop-ins of it" in reasons(reading)[0]
    assert ("idle.service", "no timer among these files starts it; it is left out") in reading.notes


def test_what_systemctl_cat_prints() -> None:
    printed = (
        "# /usr/lib/systemd/system/a.timer\n# a comment of its own\n[Timer]\nOnCalendar=daily\n\n"
        "# /etc/systemd/system/a.timer.d/override.conf\n[Timer]\nOnCalendar=\nOnCalendar=hourly\n\n"
        f"# /usr/lib/systemd/system/a.service\n{SERVICE}"
    )
    (entry,) = read("systemd", ("stdin", printed)).entries
    assert entry.job["trigger"]["cron"] == "0 * * * *"
    reading = read("systemd", ("stdin", "[Timer]\nOnCalendar=daily\n"))
    assert not reading.entries
    assert "says which timer or service it is" in said(reading)


def test_lines_that_are_no_settings_are_told() -> None:
    reading = timer("OnCalendar=daily\nnonsense\n; a comment\n")
    assert "line 3: 'nonsense' is neither" in said(reading)
    assert len(reading.entries) == 1
