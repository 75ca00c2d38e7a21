"""Checks the audit from outside: computes its hashes again, and copies it to a file or a syslog server."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from raftsched.cli.auth.audit import KINDS
from raftsched.cli.failures import Failure
from raftsched.errors import Exit
from raftsched.regular_files import open_regular

if TYPE_CHECKING:
    from raftsched.client.http import Client

_TRIES = 5  # while notes are dropped at the far end
_BACK = timedelta(minutes=10)  # notes of a new leader may be that much older than those before them
_AGAIN_S = 0.5  # until a copy is read again that is followed
_TAIL = 1 << 20  # bytes of a file that are read to find the end of its last line
# Beside notes a copy has lines of its own: requests that a node refused, and whose these are, how many so far
_REFUSED, _EXPORT = "refused", "export"
_NOTE = "index at kind actor token operation resource namespace subject job count remote change position hash"
FIELDS = {
    **dict.fromkeys(KINDS, frozenset(_NOTE.split())),
    _REFUSED: frozenset(
        ["kind", "node", "first_at", "last_at", "status", "method", "resource", "actor", "remote", "count", "hash"]
    ),
    _EXPORT: frozenset(("kind", "node", "refused", "hash")),
}
_KIND = re.compile(rb'"kind":"([a-z]+)"')
_FACILITY = SysLogHandler.LOG_AUTHPRIV
_LATER = (Exit.UNAVAILABLE, Exit.TIMEOUT)  # nothing was refused: the same may be answered a moment later


class Broken(Exception):
    """The place where the record does not fit together, in words."""


def hash_of(before: str, note: Mapping[str, Any]) -> str:
    """Returns the hash that a note should have after one whose hash is `before`, both in hexadecimal."""
    change = note["change"]
    said = [
        note["kind"],
        note["index"],
        note["position"],
        round(datetime.fromisoformat(note["at"]).timestamp() * 1000),
        note["token"] or "",
        note["actor"],
        note["operation"],
        note["resource"] or "",
        note["remote"] or "",
        note["namespace"] or "",
        note["subject"] or "",
        note["job"] or "",
        note["count"],
        "" if change is None else _text(change, sort=True),
    ]
    return sha256(bytes.fromhex(before) + _text(said).encode()).hexdigest()


def own_hash(before: str, line: Mapping[str, Any]) -> str:
    """Returns the hash that a line of the export's own should have, after one of these whose hash is `before`."""
    said = {name: value for name, value in line.items() if name != "hash"}
    return sha256(bytes.fromhex(before) + _text(said, sort=True).encode()).hexdigest()


def _text(value: Any, sort: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def _place(note: Mapping[str, Any]) -> str:
    return f"the note at index {note['index']} ({note['kind']}, {note['operation']} by {note['actor']}, {note['at']})"


class Behind(Broken):
    """The copy lacks what came last. One that is followed may have it a moment later."""


class Walk:
    """A walk along the notes of one kind, the oldest first."""

    def __init__(self, before: str | None) -> None:
        """`before`: the hash in front of the first; None: it is not known."""
        self.before = before
        self.first: Mapping[str, Any] | None = None
        self.last: Mapping[str, Any] | None = None
        self.unproved: Mapping[str, Any] | None = None  # what could not be held against a hash before it
        self.count = 0
        self.seen: list[tuple[str, str]] = []  # hash and time of each, where they are remembered

    def step(self, note: Mapping[str, Any], remember: bool = False) -> bool:
        """Returns False when the note does not fit the one before."""
        self.count += 1
        self.first = self.first or note
        self.last = note
        found = note["hash"]
        if found is None:  # older than the chain, which therefore begins behind it
            fits = not self.before
            self.before = ""
        else:
            if self.before is None:
                self.unproved = note
            fits = self.before is None or hash_of(self.before, note) == found
            self.before = found
        if remember:
            self.seen.append((found or "", note["at"]))
        return fits


@dataclass
class Copied:
    """A copy that was read. `whose`: the node whose refusals it has."""

    notes: dict[str, Walk] = field(default_factory=dict)
    refused: dict[tuple[Any, ...], Mapping[str, Any]] = field(default_factory=dict)
    whose: str = ""
    closed: bool = False  # its last line of its own says how many refusals there are


def verify_all(
    client: Client, copy: Path | None, since: datetime | None = None, until: datetime | None = None, wait_s: float = 0
) -> dict[str, Any]:
    """Checks all notes, and returns what was found, by kind: of the cluster, and of the copy as `copy`. `since`,
    `until`: the copy has only what came in between. `wait_s`: as long it may take to have what the cluster has. Raises
    Broken."""
    copied = None if copy is None else read_copy(copy, whole=since is None)
    chains = client.get("/v1/audit/chain")
    cluster: dict[str, tuple[Walk, Mapping[str, Any]]] = {}
    for kind in KINDS:
        if kind in chains:  # a node of an earlier version has fewer
            walk = None if copied is None else copied.notes.get(kind)
            cluster[kind] = _verify_kind(client, kind, None if walk is None else walk.unproved)
    found: dict[str, Any] = {
        kind: {"notes": walk.count, "head": walk.before or ""} for kind, (walk, _) in cluster.items()
    }
    if copy is None:
        return found
    refusals = client.get("/v1/audit/refusals")
    for left in range(round(wait_s / _AGAIN_S), -1, -1):
        try:
            copied = read_copy(copy, whole=since is None)
            for kind, (walk, ends) in cluster.items():
                found[kind]["copy"] = _compare(kind, copied.notes.get(kind), walk, ends["base"], since, until)
            return {**found, _REFUSED: _compare_refusals(copied, refusals, since, until)}
        except Behind:
            if not left:
                raise
            time.sleep(_AGAIN_S)
    raise AssertionError


def _verify_kind(client: Client, kind: str, begins: Mapping[str, Any] | None) -> tuple[Walk, Mapping[str, Any]]:
    """`begins`: the first note of a copy. No hash in the copy says what it was, so the cluster's own says it."""
    for _ in range(_TRIES):
        ends = client.get("/v1/audit/chain")[kind]
        walk = Walk(ends["base"])
        first, whole = True, not ends["head"]
        for note in client.items("/v1/audit", {"kind": kind, "order": "oldest"}, None):
            if not walk.step(note, remember=True):
                if first and client.get("/v1/audit/chain")[kind]["base"] != ends["base"]:
                    break  # the oldest were dropped meanwhile
                raise Broken(f"{_place(note)} does not fit to the one before it: one was changed, or one is missing")
            if begins is not None and note["hash"] == begins["hash"] and hash_of("", note) != hash_of("", begins):
                raise Broken(f"{_place(begins)} is another one in the cluster: the copy was changed")
            whole = whole or note["hash"] == ends["head"]
            first = False
        else:
            if not whole:
                raise Broken(f"the newest note of kind {kind} is missing: its hash {ends['head']} is in no note")
            return walk, ends
    raise Failure("notes are dropped faster than they can be read; raise audit_max or audit_keep")


def _compare(
    kind: str, copied: Walk | None, cluster: Walk, base: str, since: datetime | None, until: datetime | None
) -> dict[str, Any]:
    """Returns what the copy has of one kind, and how many newer notes the cluster has. Raises Broken where it lacks
    some that are to be in it."""
    if copied is None:
        lacks = _between(cluster.seen, since, until)
        if lacks:
            raise Behind(f"the copy has no note of kind {kind}, and the cluster has {_some(lacks)}")
        return {"notes": 0, "first": None, "last": None, "newer": len(cluster.seen)}
    assert copied.first is not None
    assert copied.last is not None
    if not copied.before:
        raise Broken(f"no note of kind {kind} in the copy has a hash: it was made before there were any, or changed")
    places = {found: place for place, (found, _) in enumerate(cluster.seen) if found}
    last = places.get(copied.before, None if copied.before != base else -1)
    if last is None:
        raise Broken(
            f"the cluster does not have the last note of kind {kind} that the copy has: its record was rewritten,"
            " or the copy is of another cluster, or so old that the note is not kept any more"
        )
    older = _between(cluster.seen[: places.get(copied.first["hash"] or "", 0)], since, until)
    if older:
        raise Broken(
            f"the copy begins with {_place(copied.first)}, and the cluster has {_some(older)} before that: its head was"
            " cut; say --from TIME if it begins later on purpose"
        )
    newer = cluster.seen[last + 1 :]
    lacks = _between(newer, since, until)
    if lacks:
        raise Behind(
            f"the copy ends with {_place(copied.last)}, and the cluster has {_some(lacks)} after that: its tail was"
            " cut, or it is older than they are; say --to TIME if it ends earlier on purpose"
        )
    return {"notes": copied.count, "first": copied.first["at"], "last": copied.last["at"], "newer": len(newer)}


def _compare_refusals(
    copied: Copied, now: Mapping[str, Any], since: datetime | None, until: datetime | None
) -> dict[str, Any]:
    """Does the same for refusals, of which a node remembers the newest. Of the minute that goes on none has to be in
    the copy yet."""
    if not copied.closed:
        raise Behind(
            "the copy does not end its refusals with a line of kind export: it was cut, or made by a version before"
            " 0.3.0, whose raftsched verifies it"
        )
    same = copied.whose == now["node"]
    newest = max((one["last_at"] for one in now["items"]), default="")
    lacks = [
        ("", one["last_at"])
        for one in now["items"]
        if one["last_at"][:16] < newest[:16] and _refusal(now["node"], one) not in copied.refused
    ]
    lacks = _between(sorted(lacks), since, until) if same else []
    if lacks:
        raise Behind(f"{now['node']} refused what the copy does not have, {_some(lacks)}: its refusals were cut")
    times = sorted(one["first_at"] for one in copied.refused.values())
    first, last = (times[0], times[-1]) if times else (None, None)
    held = now["node"] if same else None
    return {"copy": {"notes": len(times), "first": first, "last": last}, "node": copied.whose, "held_against": held}


def _between(seen: Iterable[tuple[str, str]], since: datetime | None, until: datetime | None) -> list[tuple[str, str]]:
    if since is None and until is None:
        return list(seen)
    return [
        one
        for one in seen
        if (since is None or datetime.fromisoformat(one[1]) >= since)
        and (until is None or datetime.fromisoformat(one[1]) < until)
    ]


def _some(seen: Sequence[tuple[str, str]]) -> str:
    return f"{len(seen)} (the first at {seen[0][1]})"


def _refusal(node: str, one: Mapping[str, Any]) -> tuple[Any, ...]:
    return (node, *(one[name] for name in ("first_at", "remote", "actor", "status", "resource")))


def read_copy(copy: Path, *, whole: bool = True) -> Copied:
    """Returns the copy if each line in it fits to the one before. `whole`: its refusals begin with the first. Raises
    Broken."""
    found = Copied()
    own: str | None = "" if whole else None
    number = 0
    with open_regular(copy) as file:
        for number, raw in enumerate(file, 1):
            where = f"{copy}, line {number}"
            try:
                line = _line(raw, where)
                kind = line["kind"]
                if kind in KINDS:
                    fits = found.notes.setdefault(kind, Walk(None)).step(line)
                    words = f"{_place(line)} does not fit to the one before it"
                else:
                    fits = own is None or own_hash(own, line) == line["hash"]
                    own = line["hash"]
                    found.closed = kind == _EXPORT
                    words = "a refusal was changed, or one is missing before it"
                    if kind == _REFUSED:
                        found.refused[_refusal(line["node"], line)] = line
                    else:
                        found.whose = line["node"]
                        fits = fits and (not whole or line["refused"] == len(found.refused))
            except (ValueError, KeyError, TypeError, RecursionError):
                raise Broken(f"{where} is no line of an export") from None
            if not fits:
                raise Broken(f"{where}: {words}")
    if not number:
        raise Broken(f"{copy} is empty")
    return found


def _line(raw: bytes, where: str) -> dict[str, Any]:
    """Returns a line of a copy. What readers of JSON take differently is refused, and what a hash does not cover.
    Raises Broken, ValueError, KeyError, TypeError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise Broken(f'{where} has "{twice[:64]}" twice')
        return fields

    line: dict[str, Any] = json.loads(raw.decode(), object_pairs_hook=once)
    kind = str(line["kind"])
    if kind not in FIELDS:
        raise Broken(f'{where} is of the kind "{kind[:64]}"; known are {", ".join(FIELDS)}')
    if line.keys() != FIELDS[kind]:
        wrong = min(line.keys() ^ FIELDS[kind])
        raise Broken(f'{where} {"has an unknown" if wrong in line else "lacks the"} field "{wrong[:64]}"')
    return line


class Export:
    """A copy of the notes to a file and a syslog server, each once."""

    def __init__(self, client: Client, file: Path | None, syslog: str | None) -> None:
        """Raises Failure."""
        self._client = client
        self._file = None if file is None else _opened(file)
        self._syslog = None if syslog is None else _logger(syslog)
        self._walks = {kind: Walk(None) for kind in KINDS}
        self._last: dict[str, tuple[int, int]] = {}
        self._since: datetime | None = None
        self._refused: set[tuple[Any, ...]] = set()
        self._own = ""  # hash of the last line of its own
        self._closed: tuple[str, int] | None = None  # the node and the number of refusals that the last of these names
        for line in () if file is None else _written(file):
            self._seen(line)

    def run(self, interval: float | None) -> int:
        """Copies, and returns the number of notes that did not fit. `interval`: seconds between two looks; None: one
        look. While no node answers it says so once, and continues. Raises ClientError."""
        from raftsched.client.errors import ClientError

        broken, away = 0, False
        try:
            while True:
                try:
                    broken += self._look(done=interval is None)
                    away = False
                except ClientError as error:
                    if interval is None or error.exit not in _LATER:
                        raise
                    if not away:
                        click.echo(f"raftsched: {error.detail}; the export goes on when it can be read again", err=True)
                    away = True
                if interval is None:
                    return broken
                time.sleep(interval)
        except KeyboardInterrupt:
            return broken
        finally:
            if self._file is not None:
                self._file.close()

    def _look(self, done: bool) -> int:
        broken = 0
        query = {"order": "oldest", "from": None if self._since is None else _rfc3339(self._since - _BACK)}
        for note in self._client.items("/v1/audit", query, None):
            kind = note["kind"]
            if kind not in KINDS:
                raise Failure(f"this version knows no notes of kind {kind}; use the raftsched of the cluster's version")
            if (note["index"], note["position"]) <= self._last.get(kind, (-1, -1)):
                continue
            broken += not self._walks[kind].step(note)
            self._put(note)
            self._seen(note, walked=True)
        now = self._client.get("/v1/audit/refusals")
        newest = max((one["last_at"] for one in now["items"]), default="")
        for one in reversed(now["items"]):
            # of a minute that goes on the count is not known yet
            if _refusal(now["node"], one) not in self._refused and (done or one["first_at"][:16] < newest[:16]):
                self._put_own({"kind": _REFUSED, "node": now["node"], **one})
        if self._closed != (now["node"], len(self._refused)):
            self._put_own({"kind": _EXPORT, "node": now["node"], "refused": len(self._refused)})
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        return broken

    def _seen(self, line: Mapping[str, Any], walked: bool = False) -> None:
        kind = line["kind"]
        if kind not in KINDS:
            self._own = line["hash"]
            if kind == _REFUSED:
                self._refused.add(_refusal(line["node"], line))
            else:
                self._closed = line["node"], line["refused"]
            return
        if not walked:
            self._walks[kind].before = line["hash"]
        self._last[kind] = (line["index"], line["position"])
        at = datetime.fromisoformat(line["at"])
        self._since = at if self._since is None else max(at, self._since)

    def _put_own(self, line: dict[str, Any]) -> None:
        line["hash"] = own_hash(self._own, line)
        self._put(line)
        self._seen(line)

    def _put(self, note: Mapping[str, Any]) -> None:
        line = _text(note)
        if self._file is not None:
            self._file.write(line.encode() + b"\n")
        if self._syslog is not None:
            self._syslog.info("%s", line)


def _rfc3339(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _opened(file: Path) -> BinaryIO:
    """Opens a file for appending, without half a line at its end, which a killed writer has left."""
    try:
        fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        opened = os.fdopen(fd, "r+b")
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _TAIL))
        rest = opened.read()
        if rest and not rest.endswith(b"\n"):
            opened.truncate(size - len(rest) + rest.rfind(b"\n") + 1)
        opened.seek(0, os.SEEK_END)
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from None
    return opened


def _written(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the refusals that a file has, and the last line of each kind. Raises Failure."""
    last: dict[str, bytes] = {}
    refused: list[bytes] = []
    with open_regular(file) as opened:
        for raw in opened:
            found = _KIND.search(raw)
            kind = found[1].decode() if found else ""
            last.pop(kind, None)  # in the order of the file
            last[kind] = raw
            if kind == _REFUSED:
                refused.append(raw)
    for raw in (*refused, *last.values()):
        try:
            yield _line(raw, str(file))
        except (Broken, ValueError, KeyError, TypeError):
            raise Failure(
                f"{file} has a line that is no note, or is of a version before 0.3.0; an export goes on in its own file"
                " only, so begin another one"
            ) from None


def _logger(address: str) -> logging.Logger:
    host, colon, port = address.rpartition(":")
    where: Any = (host.strip("[]"), int(port)) if colon and port.isdigit() and "/" not in port else address
    try:
        handler = SysLogHandler(where, _FACILITY)
    except OSError as error:
        raise Failure(f"syslog {address}: {error.strerror or error}; write /dev/log or HOST:PORT") from None
    handler.ident = "raftsched: "
    logger = logging.getLogger("raftsched.audit.export")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
    return logger
