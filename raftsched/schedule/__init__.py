"""Turns triggers into times: at, in, every, cron, rrule and manual, time zones and daylight saving time.

Asked by the leader and the API, never by apply: time zone data differs from host to host, so one node computes a time
and the command carries it. Pure: no clock, no state but caches; times are integer UTC milliseconds. Every function
raises TriggerError for a trigger that cannot be used, and nothing else.

expression, fields and days read a cron expression, rule_text a recurrence rule; wall, rule_days and rule_times find
matching times on the wall; zones and cron put them on the time line; triggers covers all kinds; text, validation,
describe, describe_rule, preview and by_day face people, and so do remarks and misread, of what was hardly meant, and
clock_changes; gaps says how near two times may be. exclusions reads calendars: days on which nothing is due; windows
are hours of theirs. local_days says where days begin, and reads local times that are written down. offsets compares two
versions of the time zone data. budget bounds what one search may look at.
"""

from __future__ import annotations

from raftsched.schedule.budget import Steps
from raftsched.schedule.by_day import DueDay, due_days, due_days_of_several
from raftsched.schedule.describe import describe, describe_several
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.exclusions import zone_of
from raftsched.schedule.preview import Occurrence, preview
from raftsched.schedule.text import parse_cron_text
from raftsched.schedule.triggers import Missed, is_excluded, is_fixed, missed, never_fires, next_nominal
from raftsched.schedule.validation import validate
from raftsched.schedule.zones import zone_info as check_zone

__all__ = [
    "DueDay",
    "Missed",
    "Occurrence",
    "Steps",
    "TriggerError",
    "check_zone",
    "describe",
    "describe_several",
    "due_days",
    "due_days_of_several",
    "is_excluded",
    "is_fixed",
    "missed",
    "never_fires",
    "next_nominal",
    "parse_cron_text",
    "preview",
    "validate",
    "zone_of",
]
