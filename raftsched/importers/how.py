"""Holds the options of an import that count for all of its files."""

from __future__ import annotations

from typing import NamedTuple

from raftsched.importers.template import Template


class How(NamedTuple):
    """The options of the command that hold for all files, and what holds where a file says nothing."""

    timezone: str
    prefix: str
    now_ms: int  # UTC; what was due once and is past is not imported
    template: Template
    namespace: str | None  # where all of it goes; None: as each job says
