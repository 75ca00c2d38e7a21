"""Made from surface/dead_letters.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.generated.dead_letters import DeadFilter, DeadLetter
from raftsched.client.pages import each_of
from raftsched.client.transport import Transport


class DeadLettersCalls:
    """Methods that make one call."""

    _transport: Transport

    def list(self, *, most: int | None = None, **filters: Unpack[DeadFilter]) -> AsyncIterator[DeadLetter]:
        """The newest first; `most` of them (None: all)."""
        return each_of(self._transport, DeadLetter, "/v1/dead-letters", filters, most)
