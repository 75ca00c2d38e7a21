"""Calendars: named days on which what would be due is not. Their rows, and the commands that change them.

The content is JSON that the schedule room reads (`schedule.exclusions`); to core it is so many bytes. Whoever computes
times with a calendar says by its revision which content that was, and apply refuses times of another one.
"""

from __future__ import annotations

import msgspec

from raftsched.bounds import CALENDAR_MAX
from raftsched.core.subjects.command import Command

CALENDARS_MAX = 1_000
CALENDAR_NAME_MAX = 128  # bytes
AT_ONCE = 100  # jobs that an edit owes their next times in the same command; more are left to an operation


class Calendar(msgspec.Struct, array_like=True, kw_only=True):
    """One row of CALENDARS."""

    name: str
    revision: int  # never that of another content, nor of another calendar
    content: bytes
    created_at_ms: int
    modified_at_ms: int


def calendar_error(name: str, content: bytes) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong."""
    if not 1 <= len(name.encode()) <= CALENDAR_NAME_MAX:
        return f"the name of a calendar takes 1 to {CALENDAR_NAME_MAX} bytes."
    if len(content) > CALENDAR_MAX:
        return f"the calendar takes {len(content)} bytes; {CALENDAR_MAX} is the limit."
    return None


# ---------------------------------------------------------------- commands


class PutCalendar(Command, frozen=True, tag=60):
    """Creates the calendar or replaces its content. The jobs that use it are owed their next times anew."""

    name: str
    content: bytes
    if_revision: int | None = None  # refused unless it is there, at this revision
    if_none: bool = False  # create only


class DeleteCalendar(Command, frozen=True, tag=61):
    """Refused while a job uses it."""

    name: str
    if_revision: int | None = None


class RescheduleJob(Command, frozen=True, tag=62):
    """The leader found a time that is due to be none any more: the job is owed another. Compare-and-set as Fire."""

    job_id: int
    revision: int
    nominal_at_ms: int
