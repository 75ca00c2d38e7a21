"""The part of the tables that says how much is kept of what a run prints, and for how long: the settings say it for the
cluster, a namespace in place of them for its own runs.
"""

from __future__ import annotations

from typing import NamedTuple

from raftsched.core.rows import NAMESPACES, read_meta
from raftsched.core.tables import ReadView


class Kept(NamedTuple):
    """Says how much of an attempt is kept and for how long, and who set it: a namespace, or the settings (None)."""

    max_bytes: int
    max_by: str | None
    keep_ms: int
    keep_by: str | None


def kept_of(view: ReadView, namespace: str) -> Kept:
    """Returns what holds for the runs of a namespace."""
    settings = read_meta(view).settings
    row = NAMESPACES.get(view, namespace) if namespace else None
    max_bytes, max_by = settings.output_max_bytes, None
    keep_ms, keep_by = settings.output_keep_ms, None
    if row is not None and row.output_max_bytes is not None:
        max_bytes, max_by = row.output_max_bytes, namespace
    if row is not None and row.output_keep_ms is not None:
        keep_ms, keep_by = row.output_keep_ms, namespace
    return Kept(max_bytes, max_by, keep_ms, keep_by)
