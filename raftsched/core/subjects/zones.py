"""The time zone data that stored times were computed with. Its row, and the commands of a leader with other data.

Data is named by its version and a digest of its content ("2025b 3fa9c1d20b7e"), and numbered in the order in which
leaders computed with it (`Meta.zones`). A time that only a leader computes is stored with that number, and refused when
it comes with another one. How many seconds each zone is ahead of UTC is a text that the schedule room reads
(`schedule.offsets`); to core it is so many bytes.
"""

from __future__ import annotations

import re

import msgspec

from raftsched.core.subjects.command import Command

ZONES_KEY = b"zones"  # of the row, in META
NAME_MAX = 64  # bytes
OFFSETS_MAX = 128 * 1024  # bytes

_version = re.compile(r"([0-9]{4}[a-z]{1,2}) ", re.ASCII).match


class ZoneData(msgspec.Struct, array_like=True, kw_only=True):
    """The row. A time with a number up to `settled` is a time by the data of `offsets`, too."""

    data: str = ""  # that of Meta.zones
    settled: int = 0  # the newest number with whose data all times were compared
    offsets: bytes = b""  # of the data of that number
    newest: str = ""  # the newest of the data that times may be of; "": it is not known
    since_ms: int = 0  # when it was first computed with `data`


class Moved(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """New time zone data gave a job another next time."""

    at_ms: int
    from_ms: int | None
    to_ms: int | None


def is_newer(data: str, than: str) -> bool:
    """Returns whether data is known to be newer: both say a version of the IANA, and it has the later one."""
    found, other = _version(data), _version(than)
    return found is not None and other is not None and found[1] > other[1]


# ---------------------------------------------------------------- commands


class UseZones(Command, frozen=True, tag=180):
    """The leader computes with this data from here on. Refused unless `number` is still that of the data before."""

    data: str
    number: int


class SettleZones(Command, frozen=True, tag=181):
    """All times were compared with the data of this number, which is the present one. A repeat replaces the offsets,
    when those that are kept come to their end."""

    number: int
    offsets: bytes


class TriggerMove(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Another next time of one of several triggers, as in MoveJob."""

    index: int  # of the trigger among those of the job
    nominal_at_ms: int | None
    next_nominal_at_ms: int | None
    calendar: int = 0
    never_fires: bool = False
    gap_ms: int | None = None  # from the next time to the one after it, as in ScheduleJob


class MoveJob(Command, frozen=True, tag=182):
    """Moves a job that is next due at another time by the present time zone data. Compare-and-set as Fire. Of a job
    with several triggers: `triggers`, those that differ, and no time beside them."""

    job_id: int
    revision: int
    zones: int  # number of the data; refused unless it is the present one
    nominal_at_ms: int | None
    next_nominal_at_ms: int | None
    calendar: int = 0  # as in ScheduleJob
    never_fires: bool = False
    triggers: tuple[TriggerMove, ...] = ()
    gap_ms: int | None = None  # as in ScheduleJob
