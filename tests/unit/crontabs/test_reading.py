"""The crontab reader: cron's own rules line by line, real files with exact expectations, and arbitrary bytes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from raftsched.crontabs.line import Command, setting, shell_text, split_percent
from raftsched.crontabs.reading import Crontab, read_crontab

FILES = Path(__file__).parents[2] / "data" / "crontabs"


def read(text: str, **kwargs: object) -> Crontab:
    return read_crontab(text.encode(), **{"source": "tab", "timezone": "Europe/Madrid", **kwargs})  # type: ignore[arg-type]


def only(tab: Crontab) -> dict[str, object]:
    assert tab.refused == []
    (entry,) = tab.entries
    return entry.job


# ---------------------------------------------------------------- one line


def test_a_line_becomes_a_job_that_behaves_as_under_cron() -> None:
    assert only(read("*/5 8-18 * * 1-5\t/usr/bin/poll --all  # now\n")) == {
        "trigger": {"cron": "*/5 8-18 * * 1-5", "timezone": "Europe/Madrid"},
        "handler": {"shell": "/usr/bin/poll --all  # now"},
        "overlap": "allow",
        "labels": {"source": "crontab:tab"},
    }


@pytest.mark.parametrize(
    "nickname, expr",
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@Hourly", "0 * * * *"),
    ],
)
def test_nicknames(nickname: str, expr: str) -> None:
    job = only(read(f"{nickname}   run it"))
    assert job["trigger"] == {"cron": expr, "timezone": "Europe/Madrid"}
    assert job["handler"] == {"shell": "run it"}


def test_every_is_an_interval_without_a_zone() -> None:
    assert only(read("@every 1m30s run"))["trigger"] == {"every": "1m30s"}


@pytest.mark.parametrize(
    "line, reason",
    [
        ("@reboot run", "@reboot cannot be imported"),
        ("@fortnightly run", "not a known nickname"),
        ("@daily", "no command after @daily"),
        ("@every soon run", "interval such as 90s"),
        ("0 2 * *", "only 4 words"),
        ("0 2 * * *", "no command after the 5 time fields"),
        ("60 2 * * * run", "minute field"),
        ("0 24 * * * run", "hour field"),
        ("0 0 32 * * run", "day-of-month field"),
        ("0 0 * 13 * run", "month field"),
        ("0 0 * * 8 run", "weekday field"),
        ("0 0 30 2 * run", "no such date"),
        ("*/0 * * * * run", "step"),
        ("0~30 * * * * run", "H(0-59)"),
        ("Nightly: backup of all the things", "minute field"),
        ("0 0 * * * %only input", "the command is empty"),
        ("0 0 12 * * 1 run", "--no-seconds"),
        ("0 0 12 * * mon run", "--no-seconds"),
        ("FOO='bar' baz", "malformed environment line"),
        ('FOO="bar', "malformed environment line"),
        ("'a b'=c", "not a variable name"),
        ("0 0 * * * a\0b", "NUL"),
    ],
)
def test_what_cannot_be_imported_says_why(line: str, reason: str) -> None:
    tab = read(f"# first\n{line}\n1 2 3 4 * next\n")
    (refused,) = tab.refused
    assert refused.line == 2
    assert reason in refused.reason
    assert [e.line for e in tab.entries] == [3]  # the rest goes in


def test_day_of_month_and_weekday_both_restricted_pass_unchanged() -> None:
    assert only(read("0 0 1,15 * MON-FRI run"))["trigger"] == {
        "cron": "0 0 1,15 * MON-FRI",
        "timezone": "Europe/Madrid",
    }


def test_seconds_first_only_where_nothing_else_makes_sense() -> None:
    def expr(line: str, seconds: bool | None = None) -> object:
        return only(read(line, seconds=seconds))["trigger"]["cron"]  # type: ignore[index]

    assert expr("*/6 * * * * * run") == "*/6 * * * * *"
    assert expr("0 0 7 1/1 * ? * run") == "0 0 7 1/1 * ? *"
    assert expr("0 30 12 * * MON-FRI run") == "0 30 12 * * MON-FRI"
    assert expr("0 30 12 * * 1 run") == "0 30 12 * * 1"  # hour 30 leaves no other reading
    assert expr("0 0 12 * * 1 run", seconds=True) == "0 0 12 * * 1"
    assert expr("0 0 12 * * 1 run", seconds=False) == "0 0 12 * *"
    assert expr("0 0 12 * * 7z a.7z /srv") == "0 0 12 * *"  # a command that begins with a digit
    assert expr("0 0 12 * * L") == "0 0 12 * *"


def test_percent_is_cron_s_own_only_where_cron_could_read_the_line() -> None:
    assert only(read("0 0 0 * * * * date +%F"))["handler"] == {"shell": "date +%F"}


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "line, expected",
    [
        ("A=b", ("A", "b")),
        ("A = b c ", ("A", "b c")),
        ('A=" b "', ("A", " b ")),
        ("A=' b ' ", ("A", " b ")),
        ("'A' = b", ("A", "b")),
        ("A=", ("A", "")),
        ("A=b # c", ("A", "b # c")),  # cron knows no comments at the end of a line
        ("PATH=$HOME/bin:$PATH", ("PATH", "$HOME/bin:$PATH")),  # and expands nothing
        ('A="b\'c"', ("A", "b'c")),
        ("A=b=c", ("A", "b=c")),
        ("0 0 * * * A=b run", None),
        ("@daily A=b run", None),
    ],
)
def test_settings(line: str, expected: tuple[str, str] | None) -> None:
    assert setting(line) == expected


def test_settings_hold_for_the_lines_below_them() -> None:
    tab = read("@daily a\nX=1\n@daily b\nX=2\nY='3 '\n@daily c\n")
    assert [e.job["handler"].get("env") for e in tab.entries] == [None, {"X": "1"}, {"X": "2", "Y": "3 "}]
    assert tab.settings == [2, 4, 5]


def test_shell_home_and_mailto() -> None:
    tab = read("SHELL=/bin/bash\nHOME=/srv/app\nMAILTO=ops@example.com\n@daily [[ -f x ]] && echo 'it''s'\n")
    job = only(tab)
    assert job["handler"] == {
        "shell": """exec /bin/bash -c '[[ -f x ]] && echo '"'"'it'"'"''"'"'s'"'"''""",
        "env": {"SHELL": "/bin/bash", "HOME": "/srv/app", "MAILTO": "ops@example.com"},
        "cwd": "/srv/app",
    }
    assert [(line, note.partition(":")[0]) for line, note in tab.notes] == [(3, "MAILTO")]
    assert "webhooks create NAME --email ops@example.com --smtp HOST" in tab.notes[0][1]
    assert "--email ADDRESS " in read("MAILTO='; rm -rf x'\n@daily true\n").notes[0][1]


def test_cron_tz_holds_from_its_line_on_and_tz_does_not_move_the_schedule() -> None:
    tab = read("@daily a\nCRON_TZ=Asia/Tokyo\n@daily b\nTZ=Africa/Cairo\n@daily c\n")
    assert [e.job["trigger"]["timezone"] for e in tab.entries] == [
        "Europe/Madrid",
        "Asia/Tokyo",
        "Asia/Tokyo",
    ]
    assert [line for line, _ in tab.notes] == [4]


def test_an_unknown_zone_refuses_what_depends_on_it() -> None:
    tab = read("CRON_TZ=Mars/Olympus\n@daily a\nCRON_TZ=UTC\n@daily b\n")
    assert [r.line for r in tab.refused] == [1, 2]
    assert "line 1" in tab.refused[1].reason
    assert [e.line for e in tab.entries] == [4]


def test_an_empty_zone_is_that_of_the_host_again() -> None:
    tab = read("CRON_TZ=Asia/Tokyo\n@daily a\nCRON_TZ=\n@daily b\nCRON_TZ=Mars/Olympus\nCRON_TZ=\n@daily c\n")
    assert [e.job["trigger"]["timezone"] for e in tab.entries] == ["Asia/Tokyo", "Europe/Madrid", "Europe/Madrid"]
    assert [r.line for r in tab.refused] == [5]


@pytest.mark.parametrize(
    "bad", ["CRON_TZ=Mars/Olympus", "CRON_TZ='Asia/Tokyo", '"CRON_TZ" = "UTC" # x', "CRON_TZ=\0", "CRON_TZ=\udcff"]
)
def test_no_line_runs_in_the_zone_before_a_refused_one(bad: str) -> None:
    text = f"CRON_TZ=Asia/Tokyo\n@daily a\n{bad}\n@daily b\n@hourly c\nCRON_TZ=Asia/Tokyo\n@daily d\n"
    tab = read_crontab(text.encode("utf-8", "surrogateescape"), source="tab", timezone="Europe/Madrid")
    assert [(e.line, e.job["trigger"]["timezone"]) for e in tab.entries] == [(2, "Asia/Tokyo"), (7, "Asia/Tokyo")]
    assert [r.line for r in tab.refused] == [3, 4, 5]
    assert all("correct CRON_TZ on line 3" in r.reason for r in tab.refused[1:])


def test_random_delay_becomes_jitter() -> None:
    assert only(read("RANDOM_DELAY=30\n@daily a"))["trigger"]["jitter"] == "30m"  # type: ignore[index]


def test_a_random_delay_that_is_longer_than_the_time_to_the_next_run_is_noted() -> None:
    tab = read("RANDOM_DELAY=30\n@hourly a\n*/10 8 * * * b")
    assert tab.notes == [
        (3, "RANDOM_DELAY=30 may be longer than the time to the next run, 10m; here each delay ends before that")
    ]


# ---------------------------------------------------------------- percent


@pytest.mark.parametrize(
    "text, command, stdin",
    [
        ("date +\\%F", "date +%F", ""),
        ("cat", "cat", ""),
        ("cat%", "cat", ""),
        ("cat%one", "cat", "one\n"),
        ("cat%one%two%", "cat", "one\ntwo\n"),
        ("cat%%one", "cat", "\none\n"),
        ("cat%50\\% off", "cat", "50% off\n"),
        ("cat%a\\b", "cat", "a\\b\n"),
        ("echo a\\\\%b", "echo a\\\\", "b\n"),
        ("echo \\n", "echo \\n", ""),
        ('cat%it\'s "q" $HOME `id`', "cat", 'it\'s "q" $HOME `id`\n'),
    ],
)
def test_the_percent_rule(text: str, command: str, stdin: str) -> None:
    got = split_percent(text)
    assert (got.text, got.stdin) == (command, stdin)


@pytest.mark.parametrize(
    "shell",
    [
        "",
        pytest.param(
            "/bin/bash",
            marks=pytest.mark.skipif(
                shutil.which("bash") != "/bin/bash" and not Path("/bin/bash").exists(), reason="no bash"
            ),
        ),
    ],
)
@pytest.mark.parametrize(
    "stdin",
    ["", "plain\n", 'it\'s "q" $HOME `id` \\n \\\\ !\n', "%s %d\n\n-n\n", "two\nlines\n", "no newline\\"],
)
def test_the_shell_text_gives_the_command_exactly_that_input(shell: str, stdin: str) -> None:
    text = shell_text(Command("cat; printf '[%s]' \"it's\"; exit 7 # done", stdin), shell)
    done = subprocess.run(["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.stdout.decode(), done.stderr, done.returncode) == (stdin + "[it's]", b"", 7)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("PATH=$HOME/bin:/usr/bin", "PATH=$HOME/bin:/usr/bin: no variable is replaced in such a line, as in cron"),
        ("A=${B}", "no variable is replaced"),
        ("MAILFROM=a@example.com", "given to the commands; that cron mails as this sender has no counterpart"),
        ("START_HOURS_RANGE=3-22", "keeps to these hours has no counterpart"),
        ("RANDOM_DELAY=1h", "RANDOM_DELAY=1h is no number of minutes up to a day; it is left out"),
    ],
)  # fmt: skip
def test_settings_that_mean_something_else_are_noted(line: str, note: str) -> None:
    (told,) = read(f"{line}\n@daily a").notes
    assert told[0] == 1
    assert note in told[1]


@pytest.mark.parametrize("line", ["PASSWORD=a$1", "PRICE=5$", "RANDOM_DELAY=0", "A=\\$B"])
def test_settings_that_are_as_they_were_are_not_noted(line: str) -> None:
    assert read(f"{line}\n@daily a").notes == []


def test_a_command_that_goes_on_in_the_next_line_is_refused() -> None:
    tab = read("@daily cd /srv && \\\n   rm -rf cache\n@hourly echo a\\\\\n")
    assert next((r.line, r.reason.partition(";")[0]) for r in tab.refused) == (
        1,
        "ends with a backslash, and cron joins no lines: half a command would run",
    )
    assert [entry.line for entry in tab.entries] == [3]


def test_flags_that_are_left_out_are_noted() -> None:
    tab = read("@daily -n -q -s a")
    assert [note.partition(":")[0] for _, note in tab.notes] == ["the flag -n is left out", "the flag -q is left out"]


# ---------------------------------------------------------------- whole files
