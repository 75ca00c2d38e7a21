"""The pages by which the supervisor tells the keeper of a service which attempts are in it.

No service has its page: it could take what one of its runs prints for that of another.
"""

from __future__ import annotations

from raftsched.handlers import CONCURRENCY_MAX
from raftsched.worker.processes.lease import SharedWords


class Page(SharedWords):
    """Says which attempt a service is at; the keeper gathers the output under that name."""

    @property
    def token(self) -> int:
        return self._words[0]

    @property
    def output_max(self) -> int:
        """Bytes that are kept of what it prints; 0: none was given yet."""
        return self._words[1]

    def turn_to(self, token: int, output_max: int) -> None:
        """It is this attempt's turn."""
        self._words[1] = output_max
        self._words[0] = token


class RunsPage(SharedWords):
    """The same of a service that takes several at a time. A row of pairs: token (0: none), bytes that are kept of what
    it prints."""

    def __init__(self) -> None:
        super().__init__()
        self._free = list(range(0, 2 * CONCURRENCY_MAX, 2))
        self._places: dict[int, int] = {}  # by token; the supervisor's alone

    def turn_to(self, token: int, output_max: int) -> None:
        """This attempt is in the service from now on."""
        place = self._places[token] = self._free.pop()
        self._words[place + 1] = output_max
        self._words[place] = token

    def turn_from(self, token: int) -> None:
        """It is not any more."""
        place = self._places.pop(token)
        self._words[place] = 0
        self._free.append(place)

    def output_max(self, token: int) -> int | None:
        """Returns how many bytes are kept of what the attempt prints; None: it is not in there."""
        tokens = self._words[: 2 * CONCURRENCY_MAX : 2].tolist()
        return self._words[2 * tokens.index(token) + 1] if token and token in tokens else None
