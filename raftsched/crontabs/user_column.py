"""Decides if a crontab has a user column: a user's own has none, a system one (/etc/crontab, /etc/cron.d) has.

Nothing in the file says so, and both mistakes do harm: a command called `root`, or `echo` taken for a user and its
argument run instead. So a user column is only taken for granted where cron itself would, or where every line has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raftsched.crontabs.line import FLAGS

USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?", re.ASCII)
_WITH_USER = re.compile(r"#.*\b(?:dow|week\w*|\w*day\w*)\s+(?:user|user-?name)\s+\S*(?:command|cmd)", re.IGNORECASE)
_WITHOUT_USER = re.compile(r"#.*\b(?:dow|\w*day\w*)\s+(?:\[flags\]\s+)?(?:command|cmd)\b", re.IGNORECASE)
_HEADER_MAX = 200  # characters of a comment that are looked at: what both take grows with the square
_ACCOUNTS = frozenset(  # usual on other machines too, and no names of commands
    ["root", "www-data", "nobody", "apache", "ubuntu", "debian", "centos", "fedora", "ec2-user", "azureuser", "pi"]
)
_ALSO_COMMANDS = frozenset({  # accounts that many systems have, and commands that many crontabs call
    "backup", "bin", "daemon", "docker", "git", "jenkins", "list", "mail", "man", "mongodb", "mysql", "news", "nginx",
    "node", "postgres", "proxy", "redis", "rsync", "sync", "vagrant",
})  # fmt: skip


@dataclass(frozen=True)
class Columns:
    user: bool  # every line is read with a user before its command
    header: bool = False  # a comment names a user column, but not every line has one
    certain: bool = False  # nothing was guessed


def certain_columns(source: str) -> Columns | None:
    """Returns what the path says: some are read with a user column by cron. None: nothing."""
    if source == "/etc/crontab" or source.startswith("/etc/cron.d/"):
        return Columns(True, certain=True)
    return None


def columns(texts: Sequence[str], rests: Sequence[str], is_account: Callable[[str], bool]) -> Columns:
    """Decides by a comment that names the columns, else by the word with which every line's command begins. `texts`:
    the lines; `rests`: what comes after the schedule in those that have one."""
    header = next((with_user for text in texts if (with_user := _header(text)) is not None), None)
    if header is not False and rests and all(begins_with_user(rest, is_account) for rest in rests):
        return Columns(True)
    return Columns(False, header=bool(header))


def begins_with_user(rest: str, is_account: Callable[[str], bool]) -> bool:
    """Returns True when a known user, and then a command, follow the schedule."""
    user, command = split_user(rest)
    if not command or (command.startswith("-") and not FLAGS.match(command)) or not USER.fullmatch(user):
        return False
    return user in _ACCOUNTS or (user not in _ALSO_COMMANDS and is_account(user))


def split_user(rest: str) -> tuple[str, str]:
    """Returns the first word, and what follows it."""
    user, *tail = re.split(r"[ \t]+", rest, maxsplit=1)
    return user, "".join(tail)


def _header(text: str) -> bool | None:
    begin = text[:_HEADER_MAX]
    if _WITH_USER.match(begin):
        return True
    return False if _WITHOUT_USER.match(begin) else None
