"""The span that the code at hand works for, as lines of the log name it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple


class Here(NamedTuple):
    """The ids as OpenTelemetry writes them: 32 and 16 hexadecimal digits."""

    trace_id: str
    span_id: str


here: ContextVar[Here | None] = ContextVar("here", default=None)
