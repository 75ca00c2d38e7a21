"""Whole crontabs: user columns, real files with exact expectations, and arbitrary bytes."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.crontabs.line import Refusal, setting
from raftsched.crontabs.reading import Crontab, read_crontab
from tests.support.patience import patient
from tests.unit.crontabs.test_reading import only, read

FILES = Path(__file__).parents[2] / "data" / "crontabs"


def test_bom_crlf_blank_lines_and_a_missing_last_newline() -> None:
    data = b"\xef\xbb\xbf# c\r\nA=b\r\n\r\n  \t\r\n  0 2 * * * run a\r\n@daily run b"
    tab = read_crontab(data, source="tab", timezone="UTC")
    assert [(e.line, e.job["handler"]) for e in tab.entries] == [
        (5, {"shell": "run a", "env": {"A": "b"}}),
        (6, {"shell": "run b", "env": {"A": "b"}}),
    ]
    assert tab.refused == []


def test_bytes_that_are_not_utf8_are_refused_by_line() -> None:
    tab = read_crontab(b"# caf\xe9\n@daily echo caf\xe9\n@daily ok\n", source="tab", timezone="UTC")
    assert [(r.line, "iconv" in r.reason) for r in tab.refused] == [(2, True)]
    assert [e.line for e in tab.entries] == [3]
    json.dumps(tab.refused[0].text).encode()


def shells(tab: Crontab) -> list[tuple[object, object]]:
    return [(e.job["labels"].get("user"), e.job["handler"]["shell"]) for e in tab.entries]


def test_a_path_that_cron_reads_with_a_user_column_and_what_was_said() -> None:
    text = "0 2 * * *\troot\t/bin/backup  -a\n@daily ana run\n"
    split = [("root", "/bin/backup  -a"), ("ana", "run")]
    assert shells(read(text, source="/etc/cron.d/x")) == split
    assert shells(read(text, source="/etc/crontab")) == split
    assert shells(read(text, system=True)) == split
    assert shells(read("@daily root run\n", system=False)) == [(None, "root run")]
    assert read("@daily root run\n", system=False).notes == []
    forced = read("0 2 * * * /bin/run it\n0 2 * * * ana\n", system=True)
    assert [
        "user name is expected" in forced.refused[0].reason,
        "no command" in forced.refused[1].reason,
    ] == [True, True]


@pytest.mark.parametrize(
    "text",
    [
        "0 2 * * * root run\n",
        "# m h dom mon dow user command\n0 2 * * * root run\n@daily www-data -s run\n",
        "0 2 * * * ana run\n@daily nobody run\n",
        "-*/5 * * * * root run\n",
        "-@daily root run\n",
        "prose is no schedule\n@reboot root run\n@daily root run\n",
    ],
)
def test_a_user_column_is_taken_for_one_where_every_line_has_it(text: str) -> None:
    tab = read(text, is_account=lambda name: name == "ana")
    assert tab.system
    assert {shell for _, shell in shells(tab)} == {"run"}
    assert tab.notes == []


@pytest.mark.parametrize(
    "text",
    [
        "* * * * * echo hi\n",
        "* * * * * echo hi\n* * * * * root run\n",
        "@daily root run\n@daily /usr/bin/run it\n",
        "@daily root\n",
        "@daily ana run\n",
        "@daily mail -s hello\n",
        "@daily git pull\n",
        "@daily node /srv/a.js\n",
        "# m h dom mon dow command\n0 2 * * * root run\n",
    ],
)
def test_a_file_that_may_have_no_user_column_is_read_without_one(text: str) -> None:
    tab = read(text, is_account=lambda name: name in ("mail", "git"))
    assert not tab.system
    assert tab.refused == []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [shell for _, shell in shells(tab)] == [re.sub(r"^(\S+ ){5}|^@daily ", "", line) for line in lines]
    assert all(user is None for user, _ in shells(tab))


def test_what_looks_like_a_user_is_noted_where_it_is_not_taken_for_one() -> None:
    tab = read("* * * * * echo hi\n* * * * * root run\n* * * * * ana run\n", is_account=lambda name: name == "ana")
    says = "the first word of the command is {!r}: if this is a system crontab, say --system"
    assert tab.notes == [(2, says.format("root")), (3, says.format("ana"))]


def test_a_header_that_names_a_user_column_is_not_enough() -> None:
    tab = read("# m h dom mon dow user command\n* * * * * echo hi\n* * * * * /bin/run it\n* * * * * date\n")
    assert not tab.system
    assert [(r.line, "say --system or --no-system" in r.reason) for r in tab.refused] == [(2, True)]
    assert shells(tab) == [(None, "/bin/run it"), (None, "date")]
    assert shells(read("# m h dom mon dow user command\n* * * * * ana run\n", system=True)) == [("ana", "run")]


@pytest.mark.parametrize("line", ["-*/5 * * * * run", "-0 5 * * * run", "-@hourly run", "-@every 5m run"])
def test_a_minus_before_the_schedule_is_skipped(line: str) -> None:
    assert only(read(line)) == only(read(line[1:]))


@pytest.mark.parametrize("line", ["- 5 * * * * run", "-MON * * * * run", "--5 * * * * run", "-x"])
def test_a_minus_that_is_no_sign_of_cron_s(line: str) -> None:
    (refused,) = read(line).refused
    assert "a minus before the minute or the @nickname" in refused.reason


def test_flags_before_the_command() -> None:
    tab = read("@daily -n run a\n@daily -s -q run b\n")
    assert [(e.job["handler"]["shell"], e.job["overlap"]) for e in tab.entries] == [
        ("run a", "allow"),
        ("run b", "forbid"),
    ]


def test_names_stay_when_lines_move_and_differ_when_they_must() -> None:
    first = read("@daily run a\n@daily run a\n@daily run b\n")
    names = [e.name for e in first.entries]
    assert len(set(names)) == 3
    again = read("# new comment\nX=1\n@hourly other\n@daily  run b\n@daily run a\n@daily run a\n")
    assert {e.name for e in again.entries} > set(names)
    assert {e.name for e in read("@daily run a\n", source="/somewhere/tab").entries} <= set(names)
    assert not {e.name for e in read("@daily run a\n", source="tab2").entries} & set(names)
    (prefixed,) = read("@daily run a\n", prefix="web1-").entries
    assert prefixed.name == "web1-" + names[0]


# file: (system, jobs, settings, refused lines by word of their reason)
EXPECTED: dict[str, tuple[bool, int, int, dict[int, str]]] = {
    "12458__AutoHBL": (False, 1, 0, {}),
    "1on1security__packetCapture": (False, 2, 0, {3: "@reboot"}),
    "2-click__loxberry-plugin-wifi-presence-unifi": (False, 0, 0, {2: "say --system"}),
    "4U6U57__dotfiles": (False, 2, 0, {}),
    "705arun__linuxscripts": (
        False,
        13,
        0,
        dict.fromkeys((1, 2, 4, 9, 10, 17, 18, 19, 23, 27, 31, 39, 40), "minute field")
        | dict.fromkeys((6, 7, 8, 16, 21, 34, 35, 37, 41), "only")
        | {36: "a minus before", 43: "@reboot"},
    ),
    "95aplh__SVAD260Final": (False, 2, 0, {}),
    "9M2PJU__Cron-Morse-24-hour-Announcer": (False, 1, 0, {4: "minute field"}),
    "APSL__apcron": (False, 2, 0, {}),
    "AustinWinstanley__trading-bot": (False, 22, 1, {}),
    "Azq2__vk_post_manager": (False, 5, 0, {2: "@reboot"}),
    "CARS-UChicago__linux_scripts": (False, 6, 4, {}),
    "CWempe__gps-tag_photos": (True, 7, 0, {}),
    "FeanorKingofNoldor__khazad_dum": (False, 19, 3, {9: "malformed environment"}),
    "Rogiel__freebsd-config-files": (True, 2, 0, {}),
    "Samuel-0-0__jds": (False, 27, 0, {}),
    "Samuel-Samir__egx-portfolio-manager": (False, 6, 1, {}),
    "TaylanUB__misc": (False, 0, 1, {2: "@reboot", 3: "@reboot", 9: "@reboot"}),
    "adiabuk__dotfiles": (False, 5, 0, {}),
    "apt-mirror__apt-mirror": (False, 0, 0, {}),
    "aptible__supercronic-hello": (False, 1, 0, {}),
    "aptible__supercronic-invalid": (False, 0, 0, {1: "only 1 word"}),
    "aptible__supercronic-zombie": (False, 1, 0, {}),
    "luckylinux__docker-sync-registries-old": (False, 1, 0, {}),
    "mbivert__sugard-openbsd": (False, 8, 5, {}),
    "metno__kvmodelpopulate-old": (False, 1, 1, {}),
    "wasedatakeuchilab__server": (False, 4, 0, {}),
}


@pytest.mark.parametrize("stem", sorted(EXPECTED))
def test_real_files(stem: str) -> None:
    system, jobs, settings, refused = EXPECTED[stem]
    tab = read_crontab((FILES / f"{stem}.crontab").read_bytes(), source=f"{stem}.crontab", timezone="UTC")
    assert (tab.system, len(tab.entries), len(tab.settings)) == (system, jobs, settings)
    assert sorted(refused) == [r.line for r in tab.refused]
    for r in tab.refused:
        assert refused[r.line] in r.reason


def test_every_real_file_is_read_and_every_name_is_usable() -> None:
    files = sorted(FILES.glob("*.crontab"))
    assert len(files) >= 32
    for path in files:
        tab = read_crontab(path.read_bytes(), source=str(path), timezone="UTC")
        names = [e.name for e in tab.entries]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[a-z0-9._-]{1,128}", name) for name in names)


def test_real_lines_exactly() -> None:
    def job(stem: str, line: int) -> dict[str, object]:
        path = FILES / f"{stem}.crontab"
        tab = read_crontab(path.read_bytes(), source=path.name, timezone="Asia/Tokyo")
        return next(e.job for e in tab.entries if e.line == line)

    assert job("95aplh__SVAD260Final", 1)["handler"] == {
        "shell": "ansible-playbook -i /home/alex/hosts.ini /home/alex/lamp_setup.yml --ask-become-pass"
    }
    assert job("9M2PJU__Cron-Morse-24-hour-Announcer", 1)["handler"] == {
        "shell": "aplay /home/yourhome/morse_wav/intro.wav && hour=$(date +%H) && aplay"
        " /home/yourhome/morse_wav/${hour}.wav"
    }
    assert job("AustinWinstanley__trading-bot-journal", 14)["trigger"] == {
        "cron": "0 23 * * *",
        "timezone": "America/New_York",
    }
    assert job("metno__kvmodelpopulate-old", 7)["trigger"] == {
        "cron": "15 4,16 * * *",
        "timezone": "Asia/Tokyo",
    }
    assert job("CWempe__gps-tag_photos", 13) == {
        "trigger": {"cron": "*/5 * 1-13 JUL *", "timezone": "Asia/Tokyo"},
        "handler": {"shell": "/opt/gps-tag_photos/gps-tag_photos.sh $(hostname) 10.000000 North 1.000000 East"},
        "overlap": "allow",
        "labels": {"source": "crontab:CWempe__gps-tag_photos.crontab", "user": "root"},
    }
    assert job("mbivert__sugard-openbsd", 16)["handler"] == {
        "shell": "/bin/sh /etc/daily",
        "env": {
            "SHELL": "/bin/sh",
            "HOME": "/var/log",
            "SUGARD": "/var/sugard",
            "PATH": "/bin:/sbin:/usr/bin:/usr/sbin:/var/sugard/bin",
            "MAILTO": "%%gmail_email%%",
        },
        "cwd": "/var/log",
    }
    stdin = job("adiabuk__dotfiles", 4)["handler"]
    assert stdin == {
        "shell": "printf %s 'm-\nd-\ny`.txt\n' | /bin/sh -c"
        " 'ID=packback  ~/bin/packback.sh -g -f ~/Dropbox/packages/`hostname`.`date +'"
    }


# ---------------------------------------------------------------- arbitrary input

_pieces = st.sampled_from(
    [
        "*",
        "0",
        "5",
        "59",
        "*/5",
        "?",
        "mon",
        "1-5",
        "@daily",
        "@reboot",
        "@every",
        "=",
        "A=",
        "CRON_TZ=",
        "UTC",
        "'",
        '"',
        "%",
        "\\",
        "\\%",
        "#",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\x00",
        "\x0b",
        "\xe9",
        "\u2028",
        "root",
        "run",
        "-n ",
        "H",
        "L",
        "~",
    ]
)


@given(st.one_of(st.binary(max_size=300), st.lists(_pieces, max_size=60).map(lambda p: " ".join(p).encode())),
       st.sampled_from([None, True, False]), st.sampled_from([None, True, False]))  # fmt: skip
def test_any_bytes_are_read_and_each_line_has_one_fate(data: bytes, system: bool | None, seconds: bool | None) -> None:
    tab = read_crontab(data, source="x", timezone="UTC", system=system, seconds=seconds)
    fates = [e.line for e in tab.entries] + [r.line for r in tab.refused] + tab.settings
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    meant = [n for n, line in enumerate(lines, 1) if line.rstrip(b"\r").strip(b" \t\r\v\f")[:1] not in (b"", b"#")]
    assert sorted(fates) == meant
    for entry in tab.entries:
        json.dumps(entry.job).encode("utf-8")
        assert entry.job["handler"]["shell"].strip()
    assert all(r.reason for r in tab.refused)


@given(st.text(max_size=80))
def test_a_setting_is_a_pair_a_refusal_or_no_setting(line: str) -> None:
    try:
        found = setting(line)
    except Refusal:
        return
    assert found is None or found[0].isidentifier()


@pytest.mark.parametrize(
    "line", ["#" + "day" * 20_000, "* * * * * " + "*" * 60_000 + "x y", "* * * * * x " + "\\%" * 30_000]
)
def test_a_long_line_takes_no_longer_than_as_many_short_ones(line: str) -> None:
    began = time.process_time()
    read(f"{line}\n* * * * * root true")
    assert time.process_time() - began < patient(1.0)  # by its square it would be minutes
