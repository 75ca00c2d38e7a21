"""Checks the audit from outside: computes its hashes again, and copies it to a file or a syslog server."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from raftsched.cli.auth.audit import KINDS
from raftsched.cli.failures import Failure
from raftsched.errors import Exit

if TYPE_CHECKING:
    from raftsched.client.http import Client

_TRIES = 5  # while notes are dropped at the far end
_BACK = timedelta(minutes=10)  # notes of a new leader may be that much older than those before them
_TAIL = 1 << 20  # bytes of a file that are read to find its last notes
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


def _text(value: Any, sort: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def _place(note: Mapping[str, Any]) -> str:
    return f"the note at index {note['index']} ({note['kind']}, {note['operation']} by {note['actor']}, {note['at']})"


class Walk:
    """A walk along the notes of one kind, the oldest first."""

    def __init__(self, before: str | None) -> None:
        """`before`: the hash in front of the first; None: it is not known."""
        self.before = before
        self.first: Mapping[str, Any] | None = None  # what could not be held against a hash before it
        self.count = 0
        self.hashes: set[str] = set()

    def step(self, note: Mapping[str, Any]) -> bool:
        """Returns False when the note does not fit the one before."""
        self.count += 1
        found = note["hash"]
        if found is None:  # older than the chain, which therefore begins behind it
            fits = not self.before
            self.before = ""
        else:
            if self.before is None:
                self.first = note
            fits = self.before is None or hash_of(self.before, note) == found
            self.before = found
            self.hashes.add(found)
        return fits


def verify_all(client: Client, copy: Path | None) -> dict[str, Any]:
    """Checks all notes, and returns what was found, by kind. Raises Broken."""
    copied = {} if copy is None else _verify_copy(copy)
    found: dict[str, Any] = {}
    chains = client.get("/v1/audit/chain")
    for kind in KINDS:
        if kind not in chains:
            continue  # this version of a node has no such kind
        last = copied.get(kind)
        walk, ends = _verify_kind(client, kind, None if last is None else last.first)
        if last is not None and not last.before:
            raise Broken(
                f"no note of kind {kind} in the copy has a hash: it was made before there were any, or changed"
            )
        if last is not None and last.before not in walk.hashes and last.before != ends["base"]:
            raise Broken(
                f"the cluster does not have the last note of kind {kind} that the copy has: its record was rewritten,"
                " or the copy is of another cluster, or so old that the note is not kept any more"
            )
        found[kind] = {"notes": walk.count, "head": walk.before or ""}
    return found


def _verify_kind(client: Client, kind: str, begins: Mapping[str, Any] | None) -> tuple[Walk, Mapping[str, Any]]:
    """`begins`: the first note of a copy. No hash in the copy says what it was, so the cluster's own says it."""
    for _ in range(_TRIES):
        ends = client.get("/v1/audit/chain")[kind]
        walk = Walk(ends["base"])
        first = True
        for note in client.items("/v1/audit", {"kind": kind, "order": "oldest"}, None):
            if not walk.step(note):
                if first and client.get("/v1/audit/chain")[kind]["base"] != ends["base"]:
                    break  # the oldest were dropped meanwhile
                raise Broken(f"{_place(note)} does not fit to the one before it: one was changed, or one is missing")
            if begins is not None and note["hash"] == begins["hash"] and hash_of("", note) != hash_of("", begins):
                raise Broken(f"{_place(begins)} is another one in the cluster: the copy was changed")
            first = False
        else:
            if ends["head"] and ends["head"] not in walk.hashes:
                raise Broken(f"the newest note of kind {kind} is missing: its hash {ends['head']} is in no note")
            return walk, ends
    raise Failure("notes are dropped faster than they can be read; raise audit_max or audit_keep")


def _verify_copy(copy: Path) -> dict[str, Walk]:
    walks: dict[str, Walk] = {}
    with copy.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                note = json.loads(raw)
                kind = note["kind"]
                if kind not in KINDS:
                    continue
                if not walks.setdefault(kind, Walk(None)).step(note):
                    raise Broken(f"{copy}, line {number}: {_place(note)} does not fit to the one before it")
            except (ValueError, KeyError, TypeError):
                raise Broken(f"{copy}, line {number} is no note") from None
    return walks


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
        for note in () if file is None else _tail(file):
            self._seen(note)

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
            if (note["index"], note["position"]) <= self._last.get(kind, (-1, -1)):
                continue
            broken += not self._walks[kind].step(note)
            self._walks[kind].hashes.clear()
            self._put(note)
            self._seen(note, walked=True)
        now = self._client.get("/v1/audit/refusals")
        newest = max((one["last_at"] for one in now["items"]), default="")
        for one in reversed(now["items"]):
            key = (now["node"], one["first_at"], one["remote"], one["actor"], one["status"], one["resource"])
            # of a minute that goes on the count is not known yet
            if key not in self._refused and (done or one["first_at"][:16] < newest[:16]):
                self._refused.add(key)
                self._put({"kind": "refused", "node": now["node"], **one})
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        return broken

    def _seen(self, note: Mapping[str, Any], walked: bool = False) -> None:
        kind = note["kind"]
        if kind == "refused":
            names = ("node", "first_at", "remote", "actor", "status", "resource")
            self._refused.add(tuple(note[name] for name in names))
            return
        if not walked:
            self._walks[kind].before = note["hash"]
        self._last[kind] = (note["index"], note["position"])
        at = datetime.fromisoformat(note["at"])
        self._since = at if self._since is None else max(at, self._since)

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


def _tail(file: Path) -> Iterator[dict[str, Any]]:
    """Returns the last notes of a file. Raises Failure."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _TAIL))
        raw = opened.read()
    lines = raw.split(b"\n")[:-1]
    for line in lines[1:] if size > _TAIL else lines:
        try:
            note = json.loads(line)
            if note["kind"] in (*KINDS, "refused"):
                yield note
        except (ValueError, KeyError, TypeError):
            raise Failure(f"{file} has a line that is no note; an export goes on in its own file only") from None


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
