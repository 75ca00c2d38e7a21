"""Splits one line of a crontab: an environment setting, a schedule, the `%` rule.

Where crontab(5) is vague these follow what cron does (Vixie cron and its descendants). Pure functions on text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from raftsched.schedule.errors import TriggerError
from raftsched.schedule.expression import NICKNAMES, parse

_WORD = re.compile(r"[^ \t]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LOOKS_LIKE_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[ \t]*=", re.ASCII)
_INTERVAL = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+", re.ASCII)
_DAY = r"(?:[0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)"
_DAY_ALONE = re.compile(_DAY, re.IGNORECASE)
_DAYS = re.compile(rf"(?=[0-9,/-]*[*?])[0-9*?,/-]+|{_DAY}(?:L|(?:[-,/#]{_DAY})+)", re.IGNORECASE)
_YEARS = re.compile(r"\*(?:/[0-9]+)?|[0-9]{4}(?:[-,/][0-9]+)*", re.ASCII)
FLAGS = re.compile(r"-([nqs])[ \t]+")  # BSD's, before the command
_MINUTE = re.compile(r"[0-9*@H]", re.ASCII)  # how a minute or a nickname begins
_SPACES = " \t\r\n\v\f"  # what C's isspace() calls space


class Refusal(Exception):
    """This line cannot be imported; the text says why and what would be right."""


class Switches(NamedTuple):
    """The names by which users say what a line leaves open, as refusals and notes tell them."""

    user: str
    no_user: str
    no_user_column: str
    seconds: str
    no_seconds: str
    timezone: str


OPTIONS = Switches(
    "--system", "--no-system", "--no-user-column", "--seconds", "--no-seconds", "--timezone"
)  # of the command line


@dataclass(frozen=True)
class Schedule:
    trigger: Mapping[str, str]  # {"cron": ...} or {"every": ...}, without a time zone
    rest: str  # of the line: [user and] command
    seconds: bool = False  # seconds come first: not written for cron, whose % rule does not hold then


@dataclass(frozen=True)
class Command:
    text: str
    stdin: str  # "" when the line has no input for the command
    cut: bool = False  # an unescaped % ended it


def setting(line: str) -> tuple[str, str] | None:
    """Reads NAME=value as crontab(5) has it: spaces around `=`, either side in matching quotes, nothing expanded.

    None: the line is no setting, so it must be a job. Refusal: it is meant as one but is malformed.
    """
    found = _scan_setting(line)
    if found is None:
        if _LOOKS_LIKE_SETTING.match(line):
            raise Refusal(
                "a malformed environment line: quotes must match and nothing may follow the closing quote"
                " (comments go on a line of their own)"
            )
        return None
    name, value = found
    if not _NAME.fullmatch(name):
        raise Refusal(f"{name[:40]!r} is not a variable name; letters, digits and _ are allowed, not a digit first")
    return name, value


def _scan_setting(line: str) -> tuple[str, str] | None:
    rest = line
    if rest[:1] in ("'", '"'):
        name, quote, rest = rest[1:].partition(rest[0])
        if not quote or "=" in name:
            return None
    else:
        end = next((i for i, c in enumerate(rest) if c == "=" or c in _SPACES), len(rest))
        name, rest = rest[:end], rest[end:]
    rest = rest.lstrip(_SPACES)
    if not rest.startswith("="):
        return None
    rest = rest[1:].lstrip(_SPACES)
    if rest[:1] in ("'", '"'):
        value, quote, tail = rest[1:].partition(rest[0])
        return (name, value) if quote and not tail.strip(_SPACES) else None
    return name, rest.rstrip(_SPACES)


def schedule(line: str, seconds: bool | None, switches: Switches = OPTIONS) -> Schedule:
    """Reads the time fields. `seconds`: the first field is seconds (None: only when nothing else makes sense).

    Raises Refusal.
    """
    if line.startswith("-"):  # some crons do not log the start then
        line = line[1:]
        if not _MINUTE.match(line):
            raise Refusal("a minus before the minute or the @nickname is skipped, as in cron; here neither follows it")
    if line.startswith("@"):
        return _nickname(line)
    words = [(m.group(), m.start()) for m in _WORD.finditer(line)][:9]
    fields = [word for word, _ in words]
    count = _count_fields(fields, seconds, switches)
    if len(words) <= count:
        _check(fields[:count])
        raise Refusal(f"no command after the {count} time fields")
    return Schedule({"cron": " ".join(fields[:count])}, line[words[count][1] :], count > 5)


def _nickname(line: str) -> Schedule:
    parts = line.split(None, 1)
    nickname, rest = parts[0].lower(), (parts[1] if len(parts) == 2 else "")
    if nickname == "@reboot":
        raise Refusal(
            "@reboot cannot be imported: a cluster does not boot; use systemd, or a job with a manual trigger"
        )
    trigger: dict[str, str]
    if nickname == "@every":
        interval, _, rest = rest.partition(" ")
        if not _INTERVAL.fullmatch(interval):
            raise Refusal(f"@every wants an interval such as 90s or 1h30m, not {interval[:40]!r}")
        trigger, rest = {"every": interval}, rest.lstrip(" \t")
    elif nickname == "@every_minute":
        trigger = {"cron": "* * * * *"}
    elif nickname == "@every_second":
        trigger = {"every": "1s"}
    elif nickname in NICKNAMES:
        trigger = {"cron": NICKNAMES[nickname]}
    else:
        raise Refusal(f"{nickname[:40]!r} is not a known nickname; known are {', '.join(NICKNAMES)}")
    if not rest:
        raise Refusal(f"no command after {nickname}")
    return Schedule(trigger, rest)


def _count_fields(fields: list[str], seconds: bool | None, switches: Switches) -> int:
    """Returns 5, 6 (seconds first) or 7 (and the year last); the fields are then valid together."""
    with_seconds = 7 if len(fields) > 7 and _YEARS.fullmatch(fields[6]) else 6
    if len(fields) < 5:
        raise Refusal(
            f"only {len(fields)} word{'s' if len(fields) != 1 else ''}: a job line is five time fields and a"
            " command, such as 0 2 * * * /usr/local/bin/backup"
        )
    if seconds is not None:
        count = with_seconds if seconds else 5
        _check(fields[:count])
        return count
    sixth = fields[5] if len(fields) > 6 else ""  # the sixth word can only be a field if a command follows
    if _DAYS.fullmatch(sixth):  # cron would call it the command; no command has such a name
        _check(fields[:with_seconds])
        return with_seconds
    if _DAY_ALONE.fullmatch(sixth):
        plain, six = _problem(fields[:5]), _problem(fields[:with_seconds])
        if plain is None and six is None:
            raise Refusal(
                f"the sixth word {sixth!r} may be a weekday (seconds come first) or the command: say"
                f" {switches.seconds} or {switches.no_seconds}"
            )
        if plain is not None and (six is None or "?" in fields[:6]):
            _check(fields[:with_seconds])
            return with_seconds
    _check(fields[:5])
    return 5


def _check(fields: list[str]) -> None:
    problem = _problem(fields)
    if problem is not None:
        hint = "; for cron's random ~ write H, such as H(0-59)" if any("~" in f for f in fields) else ""
        raise Refusal(problem + hint)


def _problem(fields: list[str]) -> str | None:
    try:
        parse(" ".join(fields), "", 0)
    except TriggerError as e:
        return e.detail
    return None


def split_percent(text: str) -> Command:
    r"""Splits by the `%` rule: the first unescaped one ends the command, the rest is its standard input with each
    further `%` a newline, and a newline at the end; `\%` is a plain percent sign on both sides."""
    command: list[str] = []
    rest = ""
    cut = escaped = False
    for i, c in enumerate(text):
        if escaped:
            if c == "%":
                command.pop()
            escaped = False
        elif c == "\\":
            escaped = True
        elif c == "%":
            cut, rest = True, text[i + 1 :]
            break
        command.append(c)
    return Command("".join(command), _input(rest), cut)


def _input(text: str) -> str:
    out: list[str] = []
    escaped = wants_newline = False
    for c in text:
        if escaped and c != "%":
            out.append("\\")
        plain = "\n" if c == "%" and not escaped else c
        escaped = c == "\\"
        if not escaped:
            out.append(plain)
            wants_newline = plain != "\n"
    if escaped:
        out.append("\\")
    if wants_newline:
        out.append("\n")
    return "".join(out)


def shell_text(command: Command, shell: str) -> str:
    """Returns the text for `sh -c` with which `shell` runs the command with its standard input, as cron would.

    That is the plain command where it is the same. Otherwise the command stays one quoted argument, so that nothing in
    it (comments, unbalanced quotes, background jobs) can meet the text around it.
    """
    if not command.stdin and shell in ("", "/bin/sh", "sh"):
        return command.text
    call = f"{shlex.quote(shell or '/bin/sh')} -c {shlex.quote(command.text)}"
    if command.stdin:
        return f"printf %s {shlex.quote(command.stdin)} | {call}"
    return f"exec {call}"
