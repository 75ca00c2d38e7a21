"""Copies the audit to a file or a syslog server, with its hashes, for audit_chain to check."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from raftsched.cli.auth.audit_chain import EXPORT, REFUSED, Broken, Walk, own_hash, read_line, refusal_key, text_of
from raftsched.cli.failures import Failure
from raftsched.errors import Exit
from raftsched.surface.plain import audit
from raftsched.system.regular_files import open_regular

if TYPE_CHECKING:
    from raftsched.client.http import Client

_BACK = timedelta(minutes=10)  # notes of a new leader may be that much older than those before them
_TAIL = 1 << 20  # bytes of a file that are read to find the end of its last line
_KIND = re.compile(rb'"kind":"([a-z]+)"')
_FACILITY = SysLogHandler.LOG_AUTHPRIV
_LATER = (Exit.UNAVAILABLE, Exit.TIMEOUT)  # nothing was refused: the same may be answered a moment later


class Export:
    """A copy of the notes to a file and a syslog server, each once."""

    def __init__(self, client: Client, file: Path | None, syslog: str | None) -> None:
        """Raises Failure."""
        self._client = client
        self._file = None if file is None else _opened(file)
        self._syslog = None if syslog is None else _logger(syslog)
        self._walks = {kind: Walk(None) for kind in audit.RECORD_KIND}
        self._last: dict[str, tuple[int, int]] = {}
        self._since: datetime | None = None
        self._refused: dict[tuple[Any, ...], int] = {}  # and how often
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
        for note in self._client.items(audit.LIST, query, None):
            kind = note["kind"]
            if kind not in audit.RECORD_KIND:
                raise Failure(f"this version knows no notes of kind {kind}; use the raftsched of the cluster's version")
            if (note["index"], note["position"]) <= self._last.get(kind, (-1, -1)):
                continue
            broken += not self._walks[kind].step(note)
            self._put(note)
            self._seen(note, walked=True)
        now = self._client.get(audit.REFUSALS)
        newest = max((one["last_at"] for one in now["items"]), default="")
        for one in reversed(now["items"]):
            # of a minute that goes on the count is not known yet; what was copied in it is written again when it rose
            known = self._refused.get(refusal_key(now["node"], one), 0)
            if known < one["count"] and (done or one["first_at"][:16] < newest[:16]):
                self._put_own({"kind": REFUSED, "node": now["node"], **one})
        if self._closed != (now["node"], len(self._refused)):
            self._put_own({"kind": EXPORT, "node": now["node"], "refused": len(self._refused)})
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        return broken

    def _seen(self, line: Mapping[str, Any], walked: bool = False) -> None:
        kind = line["kind"]
        if kind not in audit.RECORD_KIND:
            self._own = line["hash"]
            if kind == REFUSED:
                self._refused[refusal_key(line["node"], line)] = line["count"]
                self._closed = None
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
        line = text_of(note)
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
            if kind == REFUSED:
                refused.append(raw)
    for raw in (*refused, *last.values()):
        try:
            yield read_line(raw, str(file))
        except (Broken, ValueError, KeyError, TypeError, RecursionError, OverflowError):
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
