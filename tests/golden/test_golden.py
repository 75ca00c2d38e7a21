"""Logs of earlier versions give the same rows, byte for byte, and hold every command there is. See README.md."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from raftsched.core import commands as c
from raftsched.core.apply import Applier, apply_entry
from raftsched.core.entry import decode_entry, encode_configuration, encode_entry
from raftsched.core.subjects.minutes import OPEN_KEY
from raftsched.core.tables import Table
from tests.golden.goldenfile import GoldenEntry, GoldenLog, RecordingView, batches, files, raw_commands, read
from tests.golden.record import accepted, answer_codes, command_types
from tests.support.amounts import some
from tests.support.memory_view import MemoryView

# Files whose structs have got fields since (file -> which). Their bytes may go on where they ended once, no more; a
# newer file holds the new fields, byte for byte.
_WORKERS = "Session, Settings, Meta, Attempt, Policy, Ended and LoseAttempt: what remote workers need"
_FAR = "Meta: where far due times begin"
_TRIGGERS = (
    "Trigger, Policy, Job, Instance, SetJobState, ScheduleJob, Fire and operations: several triggers, pauses until"
)
_NOTICES = "Job, Instance, Notify, Notice, WebhookSpec and Webhook: limits that are watched, receivers, at_most"
_OUTCOMES = "Policy and Instance: when a run expires, what its codes mean, and what it says of itself"
_KEYS = "Policy and Instance: limits by key"
_WORKFLOWS = "Meta, Trigger, Job, Instance and Rerun: what jobs that follow others need"
_OUTPUT = "Settings, Namespace and PutNamespace: how much output is kept, and how long"
_MOVES = "Trigger: what its calendar excludes may be moved"
_ALLOWED = "Rerun and KillWorkflow: in which namespaces their caller may do that"
_LEVEL = "Meta, Form and Settings: the level of the cluster"
_COPIES = "Settings, Namespace and PutNamespace: on how many nodes output is"
_VARIABLES = "Policy and Allowed: variables that a job sets, and those that a node takes; Webhook: how long it fails"
_NEWER = f"{_MOVES}; {_ALLOWED}; {_LEVEL}; {_COPIES}; {_VARIABLES}"
GROWN: dict[str, str] = {
    "0001-first": f"{_WORKERS}; {_FAR}; {_TRIGGERS}; {_NOTICES}; {_OUTCOMES}; {_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0002-minutes": f"{_WORKERS}; {_FAR}; {_TRIGGERS}; {_NOTICES}; {_OUTCOMES}; {_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0003-workers": f"{_FAR}; {_TRIGGERS}; {_NOTICES}; {_OUTCOMES}; {_KEYS}; {_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0004-far": f"{_TRIGGERS}; {_NOTICES}; {_OUTCOMES}; {_KEYS}; {_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0006-triggers": f"{_FAR}; {_NOTICES}; {_OUTCOMES}; {_KEYS}; {_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0007-notifications": f"{_OUTCOMES}; {_KEYS}; {_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0010-outcomes": f"{_KEYS}; {_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0011-run-keys": f"{_WORKFLOWS}; {_OUTPUT}; {_NEWER}",
    "0012-workflows": f"{_OUTPUT}; {_NEWER}",
    "0014-output": _NEWER,
    "0016-allowed": f"{_LEVEL}; {_COPIES}; {_VARIABLES}",
    "0017-level": f"{_COPIES}; {_VARIABLES}",
    "0021-output-copies": _VARIABLES,
}

# What came after a file was made (file -> whole tables, and single rows): it is not held against the file.
_WATCHES = frozenset({Table.WATCHES, Table.NOTED})
LATER: dict[str, frozenset[Table | tuple[Table, bytes]]] = {
    "0001-first": _WATCHES | {Table.MINUTES, Table.TERMS, (Table.META, OPEN_KEY)},
    "0002-minutes": _WATCHES,
    "0003-workers": _WATCHES,
    "0004-far": _WATCHES,
    "0006-triggers": _WATCHES,
}

FILES = [pytest.param(path, id=path.stem) for path in files()]


@cache
def logs_of(path: Path) -> list[GoldenLog]:
    return read(path)


def came_later(path: Path, table: int, key: bytes) -> bool:
    later = LATER.get(path.stem, frozenset())
    return Table(table) in later or (Table(table), key) in later


@pytest.mark.parametrize("path", FILES)
def test_applying_gives_the_same_rows_and_answers(path: Path) -> None:
    same = grown if path.stem in GROWN else equal
    for log in logs_of(path):
        view = RecordingView()
        for entry in log.entries:
            result = apply_entry(view, entry.index, entry.term, entry.data)
            where = f"{log.name}, entry {entry.index}"
            assert answer_codes(result) == entry.answers, where
            changes = [row for row in view.take_changes() if not came_later(path, row[0], row[1])]
            assert [row[:2] for row in changes] == [row[:2] for row in entry.changes], where
            for (table, key, value), (_, _, was) in zip(changes, entry.changes, strict=True):
                assert same(was, value), f"{where}: table {table}, key {key!r}: was {was!r}, is {value!r}"


@pytest.mark.parametrize("path", some(FILES))
def test_applying_in_one_write_batch_gives_the_same_rows(path: Path) -> None:
    for log in logs_of(path):
        rows: dict[tuple[int, bytes], bytes | None] = {}
        view = MemoryView()
        applier = Applier(view)
        for entry in log.entries:
            applier.entry(entry.index, entry.term, entry.data)
            rows.update({(table, key): value for table, key, value in entry.changes})
        applier.close()
        if path.stem not in GROWN:
            now = {(int(table), key): value for table in Table for key, value in view.scan(table)}
            now = {at: value for at, value in now.items() if not came_later(path, *at)}
            assert now == {at: value for at, value in rows.items() if value is not None}, log.name


@pytest.mark.parametrize("path", FILES)
def test_encoding_again_gives_the_same_bytes(path: Path) -> None:
    same = grown if path.stem in GROWN else equal
    for log in logs_of(path):
        for entry in log.entries:
            for raw in raw_commands(entry.data):
                try:
                    command = c.decode(raw)
                except c.UNDECODABLE:
                    continue  # a command of no version: how that is refused is among the answers
                again = c.encode(command)
                assert same(raw, again), f"{log.name}, entry {entry.index}: was {raw!r}, is {again!r}"
            assert_entry_encodes_again(entry)


def assert_entry_encodes_again(entry: GoldenEntry) -> None:
    decoded = decode_entry(entry.data) if entry.data else None
    if decoded is None:
        return
    if decoded.members is not None:
        assert encode_configuration(decoded.now_ms, decoded.members) == entry.data
        return
    parts = zip(decoded.batches, batches(entry.data), strict=True)
    assert encode_entry(decoded.now_ms, [(b.origin, b.seq, raws) for b, raws in parts]) == entry.data


def equal(was: bytes | None, now: bytes | None) -> bool:
    return was == now


def grown(was: bytes | None, now: bytes | None) -> bool:
    """True for the same values, where arrays may have got further items at their end."""
    if was is None or now is None or was == now:
        return was == now
    try:
        return _goes_on(msgspec.msgpack.decode(was), msgspec.msgpack.decode(now))
    except msgspec.DecodeError:
        return False


def _goes_on(was: Any, now: Any) -> bool:
    if isinstance(was, bytes) and isinstance(now, bytes):
        return grown(was, now)  # a row or a command within
    if isinstance(was, list) and isinstance(now, list):
        return len(was) <= len(now) and all(map(_goes_on, was, now))
    return bool(was == now)


@cache
def golden_commands() -> dict[int, list[Any]]:
    """Every command of the newest files, by its number."""
    found: dict[int, list[Any]] = {}
    for path in files():
        if path.stem in GROWN:
            continue
        for log in logs_of(path):
            for raw in {raw for entry in log.entries for raw in raw_commands(entry.data)}:
                try:
                    command = c.decode(raw)
                except c.UNDECODABLE:
                    continue
                found.setdefault(type(command).__struct_config__.tag, []).append(command)
    return found


@pytest.mark.parametrize("kind", command_types(), ids=lambda kind: kind.__name__)
def test_every_command_is_in_a_golden_log_with_all_its_fields(kind: type) -> None:
    held = golden_commands().get(kind.__struct_config__.tag, [])  # type: ignore[attr-defined]
    assert held, f"no golden log holds {kind.__name__}: make a new file, see tests/golden/README.md"
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        if not field.required and field.default_factory is msgspec.NODEFAULT:
            values = {repr(getattr(command, field.name)) for command in held}
            assert values - {repr(field.default)}, f"{kind.__name__}.{field.name} is never set in a golden log"
            assert repr(field.default) in values, f"{kind.__name__}.{field.name} is always set in the golden logs"


def test_every_command_is_done_somewhere_in_the_golden_logs() -> None:
    done = {tag for path in files() for log in logs_of(path) for tag in accepted(log)}
    assert not {kind.__name__ for kind in command_types() if kind.__struct_config__.tag not in done}  # type: ignore[attr-defined]


def test_a_grown_row_goes_on_where_it_ended() -> None:
    pack = msgspec.msgpack.encode
    assert grown(pack([1, [2], pack([3])]), pack([1, [2, 5], pack([3, None]), 0]))
    assert not grown(pack([1, 2]), pack([1, 3, 4]))
    assert not grown(pack([1, 2]), pack([1]))
    assert not grown(None, pack([1]))
