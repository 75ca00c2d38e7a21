"""Refused connections and messages: counted by reason, and logged once a minute per host.

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
TOLD_S = 60.0
HOSTS_MAX = 100  # told of one by one within that time; the others together
LINE_CHARS = 600  # it may quote a stranger
_OTHERS = "other addresses"


@dataclass
class _Told:
    until: float
    more: int = 0  # kept to themselves since


class Refusals:
    """Counters by reason, and the log lines of the last minute."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.counts = dict.fromkeys(WHY, 0)
        self._now = now
        self._told: dict[tuple[str, str, str], _Told] = {}

    def count(self, why: str) -> None:
        self.counts[why] += 1

    def refused(self, why: str, host: str, line: str, about: str = "") -> None:
        """Counts, and logs the line unless this host and reason were logged within a minute. `about` tells reasons of
        members further apart; for strangers it is empty, as it may quote them."""
        self.counts[why] += 1
        self.tell(why, host, line, about)

    def tell(self, why: str, host: str, line: str, about: str = "") -> None:
        key = why, host, about
        told = self._told.get(key)
        if (told is None and len(self._told) >= HOSTS_MAX) or (told is not None and told.until <= self._now()):
            self.tick()
            key = key if key in self._told or len(self._told) < HOSTS_MAX else (why, _OTHERS, "")
            told = self._told.get(key)
        if told is not None:
            told.more += 1
            return
        self._told[key] = _Told(self._now() + TOLD_S)
        log.warning("%s", line[:LINE_CHARS])

    def tick(self) -> None:
        """Logs the number of further refusals, a minute after the first."""
        now = self._now()
        for key in [key for key, told in self._told.items() if told.until <= now]:
            told = self._told.pop(key)
            if told.more:
                why, host, about = key
                log.warning("%s: %d more within a minute (%s)", host, told.more, about or why)
