"""Reads crontabs, user and system style, into jobs.

Reads what people keep, not what the manual promises: CRLF, a byte order mark, a missing last newline, prose between the
lines. Every line that is neither blank nor a comment ends up in exactly one of three places: a setting that holds for
the lines below it, a job, or a refusal with its reason. Nothing raises. Rules are those of crontab(5); see also `line`.

What cron has and a cluster has not is kept as close as can be: the user of a system crontab becomes a label (the
command runs as the node's user), MAILTO stays in the environment of the command but nothing is mailed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Required, TypedDict, Unpack

from raftsched.crontabs.line import (
    FLAGS,
    OPTIONS,
    Command,
    Refusal,
    Schedule,
    Switches,
    schedule,
    setting,
    shell_text,
    split_percent,
)
from raftsched.crontabs.user_column import USER, Columns, begins_with_user, certain_columns, columns, split_user
from raftsched.schedule.describe import duration_text
from raftsched.schedule.gaps import least_gap_of
from raftsched.schedule.zones import is_zone

_ZONE_LINE = re.compile(r"""['"]?CRON_TZ['"]?[ \t]*=""")
_LABEL_MAX = 200  # characters
_OF_CRON = {  # variables that some cron reads itself
    "MAILFROM": "mails as this sender", "CONTENT_TYPE": "mails it as this type",
    "CONTENT_TRANSFER_ENCODING": "mails it in this encoding", "START_HOURS_RANGE": "keeps to these hours",
}  # fmt: skip
_FLAGS_LEFT_OUT = {"n": "nothing is mailed, whatever becomes of a run", "q": "each run is recorded"}
_ADDRESS = re.compile(r"\w[\w.+-]*@[\w.-]+", re.ASCII)
_REFERENCE = re.compile(r"(?<!\\)\$(?:[A-Za-z_]|\{[A-Za-z_])", re.ASCII)


@dataclass(frozen=True)
class Entry:
    """A line that becomes a job."""

    line: int
    text: str
    name: str
    job: dict[str, Any]  # the body of PUT /v1/namespaces/{ns}/jobs/{name}


@dataclass(frozen=True)
class Refused:
    line: int
    text: str
    reason: str


@dataclass
class Crontab:
    system: bool  # read with a user column
    entries: list[Entry] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    settings: list[int] = field(default_factory=list)  # line numbers
    notes: list[tuple[int, str]] = field(default_factory=list)  # what works differently from cron, by line


@dataclass
class _Environment:
    """The variables that the lines so far have set."""

    default_zone: str
    zone: str
    columns: Columns
    is_account: Callable[[str], bool]
    switches: Switches
    schedules: _Schedules
    env: dict[str, str] = field(default_factory=dict)
    bad_zone_line: int | None = None  # a CRON_TZ that was refused: what follows has no time
    random_delay: int = 0  # minutes


class How(TypedDict, total=False):
    """The parameters of `read_in_steps`."""

    source: Required[str]
    timezone: Required[str]
    system: bool | None
    seconds: bool | None
    prefix: str
    is_account: Callable[[str], bool]
    switches: Switches


def read_crontab(data: bytes, **how: Unpack[How]) -> Crontab:
    """Reads a whole crontab."""
    *_, tab = read_in_steps(data, **how)
    return tab


def read_in_steps(
    data: bytes,
    *,
    source: str,
    timezone: str,
    system: bool | None = None,
    seconds: bool | None = None,
    prefix: str = "",
    is_account: Callable[[str], bool] = lambda name: False,
    switches: Switches = OPTIONS,
) -> Iterator[Crontab]:
    """Yields a crontab as it is read, after each line of work; the last one is whole.

    Args:
        source: the file's path or name; its last part goes into names and the label `source`.
        timezone: IANA name that holds until the file says CRON_TZ, and again where that is empty.
        system: whether a user stands before each command; None: found out from path and content.
        seconds: whether a seconds field comes first; None: only where nothing else makes sense.
        prefix: put before each job name.
        is_account: whether a word that may be a user or a command is a user.
        switches: as texts call what the user may say.
    """
    lines = [(number, text) for number, text in enumerate(_lines(data), 1) if text]
    schedules = _Schedules(switches)
    style = certain_columns(source) if system is None else Columns(system, certain=True)
    if style is None:
        rests = []
        for _, text in lines:
            rest = _after_schedule(text, seconds, schedules)
            if rest is not None:
                rests.append(rest)
            yield Crontab(system=False)
        style = columns([text for _, text in lines], rests, is_account)
    tab = Crontab(style.user)
    around = _Environment(timezone, timezone, style, is_account, switches, schedules)
    names = _Names(source, prefix, schedules)
    yield tab
    for number, text in lines:
        if text.startswith("#"):
            continue
        shown = text.encode("utf-8", "backslashreplace").decode()
        try:
            _check_text(text)
            found = setting(text)
            if found is not None:
                _set(around, number, *found, tab)
                tab.settings.append(number)
            else:
                name = names.next(text)
                tab.entries.append(Entry(number, shown, name, _job(text, number, around, tab, names, seconds)))
        except Refusal as e:
            if _ZONE_LINE.match(text):
                around.bad_zone_line = number
            tab.refused.append(Refused(number, shown, str(e)))
        yield tab


class _Schedules:
    """Schedules of the lines that were read: each is asked for up to three times."""

    def __init__(self, switches: Switches) -> None:
        self._switches = switches
        self._read: dict[tuple[str, bool | None], Schedule | Refusal] = {}

    def of(self, line: str, seconds: bool | None) -> Schedule:
        """Raises Refusal."""
        found = self._read.get((line, seconds))
        if found is None:
            try:
                found = schedule(line, seconds, self._switches)
            except Refusal as refusal:
                found = refusal
            self._read[line, seconds] = found
        if isinstance(found, Refusal):
            raise found
        return found


def _after_schedule(text: str, seconds: bool | None, schedules: _Schedules) -> str | None:
    """Returns what follows the schedule of a line; None: the line is no job."""
    if text.startswith("#"):
        return None
    try:
        return None if setting(text) else schedules.of(text, seconds).rest
    except Refusal:
        return None


def _lines(data: bytes) -> list[str]:
    """Returns the lines without line ends and leading blanks. Bytes that are not UTF-8 become lone surrogates, refused
    later."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.rstrip("\r").lstrip(" \t\r\v\f") for line in text.split("\n")]


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Refusal("holds a NUL byte; a crontab is plain text (is this UTF-16? save it as UTF-8)")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise Refusal("is not UTF-8; convert the file, for instance with iconv -f latin1 -t utf-8")


def _set(around: _Environment, number: int, name: str, value: str, tab: Crontab) -> None:
    around.env[name] = value
    if name == "CRON_TZ":
        if value and not is_zone(value):
            raise Refusal(f"CRON_TZ {value[:60]!r} is not a known time zone; write an IANA name such as Europe/Madrid")
        around.bad_zone_line = None
        around.zone = value or around.default_zone
    elif name == "TZ":
        if value != around.zone:
            tab.notes.append(
                (
                    number,
                    f"TZ={value} is given to the commands; as in cron it does not move the schedule, which stays in"
                    f" {around.zone} (CRON_TZ= or {around.switches.timezone} does)",
                )
            )
    elif name == "MAILTO":
        if value:
            whom = value.partition(",")[0].strip()[:60]
            whom = whom if _ADDRESS.fullmatch(whom) else "ADDRESS"
            how = f"raftsched webhooks create NAME --email {whom} --smtp HOST --from ADDRESS --event failed"
            tab.notes.append((number, f"MAILTO: nothing is mailed by itself; '{how}' mails when runs fail"))
    elif name == "RANDOM_DELAY":
        digits = value.isascii() and value.isdigit() and len(value) < 5
        around.random_delay = int(value) if digits and int(value) <= 1440 else 0
        if not around.random_delay and value.strip("0"):
            tab.notes.append((number, f"RANDOM_DELAY={value[:60]} is no number of minutes up to a day; it is left out"))
    elif name in _OF_CRON:
        tab.notes.append((number, f"{name} is given to the commands; that cron {_OF_CRON[name]} has no counterpart"))
    if _REFERENCE.search(value):
        tab.notes.append(
            (number, f"{name}={value[:60]}: no variable is replaced in such a line, as in cron; write the value itself")
        )


def _job(
    text: str, number: int, around: _Environment, tab: Crontab, names: _Names, seconds: bool | None
) -> dict[str, Any]:
    found = around.schedules.of(text, seconds)
    if around.bad_zone_line is not None:
        raise Refusal(f"its time zone is not known: correct CRON_TZ on line {around.bad_zone_line}")
    rest, labels = found.rest, {"source": f"crontab:{names.file}"[:_LABEL_MAX]}
    if tab.system:
        user, command_text = split_user(rest)
        if not USER.fullmatch(user):
            raise Refusal(
                f"a user name is expected before the command, not {user[:40]!r}; if the file has no user column"
                f" say {around.switches.no_user_column}"
            )
        rest, labels["user"] = command_text, user
    elif not around.columns.certain:
        _doubt_user(rest, number, around, tab)
    overlap = "allow"
    while flag := FLAGS.match(rest):
        rest = rest[flag.end() :]
        overlap = "forbid" if flag.group(1) == "s" else overlap
        if flag.group(1) in _FLAGS_LEFT_OUT:
            tab.notes.append((number, f"the flag -{flag.group(1)} is left out: {_FLAGS_LEFT_OUT[flag.group(1)]}"))
    if not rest.strip():
        raise Refusal("no command after the user name" if tab.system else "no command after the time fields")
    if (len(rest) - len(rest.rstrip("\\"))) % 2:
        raise Refusal(
            "ends with a backslash, and cron joins no lines: half a command would run; write it in one line, or as a"
            " script"
        )
    command = Command(rest, "") if found.seconds else split_percent(rest)
    if not command.text.strip():
        raise Refusal("the command is empty: an unescaped % ends it; write \\% for a percent sign")
    if command.cut:
        tab.notes.append(
            (
                number,
                "an unescaped % ends the command and the rest is its input, as in cron; write \\% for a percent sign",
            )
        )
    trigger = dict(found.trigger)
    if "cron" in trigger:
        trigger["timezone"] = around.zone
    if around.random_delay:
        gap_ms = least_gap_of(trigger)
        if gap_ms is not None and around.random_delay * 60_000 >= gap_ms:
            tab.notes.append(
                (
                    number,
                    f"RANDOM_DELAY={around.random_delay} may be longer than the time to the next run,"
                    f" {duration_text(gap_ms)}; here each delay ends before that",
                )
            )
        trigger["jitter"] = f"{around.random_delay}m"
    handler: dict[str, Any] = {"shell": shell_text(command, around.env.get("SHELL", ""))}
    if around.env:
        handler["env"] = dict(around.env)
    if around.env.get("HOME", "").startswith("/"):
        handler["cwd"] = around.env["HOME"]  # where cron starts commands
    return {"trigger": trigger, "handler": handler, "overlap": overlap, "labels": labels}


def _doubt_user(rest: str, number: int, around: _Environment, tab: Crontab) -> None:
    """Notes a doubt about a line that is read without a user, though its first word may be one."""
    user, command = split_user(rest)
    if around.columns.header and command and USER.fullmatch(user):
        raise Refusal(
            f"{user[:40]!r} may be a user, for a comment names such a column, or the command, for not every line begins"
            f" with a known user: say {around.switches.user} or {around.switches.no_user}"
        )
    if begins_with_user(rest, around.is_account):
        tab.notes.append(
            (
                number,
                f"the first word of the command is {user!r}: if this is a system crontab, say {around.switches.user}",
            )
        )


class _Names:
    """Job names that stay the same when the file is imported again, also after lines were added, moved or commented.

    Made of the file's name, the command and a hash of both and the whole line; equal lines are told apart by counting.
    """

    def __init__(self, source: str, prefix: str, schedules: _Schedules) -> None:
        file = source.rstrip("/").rpartition("/")[2] or "crontab"
        self.file = file.encode("utf-8", "replace").decode()
        self._prefix = prefix
        self._schedules = schedules
        self._seen: dict[str, int] = {}

    def next(self, text: str) -> str:
        line = " ".join(text.split())
        nth = self._seen[line] = self._seen.get(line, 0) + 1
        digest = hashlib.sha256(f"{self.file}\0{line}\0{nth}".encode()).hexdigest()[:12]
        try:
            command = self._schedules.of(text, None).rest.split()
        except Refusal:
            command = []
        hint = "-".join(word.rpartition("/")[2] for word in command[:2])
        parts = (_slug(self.file.removesuffix(".crontab"), 40), _slug(hint, 30), digest)
        return self._prefix + "-".join(part for part in parts if part)


def _slug(text: str, limit: int) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", text.lower())[:limit].strip("-.")
