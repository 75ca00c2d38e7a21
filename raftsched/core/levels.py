"""Levels: what of commands, their fields and rows the members of a cluster can use, for they all know it.

Each version that adds commands or fields adds a level; they belong to the level that they came with. A cluster has a
level, too (`Meta.level`): the lowest of its members', raised by an entry of the log when all of them know a later one.
Nobody proposes what is of a later level than the cluster's (`is_later`), so that nodes of two versions can work
together, and a node can go back to the version before as long as the level is not raised. From then on versions that
know less stop. Rows do not follow: apply writes all fields of its version, those of a later level at their defaults,
and an earlier version leaves out of a row what it does not know when it writes it again. So the same row may have more
fields on one node than on another; all versions read the same in it (store/digest.py).

An entry carries the newest level of its commands, so that a node knows whether it can tell what the entry does
(entry.py). All commands of the first level need no mention, and an entry without a level is of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from raftsched.cluster_settings import SETTINGS, Settings
from raftsched.core.commands import (
    Attributed,
    BindSession,
    CreateJobs,
    CreateWorkerToken,
    EditJob,
    EndedWithReport,
    Fire,
    Idempotent,
    KillWorkflow,
    NoteDisk,
    OpenSession,
    OpenWorker,
    PromoteDue,
    RaiseLevel,
    ReportProgress,
    ScheduleJob,
    Split,
    TriggerFire,
    TriggerSchedule,
    Watch,
    check,
    decode,
    encode,
)
from raftsched.core.model import Policy
from raftsched.core.rules.allowed import Allowed
from raftsched.core.subjects.backups import NoteBackup
from raftsched.core.subjects.namespace import PutNamespace
from raftsched.core.subjects.zones import MoveJob, SettleZones, UseZones

_S = TypeVar("_S", bound=msgspec.Struct)

FIRST_LEVEL = 1
BEGAN = 3  # levels up to this one came before clusters had a level: in all of them they may be used

# What each level brought. A version knows all levels up to its newest.
HISTORY = {
    1: "jobs, runs, queues, namespaces, secrets, webhooks, members",
    2: "remote workers, runs of several parts",
    3: "due times ahead by the day, watches of late runs, outcomes that runs say, progress, workflows",
    4: "the level itself: nodes of two versions in one cluster; a pause never ends before it begins",
    5: "a second copy of output",
    6: "deliveries on nodes only; sessions of remote workers that are their token's; an audit by subject; "
    "variables of jobs, and those that nodes take from them; the time zone data that times are computed with; "
    "when there was a backup; jobs that are alike by one command; how the last run of a job ended",
}

# What apply does otherwise from a level on.
PAUSES_BEGIN_FIRST = 4
NODES_DELIVER = 6  # no session of a remote worker is assigned a run of the cluster's own namespace
DROPPED_IS_TOLD = 6  # to runs that results are passed to, and in their steps
HOSTS_ARE_ASCII = 6  # hosts are read by ASCII, and by networks that are named here (core.rules.hosts)
AUDIT_BY_SUBJECT = 6  # rings of their own for jobs and secrets; no note of what changes nothing
DELAYS_FOLLOW_EACH_RUN = 6  # a fixed delay counts from the end of each run of its job, also of one that was asked for
HASHED_BY_NAME = 6  # `H` in the cron expressions of a named job that is made now is hashed from namespace and name
JITTER_ENDS_BEFORE_NEXT = 6  # of each trigger, also of times that were missed
FAILING_IS_NOTED = 6  # of webhooks, since when none of their attempts has succeeded
BACKUPS_ARE_NOTED = 6  # how far the log is kept elsewhere is a part of the state
MISSED_RUN_WAITS = 6  # the one run that makes up for missed times waits for the run that goes on
FIRST_START_COUNTS = 6  # a run starts with the first attempt that does, also where one before it was lost unstarted
LAST_END_IS_KEPT = 6  # in the job's row: how its last run ended, and how long that took
SKIPS_ARE_JOINED = 6  # due times of a job next to each other that did not start in time are one record

# What proposers do otherwise, because all nodes can tell what it means.
SESSIONS_ARE_BOUND = 6  # the nonce of a remote worker's session is made of its secret and its token's owner
JOBS_ARE_JOINED = 6  # jobs of a batch that are alike are one command

# Commands of later levels -> their level
SINCE: dict[type, int] = {
    **dict.fromkeys((OpenWorker, CreateWorkerToken, Split), 2),
    **dict.fromkeys((PromoteDue, Watch, NoteDisk, EndedWithReport, ReportProgress, KillWorkflow), 3),
    RaiseLevel: 4,
    **dict.fromkeys((UseZones, SettleZones, MoveJob, BindSession, NoteBackup, CreateJobs), 6),
}

# Fields of structs that commands hold, and members of enumerations, that came later -> their level. At its default a
# field says nothing, and the command is of the level that it has without it.
PARTS_SINCE: dict[tuple[type, str], int] = {
    (PutNamespace, "output_copies"): 5,
    **{(Settings, name): row.level for name, row in SETTINGS.items() if row.level > FIRST_LEVEL},
    (Policy, "env"): 6,
    (Allowed, "env"): 6,
    (ScheduleJob, "gap_ms"): 6,
    (TriggerSchedule, "gap_ms"): 6,
    (Fire, "gap_ms"): 6,
    (TriggerFire, "gap_ms"): 6,
    (ScheduleJob, "zones"): 6,
    (Fire, "zones"): 6,
    (OpenSession, "no_python"): 6,
    (EditJob, "suspended"): 6,
}

# Those of them that an earlier level goes without: they spare a run the way to a node which would refuse it, bound a
# jitter, or spare a caller to pause a job by a second request.
SPARING = frozenset(
    {
        (Policy, "env"),
        (Allowed, "env"),
        (OpenSession, "no_python"),
        (ScheduleJob, "gap_ms"),
        (TriggerSchedule, "gap_ms"),
        (Fire, "gap_ms"),
        (TriggerFire, "gap_ms"),
        (EditJob, "suspended"),
    }
)


def _tag(kind: type) -> int:
    number: int = kind.__struct_config__.tag  # type: ignore[attr-defined]
    return number


_HOLDERS = frozenset((Attributed, Idempotent))
_ATTRIBUTED, _IDEMPOTENT = _tag(Attributed), _tag(Idempotent)
_BIN_SIZES = {0xC4: 1, 0xC5: 2, 0xC6: 4}  # bytes of the length, by the first one of a bin 8, 16 or 32


def newest_level() -> int:
    """The newest that this version knows."""
    return max(HISTORY)


def level_of(commands: Iterable[bytes]) -> int:
    """The newest level of these (encoded) commands. What is no command counts for nothing."""
    since = _levels()
    return max((since.get(_innermost(raw), FIRST_LEVEL) for raw in commands), default=FIRST_LEVEL)


def is_later(raw: bytes, level: int) -> bool:
    """Returns whether an (encoded) command, without its caller and its key, is of a later level than this one, or gives
    a field or a value that is. It looks at all that the command holds: it is asked while the level of the cluster is
    not the newest. Raises one of UNDECODABLE."""
    command = check(raw)
    return not isinstance(command, RaiseLevel) and _needed(command) > max(level, BEGAN)


def _needed(value: object) -> int:
    """Returns the level that a value needs, with all that it holds."""
    if isinstance(value, msgspec.Struct):
        needed = [SINCE.get(type(value), FIRST_LEVEL)]
        for field in msgspec.structs.fields(value):
            given, factory = getattr(value, field.name), field.default_factory
            needed.append(_needed(given))
            if given != (field.default if factory is msgspec.NODEFAULT else factory()):
                needed.append(PARTS_SINCE.get((type(value), field.name), FIRST_LEVEL))
        return max(needed)
    if isinstance(value, Enum):
        return PARTS_SINCE.get((type(value), value.name), FIRST_LEVEL)
    if isinstance(value, dict):
        return max(map(_needed, (*value, *value.values())), default=FIRST_LEVEL)
    if isinstance(value, tuple | list | frozenset):
        return max(map(_needed, value), default=FIRST_LEVEL)
    return FIRST_LEVEL


def fitted(raw: bytes, level: int) -> bytes:
    """Returns an (encoded) command without the fields of SPARING that are of a later level than this one. Raises one of
    UNDECODABLE."""
    command = decode(raw)
    if isinstance(command, Attributed):
        inner = bytes(command.command)
        found = fitted(inner, level)
        return raw if found == inner else encode(replace(command, command=msgspec.Raw(found)))
    if isinstance(command, Idempotent):
        found = fitted(command.command, level)
        return raw if found == command.command else encode(replace(command, command=found))
    spared = _spared(command, level)
    return raw if spared is command else encode(spared)


def _spared(value: _S, level: int) -> _S:
    changed: dict[str, Any] = {}
    for field in msgspec.structs.fields(value):
        given = getattr(value, field.name)
        key = (type(value), field.name)
        if key in SPARING and PARTS_SINCE[key] > level:
            if given != field.default:
                changed[field.name] = field.default
        elif isinstance(given, msgspec.Struct):
            found = _spared(given, level)
            if found is not given:
                changed[field.name] = found
        elif isinstance(given, tuple):
            parts = tuple(_spared(one, level) if isinstance(one, msgspec.Struct) else one for one in given)
            if any(one is not before for one, before in zip(parts, given, strict=True)):
                changed[field.name] = parts
    return replace(value, **changed) if changed else value


def any_later(commands: Collection[object]) -> bool:
    """Returns whether one of these (decoded) commands, or one that it holds, is of a later level than the first.

    This is asked of all commands of each entry, and hardly ever is one of a kind that has to be looked at."""
    if SINCE.keys().isdisjoint(map(type, commands)) and _HOLDERS.isdisjoint(map(type, commands)):
        return False
    levels = _levels()
    return any(_is_later(command, levels) for command in commands)


def _is_later(command: object, levels: dict[int, int]) -> bool:
    if isinstance(command, Idempotent):
        return _innermost(command.command) in levels
    if isinstance(command, Attributed):
        return _innermost(bytes(command.command)) in levels
    return type(command) in SINCE


def _levels() -> dict[int, int]:
    return {_tag(kind): level for kind, level in SINCE.items()}


def _innermost(raw: bytes) -> int:
    """Returns the number of a command; of the one that a caller asked for, or that is done under a key. -1: it is none.

    This is asked of each command of each entry, so nothing is decoded: a command is a msgpack array that begins with
    its number; in an Attributed the command follows as it is, in an Idempotent after two others as a bin."""
    try:
        number, at = _number(raw, 0)
        if number == _ATTRIBUTED:
            number, at = _number(raw, at)
        if number == _IDEMPOTENT:
            for _ in range(2):
                begin, size = _bin(raw, at)
                at = begin + size
            number, _ = _number(raw, _bin(raw, at)[0])
    except (IndexError, KeyError):
        return -1
    return number


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """Returns the small integer that an array begins with, and where the next item is; -1: it begins with none. The
    formats are fixarray, array 16 and array 32, positive fixint and uint 8 of the MessagePack specification. Raises
    IndexError."""
    first = raw[at]
    at += 1 if 0x90 <= first <= 0x9F else 3 if first == 0xDC else 5 if first == 0xDD else len(raw)
    number = raw[at]
    if number < 0x80:
        return number, at + 1
    return (raw[at + 1], at + 2) if number == 0xCC else (-1, at)


def _bin(raw: bytes, at: int) -> tuple[int, int]:
    """Returns where the bytes of a bin begin, and how many there are. Raises IndexError, KeyError."""
    width = _BIN_SIZES[raw[at]]
    begin = at + 1 + width
    return begin, int.from_bytes(raw[at + 1 : begin], "big")
