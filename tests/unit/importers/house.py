"""What tests of the importers share: a reading whose jobs a node takes."""

from __future__ import annotations

import json

from raftsched.api.jobs.parse import read_job
from raftsched.cluster_settings import Settings
from raftsched.importers.foreign import Reading
from raftsched.importers.how import How
from raftsched.importers.reading import read_source
from raftsched.importers.sources import Source
from raftsched.importers.template import DEFAULT, Template

NOW_MS = 1_795_183_656_000  # 2026-11-20


def accepted(reading: Reading) -> Reading:
    """What was read is what a node takes."""
    for entry in reading.entries:
        read_job(json.dumps({**entry.job, "name": entry.name}).encode(), Settings(), NOW_MS)
    return reading


def read(kind: str, *files: tuple[str, str | bytes], zone: str = "UTC", template: Template = DEFAULT) -> Reading:
    """Files as (path, content) of one kind."""
    given = [(path, text.encode() if isinstance(text, str) else text) for path, text in files]
    how = How(zone, "", NOW_MS, template, None)
    return accepted(read_source(Source(given[0][0], kind, given), how))


def said(reading: Reading) -> str:
    """All notes, line by line."""
    return "\n".join(note for _, note in reading.notes)


def reasons(reading: Reading) -> list[str]:
    """Why each of what was refused is."""
    return [reason for _, _, reason in reading.refused]
