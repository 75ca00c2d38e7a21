"""Decides if a crontab has a user column: a user's own has none, a system one (/etc/crontab, /etc/cron.d) has.

Nothing in the file says so, and both mistakes do harm: a command called `root`, or `echo` taken for a user and its
argument run instead. So a user column is only taken for granted where cron itself would, or where every line has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raftsched.cli.importers.crontab_line import FLAGS, Refusal, schedule, setting

USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?", re.ASCII)
_WITH_USER = re.compile(r"#.*\b(?:dow|week\w*|\w*day\w*)\s+(?:user|user-?name)\s+\S*(?:command|cmd)", re.IGNORECASE)
_WITHOUT_USER = re.compile(r"#.*\b(?:dow|\w*day\w*)\s+(?:\[flags\]\s+)?(?:command|cmd)\b", re.IGNORECASE)
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


def columns(
    source: str, lines: Sequence[tuple[int, str]], seconds: bool | None, is_account: Callable[[str], bool]
) -> Columns:
    """Decides by paths that cron reads with a user column, else by the word with which every line's command begins."""
    if source == "/etc/crontab" or source.startswith("/etc/cron.d/"):
        return Columns(True, certain=True)
    header = next((with_user for _, text in lines if (with_user := _header(text)) is not None), None)
    rests = [rest for _, text in lines if (rest := _after_schedule(text, seconds)) is not None]
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
    """The first word, and what follows it."""
    user, *tail = re.split(r"[ \t]+", rest, maxsplit=1)
    return user, "".join(tail)


def _header(text: str) -> bool | None:
    if _WITH_USER.match(text):
        return True
    return False if _WITHOUT_USER.match(text) else None


def _after_schedule(text: str, seconds: bool | None) -> str | None:
    """None: the line is no job."""
    if text.startswith("#"):
        return None
    try:
        return None if setting(text) else schedule(text, seconds).rest
    except Refusal:
        return None
