"""Tells systemd of a service, as sd_notify(3) has it: that it is ready, how it stands, that it stops, and that its
event loop turns.

Nothing happens where the environment names no socket. A notice is never waited for, and none fails a service: one that
cannot be sent now goes with the next.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import re
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress

from raftsched.system import background
from raftsched.system.clock import Clock, SystemClock

LOOK_S = 5.0  # between two looks how it stands; with a watchdog a third of its time where that is less
STOP_SLACK_S = 20.0  # beyond the grace: what is left then is ended, handed back and cleared away
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
STDERR = 2
_KIND = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_LINE_MAX = 1_000  # characters of a status

log = logging.getLogger("raftsched.systemd")


class Systemd:
    """The manager of this service, if there is one. For one event loop."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None, clock: Clock | None = None) -> None:
        """`address`: of its socket, a path, or a NUL and an abstract name; None: nobody is told. `watchdog_s`: how long
        it may hear nothing before it ends the service; None: as long as it likes."""
        self._address = address
        self._watchdog_s = watchdog_s
        self._clock = clock or SystemClock()
        self._unsent: dict[str, str] = {}  # assignments that are still true, by their names
        self._said = ""  # the last status
        self._stopping = False
        self._beating: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Systemd:
        """Returns the manager that the environment names. Its variables are taken out: they are for this process alone,
        and whatever it starts could speak for it."""
        address, microseconds, pid = (environ.pop(name, "") for name in VARIABLES)
        if len(address) < 2 or address[0] not in "/@":
            return cls()
        watched = re.fullmatch(r"0*[1-9][0-9]{0,15}", microseconds) and pid in ("", str(os.getpid()))
        if address[0] == "@":
            address = "\0" + address[1:]
        return cls(address, int(microseconds) / 1_000_000 if watched else None)

    def ready(self, standing: Callable[[], str]) -> None:
        """Says that the service serves, and from now on that its event loop turns and how it stands: what `standing`
        returns, a line. With a watchdog the stacks of all threads go to stderr when it ends the process."""
        if self._address is None:
            return
        self._tell(READY="1")
        if self._watchdog_s is not None:
            faulthandler.enable(STDERR)  # SIGABRT is what systemd sends first
        self._beating = background.start("systemd", self._beat(standing))

    def status(self, text: str) -> None:
        """Shows a line in `systemctl status`."""
        line = " ".join(text.split())[:_LINE_MAX]
        if line != self._said:
            self._said = line
            self._tell(STATUS=line)

    def reloading(self) -> None:
        """Says that the service reads its configuration again: with Type=notify-reload systemd waits for `reloaded`."""
        self._tell(RELOADING="1", MONOTONIC_USEC=str(int(self._clock.monotonic() * 1_000_000)))

    def reloaded(self) -> None:
        """Says that it has."""
        for name in ("RELOADING", "MONOTONIC_USEC"):
            self._unsent.pop(name, None)
        if not self._stopping:
            self._tell(READY="1")

    def stopping(self, grace_s: float) -> None:
        """Says that the service stops, and how long that may take: more than the unit says, if it must be. Its event
        loop goes on to turn."""
        self._stopping = True
        self._tell(STOPPING="1", EXTEND_TIMEOUT_USEC=str(int((grace_s + STOP_SLACK_S) * 1_000_000)))
        self.status("stops; what runs has time to come to an end")

    def close(self) -> None:
        """Says nothing any more."""
        if self._beating is not None:
            self._beating.cancel()
        if self._socket is not None:
            self._socket.close()
        self._address = self._socket = None

    async def _beat(self, standing: Callable[[], str]) -> None:
        pause_s = LOOK_S if self._watchdog_s is None else min(LOOK_S, self._watchdog_s / 3)
        while True:
            if self._watchdog_s is not None:
                self._tell(WATCHDOG="1")
            if not self._stopping:
                self._look(standing)
            await asyncio.sleep(pause_s)

    def _look(self, standing: Callable[[], str]) -> None:
        try:
            self.status(standing())
        except Exception:  # whatever it is: without a beat systemd would end a service that does its work
            log.exception("systemd cannot be told how this service stands")

    def _tell(self, **assignments: str) -> None:
        if self._address is None:
            return
        self._unsent.update(assignments)
        message = "\n".join(f"{name}={value}" for name, value in self._unsent.items())
        with suppress(OSError):  # nobody listens, the queue is full, or there is no descriptor left
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, _KIND)
            self._socket.sendto(message.encode(errors="replace"), self._address)
            self._unsent.clear()
