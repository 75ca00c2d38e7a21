"""Counts refused connections and messages by reason, and logs them once a minute per host.

Strangers come as often as they like, and send what they like: neither memory nor log grows with that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)

WHY = (
    "malformed",  # bytes that are no message
    "tls",  # not TLS, not trusted, or changed on the way
    "wrong-key",  # does not hold a cluster key that counts here
    "wrong-member",  # not the node that it should be
    "not-admitted",  # holds the key, and is no member, or not with this disk
    "handshake",  # messages out of order
    "slow",  # did not prove itself in time
    "too-many",  # connections that have not proved themselves
    "no-command",  # a member passed on what is no command
)
LOG_EVERY_S = 60.0
HOSTS_MAX = 100  # logged one by one within that time; the others together
LINE_CHARS = 600  # it may quote a stranger
_OTHERS = "other addresses"


@dataclass
class _Logged:
    until: float
    suppressed: int = 0  # not logged since


class Refusals:
    """Counters by reason, and the log lines of the last minute."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.counts = dict.fromkeys(WHY, 0)
        self._now = now
        self._logged: dict[tuple[str, str, str], _Logged] = {}

    def count(self, why: str) -> None:
        self.counts[why] += 1

    def refused(self, why: str, host: str, line: str, about: str = "") -> None:
        """Counts, and logs the line unless this host and reason were logged within a minute. `about` tells reasons of
        members further apart; for strangers it is empty, as it may quote them."""
        self.counts[why] += 1
        self.log_line(why, host, line, about)

    def log_line(self, why: str, host: str, line: str, about: str = "") -> None:
        key = why, host, about
        logged = self._logged.get(key)
        if (logged is None and len(self._logged) >= HOSTS_MAX) or (logged is not None and logged.until <= self._now()):
            self.tick()
            key = key if key in self._logged or len(self._logged) < HOSTS_MAX else (why, _OTHERS, "")
            logged = self._logged.get(key)
        if logged is not None:
            logged.suppressed += 1
            return
        self._logged[key] = _Logged(self._now() + LOG_EVERY_S)
        log.warning("%s", line[:LINE_CHARS])

    def tick(self) -> None:
        """Logs the number of further refusals, a minute after the first."""
        now = self._now()
        for key in [key for key, logged in self._logged.items() if logged.until <= now]:
            logged = self._logged.pop(key)
            if logged.suppressed:
                why, host, about = key
                log.warning("%s: %d more within a minute (%s)", host, logged.suppressed, about or why)
