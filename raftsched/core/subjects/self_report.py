"""Defines what a run reports of itself while it runs (progress, a saved state), and the command that brings it to the
log."""

from __future__ import annotations

import msgspec

from raftsched.core.subjects.command import Command


class SelfReport(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The words of a run about itself. None: nothing new."""

    percent: int | None = None  # of its work that is done; a text without it says that nobody knows
    text: str | None = None
    kept: bytes | None = None  # JSON for its next attempts; null takes it away


class ReportProgress(Command, frozen=True, tag=131, gc=False):
    """Reports what a run says while it runs. Stale ones are dropped as of Ended."""

    session: int
    token: int
    said: SelfReport
