"""Remote workers that have no poll open, as nodes say: what they are given, nobody takes before their next poll.

A cache of one leadership: of a session that nothing is known of somebody may be there. Leases do not depend on it.
Times are boot-clock milliseconds, as the leader hears of things.
"""

from __future__ import annotations

from raftsched.core.subjects.leasing import QUIET_AFTER_MS, longest_poll_ms

SLACK_MS = 500  # for the way of a message


class Quiet:
    """The words of nodes about the polls of open sessions."""

    def __init__(self) -> None:
        self._polled: dict[int, dict[str, int]] = {}  # session -> node -> when it last passed a poll on
        self._since: dict[int, int] = {}  # session -> since when it is quiet

    def polled(self, session: int, node: str, now_ms: int) -> None:
        """A node passed on a poll: its worker is there."""
        self._polled.setdefault(session, {})[node] = now_ms
        self._since.pop(session, None)

    def left(self, session: int, node: str, silent_ms: int, ttl_ms: int, now_ms: int) -> None:
        """A node says that for so long it has had no poll of the session. Another one may have: one that passed a poll
        on a moment ago, and would have said so by now if that were answered."""
        polled = self._polled.setdefault(session, {})
        polled.pop(node, None)
        recent_ms = now_ms - longest_poll_ms(ttl_ms) - QUIET_AFTER_MS - SLACK_MS
        if all(at_ms < recent_ms for at_ms in polled.values()):
            self._since.setdefault(session, now_ms - silent_ms)

    def forget(self, session: int) -> None:
        """The session is over."""
        self._polled.pop(session, None)
        self._since.pop(session, None)

    def is_quiet(self, session: int) -> bool:
        return session in self._since

    def ages(self, now_ms: int) -> dict[int, int]:
        """Returns for how long each session that is quiet has been, in ms."""
        return {session: max(0, now_ms - since_ms) for session, since_ms in self._since.items()}
