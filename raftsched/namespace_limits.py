"""The limits of namespaces: one row each, of which core's checks, the API's types and the options of the command line
are made.

A limit is added here, as the last field of Namespace and of PutNamespace (core/subjects/namespace.py), and to the page.
"""

from __future__ import annotations

from typing import NamedTuple

from raftsched.bounds import COUNT_MAX, OUTPUT_COPIES, OUTPUT_KEEP_MS, OUTPUT_MAX_BYTES


class Limit(NamedTuple):
    """A row: the least and the most that may be set, and the help of its option; there 'none' removes it."""

    least: int
    most: int
    help: str


# By the field of Namespace, in the order of answers. What ends in _ms is a duration, what ends in _bytes a size.
LIMITS = {
    "max_jobs": Limit(0, COUNT_MAX, "So many jobs at most; 'none' for no limit."),
    "max_running": Limit(1, 1_000_000, "So many runs of all its jobs at one time; 'none' for no limit."),
    "max_starts_per_minute": Limit(1, 1_000_000, "So many starts in a minute; 'none' for no limit."),
    "output_bytes": Limit(1 << 20, 1 << 50, "How much of their output each node keeps; 'none' for no limit."),
    "output_max_bytes": Limit(*OUTPUT_MAX_BYTES, "So much of what an attempt prints; 'none': as the settings say."),
    "output_keep_ms": Limit(*OUTPUT_KEEP_MS, "How long output is kept; 'none': as the settings say."),
    "output_copies": Limit(*OUTPUT_COPIES, "On so many nodes, 1 or 2; 'none': as the settings say."),
}
