"""One look at conditions: is there a file that matches, does a server answer. Blocking, so it runs in a thread.

A system call on a file system that does not answer cannot be ended from outside. All the rest can: whoever gives a look
up says so, and it ends at the next file or when its connection is shut.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from urllib.parse import urlsplit

from raftsched.core.model import Condition, ConditionKind
from raftsched.core.rules.allowed import Allowed, Destinations, inside, path_error, permitted_addresses
from raftsched.hosts import asked_for
from raftsched.system.clock import SystemClock
from raftsched.worker.processes.users import User, thread_as

ENTRIES_MAX = 200_000  # names of files that one look goes through
CONNECT_MIN_S = 0.001  # to connect in, when the time is over: a connection with no seconds does not wait


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes a while."""
    return ssl.create_default_context()


class GivenUp(Exception):
    """Nobody waits for the result any more."""


class Refused(Exception):
    """The node does not ask that address; the text says why, as the end of a sentence."""


class TooMany(Exception):
    """More files than one look goes through."""


class ConditionProbe:
    """`missing` in one thread; the rest from another."""

    def __init__(
        self, conditions: Sequence[Condition], limit_s: float, allowed: Allowed, user: User | None = None
    ) -> None:
        """`limit_s`: seconds that a connection may be silent. `allowed`: where it may look. `user`: who looks for
        paths; None: the node's own."""
        self._user = user
        self._allowed = allowed
        self._destinations = Destinations(allowed.http, allowed.http_deny)
        self._roots = tuple(map(os.path.realpath, allowed.cwd or ()))
        self._clock = SystemClock()
        self._conditions = conditions
        self._limit_s = limit_s
        self.given_up = False
        self._entries = 0
        self._unreadable = ""
        self._socket: socket.socket | None = None
        self.doing = ""

    def missing(self) -> str | None:
        """Returns the first condition that is not met, in words; None: all are. Raises GivenUp."""
        for condition in self._conditions:
            if condition.kind is ConditionKind.PATH:
                found = self._path(condition.target)
            elif condition.kind is ConditionKind.HTTP:
                found = self._http(condition)
            else:
                continue  # seen in the tables
            if found is not None:
                return found
        return None

    def give_up(self) -> None:
        """Asks the look to end."""
        self.given_up = True
        connection = self._socket
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------ paths

    def _path(self, pattern: str) -> str | None:
        self.doing = f"Looking for {pattern}"
        wrong = path_error(self._allowed, pattern)
        if wrong is not None:
            return f"The node {wrong}."
        self._entries, self._unreadable = 0, ""
        try:
            with thread_as(self._user):
                found = self._matches("/", [part for part in pattern.split("/") if part])
        except OSError as error:
            return f"The node cannot look for {pattern} as its job's user: {error.strerror}."
        except TooMany:
            return f"{pattern} leads through more than {ENTRIES_MAX:,} files; use a narrower one."
        if found:
            return None
        if self._unreadable:
            return f"No file matches {pattern}, but {self._unreadable} cannot be read."
        return f"No file matches {pattern}."

    def _matches(self, base: str, parts: list[str]) -> bool:
        """Returns whether anything below the directory matches, as a shell would have it: `*` does not match a leading
        dot. A link that leads nowhere is no file."""
        literal = 0
        while literal < len(parts) and not glob.has_magic(parts[literal]):
            literal += 1
        base = os.path.join(base, *parts[:literal])
        parts = parts[literal:]
        if not parts:
            return self._exists(base)
        match = re.compile(fnmatch.translate(parts[0])).match
        hidden = parts[0].startswith(".")
        try:
            with os.scandir(base) as entries:
                for entry in entries:
                    self._go_on()
                    if (hidden or not entry.name.startswith(".")) and match(entry.name):
                        if len(parts) == 1:
                            if self._exists(entry.path):
                                return True
                        elif self._matches(entry.path, parts[1:]):
                            return True
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            self._unreadable = f"{base} ({error.strerror})"
        return False

    def _exists(self, path: str) -> bool:
        self._go_on()
        try:
            os.stat(path)
            if self._allowed.cwd is not None and not inside(os.path.realpath(path), self._roots):
                return False  # a link that leads out of what may be looked at
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._unreadable = f"{path} ({error.strerror})"
            return False
        return True

    def _go_on(self) -> None:
        if self.given_up:
            raise GivenUp
        self._entries += 1
        if self._entries > ENTRIES_MAX:
            raise TooMany

    # ------------------------------------------------------------ servers

    def _http(self, condition: Condition) -> str | None:
        self.doing = f"GET {condition.target}"
        try:
            status = self._get(condition.target)
        except Refused as refused:
            return f"GET {condition.target} is not sent: the node {refused}."
        except (OSError, ValueError) as error:
            if self.given_up:
                raise GivenUp from None
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return f"GET {condition.target} failed: {words or type(error).__name__}."
        finally:
            self._socket = None
        if status == condition.status or (not condition.status and 200 <= status <= 299):
            return None
        return f"GET {condition.target} answered {status}; {condition.status or '200 to 299'} is wanted."

    def _connect(self, host: str, port: int) -> socket.socket:
        """Returns a connection to an address that was checked: each may take half of the time that is left, the last
        one all. Raises OSError, Refused and GivenUp."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses, refused = permitted_addresses(
            self._destinations, asked_for(host), port, [info[4][0] for info in found]
        )
        if refused is not None:
            raise Refused(refused)
        end = self._clock.monotonic() + self._limit_s
        for left in range(len(addresses), 0, -1):
            if self.given_up:
                raise GivenUp
            rest = max(end - self._clock.monotonic(), CONNECT_MIN_S)
            try:
                connected = socket.create_connection((addresses[-left], port), rest if left == 1 else rest / 2)
            except OSError:
                if left == 1:
                    raise
            else:
                connected.settimeout(self._limit_s)
                return connected
        raise AssertionError("there is an address, or a refusal")

    def _get(self, address: str) -> int:
        """Returns the status of the answer; redirects are not followed, and the body is not read."""
        from raftsched.worker.conditions.http_status import Question

        url = urlsplit(address)
        host, usual = url.hostname or "", 443 if url.scheme == "https" else 80
        port = usual if url.port is None else url.port
        question = Question(host, port, usual, (url.path or "/") + (f"?{url.query}" if url.query else ""))
        self._socket = connection = self._connect(host, port)
        try:
            if url.scheme == "https":
                connection = _tls().wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
                self._socket = connection
                connection.do_handshake()
            if self.given_up:
                raise GivenUp
            return question.status(connection)
        finally:
            connection.close()
