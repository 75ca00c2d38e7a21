"""A writer without a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raftsched.raft.writer import Done


class InlineWriter:
    """Runs a job at once, in the caller's thread."""

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        try:
            result = job()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    def close(self) -> None:
        """Does nothing: no job is ever under way."""
